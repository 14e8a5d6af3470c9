"""The ways to match the same documents, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import versus
from bench.versus import HERE, Block, Way


def test_one_and_two_processes_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    rows = versus.compared([HERE.parent], None, 3, rounds=2, block=400, batch=200)
    names = [row[1] for row in rows]
    assert names == [f"{HERE.parent.name}, one", "plain, one", "plain, two"]
    assert rows[0][3] == rows[0][5] == "1.00"
    assert "plain, two: " in capsys.readouterr().out


def test_a_ratio_is_the_median_of_those_of_the_blocks() -> None:
    blocks = [Block(10.0, 4.0, 3), Block(9.0, 8.0, 5), Block(40.0, 2.0, 0)]
    basis = [Block(5.0, 2.0, 3), Block(3.0, 8.0, 5), Block(10.0, 4.0, 0)]
    assert versus.row(1_000, "x", blocks, basis) == ["1,000", "x", "10", "3.00", "4", "1.00"]


def test_ways_with_different_matches_are_not_compared() -> None:
    with pytest.raises(RuntimeError, match="x: not the matches of the first way"):
        versus.row(1, "x", [Block(1.0, 1.0, 3)], [Block(2.0, 2.0, 4)])


def test_a_way_that_ends_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="lost: ended with 1"):
        Way("lost", HERE.parent, "one", tmp_path / "missing.pickle")
