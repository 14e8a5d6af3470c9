"""A disk that fails once, at a write or a sync: an error is raised, it goes on, and what somebody was
told holds after the process has ended, and after a power cut."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from random import Random

import pytest

from feeds.write_ahead import write_ahead
from tests.disk.interception import possible
from tests.disk.trial import faults, trials
from tests.disk.workload import judge

_TRIALS = 6

pytestmark = pytest.mark.skipif(possible() is not None, reason=possible() or "")


def test_what_was_told_holds_after_a_failure(tmp_path: Path) -> None:
    numbers = faults(Random(20261124), _TRIALS)
    for number, trace in trials(tmp_path, numbers):
        what = f"{number}: {trace.what_failed()}"
        assert trace.failed is not None, what
        assert trace.errors or trace.survived(), f"nobody was told of it, {what}"
        assert not trace.broken, f"{what}: {trace.broken}"
        judge(tmp_path / str(number), trace.known())
        cut = tmp_path / f"{number}-cut"
        judge(cut, trace.cut(len(trace.events), Random(number), cut))


def test_a_file_that_could_not_be_made_is_made_at_the_next_start(tmp_path: Path) -> None:
    [(_, trace)] = trials(tmp_path, [(1, errno.ENOSPC)])
    assert trace.what_failed() == "write of broker.duckdb"
    [error] = trace.errors
    assert "No space left" in error
    assert "damaged" not in error
    assert not trace.broken


def test_a_file_without_a_write_ahead_log_is_no_log() -> None:
    """SQLite does not raise if it cannot have one: it goes on with less."""
    with pytest.raises(sqlite3.OperationalError, match="no write-ahead log"):
        write_ahead(sqlite3.connect(":memory:"))
