"""A file of numbered records, whatever they contain."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from feeds.record_file import Records

SECRET = 77
FORGED = struct.pack("<8sQQ", b"XBJRNL01", 9, 40_000).ljust(512, b"x")
"""Looks like the beginning of a record, and fills a sector."""


@contextmanager
def looked_at() -> Iterator[list[int]]:
    """The places that are checked for a whole record."""
    places: list[int] = []
    is_whole = Records._is_whole

    def noted(self: Records, content: bytes, at: int, size: int) -> bool:
        places.append(at)
        return is_whole(self, content, at, size)

    with patch.object(Records, "_is_whole", noted):
        yield places


def written(path: Path, contents: list[bytes], copies: int, first: int = 1) -> None:
    records = Records(path, SECRET, copies)
    for number, content in enumerate(contents, first):
        records.append(number, content)
    records.close()


@pytest.mark.parametrize("copies", [1, 2])
def test_nothing_is_looked_for_within_a_record(tmp_path: Path, copies: int) -> None:
    contents = [b"." * (512 - 24) + FORGED * 200 + bytes([n]) for n in range(4)]
    written(tmp_path / "r", contents, copies)
    records = Records(tmp_path / "r", SECRET, copies)
    with looked_at() as places:
        found, later = records.read(3)
    assert (found, later) == ([*enumerate(contents[2:], 3)], [])
    assert len(places) == 4 * copies
    records.close()


def test_records_behind_one_that_is_cut_off_or_written_over_are_found(tmp_path: Path) -> None:
    path = tmp_path / "r"
    written(path, [b"a" * 900, FORGED * 3, b"c" * 700], 1)
    written(path, [b"d" * 100], 1, 4)  # over the first one, which was longer
    records = Records(path, SECRET)
    assert records.read(4) == ([(4, b"d" * 100)], [])
    assert records.read(3)[0] == [(3, b"c" * 700), (4, b"d" * 100)]
    records.close()
    content = bytearray(path.read_bytes())
    content[content.index(b"XBJRNL01", 600) + 30] ^= 1  # the second one
    path.write_bytes(content)
    records = Records(path, SECRET)
    assert records.read(2) == ([], [(3, b"c" * 700), (4, b"d" * 100)])
    records.close()
