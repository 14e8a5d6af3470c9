"""The long run of the memory benchmark stays within its bounds and loses no match."""

from __future__ import annotations

from itertools import islice

import pytest

from bench.memory import Long, grown, long_run, stream

RUN = Long(20_000, window=100, lateness=20, memory=1_000, identities=150, batch=250, rows=4)


def pairs(window: float) -> int:
    """Pairs of items of one value, the later one no more than the window after the earlier."""
    found, times = 0, dict[bytes, list[float]]()
    for item in islice(stream(), RUN.items):
        assert isinstance(item.xml, bytes)
        assert isinstance(item.timestamp, float)
        earlier = times.setdefault(item.xml, [])
        found += sum(item.timestamp - time <= window for time in earlier)
        earlier.append(item.timestamp)
    return found


def test_memory_is_bounded_and_no_match_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """The window holds five times the documents that may be in memory."""
    marks, matches = long_run(RUN)
    assert [mark.items for mark in marks] == [5_000, 10_000, 15_000, 20_000]
    assert all(mark.held <= RUN.memory for mark in marks)
    assert marks[-1].known < RUN.items
    assert matches == pairs(100)
    assert "20,000" in capsys.readouterr().out
    assert grown(marks).startswith("The last 10,000 items")
