"""Documents that somebody publishes: durable before they are accepted, refused before it hurts.

In: documents of a stream. Out: their numbers in the spool. Whether a document is well-formed is not
asked here: one that is not becomes a dead letter of the engine, as one of a feed does.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence

from broker.model import RESERVED
from broker.service.core.answers import Accepted, Posted
from broker.service.core.core import Core
from broker.service.core.errors import Busy, DiskFull, Draining, Invalid, TooLarge
from broker.spark.documents import json_object, microseconds
from broker.state.disk import free
from feeds.rows import DocumentRow
from feeds.spool import SpoolFull
from xscl.stage1.document import encode_text

MAX_DOCUMENT_BYTES = 128 << 20
"""A document has to fit in memory several times over."""

_FARTHEST = 2**60
"""Microseconds; windows still add up with it in 64 bits."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_SHORTEST, _LONGEST = 1.0, 300.0
"""Seconds for which a publisher may be sent away."""

_KEYS = {"id", "timestamp", "xml", "revision", "source"}


class Intake:
    """Takes documents while there is room. `rate` gives how many are matched a second of late."""

    def __init__(self, core: Core, rate: Callable[[], float]) -> None:
        self.core = core
        self.open = True
        self._rate = rate
        self._settings = core.settings.intake

    def publish(self, stream: str, documents: Sequence[Posted]) -> Accepted:
        """Documents of a stream, all or none; they are on disk when it returns.

        Raises Draining, Busy, DiskFull, TooLarge, Invalid; SpoolError where the file fails.
        """
        if not stream or not documents:
            raise Invalid("a stream has a name, and there is at least one document", "stream")
        now = self.core.now()
        # Each a microsecond later than the one before, so that their order is one in time too.
        return self.take([_row(stream, each, now + n, n + 1) for n, each in enumerate(documents)])

    def take(self, rows: Sequence[DocumentRow]) -> Accepted:
        """The same for rows as they are."""
        if not self.open:
            raise Draining("the service is stopping")
        self._must_have_room()
        try:
            numbers = self.core.spool.publish(rows)
        except UnicodeEncodeError:
            raise Invalid("an id, a source or a stream holds half of a surrogate pair") from None
        except SpoolFull:
            raise DiskFull("the disk is full; nothing was accepted") from None
        return Accepted(len(rows), numbers[0], numbers[-1], tuple(row.id for row in rows))

    def has_room(self) -> bool:
        """Whether documents would be accepted now."""
        try:
            self._must_have_room()
        except (Busy, DiskFull):
            return False
        return self.open

    def _must_have_room(self) -> None:
        backlog, most = self.core.backlog(), self._settings.max_backlog
        if backlog >= most:
            wait = (backlog - most * 0.9) / max(self._rate(), 1e-9)
            raise Busy(
                f"{backlog:,} documents wait to be matched, {most:,} at most",
                min(max(wait, _SHORTEST), _LONGEST),
            )
        left = free(self.core.state)
        if left < self._settings.min_free:
            raise DiskFull(f"{left >> 20:,} MiB are free on the disk: too few to accept more")


def _row(stream: str, document: Posted, now: int, line: int) -> DocumentRow:
    if len(document.xml) > MAX_DOCUMENT_BYTES:
        raise TooLarge(f"document {line} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
    if document.timestamp is not None and abs(document.timestamp) > _FARTHEST:
        raise Invalid(f"document {line} is dated outside of the calendar", "timestamp")
    source = document.source_in(stream)
    id = document.id or str(uuid.uuid4())
    for name, text in (("id", id), ("source", source), ("stream", stream)):
        if _CONTROL.search(text):
            raise Invalid(f"the {name} of document {line} holds control characters", name)
    if stream.startswith(RESERVED):
        raise Invalid(f"streams that begin with {RESERVED} are the service's own", "stream")
    return DocumentRow(
        source=source,
        id=id,
        streams=(stream,),
        timestamp=now if document.timestamp is None else document.timestamp,
        dated=document.timestamp is not None,
        seq=None,
        revision=document.revision,
        xml=document.xml,
        place=f"{source}/{id}",
    )


# -- JSON lines ----------------------------------------------------------------------------------


def read_lines(body: bytes, key: str | None = None) -> list[Posted]:
    """The documents of a body of JSON lines: {"xml", "id", "timestamp", "revision", "source"}.

    Only `xml` must be there. `timestamp` is ISO 8601 or a number of seconds. Where an id is
    missing, it is `key` and the number of the line, so that a body that is sent again is the same.
    Raises Invalid with the first line that is wrong.
    """
    found: list[Posted] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(_posted(line, None if key is None else f"{key}/{number}"))
        except ValueError as error:
            raise Invalid(str(error), line=number) from None
    return found


def _posted(line: bytes, id: str | None) -> Posted:
    """Raises ValueError, with what is wrong."""
    entry = json_object(line, 'not an object with "xml"')
    unknown = entry.keys() - _KEYS
    if unknown:
        raise ValueError(f'"{min(unknown)}" is not known here; {", ".join(sorted(_KEYS))} are')
    texts = {name: entry.get(name) for name in ("xml", "id", "source")}
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or not text):
            raise ValueError(f'"{name}" is not a text')
    if texts["xml"] is None:
        raise ValueError('"xml" is missing')
    revision = entry.get("revision", False)
    if not isinstance(revision, bool):
        raise ValueError('"revision" is neither true nor false')
    timestamp = None
    if entry.get("timestamp") is not None:
        timestamp = microseconds(entry["timestamp"])
        if timestamp is None:
            raise ValueError('"timestamp" is neither a date nor a number of seconds')
    return Posted(
        encode_text(texts["xml"]), texts["id"] or id, timestamp, revision, texts["source"]
    )
