"""Numbered records in a file, each synced when it is appended, until another file holds them all.

In: records, as bytes with numbers that grow. Out: those that are whole and wanted, when the file is
opened again. Once all are held elsewhere the next one is written over the first, so the file stays
small and a sync writes no metadata. Numbers tell new records from older ones behind them, wherever
they are. Each begins at a sector of its own, so a write that is cut off damages no other. Checksums
begin with a secret: nothing that a record contains can look like one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from feeds.synced_file import SECTOR, SyncedFile

_MAGIC = b"XBJRNL01"
_HEAD = struct.Struct("<8sQQ")
"""The magic, the number, and the bytes of the content, which follows with its checksum."""
_CHECK = struct.Struct("<I")

Numbered = list[tuple[int, bytes]]
"""Records with their numbers."""


class Part(NamedTuple):
    """The bytes of a file from the first to behind the last."""

    begin: int
    end: int


class Records:
    """The records in a file, which is made for the first one. Raises OSError. Used by one thread at
    a time. `secret` is a number from 0 to 2**32 - 1; each record is written in so many `copies`.

    While some are being brought to another file (`turn`), others are written before them or behind
    them, until they are there (`release`) or could not be brought (`restore`).
    """

    def __init__(self, path: Path, secret: int, copies: int = 1) -> None:
        self.file = SyncedFile(path)
        self.at = 0
        """Where the next record is written, if it does not reach into the `_turned` ones."""
        self._own: Part | None = None
        """Where the records are that no other file holds, and that are not being brought there."""
        self._turned: Part | None = None
        """Where those are that are being brought there."""
        self._secret = secret
        self._copies = copies

    def close(self, needed: bool = True) -> None:
        """Close the file, and remove it if nothing that it holds is `needed` any more."""
        if self.file.number is not None and not needed:
            # While it is open, as a lock on it ends when it is closed.
            self.file.path.unlink(missing_ok=True)
        self.file.close()

    def read(
        self, number: int, after: Callable[[int, bytes], int] = lambda number, content: number + 1
    ) -> tuple[Numbered, Numbered]:
        """The records from a number on, each the one that comes `after` its predecessor; the next
        ones are written behind them all. A last record that is not whole was not appended. And
        those that are there behind one that is missing."""
        places = self._places(number)
        found: Numbered = []
        self.rewind()
        while (place := places.pop(number, None)) is not None:
            at, content = place
            found.append((number, content))
            self._have(Part(at, at + self._copies * _padded(len(content))))
            number = after(number, content)
        self.at = 0 if self._own is None else self._own.end
        later = [(n, content) for n, (_, content) in sorted(places.items()) if n > number]
        return found, later

    def _places(self, number: int) -> dict[int, tuple[int, bytes]]:
        """Where each record from a number on begins that is whole, and its content."""
        content = b"" if self.file.number is None else self.file.path.read_bytes()
        found: dict[int, tuple[int, bytes]] = {}
        at = content.find(_MAGIC)
        while at >= 0:
            # Within a whole record nothing begins, whatever a document has been made to look like:
            # to check all that would take hours.
            behind = at + 1
            if at % SECTOR == 0 and at + _HEAD.size <= len(content):
                _, own, size = _HEAD.unpack_from(content, at)
                if self._is_whole(content, at, size):
                    begin = at + _HEAD.size
                    behind = begin + size
                    if own >= number and own not in found:
                        found[own] = at, content[begin:behind]
            at = content.find(_MAGIC, behind)
        return found

    def _is_whole(self, content: bytes, at: int, size: int) -> bool:
        end = at + _HEAD.size + size
        if end + _CHECK.size > len(content):
            return False
        sum = zlib.crc32(memoryview(content)[at:end], self._secret)
        return bool(sum == _CHECK.unpack_from(content, end)[0])

    def append(self, number: int, *content: bytes | memoryview) -> None:
        """Add a record, whose content may be given in parts: it is on the disk when this returns.
        After an error it may be there or not, and the file is to be rewound before anything else is
        added."""
        length = sum(map(len, content))
        parts: list[bytes | memoryview] = [_HEAD.pack(_MAGIC, number, length), *content]
        checksum = self._secret
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        parts.append(_CHECK.pack(checksum))
        size = _padded(length)
        if self._copies > 1:
            parts.append(bytes(size - sum(map(len, parts))))
            parts *= self._copies
        at = self._free(self._copies * size)
        self.file.write(parts, at)
        self.at = at + self._copies * size
        self._have(Part(at, self.at))

    def rewind(self) -> None:
        """Write the next record over the first: all are held elsewhere."""
        self.at = 0
        self._own = self._turned = None

    def turn(self) -> None:
        """What was appended so far is being brought to another file: the next records are written
        before it where there is room, and else behind it."""
        assert self._turned is None
        if self._own is None:
            return
        self._turned, self._own = self._own, None
        self.at = 0 if self._turned.begin else self._turned.end

    def release(self) -> None:
        """What was being brought is held by the other file, and may be overwritten."""
        self._turned = None
        if self._own is None:
            self.at = 0

    def restore(self) -> None:
        """What was being brought is not there, and belongs to what is appended."""
        turned, self._turned = self._turned, None
        if turned is not None:
            self._have(turned)
            assert self._own is not None
            self.at = self._own.end

    def _free(self, size: int) -> int:
        """Where so many bytes may be written next."""
        turned = self._turned
        if turned is not None and self.at < turned.end and self.at + size > turned.begin:
            return turned.end
        return self.at

    def _have(self, part: Part) -> None:
        own = self._own or part
        self._own = Part(min(own.begin, part.begin), max(own.end, part.end))


def _padded(size: int) -> int:
    """The bytes that a record with so many of content takes in the file."""
    return -(-(_HEAD.size + size + _CHECK.size) // SECTOR) * SECTOR
