"""Durable writes, and free space on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_BELIEVED = 0.1
"""Seconds for which it is believed how much room there is."""
_LITTLE = 16 << 20
"""Bytes that may be written meanwhile."""
_PLENTY = 1 << 30
"""With less than that the system is asked each time."""


def sync(path: Path) -> None:
    """Sync a file's content, or the names in a directory, to the disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all; it ends with a line end."""
    growing = path.with_name(f".{path.name}.new")
    handle = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    sync(growing)
    growing.replace(path)
    sync(path.parent)


def free(directory: Path) -> int:
    """Bytes that can still be written there; 0 if the directory is missing."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


class Room:
    """How much can still be written to a directory, for who asks before each of very many small
    writes: while there is plenty beside the `least` that is wanted, the system is asked anew a
    tenth of a second later, or when 16 MiB are written. Used by several threads; `steady` gives
    seconds of a monotonic clock."""

    def __init__(
        self, directory: Path, least: int, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._enough = least + _PLENTY
        self._steady = steady
        self._until = float("-inf")
        self._free = 0
        self._written = 0

    def left(self, size: int = 0) -> int:
        """Bytes that can be written, of which `size` are about to be."""
        now = self._steady()
        self._written += size
        if now >= self._until or self._written > _LITTLE:
            self._written = size
            self._free = free(self._directory)
            self._until = now + _BELIEVED if self._free > self._enough else now
        return self._free - self._written + size


def size(path: Path) -> int:
    """The size of a file in bytes; 0 if it is missing, as a log that its database has just
    deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
