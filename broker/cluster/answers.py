"""What a shard answers: the matches of a batch as columns, with their text, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from secrets import token_hex
from typing import NamedTuple

import pyarrow as pa

from broker.cluster.load import Use
from broker.model import Match, Waiting
from broker.results.matches import Result
from broker.shared_match import ID

MATCHES = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("first", pa.int64()),
        ("number", pa.int64()),
        ("doc", pa.int64()),
        ("base", pa.int64()),
        ("ids", pa.binary()),
        ("queries", pa.list_(pa.string())),
        ("match", pa.string()),
        ("result", pa.binary()),
        ("docs", pa.list_(pa.int64())),
        ("lines", pa.list_(pa.binary())),
    ]
)
"""Matches of a shard: their interval; their first document, the number of their first subscription,
the document that completes them and the oldest that they are made of; the columns of the outbox;
and the text of the match of each subscriber, if it is wanted.

A shard knows no subscribers, but variants of queries (`broker.cluster.variants`): what it answers
has no `queries`, `number` is the variant's, `ids` what ids are made of (`id_suffix`), and the text
is for its `StandIn`."""


class StandIn(NamedTuple):
    """What stands in the text of a match for its id and its query, until somebody says whose it is.
    No document has it, as it is random; and as it is letters alone, like the name of a query, all
    forms of text have it as it is."""

    id: str
    query: str

    @classmethod
    def fresh(cls) -> StandIn:
        return cls(token_hex(ID), f"q{token_hex(ID)}")

    def replaced(self, line: bytes, id: str, query: str) -> bytes:
        """The text of the match with this id, of this query."""
        own = line.replace(self.id.encode(), id.encode())
        return own.replace(self.query.encode(), query.encode())


class Aside(NamedTuple):
    """How many combinations a query has at a document, or why it is set aside there; if not for all
    who have the query, then for those of these names. The query is named by one of them."""

    query: str
    doc: int
    combinations: int
    why: str | None
    of: tuple[str, ...] | None = None


class Answer(NamedTuple):
    """The matches of a batch (schema MATCHES, as a stream of Arrow), and the pairs that a shard
    alone cannot say of whether they are within their budget; of event patterns those that are too
    much, by id with the document and why, and by number what they have kept of their matches; and
    what it took."""

    matches: bytes
    asides: list[Aside]
    stopped: list[tuple[str, int, str]]
    marked: Mapping[int, Mapping[str, int]]
    use: Use


class Waits(NamedTuple):
    """What event patterns have not decided, and the highest time at which all of it is decided."""

    waiting: list[Waiting]
    latest: int | None


class Suffixes:
    """What takes the place of `MatchIds` in a shard: the ids are made where subscribers are
    known."""

    def of(self, queries: object, suffix: bytes) -> bytes:
        return suffix


def columns_of(
    found: Iterable[Result],
    revised: Collection[int],
    form: Callable[[Match], str] | None,
    stand_in: StandIn,
) -> bytes:
    """Matches as a stream of Arrow, of schema MATCHES, with their text if there is a `form`.
    `revised` are the documents whose bytes are others at the end of the batch."""
    columns: list[list[object]] = [[] for _ in MATCHES]
    standing_in = bytes.fromhex(stand_in.id)
    for each in found:
        match, shared = each.match, each.match.shared
        head: str
        result: bytes | None = None
        if not shared.docs or any(doc in revised for doc in shared.docs):
            head, result = match.dumps()
        else:
            head = shared.dumps(match)
        ids = match.ids
        match.ids, match.queries = standing_in, (stand_in.query,)
        lines: list[bytes] = []
        if form is not None:
            lines = [f"{form(one)}\n".encode("utf-8", "backslashreplace") for one in match]
        row = (
            *(match.start_us, match.end_us, min(each.docs)),
            *(each.numbers[0], each.pair[1], each.base),
            *(ids, None, head, result),
            *(None if result is not None else shared.docs, lines),
        )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MATCHES, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, MATCHES) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=MATCHES))
    return bytes(sink.getvalue().to_pybytes())
