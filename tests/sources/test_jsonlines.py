"""How growing files are read: batch by batch, and cut into pieces."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.sources.jsonlines import JsonFiles, Offset, Stretch, cut, stretch_rows, unfinished

OLD = 1_600_000_000


def line(n: int) -> str:
    return json.dumps({"id": f"d{n}", "xml": f"<a>{n}</a>"}) + "\n"


def write(path: Path, text: str, age: int = 0) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, (OLD - age, OLD - age))


def batches(files: JsonFiles, start: Offset | None = None) -> list[list[tuple[str, str]]]:
    """Ids and places of all batches that there are."""
    done, found = start or {}, []
    while (latest := files.latest(done)) != done:
        # Offsets are kept as JSON.
        latest = json.loads(json.dumps(latest))
        stretches = files.stretches(done, latest)
        found.append([(r.id, r.place) for s in stretches for r in stretch_rows(s)])
        done = latest
    return found


def ids(found: list[list[tuple[str, str]]]) -> list[list[str]]:
    return [[id for id, _ in batch] for batch in found]


def test_a_batch_ends_after_so_many_lines(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, "".join(map(line, range(5))))
    found = batches(JsonFiles(file, 2, 1 << 20))
    assert ids(found) == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    assert found[1] == [("d2", f"{file}:3"), ("d3", f"{file}:4")]


def test_a_batch_ends_after_so_many_bytes(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, "".join(map(line, range(6))))
    found = batches(JsonFiles(file, 1_000, 2 * len(line(0)), chunk=16))
    assert [len(batch) for batch in found] == [2, 2, 2]


def test_files_of_a_directory_are_read_oldest_first(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", line(1) + line(2), age=10)
    write(tmp_path / "a.jsonl", line(3))
    write(tmp_path / "notes.txt", line(4))
    write(tmp_path / ".hidden.jsonl", line(5))
    (tmp_path / "folder.jsonl").mkdir()
    assert ids(batches(JsonFiles(tmp_path, 100, 1 << 20))) == [["d1", "d2", "d3"]]


def test_lines_that_are_appended_are_read_on(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0) + line(1))
    files = JsonFiles(file, 100, 1 << 20)
    offset = files.latest({})
    write(file, line(0) + line(1) + line(2))
    assert batches(files, offset) == [[("d2", f"{file}:3")]]


def test_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line(0) + line(1)[:9])  # just now
    files = JsonFiles(file, 100, 1 << 20)
    offset = files.latest({})
    inode = file.stat().st_ino
    assert offset == {"in.jsonl": {"bytes": len(line(0)), "lines": 1, "inode": inode}}
    file.write_text(line(0) + line(1))
    assert ids(batches(files, offset)) == [["d1"]]


@pytest.mark.parametrize("torn", [line(1)[:9], line(1)[:-2], '{"id": "}', "no JSON"])
@pytest.mark.parametrize("once", [True, False])
def test_a_torn_last_line_is_left_until_it_is_whole(tmp_path: Path, torn: str, once: bool) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0) + torn, age=1_000)
    files = JsonFiles(tmp_path, 100, 1 << 20)
    if once:
        files.stop_growing()
    offset = files.latest({})
    assert ids(batches(files)) == [["d0"]]
    assert unfinished(tmp_path) == unfinished(file) == [file]
    write(file, line(0) + line(1))
    found = batches(JsonFiles(tmp_path, 100, 1 << 20), offset)
    assert found == [[("d1", f"{file}:2")]]
    assert unfinished(tmp_path) == []


def test_a_whole_last_line_needs_no_newline(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0) + line(1).rstrip())
    files = JsonFiles(file, 100, 1 << 20)
    offset = files.latest({})
    assert ids(batches(files)) == [["d0", "d1"]]
    assert unfinished(file) == []
    write(file, line(0) + line(1) + line(2))
    # The newline that was missing makes no line of its own.
    assert [row for batch in batches(files, offset) for row in batch] == [("d2", f"{file}:3")]


def test_a_rotated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0))
    files = JsonFiles(file, 100, 1 << 20)
    offset = files.latest({})
    file.rename(tmp_path / "in.jsonl.1")
    write(file, line(7) + line(8) + line(9))  # longer than what was read
    assert ids(batches(files, offset)) == [["d7", "d8", "d9"]]
    # An offset of before inodes were kept says nothing of them.
    old: Offset = {"in.jsonl": {"bytes": len(line(7)), "lines": 1}}
    assert ids(batches(files, old)) == [["d8", "d9"]]


def test_available_now_ends_where_the_files_ended(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0))
    files = JsonFiles(tmp_path, 1, 1 << 20)
    files.stop_growing()
    write(file, line(0) + line(1))
    write(tmp_path / "new.jsonl", line(2))
    assert ids(batches(files)) == [["d0"]]


def test_a_file_that_was_replaced_by_a_shorter_one_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0) + line(1))
    files = JsonFiles(file, 100, 1 << 20)
    offset = files.latest({})
    write(file, line(7))
    assert ids(batches(files, offset)) == [["d7"]]
    file.unlink()
    assert files.latest(offset) == {}


def test_a_stretch_is_cut_at_newlines(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, "".join(map(line, range(100))))
    files = JsonFiles(file, 1_000, 1 << 20)
    (whole,) = files.stretches({}, files.latest({}))
    pieces = list(cut(whole, -(-whole.end // 4)))
    assert len(pieces) == 4
    rows = [row for piece in pieces for row in stretch_rows(piece)]
    assert [(r.id, r.place) for r in rows] == [(f"d{n}", f"{file}:{n + 1}") for n in range(100)]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, "x" * 1_000 + "\n" + line(1))
    files = JsonFiles(file, 100, 64, longest=256, chunk=64)
    rows = []
    done: Offset = {}
    while (latest := files.latest(done)) != done:
        rows += [r for s in files.stretches(done, latest) for r in stretch_rows(s, longest=256)]
        done = latest
    assert [r.id for r in rows if r.error is None] == ["d1"]
    bad = [r for r in rows if r.error]
    assert b"".join(r.xml for r in bad) == b"x" * 1_000
    assert all(len(r.xml) <= 256 for r in bad)


def test_a_file_that_shrinks_while_it_is_read_ends(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    write(file, line(0))
    assert len(list(stretch_rows(Stretch(str(file), 0, 10_000, 1, 0)))) == 1


def test_a_file_may_be_yet_to_come(tmp_path: Path) -> None:
    assert JsonFiles(tmp_path / "in.jsonl", 1, 1).latest({}) == {}
