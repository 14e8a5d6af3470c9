"""Delivery to files and standard output.

Lines are synced to the disk before the cursor moves, and the cursor is stored together with the
file's length. So after a crash between the two the same lines are written again at the same offset,
and no line is there twice or torn (see `broker.state.append`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.delivery.lanes import Lane
from broker.delivery.model import Channel, Delivered, Event
from broker.delivery.sending import Sent, beside
from broker.delivery.targets import FileTarget, target
from broker.delivery.webhook import encoded
from broker.state.append import append, at_end
from broker.text.formats import FORMATS, output_is_closed

_BATCH = 500


class FileSender:
    """Appends to the files of all channels, each in a thread of its own."""

    gives_up = False
    at_once = 1

    def __init__(self, keep_out: Path | None = None) -> None:
        self._keep_out = keep_out
        """The directory in which no channel may write."""

    def batch(self, channel: Channel) -> int:
        return _BATCH

    def due(self, channel: Channel, first: Delivered) -> int:
        return 0

    async def send(self, channel: Channel, matches: Sequence[Delivered], lane: Lane) -> Sent:
        found = target("file", channel.settings)
        assert isinstance(found, FileTarget)
        try:
            return await beside(
                lambda: write(found, channel.state, matches, self._keep_out), f"to {found.path}"
            )
        except OSError as error:
            return Sent(f"{found.path}: {error.strerror or error}")

    async def send_event(self, channel: Channel, event: Event) -> Sent:
        """Events are not written to files, which hold matches only; the outcome says whether the
        file can be written."""
        found = target("file", channel.settings)
        assert isinstance(found, FileTarget)
        try:
            if found.path != "-":
                await beside(lambda: at_end(Path(found.path), self._keep_out), f"to {found.path}")
        except OSError as error:
            return Sent(f"{found.path}: {error.strerror or error}")
        return Sent()


def write(
    file: FileTarget,
    state: Mapping[str, Any],
    matches: Sequence[Delivered],
    keep_out: Path | None = None,
) -> Sent:
    """Append matches, as many as the file may hold; raises OSError. `state` says where ours end."""
    lines = [formatted(file.format, delivered) for delivered in matches]
    if file.path == "-":
        return _to_standard_output(lines)
    count, after = append(Path(file.path), lines, state, file.rotate_bytes, file.keep, keep_out)
    return Sent(state=after, count=count)


def formatted(form: str, delivered: Delivered) -> bytes:
    """A match in the file's format, with its line end."""
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
