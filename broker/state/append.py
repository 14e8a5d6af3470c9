"""Lines appended to a file, each whole and once, also after a crash.

In: lines, and where those that were appended before end. Out: the lines on the disk, and where they
end now. Who keeps that place together with what it has written appends the same lines again after a
crash where they began. Only what is not known to be ours is left as it is (a file that something
else has written to): then a torn last line is ended, and lines may stand there twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from broker.state.disk import sync


def append(
    path: Path,
    lines: Sequence[bytes],
    state: Mapping[str, Any],
    rotate_bytes: int | None = None,
    keep: int = 0,
) -> tuple[int, dict[str, int]]:
    """Append as many lines as the file may hold, one in any case; how many, and the state from now
    on.

    `state` is that of the last time, empty the first time. Before the file would grow beyond
    `rotate_bytes` it becomes path.1, of `keep` older ones. Raises OSError, and then no part is
    there.
    """
    new = not path.exists()
    handle = _locked(path)
    try:
        offset = _ours(handle, state)
        data, count = _fitting(lines, rotate_bytes, offset)
        start = _start(handle, offset, data)
        if rotate_bytes is not None and start and start + len(lines[0]) > rotate_bytes:
            _rotate(path, keep)
            os.close(handle)
            handle, start, new = _locked(path), 0, True
            data, count = _fitting(lines, rotate_bytes, start)
        end = _write_all(handle, start, data)
        inode = os.fstat(handle).st_ino
    finally:
        os.close(handle)
    if new:
        sync(path.parent)
    return count, {"inode": inode, "offset": end}


def at_end(path: Path) -> dict[str, int]:
    """The state behind all that is in a file, which is made if it is not there. Raises OSError
    where it cannot be written."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    return {"inode": found.st_ino, "offset": found.st_size}


def _locked(path: Path) -> int:
    """The file, open, and this writer's alone until it is closed: another one may append to it
    too."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _ours(handle: int, state: Mapping[str, Any]) -> int:
    """How long the file is known to be ours; 0 for another file of that name, or one cut short."""
    found = os.fstat(handle)
    offset = int(state.get("offset", 0))
    return offset if state.get("inode") == found.st_ino and found.st_size >= offset else 0


def _fitting(lines: Sequence[bytes], limit: int | None, offset: int) -> tuple[bytes, int]:
    """As many lines as fit, one in any case; and how many they are."""
    if limit is None:
        return b"".join(lines), len(lines)
    ends = accumulate(map(len, lines), initial=offset)
    count = max(sum(end <= limit for end in ends) - 1, 1)
    return b"".join(lines[:count]), count


def _rotate(path: Path, keep: int) -> None:
    """The file becomes path.1, that one path.2, and so on; the last one goes."""
    for number in range(keep, 0, -1):
        old = path if number == 1 else _numbered(path, number - 1)
        if old.exists():
            old.replace(_numbered(path, number))
    path.unlink(missing_ok=True)
    sync(path.parent)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _start(handle: int, offset: int, data: bytes) -> int:
    """Where to write: after what is ours if all the rest is the beginning of `data`, which a crash
    cut off from its cursor; else at the end."""
    rest = os.pread(handle, len(data) + 1, offset)
    return offset if data.startswith(rest) else os.fstat(handle).st_size


def _write_all(handle: int, start: int, data: bytes) -> int:
    """Write at a place; where the data ends. Raises OSError, and then no part of it stays."""
    os.ftruncate(handle, start)
    end = start
    if start and os.pread(handle, 1, start - 1) != b"\n":
        data = b"\n" + data
    try:
        while end - start < len(data):
            end += os.pwrite(handle, data[end - start :], end)
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, start)
        raise
    return end
