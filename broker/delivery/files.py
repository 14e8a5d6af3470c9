"""Files, and standard output.

What is written is on the disk before the cursor moves, and the cursor moves together with the file's
length. So after a crash between the two the same lines are written again where they began, and
nothing stands there twice or torn. Only what is not known to be ours is left as it is (a file that
something else has written to): then a torn last line is ended, and lines may stand there twice, under
the id that they had.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from broker.delivery.lanes import Lane
from broker.delivery.model import Channel, Delivered, Event
from broker.delivery.sending import Sent, beside
from broker.delivery.targets import FileTarget, target
from broker.delivery.webhook import encoded
from broker.state.disk import sync
from broker.text.formats import FORMATS, output_is_closed

_BATCH = 500


class FileSender:
    """Appends to the files of all channels, each in a thread of its own."""

    gives_up = False
    at_once = 1

    def batch(self, channel: Channel) -> int:
        return _BATCH

    def due(self, channel: Channel, first: Delivered) -> int:
        return 0

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent:
        found = target("file", channel.settings)
        assert isinstance(found, FileTarget)
        try:
            return await beside(lambda: write(found, channel.state, matches), f"to {found.path}")
        except OSError as error:
            return Sent(f"{found.path}: {error.strerror or error}")

    async def tell(self, channel: Channel, event: Event) -> Sent:
        """A file holds matches only; what can be told of it is whether it can be written."""
        found = target("file", channel.settings)
        assert isinstance(found, FileTarget)
        try:
            await beside(lambda: _touch(found.path), f"to {found.path}")
        except OSError as error:
            return Sent(f"{found.path}: {error.strerror or error}")
        return Sent()


def _touch(path: str) -> None:
    if path != "-":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))


def write(file: FileTarget, state: Mapping[str, Any], matches: Sequence[Delivered]) -> Sent:
    """Append matches, as many as the file may hold; raises OSError. `state` says where ours end."""
    lines = [formatted(file.format, delivered) for delivered in matches]
    if file.path == "-":
        return _to_standard_output(lines)
    path = Path(file.path)
    offset = _ours(path, state)
    data, count = _fitting(lines, file.rotate_bytes, offset)
    start = _start(path, offset, data)
    if file.rotate_bytes is not None and start and start + len(lines[0]) > file.rotate_bytes:
        _rotate(path, file.keep)
        start = 0
        data, count = _fitting(lines, file.rotate_bytes, start)
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        end = _write_all(handle, start, data)
        inode = os.fstat(handle).st_ino
    finally:
        os.close(handle)
    if new:
        sync(path.parent)
    return Sent(state={"inode": inode, "offset": end}, count=count)


def formatted(form: str, delivered: Delivered) -> bytes:
    """A match as it stands in the file, with its line end."""
    if form == "jsonl":
        return encoded(delivered.to_json()).encode() + b"\n"
    text = FORMATS[form](delivered.match)
    if form == "text" and delivered.left_out:
        text += f"    ({delivered.left_out:,} before it were left out)\n"
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _to_standard_output(lines: Sequence[bytes]) -> Sent:
    if output_is_closed():
        return Sent("standard output is closed")
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()
    return Sent()


def _ours(path: Path, state: Mapping[str, Any]) -> int:
    """How long the file is known to be ours; 0 for another file of that name, or one cut short."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
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


def _start(path: Path, offset: int, data: bytes) -> int:
    """Where to write: after what is ours if all the rest is the beginning of `data`, which a crash
    cut off from its cursor; else at the end."""
    if not path.exists():
        return 0
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(offset)
        rest = file.read(len(data) + 1)
    return offset if data.startswith(rest) else size


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
