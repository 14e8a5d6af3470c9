"""A file whose writes are on the disk when they return.

Where the system can, a write goes past its cache, in whole sectors: that takes half the processor
time of a write and a sync, for a record of a few kilobytes, and two thirds of the time. Before that
the file is lengthened with zeros, a piece at a time: the length is metadata, which a sync would
have to write as well.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

SECTOR = 512
"""Bytes that the disk writes at once."""

_LARGE = 64 << 10
"""Bytes of a part of a write from which to copy it takes longer than a call of the system."""
_MOST = 256 << 10
"""Bytes that are written past the cache at most."""
_FIRST, _PIECE = 64 << 10, 1 << 20
"""Bytes by which a file is lengthened at first, and at most; in between it is doubled."""
_ROOM = 64 << 20
"""Bytes that are left on the disk where it is lengthened beyond what is written."""


class SyncedFile:
    """The file at `path`, made by `create`. Raises OSError. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number: int | None = None
        """By which the system knows the open file."""
        self._past: int | None = None
        """The same past the system's cache; None where it cannot."""
        self._memory: memoryview | None = None
        """Where such a write is put together, as it has to begin at a page of memory."""
        self._size = 0
        if path.exists():
            self._open(os.O_RDWR)

    def _open(self, flags: int) -> None:
        self.number = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self.number).st_size
        past = getattr(os, "O_DIRECT", 0)
        if past:
            with suppress(OSError):
                self._past = os.open(self.path, os.O_RDWR | os.O_DSYNC | past)

    def create(self) -> None:
        """Make the file, if it is not there."""
        if self.number is None:
            self._open(os.O_RDWR | os.O_CREAT)
            parent = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)

    def close(self) -> None:
        for each in (self.number, self._past):
            if each is not None:
                os.close(each)
        self.number = self._past = self._memory = None

    def write(self, parts: Sequence[bytes | memoryview], at: int) -> None:
        """Write parts one behind the other at the begin of a sector; the rest of the last sector is
        anything. After an error they may be there or not."""
        self.create()
        assert self.number is not None
        size = sum(map(len, parts))
        self._lengthen(at + size)
        if self._past is None or size > _MOST or not self._write_past(self._past, parts, at):
            _write(self.number, parts, at)
            os.fdatasync(self.number)
        self._size = max(self._size, at + size)

    def _lengthen(self, end: int) -> None:
        """Lengthen the file beyond its new `end`, if it reaches there and there is room."""
        assert self.number is not None
        if end <= self._size:
            return
        room = os.fstatvfs(self.number)
        if room.f_bavail * room.f_frsize < _ROOM:
            return
        size = max(end, self._size + min(max(_FIRST, self._size), _PIECE))
        try:
            _write(self.number, [bytes(size - self._size)], self._size)
            os.fdatasync(self.number)
        except OSError as error:
            os.ftruncate(self.number, self._size)
            if error.errno != errno.EFBIG:  # what is written may end before that limit
                raise
        else:
            self._size = size

    def _write_past(self, file: int, parts: Sequence[bytes | memoryview], at: int) -> bool:
        """Whether it was written past the cache, whole."""
        memory = self._memory = self._memory or memoryview(mmap.mmap(-1, _MOST))
        end = 0
        for part in parts:
            begin, end = end, end + len(part)
            memory[begin:end] = memoryview(part).cast("B")
        size = -(-end // SECTOR) * SECTOR
        try:
            return os.pwrite(file, memory[:size], at) == size
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        os.close(file)  # larger sectors, or a file system that takes it amiss only now
        self._past = None
        return False


def _write(file: int, parts: Sequence[bytes | memoryview], at: int) -> None:
    """Write parts one behind the other: small ones together, while large ones are not copied."""
    for large, group in groupby(parts, lambda part: len(part) >= _LARGE):
        for piece in group if large else [b"".join(group)]:
            left = memoryview(piece)
            while left:
                done = os.pwrite(file, left, at)
                at += done
                left = left[done:]
