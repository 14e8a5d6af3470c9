"""Published documents: accepted once they are durable, refused when backlog or disk are full.

In: documents of a stream. Out: their numbers in the spool. Well-formedness is not checked here: a
document that is not well-formed becomes a dead letter of the engine, like one of a feed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Container, Sequence

from broker.model import RESERVED
from broker.service.core.answers import Accepted, Posted
from broker.service.core.core import Core
from broker.service.core.errors import Busy, DiskFailed, DiskFull, Draining, Invalid, TooLarge
from broker.sources.documents import json_object, microseconds
from broker.state.disk import Room
from broker.state.relations import MatchRelations
from feeds.packs import place_of
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, SpoolFull
from xscl.stage1.document import encode_text

MAX_DOCUMENT_BYTES = 128 << 20
"""The largest document, in bytes; it has to fit into memory several times over."""

_FARTHEST = 2**60
"""The largest timestamp, in microseconds; its sum with a window fits into 64 bits."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_TOKENS = "token:"
"""The beginning of the sources of tokens with scopes."""

_SHORTEST, _LONGEST = 1.0, 300.0
"""Bounds of Retry-After, in seconds."""

_KEYS = {"id", "timestamp", "xml", "revision", "source"}


class Intake:
    """Accepts documents while there is room. `rate` returns the documents matched per second."""

    def __init__(self, core: Core, rate: Callable[[], float]) -> None:
        self.core = core
        self.open = True
        self._rate = rate
        self._settings = core.settings.intake
        self._room = Room(core.state, self._settings.min_free)

    def publish(self, stream: str, documents: Sequence[Posted], owner: str = "") -> Accepted:
        """Accept documents of a stream, all or none; they are on disk when it returns. `owner` is
        the token whose they are, and whose sources theirs must be.

        Raises Draining, Busy, DiskFull, DiskFailed, TooLarge, Invalid.
        """
        return self.take(self.rows(stream, documents, owner))

    def rows(self, stream: str, documents: Sequence[Posted], owner: str = "") -> list[DocumentRow]:
        """The rows of documents, for `take`. Raises TooLarge, Invalid."""
        if not stream or not documents:
            raise Invalid("a stream has a name, and there is at least one document", "stream")
        if _CONTROL.search(stream):
            raise Invalid("the name of the stream holds control characters", "stream")
        if stream.startswith(RESERVED):
            raise Invalid(f"streams that begin with {RESERVED} are the service's own", "stream")
        published = self.core.engine.catalog.published
        for document in documents:
            if document.source is not None:
                _check_source(document.source, stream, published, owner)
        now = self.core.moments(len(documents))  # so that they keep the order of the documents
        return [_row(stream, document, now + n, n + 1) for n, document in enumerate(documents)]

    def take(self, rows: Sequence[DocumentRow]) -> Accepted:
        """Accept rows, like `publish`."""
        if not self.open:
            raise Draining("the service is stopping")
        self._check_room(sum([len(row.xml) for row in rows]))
        try:
            numbers = self.core.spool.publish(rows)
        except UnicodeEncodeError:
            raise Invalid("an id, a source or a stream holds half of a surrogate pair") from None
        except SpoolFull as error:
            self.core.failed_to_store(error)
            raise DiskFull("the disk is full; nothing was accepted") from None
        except SpoolError as error:
            self.core.failed_to_store(error)
            raise DiskFailed(
                f"the disk failed ({error.__cause__ or 'of its own accord'}): what was sent may be"
                " stored or not; send it again with the same ids"
            ) from error
        return Accepted(len(rows), numbers[0], numbers[-1], tuple(row.id for row in rows))

    def stored_of(self, token: str) -> int:
        """The bytes of the stored documents that a token has published."""
        with self.core.engine.store.snapshot() as statements:
            return MatchRelations(statements).stored_bytes(source_of(token, ""))

    def has_room(self) -> bool:
        """Whether documents would be accepted now."""
        try:
            self._check_room()
        except (Busy, DiskFull):
            return False
        return self.open

    def _check_room(self, size: int = 0) -> None:
        """Raises Busy if the backlog is full, DiskFull if the disk is; `size` bytes are to come."""
        backlog, most = self.core.backlog(), self._settings.max_backlog
        if backlog >= most:
            wait = (backlog - most * 0.9) / max(self._rate(), 1e-9)
            raise Busy(
                f"{backlog:,} documents wait to be matched, {most:,} at most",
                min(max(wait, _SHORTEST), _LONGEST),
            )
        available = self._room.left(size)
        if available < self._settings.min_free:
            raise DiskFull(f"{available >> 20:,} MiB are free on the disk: too few to accept more")


def source_of(token: str, source: str) -> str:
    """The source of a token's documents that it calls `source`: no two tokens have one in common,
    so none can take the other's ids."""
    return f"{_TOKENS}{token}:{source}"


def _check_source(source: str, stream: str, published: Container[str], owner: str) -> None:
    """Raises Invalid for a source that is another's: a document that is still to come from there
    would be dropped as a duplicate of one with its id, and one that is there be replaced."""
    own = f"post:{stream}"
    if owner and source.startswith(source_of(owner, "")):
        return
    if source.startswith(_TOKENS):
        why = f"sources that begin with {_TOKENS} are those of tokens"
    elif "://" in source:
        why = "sources with :// are feeds"
    elif source.startswith("post:") and source != own:
        why = f"sources that begin with post: are streams, and this one is {own}"
    elif source.startswith(RESERVED) or source in published:
        why = "it is a stream that the broker publishes"
    else:
        return
    raise Invalid(f"the source {source!r} is not yours: {why}", "source")


def _row(stream: str, document: Posted, now: int, line: int) -> DocumentRow:
    if len(document.xml) > MAX_DOCUMENT_BYTES:
        raise TooLarge(f"document {line} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
    if document.timestamp is not None and abs(document.timestamp) > _FARTHEST:
        raise Invalid(f"document {line} is dated outside of the calendar", "timestamp")
    source = document.source_in(stream)
    id = document.id or str(uuid.uuid4())
    place = place_of(source, id)
    if _CONTROL.search(place):
        name = "id" if _CONTROL.search(id) else "source"
        raise Invalid(f"the {name} of document {line} holds control characters", name)
    return DocumentRow(
        source=source,
        id=id,
        streams=(stream,),
        timestamp=now if document.timestamp is None else document.timestamp,
        dated=document.timestamp is not None,
        seq=None,
        revision=document.revision,
        xml=document.xml,
        place=place,
    )


# -- JSON lines ----------------------------------------------------------------------------------


def read_lines(body: bytes, key: str | None = None) -> list[Posted]:
    """The documents of a body of JSON lines: {"xml", "id", "timestamp", "revision", "source"}.

    Only `xml` is required. `timestamp` is ISO 8601 or a number of seconds. A missing id is made
    from `key` and the line number, so that documents keep their ids when a body is sent again.
    Raises Invalid with the first wrong line.
    """
    documents: list[Posted] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            documents.append(_read_line(line, None if key is None else f"{key}/{number}"))
        except ValueError as error:
            raise Invalid(str(error), line=number) from None
    return documents


def _read_line(line: bytes, id: str | None) -> Posted:
    """The document of a line, with a default id. Raises ValueError for a wrong one."""
    entry = json_object(line, 'not an object with "xml"')
    if not entry.keys() <= _KEYS:
        unknown = min(entry.keys() - _KEYS)
        raise ValueError(f'"{unknown}" is not known here; {", ".join(sorted(_KEYS))} are')
    xml, own, source = _text(entry, "xml"), _text(entry, "id"), _text(entry, "source")
    if xml is None:
        raise ValueError('"xml" is missing')
    revision = entry.get("revision", False)
    if not isinstance(revision, bool):
        raise ValueError('"revision" is neither true nor false')
    timestamp = None
    if entry.get("timestamp") is not None:
        timestamp = microseconds(entry["timestamp"])
        if timestamp is None:
            raise ValueError('"timestamp" is neither a date nor a number of seconds')
    return Posted(encode_text(xml), own or id, timestamp, revision, source)


def _text(entry: dict[str, object], name: str) -> str | None:
    """A text of a line, None if it has none of that name."""
    text = entry.get(name)
    if text is not None and (not isinstance(text, str) or not text):
        raise ValueError(f'"{name}" is not a text')
    return text
