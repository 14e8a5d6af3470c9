"""A match that several subscribers of one query share, in one piece: it is found, stored and handed
over once, and a `Match` of one subscriber is derived of it when somebody reads it.

Its durable form is `dumps`, with the ids and the subscriptions of all beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, overload

from broker.model import Blocks, DocumentRef, Match, compact_json, iso_time, nested_tuples
from broker.text.markup import quote

ID = 16
"""Bytes of a packed id."""
MOST = 1_024
"""Subscribers that share one piece at most: reading one of them takes as long as its ids are, and
another subscriber makes one piece different."""

_OURS = re.compile("[0-9a-f]{32}").fullmatch


class Shared(Protocol):
    """From what the parts of a shared match are derived that are made when somebody reads them.

    With `wrapped`, `content` is that of the result's element, which says whose result it is;
    otherwise it is the whole result.
    """

    @property
    def docs(self) -> tuple[int, ...]:
        """The numbers in the state of the documents that it is derived of; none if it is whole."""
        ...

    @property
    def wrapped(self) -> bool: ...
    def xml(self) -> tuple[bytes, ...]:
        """The bytes of these documents as the match was found with them."""
        ...

    def derive_documents(self) -> tuple[DocumentRef, ...]: ...
    def derive_values(self) -> dict[str, list[str]]: ...
    def derive_content(self) -> str: ...
    def derive_result(self, match: Match) -> str: ...
    def derive_blocks(self) -> Blocks | None: ...
    def dumps(self, shared: SharedMatch) -> str:
        """The match without what is derived of its documents, as JSON."""
        ...


BEGUN, ENDED = "<result query=", "</result>"
"""How a result begins, before the name of its query in quotation marks, and how it ends."""


def timed(start: str, end: str, content: object) -> str:
    """What stands behind that name, before the `content` if there is any; the times are as
    `iso_time` writes them."""
    return f' start="{start}" end="{end}"{">" if content else "/>"}'


def result_of(query: str, start_us: int, end_us: int, content: str) -> str:
    """The result of a match that wraps this content."""
    times = timed(iso_time(start_us), iso_time(end_us), content)
    return f"{BEGUN}{quote(query)}{times}{content}{ENDED if content else ''}"


class Whole:
    """The parts of a match that refers to nothing."""

    __slots__ = ("blocks", "content", "documents", "values", "wrapped")

    docs: tuple[int, ...] = ()

    def __init__(
        self,
        documents: tuple[DocumentRef, ...],
        values: dict[str, list[str]],
        content: str,
        wrapped: bool,
        blocks: Blocks | None = None,
    ) -> None:
        self.blocks = blocks
        self.documents = documents
        self.values = values
        self.content = content
        self.wrapped = wrapped

    def xml(self) -> tuple[bytes, ...]:
        return ()

    def derive_documents(self) -> tuple[DocumentRef, ...]:
        return self.documents

    def derive_values(self) -> dict[str, list[str]]:
        return {name: [*texts] for name, texts in self.values.items()}

    def derive_content(self) -> str:
        return self.content

    def derive_result(self, match: Match) -> str:
        if not self.wrapped:
            return self.content
        return result_of(match.query, match.start_us, match.end_us, self.content)

    def derive_blocks(self) -> Blocks | None:
        return self.blocks

    def dumps(self, shared: SharedMatch) -> str:
        raise TypeError("a whole match refers to no documents")


class SharedMatch(Sequence[Match]):
    """The matches of subscribers of one query that have all in common but the id of the match and
    of the subscription.

    `ids` are those of the matches, packed, `queries` those of the subscriptions; the rest is as in
    `Match`. `posted` is its number in the outbox, None if it is not there. A match whose id is none
    of ours is alone, and has it in `named`.
    """

    __slots__ = (
        *("end_us", "ids", "joined", "named", "nodes", "posted", "queries", "shared"),
        *("start_us", "stream"),
    )

    def __init__(
        self,
        ids: bytes,
        queries: Sequence[str],
        stream: str | None,
        start_us: int,
        end_us: int,
        nodes: tuple[int, ...],
        joined: tuple[tuple[str, ...], ...],
        shared: Shared,
    ) -> None:
        self.ids = ids
        self.queries = queries
        self.stream = stream
        self.start_us = start_us
        self.end_us = end_us
        self.nodes = nodes
        self.joined = joined
        self.shared = shared
        self.named: str | None = None
        self.posted: int | None = None

    @classmethod
    def of(cls, match: Match) -> SharedMatch:
        """A match of one subscriber."""
        ours = _OURS(match.id) is not None
        found = cls(
            bytes.fromhex(match.id) if ours else b"",
            (match.query,),
            match.stream,
            match.start_us,
            match.end_us,
            match.nodes,
            match.joined,
            Whole(match.documents, match.values, match.result, False, match.blocks),
        )
        found.named = None if ours else match.id
        return found

    def __len__(self) -> int:
        return len(self.queries)

    @overload
    def __getitem__(self, place: int) -> Match: ...
    @overload
    def __getitem__(self, place: slice) -> list[Match]: ...
    def __getitem__(self, place: int | slice) -> Match | list[Match]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return Match.derived(
            self.id(place),
            self.queries[place],
            self.stream,
            self.start_us,
            self.end_us,
            self.nodes,
            self.joined,
            self.shared,
        )

    def __iter__(self) -> Iterator[Match]:
        # `Sequence` would ask for one match more, to see that there is none.
        return map(self.__getitem__, range(len(self.queries)))

    def id(self, place: int) -> str:
        """The id of the match of one subscriber."""
        if self.named is not None:
            return self.named
        if place < 0:
            place += len(self)
        return self.ids[place * ID : (place + 1) * ID].hex()

    def only(self, places: Sequence[int]) -> SharedMatch:
        """The same for some of its subscribers, by place."""
        if len(places) == len(self):
            return self
        found = SharedMatch(
            b"".join([self.ids[place * ID : (place + 1) * ID] for place in places]),
            [self.queries[place] for place in places],
            self.stream,
            self.start_us,
            self.end_us,
            self.nodes,
            self.joined,
            self.shared,
        )
        found.named = self.named
        found.posted = self.posted
        return found

    def dumps(self) -> tuple[str, bytes]:
        """Without ids and subscriptions, in two parts, from which `loads` restores it: JSON, and
        the result, which is long and need not be escaped."""
        shared = self.shared
        plain = {
            "stream": self.stream,
            "start": self.start_us,
            "end": self.end_us,
            "documents": [
                (d.id, d.stream, d.timestamp_us, d.title, d.link, d.feed)
                for d in shared.derive_documents()
            ],
            "values": shared.derive_values(),
            "nodes": self.nodes,
            "joined": self.joined,
            "wrapped": shared.wrapped,
        }
        if self.named is not None:
            plain["id"] = self.named
        blocks = shared.derive_blocks()
        if blocks is not None:
            plain["blocks"] = blocks
        return compact_json(plain), shared.derive_content().encode("utf-8", "surrogatepass")

    @classmethod
    def loads(cls, ids: bytes, queries: Sequence[str], text: str, result: bytes) -> SharedMatch:
        """A match that is stored whole. Older versions stored one for each subscriber, with its id
        in the text and the result as it was read."""
        plain = json.loads(text)
        shared = Whole(
            tuple([DocumentRef(*document) for document in plain["documents"]]),
            plain["values"],
            result.decode("utf-8", "surrogatepass"),
            plain.get("wrapped", False),
            nested_tuples(plain.get("blocks")),
        )
        found = cls(
            ids,
            queries,
            plain["stream"],
            plain["start"],
            plain["end"],
            tuple(plain["nodes"]),
            tuple(map(tuple, plain.get("joined", ()))),
            shared,
        )
        found.named = None if ids else plain.get("id")
        return found


def each_match(found: Iterable[SharedMatch]) -> list[Match]:
    """The matches of all subscribers."""
    return [match for shared in found for match in shared]


def count_matches(found: Iterable[SharedMatch]) -> int:
    """How many matches these are, of all subscribers."""
    return sum([len(shared.queries) for shared in found])


def portions(found: Sequence[SharedMatch], most: int) -> Iterator[Sequence[SharedMatch]]:
    """The same in parts, in order, each of at most so many matches of subscribers, or of one that
    is shared by more."""
    if found and count_matches(found) <= most:
        yield found
        return
    first = size = 0
    for place, shared in enumerate(found):
        if size and size + len(shared) > most:
            yield found[first:place]
            first, size = place, 0
        size += len(shared)
    if first < len(found):
        yield found[first:]
