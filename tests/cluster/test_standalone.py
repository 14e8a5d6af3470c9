"""The README's query in shards on a standalone cluster finds what one machine finds, where an
executor, a worker and the coordinator are killed, and where a second coordinator takes over.

`python -m tests.cluster.long` kills executors, workers and coordinators meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import (
    SPREAD,
    TOGETHER,
    Cluster,
    Flow,
    alone,
    followed,
    matches_of,
    started,
    write_queries,
)
from tests.command import run
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("standalone"), workers=2, cores=3) as cluster:
        yield cluster


def test_nothing_is_missing(cluster: Cluster, tmp_path: Path) -> None:
    """One executor says it for all, as they are on one machine. It may use the cache of our Java."""
    words = ["cluster", "check", *cluster.words, "--shards", "1"]
    words += ["--conf", "spark.executor.cores=2", "--conf", "spark.cores.max=2"]
    done = run(words, cwd=tmp_path, timeout=4 * PATIENCE)
    assert done.stdout == "2 cores on 1 machine, nothing is missing\n", done.stderr
    said = [each.read_text() for each in cluster.directory.glob("worker*/work/*/*/stdout")]
    assert said
    assert not any("[error][aot]" in each for each in said)


def test_kills_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Kills meet two executors; what goes on after them does so in one. The second coordinator gets
    all documents at once, and ends behind them. It has to wait for cores until the first one has
    ended, which notices by its next batch that there is another."""
    write_queries(tmp_path)
    epochs = tmp_path / "shared" / "epochs"

    def latest() -> int:
        """The number of the last coordinator."""
        return max([int(each.name) for each in epochs.glob("*")], default=0)

    first = Flow(cluster, tmp_path, conf=SPREAD)
    flows = [first]
    try:
        first.add(120)
        first.until_found(matches_of(first.end))
        for kill in (cluster.kill_executor, cluster.kill_worker, first.kill):
            kill()
            first.add(60)
            if kill == first.kill:
                first.conf = TOGETHER
                first.start()
                until(lambda: latest() == 2, first.said)
            first.until_found(matches_of(first.end))
        committed = first.end
        wanted = alone(tmp_path, committed + 60)
        second = Flow(cluster, tmp_path, "second", ("alone.jsonl", "--once"), TOGETHER)
        flows.append(second)
        until(lambda: latest() == 3, second.said)
        first.add(60)
        assert first.running.wait(PATIENCE) == 1, first.said()
        assert "another coordinator has taken over" in first.said()
        assert second.running.wait(4 * PATIENCE) == 0, second.said()
        assert second.found() == wanted
    finally:
        for each in flows:
            each.kill()
    assert len(followed(first.found())) == matches_of(committed)
    assert {*first.found()} < {*wanted}
