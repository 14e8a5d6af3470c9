"""The broker's inputs and outputs: documents, matches, dead letters.

Inside, a time is an integer number of microseconds since 1970 in UTC. In the library's interface it
is a datetime or a number of seconds, and in JSON ISO 8601.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol

from broker.errors import ArgumentError

MICROSECONDS = 1_000_000
UNBOUNDED = 2**62
"""A window that no duration reaches, in microseconds."""
RESERVED = "broker."
"""The prefix of the names of the broker's own streams."""
_LARGEST = 2**60 / MICROSECONDS
"""Seconds; a timestamp and the widest window still add up in 64 bits."""
compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""A value as JSON without blanks; `json.dumps` would make an encoder for each call."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(time: datetime | float) -> int:
    """A datetime (naive: UTC) or a number of seconds since 1970 as microseconds. Raises
    `ArgumentError` for anything else."""
    if isinstance(time, datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    # A float, as of most documents, is no reason to ask the class of all numbers.
    if type(time) is not float and (isinstance(time, bool) or not isinstance(time, Real)):
        kind = type(time).__name__
        raise ArgumentError(
            f"a timestamp is a datetime or a number of seconds, not {kind} {time!r}"
        )
    if not math.isfinite(time) or abs(time) > _LARGEST:
        raise ArgumentError(f"a timestamp must be a finite number of seconds, not {time}")
    return round(time * MICROSECONDS)


def duration_microseconds(duration: timedelta | float) -> int:
    """A timedelta or a number of seconds as microseconds; `math.inf` and durations longer than any
    window are `UNBOUNDED`. Raises `ArgumentError` for anything else, and for a negative
    duration."""
    if isinstance(duration, timedelta):
        exact = duration // timedelta(microseconds=1)
    elif isinstance(duration, bool) or not isinstance(duration, Real) or math.isnan(duration):
        kind = type(duration).__name__
        raise ArgumentError(
            f"a duration is a timedelta or a number of seconds, not {kind} {duration!r}"
        )
    else:
        exact = UNBOUNDED if duration >= _LARGEST else round(max(duration, -1.0) * MICROSECONDS)
    if exact < 0:
        raise ArgumentError(f"a duration cannot be negative, as {duration} is")
    return min(exact, UNBOUNDED)


def to_datetime(microseconds: int) -> datetime:
    """Microseconds since 1970 as a datetime in UTC; `datetime.min` or `datetime.max` for times
    beyond them."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.max if microseconds > 0 else datetime.min).replace(tzinfo=UTC)


@lru_cache(maxsize=10_000)
def iso_time(microseconds: int) -> str:
    """ISO 8601 in UTC, with as many decimals as it needs."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        # Times outside the years 1 to 9999 have no ISO form.
        return f"{microseconds / MICROSECONDS:.6f}"
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


@dataclass(frozen=True, slots=True)
class Document:
    """One XML document to process.

    `source` and `id` identify it: a second document with both is dropped, or, if `revision` is set,
    replaces the stored one and completes no match (unless the broker lets revisions flow). The
    source is the (first) stream unless given. A document with a `seq` that is not above the highest
    one applied of its source is dropped, so that a source may be replayed. A `timestamp` is a
    datetime or a number of seconds since 1970; without one, it is the time when the document is
    processed.
    """

    id: str
    stream: str | tuple[str, ...] = "S"
    timestamp: datetime | float | None = None
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

    `timestamp` is its time, of a derived document that of its last document; `timestamp_us` is the
    same in microseconds since 1970. `title`, `link` and `feed` describe it to people, None if the
    document has none: of a feed item they are its title, its address and the title of its feed.
    """

    id: str
    stream: str
    timestamp_us: int
    title: str | None = None
    link: str | None = None
    feed: str | None = None

    @property
    def timestamp(self) -> datetime:
        return to_datetime(self.timestamp_us)

    def to_json(self) -> dict[str, Any]:
        """The public form, without title, link or feed where they are None."""
        named = {"id": self.id, "stream": self.stream, "timestamp": iso_time(self.timestamp_us)}
        called = (("title", self.title), ("link", self.link), ("feed", self.feed))
        return named | {name: text for name, text in called if text is not None}


class Rendering(Protocol):
    """From what the parts of a match are derived that are made when somebody reads them."""

    def derive_documents(self) -> tuple[DocumentRef, ...]: ...
    def derive_values(self) -> dict[str, list[str]]: ...
    def derive_result(self, match: Match) -> str: ...
    def derive_blocks(self) -> Blocks | None: ...


Blocks = tuple[Any, ...]
"""For each block of an event pattern the place of its document in the match, None where there is
none, and a tuple for a group: of places, or of tuples for elements of several documents."""


def nested_tuples(found: Any) -> Any:
    """JSON's arrays as tuples."""
    return tuple(map(nested_tuples, found)) if isinstance(found, list) else found


class _Derived:
    __slots__ = ("_rendering",)
    _rendering: Rendering


_WHOLE = ("id", "query", "stream", "start_us", "end_us", "nodes", "joined", "_rendering")


@dataclass(frozen=True, slots=True)
class Match(_Derived):
    """A match of a query: one document per block, in pattern order.

    `start` and `end` are the times of its first and its last document, `start_us` and `end_us` the
    same in microseconds since 1970; `nodes` are the numbers of the nodes that SELECT names;
    `values` the distinct texts of the variables that join or are selected; `stream` the name that
    PUBLISH gives, if any; `result` the XML document that the match publishes. `joined` are the
    variables that belong together because their values do, such as `("title", "title2")`. `blocks`
    are those of an event pattern, None for other queries.
    """

    id: str
    query: str
    stream: str | None
    start_us: int
    end_us: int
    documents: tuple[DocumentRef, ...]
    values: dict[str, list[str]]
    nodes: tuple[int, ...]
    result: str
    joined: tuple[tuple[str, ...], ...] = ()
    blocks: Blocks | None = None

    @classmethod
    def derived(
        cls,
        id: str,
        query: str,
        stream: str | None,
        start_us: int,
        end_us: int,
        nodes: tuple[int, ...],
        joined: tuple[tuple[str, ...], ...],
        rendering: Rendering,
    ) -> Match:
        """A match whose documents, values and result are made when somebody reads them."""
        match = cls.__new__(cls)
        _set_id(match, id)
        _set_query(match, query)
        _set_stream(match, stream)
        _set_start(match, start_us)
        _set_end(match, end_us)
        _set_nodes(match, nodes)
        _set_joined(match, joined)
        _set_rendering(match, rendering)
        return match

    if not TYPE_CHECKING:  # the type checker must still find a name that is no field

        def __getattr__(self, name: str) -> Any:
            # Called for a field that has no value yet.
            if name == "documents":
                value = self._rendering.derive_documents()
            elif name == "values":
                value = self._rendering.derive_values()
            elif name == "result":
                value = self._rendering.derive_result(self)
            elif name == "blocks":
                value = self._rendering.derive_blocks()
            else:
                raise AttributeError(f"a match has no {name}")
            object.__setattr__(self, name, value)
            return value

    @property
    def start(self) -> datetime:
        return to_datetime(self.start_us)

    @property
    def end(self) -> datetime:
        return to_datetime(self.end_us)

    def to_json(self) -> dict[str, Any]:
        """The public form, for JSON lines; `blocks` only of an event pattern."""
        blocks = {} if self.blocks is None else {"blocks": self.blocks}
        return {
            "id": self.id,
            "query": self.query,
            "stream": self.stream,
            "start": iso_time(self.start_us),
            "end": iso_time(self.end_us),
            "documents": [document.to_json() for document in self.documents],
            **blocks,
            "values": self.values,
            "joined": [list(names) for names in self.joined],
            "result": self.result,
        }


_set_id, _set_query, _set_stream, _set_start, _set_end, _set_nodes, _set_joined, _set_rendering = (
    Match.__dict__[name].__set__ if name in Match.__dict__ else _Derived.__dict__[name].__set__
    for name in _WHOLE
)
"""They set a field of a frozen match that is being made, in a third of the time that
`object.__setattr__` takes."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A document that was not admitted, or at which a query was set aside. `number` is that of the
    dead letter, `at` when it was stored (wall clock, None if unknown), `place` where the document
    came from, `reason` why it is kept. Times are in microseconds. `streams` is empty in states of
    older versions, which did not store it."""

    number: int
    at: int | None
    source: str
    id: str
    streams: tuple[str, ...]
    place: str
    reason: str
    timestamp: int
    xml: bytes


Revisions = Literal["replace", "flow"]
"""What a revision does: "replace" the stored document and complete no match, or "flow" as a
document of its own, which never matches other versions of itself."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `matches` matches of one subscription in a `period` of wall time (a timedelta or
    seconds).

    A period begins with the first match after the end of the last period. Without a known wall
    clock all time is one period, which a restart begins anew.
    """

    matches: int
    period: timedelta | float

    def __post_init__(self) -> None:
        exact = duration_microseconds(self.period)
        if self.matches < 1 or exact < 1:
            raise ArgumentError("a limit is at least one match in a period longer than nothing")
        object.__setattr__(self, "period", timedelta(microseconds=exact))

    @classmethod
    def of(cls, matches: int, microseconds: int) -> Limit:
        """A limit with a period in microseconds."""
        return cls(matches, timedelta(microseconds=microseconds))

    @property
    def microseconds(self) -> int:
        """The period in microseconds."""
        return duration_microseconds(self.period)


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most work of one query at one document, beyond which that pair is set aside.

    `combinations` of documents and nodes that the document completes; `text`, characters of the
    results that have to be made; `derived`, documents that results become, and results of those, by
    one document in the end.
    """

    combinations: int = 10_000
    text: int = 64_000_000
    derived: int = 10_000

    def __post_init__(self) -> None:
        if min(self.combinations, self.text, self.derived) < 1:
            raise ArgumentError("a budget is at least 1")


COUNTED = 1_000
"""Candidates that wait are counted up to so many for each pattern."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an event pattern has not decided yet: how many candidates, up to `COUNTED`, and the
    highest time (microseconds) at which the first of them is decided, None for never."""

    query: str
    count: int
    decides: int | None
