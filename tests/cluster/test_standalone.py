"""The README's query in shards on a standalone cluster finds what one machine finds.

`python -m tests.cluster.long` kills its executors, workers and coordinators meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import (
    Cluster,
    alone,
    started,
    write_documents,
    write_query,
    written,
)
from tests.command import run
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("standalone"), workers=2) as cluster:
        yield cluster


def test_a_run_in_shards_finds_what_one_machine_finds(cluster: Cluster, tmp_path: Path) -> None:
    write_query(tmp_path)
    done = run(("cluster", "check", *cluster.words), cwd=tmp_path, timeout=4 * PATIENCE)
    assert re.fullmatch(r"\d cores on 1 machine, nothing is missing\n", done.stdout), done.stderr
    write_documents(tmp_path / "documents.jsonl", 0, 300)
    words = ["run", "followed.xscl", "--documents", "documents.jsonl", "--once"]
    words += ["--format", "jsonl", "--out", "shards.jsonl", *cluster.words]
    done = run(words, cwd=tmp_path, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path / "shards.jsonl") == alone(tmp_path, 300)
