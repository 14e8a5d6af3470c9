"""Power cuts: whatever of the writes that were not synced is lost or done out of order, what
somebody was told holds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.disk.calls import Call
from tests.disk.interception import possible
from tests.disk.power import Files
from tests.disk.trace import Trace
from tests.disk.trial import trials
from tests.disk.workload import judge

_CUTS = 12

pytestmark = pytest.mark.skipif(possible() is not None, reason=possible() or "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trace]:
    """A state whose disk did not fail, and what happened."""
    directory = tmp_path_factory.mktemp("disk")
    [(_, trace)] = trials(directory, [(0, 0)])
    assert not trace.broken
    assert not trace.errors
    return directory / "0", trace


def test_no_write_is_overlooked(whole: tuple[Path, Trace]) -> None:
    """The files are what was done to them."""
    state, trace = whole
    files = Files()
    for event in trace.events:
        if isinstance(event, Call):
            files.apply(event)
    found = {p.name: p.read_bytes() for p in state.iterdir() if not p.name.endswith("-shm")}
    found.pop("lock")
    assert files.in_memory() == found
    names = {event.name for event in trace.events if isinstance(event, Call)}
    assert {"broker.duckdb", "broker.duckdb.wal", "journal", "spool.sqlite-wal", "proof"} <= names


@pytest.mark.parametrize("number", range(_CUTS))
def test_what_was_told_holds_after_a_power_cut(
    whole: tuple[Path, Trace], number: int, tmp_path: Path
) -> None:
    r = Random(number)
    _, trace = whole
    judge(tmp_path, trace.cut(r.choice(trace.places()), r, tmp_path))
