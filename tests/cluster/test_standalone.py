"""The README's query in shards on a standalone cluster finds what one machine finds, also where an
executor, a worker and the coordinator are killed, and where a second coordinator takes over.

`python -m tests.cluster.long` kills executors, workers and coordinators meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import (
    IN_ORDER,
    Cluster,
    Flow,
    alone,
    followed,
    matches_of,
    started,
    write_documents,
    write_queries,
    written,
)
from tests.command import run
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


def test_a_run_in_shards_finds_what_one_machine_finds(cluster: Cluster, tmp_path: Path) -> None:
    write_queries(tmp_path)
    done = run(("cluster", "check", *cluster.words), cwd=tmp_path, timeout=4 * PATIENCE)
    assert re.fullmatch(r"\d cores on 1 machine, nothing is missing\n", done.stdout), done.stderr
    write_documents(tmp_path / "documents.jsonl", 0, 300)
    words = ["run", "followed.xscl", "--documents", "documents.jsonl", "--once"]
    words += ["--format", "jsonl", "--out", "shards.jsonl", *IN_ORDER, *cluster.words]
    done = run(words, cwd=tmp_path, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path / "shards.jsonl") == alone(tmp_path, 300)


def test_kills_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    write_queries(tmp_path)
    epochs = tmp_path / "shared" / "epochs"

    def latest() -> int:
        """The number of the last coordinator."""
        return max([int(each.name) for each in epochs.glob("*")], default=0)

    first = Flow(cluster, tmp_path)
    flows = [first]
    try:
        first.add(120)
        first.until_found(matches_of(first.end))
        for kill in (cluster.kill_executor, cluster.kill_worker, first.kill):
            kill()
            first.add(60)
            if kill == first.kill:
                first.start()
                until(lambda: latest() == 2, first.said)
            first.until_found(matches_of(first.end))
        committed = first.end
        second = Flow(cluster, tmp_path, "second")
        flows.append(second)
        until(lambda: latest() == 3, second.said)
        first.add(60)
        assert first.running.wait(PATIENCE) == 1, first.said()
        assert "another coordinator has taken over" in first.said()
        second.until_written(alone(tmp_path, first.end))
    finally:
        for each in flows:
            each.kill()
    assert len(followed(first.found())) == matches_of(committed)
    assert {*first.found()} < {*second.found()}
