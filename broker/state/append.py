"""Lines appended to a file, each whole and once, also after a crash.

In: lines, and the offset at which the last call ended. Out: the lines on the disk, and the new
offset. A caller that commits this offset together with its own cursor appends the same lines again
after a crash, at the same offset, so they replace what the crash left of them. If another program
has written to the file, its text stays: a torn last line is ended, and lines may occur twice.

All of it happens in a directory that is opened once, so that a link that takes the place of a part
of the path meanwhile leads nowhere else. Where a client has chosen the path, `keep_out` is a
directory in which nothing may be written, whatever leads there: links, mounts, or other names of
its files.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any


def append(
    path: Path,
    lines: Sequence[bytes],
    state: Mapping[str, Any],
    rotate_bytes: int | None = None,
    keep: int = 0,
    keep_out: Path | None = None,
) -> tuple[int, dict[str, int]]:
    """Append as many lines as fit into the file, at least one; returns how many, and the new state.

    `state` is the one that the last call returned, empty the first time. Before the file would grow
    beyond `rotate_bytes` it is renamed to path.1, and `keep` older files are kept. Raises OSError;
    then nothing was appended.
    """
    with _directory(path, keep_out) as place:
        new = not _exists(place, path.name)
        handle = _locked(place, path.name, keep_out)
        try:
            offset = _ours(handle, state)
            data, count = _fitting(lines, rotate_bytes, offset)
            start = _start(handle, offset, data)
            if rotate_bytes is not None and start and start + len(lines[0]) > rotate_bytes:
                _rotate(place, path.name, keep)
                os.close(handle)
                handle, start, new = _locked(place, path.name, keep_out), 0, True
                data, count = _fitting(lines, rotate_bytes, start)
            end = _write_all(handle, start, data)
            inode = os.fstat(handle).st_ino
        finally:
            os.close(handle)
        if new:
            os.fsync(place)
    return count, {"inode": inode, "offset": end}


def at_end(path: Path, keep_out: Path | None = None) -> dict[str, int]:
    """The state at the end of a file, which is made if it is missing. Raises OSError if it cannot
    be written."""
    with _directory(path, keep_out) as place:
        handle = _opened(place, path.name, keep_out)
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    return {"inode": found.st_ino, "offset": found.st_size}


# -- where it may be -----------------------------------------------------------------------------


@contextmanager
def _directory(path: Path, keep_out: Path | None) -> Iterator[int]:
    """The directory of a file, open. Raises OSError if it is `keep_out`, or in it."""
    place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if keep_out is not None and _is_inside(place, os.stat(keep_out)):
            raise _kept_out()
        yield place
    finally:
        os.close(place)


def _is_inside(place: int, other: os.stat_result) -> bool:
    """Whether an open directory is another one, or has it above itself. Its name does not count: it
    may be another one by now."""
    at, found = place, os.fstat(place)
    try:
        while not os.path.samestat(found, other):
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            if at != place:
                os.close(at)
            at, below = above, found
            found = os.fstat(at)
            if os.path.samestat(found, below):
                return False
    finally:
        if at != place:
            os.close(at)
    return True


def _opened(place: int, name: str, keep_out: Path | None) -> int:
    """Open a file. Raises OSError for a file of `keep_out`, and for a link where it is given."""
    flags = os.O_RDWR | os.O_CREAT | (0 if keep_out is None else os.O_NOFOLLOW)
    try:
        handle = os.open(name, flags, 0o644, dir_fd=place)
    except OSError as error:
        if keep_out is not None and error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link; give the path that it leads to") from None
        raise
    try:
        if keep_out is not None:
            found = os.fstat(handle)
            with os.scandir(keep_out) as entries:
                if any(os.path.samestat(found, each.stat()) for each in entries if each.is_file()):
                    raise _kept_out()
    except BaseException:
        os.close(handle)
        raise
    return handle


def _kept_out() -> OSError:
    return OSError(errno.EPERM, "it is in the state directory, where only the service writes")


def _exists(place: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _locked(place: int, name: str, keep_out: Path | None) -> int:
    """Open the file and lock it until it is closed: another process may append to it as well."""
    handle = _opened(place, name, keep_out)
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


# -- what is written -----------------------------------------------------------------------------


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


def _rotate(place: int, name: str, keep: int) -> None:
    """The file becomes name.1, that one name.2, and so on; the last one goes."""
    for number in range(keep, 0, -1):
        old = name if number == 1 else f"{name}.{number - 1}"
        if _exists(place, old):
            os.replace(old, f"{name}.{number}", src_dir_fd=place, dst_dir_fd=place)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)
    os.fsync(place)


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
