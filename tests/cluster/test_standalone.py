"""The README's query in shards on a standalone cluster: what one machine finds, through kills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import (
    Cluster,
    Flow,
    alone,
    matches_of,
    started,
    write_query,
    written,
)
from tests.command import run
from tests.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


def test_a_cluster_is_checked(cluster: Cluster, tmp_path: Path) -> None:
    done = run(("cluster", "check", *cluster.words), cwd=tmp_path, timeout=4 * PATIENCE)
    assert re.fullmatch(r"\d cores on 1 machine, nothing is missing\n", done.stdout), done.stderr


def test_kills_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """An executor, a worker and the coordinator are killed while documents flow, and another
    coordinator takes over from the first."""
    write_query(tmp_path)
    whole = alone(tmp_path, 300)
    first = Flow(cluster, tmp_path, "first")
    running = [first]
    try:
        first.add(120)
        first.until_found(1)
        first.add(60)
        cluster.kill_executor()
        first.until_found(matches_of(120) + 1)
        first.add(60)
        cluster.kill_worker()
        first.until_found(matches_of(180) + 1)
        first.kill()
        first.start()
        first.until_found(matches_of(240))
        before = first.found()
        second = Flow(cluster, tmp_path, "second")
        running.append(second)
        second.until_found(matches_of(240))
        second.end = 240
        second.add(60)
        second.until_found(matches_of(300))
        assert until(lambda: first.running.poll(), first.said) == 1
        assert "another coordinator has taken over" in first.said()
    finally:
        for each in running:
            each.kill()
    assert written(tmp_path / "second.jsonl") == whole
    assert first.found() == before
    assert set(before) < set(whole)
    assert len(before) == matches_of(240)
