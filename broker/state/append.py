"""Lines appended to a file, each whole and once, also after a crash.

In: lines, and the offset at which the last call ended. Out: the lines on the disk, and the new
offset. A caller that commits this offset together with its own cursor appends the same lines again
after a crash, at the same offset, so they replace what the crash left of them. If another program
has written to the file, its text stays: a torn last line is ended, and lines may occur twice.
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
    """Append as many lines as fit into the file, at least one; returns how many, and the new state.

    `state` is the one that the last call returned, empty the first time. Before the file would grow
    beyond `rotate_bytes` it is renamed to path.1, and `keep` older files are kept. Raises OSError;
    then nothing was appended.
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
    """The state at the end of a file, which is made if it is missing. Raises OSError if it cannot
    be written."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    return {"inode": found.st_ino, "offset": found.st_size}


def _locked(path: Path) -> int:
    """Open the file and lock it until it is closed: another process may append to it as well."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _ours(handle: int, state: Mapping[str, Any]) -> int:
    """The length of the file up to which we have written it; 0 for another file of that name, or
    one cut short."""
    found = os.fstat(handle)
    offset = int(state.get("offset", 0))
    return offset if state.get("inode") == found.st_ino and found.st_size >= offset else 0


def _fitting(lines: Sequence[bytes], limit: int | None, offset: int) -> tuple[bytes, int]:
    """As many lines as fit, at least one, joined; and how many."""
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
    """The offset at which to write `data`: `offset` if the rest of the file is the beginning of
    `data`, which a crash has left before its cursor was committed; else the end."""
    rest = os.pread(handle, len(data) + 1, offset)
    return offset if data.startswith(rest) else os.fstat(handle).st_size


def _write_all(handle: int, start: int, data: bytes) -> int:
    """Write at an offset; returns the offset at the end. Raises OSError; then nothing of it
    stays."""
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
