"""How far sources were read, kept beside the engine's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker.local.positions import FILE, Positions
from feeds.rows import DocumentRow


class Told:
    """A source that only keeps what it is told."""

    poll = 0.0

    def __init__(self, key: str) -> None:
        self.key = key
        self.told: list[Any] = []

    def resume(self, position: Any) -> None:
        self.told.append(position)

    def stop_growing(self) -> None:
        raise AssertionError

    def read(self) -> tuple[list[DocumentRow], Any]:
        raise AssertionError


def told(directory: Path, documents: int) -> tuple[list[Any], list[Any]]:
    one, other = Told("xml in"), Told("json in")
    Positions(directory, documents).resume([one, other])
    return one.told, other.told


def flat(lists: list[list[str]]) -> list[str]:
    return [each for one in lists for each in one]


def keep(directory: Path) -> None:
    one, other = Told("xml in"), Told("json in")
    positions = Positions(directory, 1)
    positions.resume([one, other])
    positions.read(one, ["a.xml"], 2)
    positions.read(other, {"b.jsonl": {"bytes": 3, "lines": 1}}, 3)
    positions.read(one, ["c.xml", "é.xml"], 5)
    positions.read(other, {"b.jsonl": {"bytes": 6, "lines": 2}}, 6)


def test_sources_go_on_where_they_were(tmp_path: Path) -> None:
    keep(tmp_path)
    files, lines = told(tmp_path, 6)
    assert flat(files) == ["a.xml", "c.xml", "é.xml"]
    assert lines[-1] == {"b.jsonl": {"bytes": 6, "lines": 2}}
    # The file was written anew, with a line for each source.
    assert len((tmp_path / FILE).read_text(encoding="utf-8").splitlines()) == 2
    assert told(tmp_path, 6) == ([["a.xml", "c.xml", "é.xml"]], lines[-1:])


def test_what_the_engine_does_not_have_was_not_read(tmp_path: Path) -> None:
    """An engine that was restored from a copy gets the documents again which came after it."""
    keep(tmp_path)
    files, lines = told(tmp_path, 4)
    assert (flat(files), lines) == (["a.xml"], [{"b.jsonl": {"bytes": 3, "lines": 1}}])


def test_torn_and_foreign_lines_say_nothing(tmp_path: Path) -> None:
    keep(tmp_path)
    path = tmp_path / FILE
    whole = path.read_text(encoding="utf-8")
    path.write_text(f'{whole[:-9]}\n[1]\n{{"source": "xml in"}}\nno JSON\n', encoding="utf-8")
    files, lines = told(tmp_path, 9)
    assert flat(files) == ["a.xml", "c.xml", "é.xml"]
    assert lines == [{"b.jsonl": {"bytes": 3, "lines": 1}}]


def test_a_new_directory_has_none(tmp_path: Path) -> None:
    assert told(tmp_path, 1) == ([], [])
    assert json.dumps(told(tmp_path, 1)) == "[[], []]"
