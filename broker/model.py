"""What goes into the broker and what comes out: documents, matches, dead letters.

Inside, a time is an integer number of microseconds since 1970 in UTC. At the door it is a datetime
or a number of seconds, and in JSON ISO 8601.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

MICROSECONDS = 1_000_000
_LARGEST = 2**60 / MICROSECONDS
"""Seconds; a timestamp and the widest window still add up in 64 bits."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(time: datetime | float) -> int:
    """A datetime (naive: UTC) or a number of seconds as microseconds. ValueError if not finite."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if not math.isfinite(time) or abs(time) > _LARGEST:
        raise ValueError(f"a timestamp must be a finite number of seconds, not {time}")
    return round(time * MICROSECONDS)


@lru_cache(maxsize=10_000)
def iso_time(microseconds: int) -> str:
    """ISO 8601 in UTC, with as many decimals as it needs."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        # Beyond the calendar there is still the count of seconds.
        return f"{microseconds / MICROSECONDS:.6f}"
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


@dataclass(frozen=True, slots=True)
class Document:
    """One XML document on its way in.

    `source` and `id` identify it: a second document with both is dropped, or, where `revision` is
    set, replaces the stored one and fires nothing. The source is the (first) stream unless given.
    Of a document with `seq`, only numbers above the highest applied of its source are taken, so
    that a source may be replayed.
    """

    id: str
    stream: str | tuple[str, ...] = "S"
    timestamp: datetime | float = 0.0
    xml: str | bytes = b""
    source: str | None = None
    seq: int | None = None
    revision: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.stream,) if isinstance(self.stream, str) else tuple(self.stream)


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """A document of a match; `stream` is the first that it flows through.

    `timestamp` is in microseconds; a derived document has that of its last document.
    """

    id: str
    stream: str
    timestamp: int


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a query: one document per block, in pattern order.

    `start` and `end` in microseconds; `nodes` are the numbers of the nodes that SELECT names;
    `values` the distinct texts of the variables that join or are selected; `stream` the name that
    PUBLISH gives, if any; `result` the XML document that the match publishes.
    """

    id: str
    query: str
    stream: str | None
    start: int
    end: int
    documents: tuple[DocumentRef, ...]
    values: dict[str, list[str]]
    nodes: tuple[int, ...]
    result: str

    def dumps(self) -> tuple[str, bytes]:
        """Two parts from which `loads` makes the same match: all but the result, and that, which
        is long and need not be escaped."""
        plain = {name: getattr(self, name) for name in _HEAD_FIELDS}
        plain["documents"] = [(d.id, d.stream, d.timestamp) for d in self.documents]
        return _encode(plain), self.result.encode("utf-8", "surrogatepass")

    @classmethod
    def loads(cls, text: str, result: bytes) -> Match:
        plain = json.loads(text) | {"result": result.decode("utf-8", "surrogatepass")}
        documents = tuple(DocumentRef(*d) for d in plain.pop("documents"))
        return cls(documents=documents, nodes=tuple(plain.pop("nodes")), **plain)

    def to_json(self) -> dict[str, Any]:
        """The public form, for JSON lines."""
        return {
            "id": self.id,
            "query": self.query,
            "stream": self.stream,
            "start": iso_time(self.start),
            "end": iso_time(self.end),
            "documents": [
                {"id": d.id, "stream": d.stream, "timestamp": iso_time(d.timestamp)}
                for d in self.documents
            ],
            "values": self.values,
            "result": self.result,
        }


_HEAD_FIELDS = [field.name for field in fields(Match) if field.name != "result"]


def match_id(
    query: str, text: str, documents: Sequence[tuple[str, str]], nodes: Sequence[int]
) -> str:
    """The id of a match: a function of the query, its documents (source, id) and nodes."""
    digest = _digest_of_query(query, text).copy()
    digest.update(f",{_encode(documents)},{_encode(nodes)}]".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@lru_cache(maxsize=10_000)
def _digest_of_query(query: str, text: str) -> hashlib.blake2b:
    key = _encode([query, text]).removesuffix("]")
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A document that was kept aside: where it came from, why, and its bytes."""

    source: str
    id: str
    place: str
    reason: str
    timestamp: int
    xml: bytes
