"""The oracle of the whole system: brute force over all combinations of documents.

In go registered queries (resolved, as `xscl.check.program` gives them) and documents in order of
arrival; out come the matches that the language's definition asks for, each when the last of its
documents arrives. No automaton, no relations, no batches: a document is tried with every stored
one, in every position, by every query. Slow, and so plain that it can be read against the language
page.

What the two sides share is the syntax tree, and how `xscl` names a query in parentheses. A result
that a stream carries is stored like any document, with its match's interval. Queries are asked in the
order in which they read each other, so that a query knows all results that there are when it decides
something (Part 2, `tests.oracle.part2`); no match of Part 1 depends on that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree

from tests.oracle.matches import Found, Match, Resolved, Standing, Stored, matches
from tests.oracle.part2.naming import terms
from tests.oracle.part2.standing import PatternStanding
from tests.oracle.trees import Tree
from xscl import ast
from xscl.check.patterns import is_pattern
from xscl.normal.normalize import nested_query


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document as it arrives; `timestamp` in microseconds since the epoch, UTC."""

    id: str
    streams: tuple[str, ...]
    timestamp: int
    xml: str | bytes
    source: str | None = None  # None: the first stream
    seq: int | None = None
    revision: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return (self.source or self.streams[0], self.id)


class Oracle:
    """Queries and documents in, matches out. `lateness` in microseconds; None for no bound."""

    def __init__(self, lateness: int | None = None) -> None:
        self.lateness = lateness
        self.dead: list[Arrival] = []
        self._queries: dict[str, list[AnyStanding]] = {}  # by id: the query and those nested in it
        self._stored: dict[object, Stored] = {}
        self._applied: dict[str, int] = {}
        self._highest: int | None = None
        self._arrived = 0
        self._registered = 0

    @property
    def stored(self) -> list[Stored]:
        """The documents, as they were stored."""
        return [*self._stored.values()]

    @property
    def highest(self) -> int | None:
        """The highest time that a document had, in microseconds."""
        return self._highest

    def subscribe(self, resolved: Resolved) -> None:
        """Registering the same id and text again continues; a changed text starts anew."""
        before = self._queries.get(resolved.id)
        if before is not None and before[0].resolved.text == resolved.text:
            return
        # The anonymous streams belong to this registration alone; equal queries in it are one.
        self._registered += 1
        nested = {query.id: query for query in _nested(resolved)}
        streams = {name: f"{self._registered}{name}" for name in nested}
        self._queries[resolved.id] = [
            self._standing(resolved, resolved.query.publish, streams, False),
            *(
                self._standing(query, streams[name], streams, True)
                for name, query in nested.items()
            ),
        ]

    def _standing(
        self, resolved: Resolved, stream: str | None, streams: dict[str, str], hidden: bool
    ) -> AnyStanding:
        if not is_pattern(resolved.query):
            return Standing(resolved, self._arrived, stream, streams, hidden)
        lateness = self.lateness
        return PatternStanding(
            resolved, self._arrived, stream, streams, self._highest, lateness, hidden
        )

    def standing(self, query_id: str) -> AnyStanding:
        """A registered query, for what else there is to ask of it."""
        return self._queries[query_id][0]

    def unsubscribe(self, query_id: str) -> None:
        del self._queries[query_id]

    def process(self, arrivals: Iterable[Arrival]) -> list[Found]:
        return [match for arrival in arrivals for match in self.arrive(arrival)]

    def published(self, arrivals: Iterable[Arrival]) -> list[tuple[int, str]]:
        """The end and the XML of each match that documents complete, instead of the matches."""
        return [(m.found.end, m.xml) for a in arrivals for m in self._arrive(a) if not m.hidden]

    def arrive(self, arrival: Arrival) -> list[Found]:
        """The matches that this document completes, sorted."""
        found = [match.found for match in self._arrive(arrival) if not match.hidden]
        if any(is_pattern(self._queries[match.query][0].resolved.query) for match in found):
            return sorted(found, key=repr)  # their documents are nested, and some are None
        return sorted(found)

    def _arrive(self, arrival: Arrival) -> list[Match]:
        source = arrival.key[0]
        if arrival.seq is not None:
            if arrival.seq <= self._applied.get(source, -1):
                return []
            self._applied[source] = arrival.seq
        known = self._stored.get(arrival.key)
        if known is not None and not arrival.revision:
            return []
        tree = _parsed(arrival.xml)
        # What an edit of a known document changes is no match's time of arrival: it is not late.
        if tree is None or (known is None and self._late(arrival.timestamp)):
            self.dead.append(arrival)
            return []
        before = self._highest
        if self._highest is None or arrival.timestamp > self._highest:
            self._highest = arrival.timestamp
        document = Stored(
            arrival.key,
            arrival.id,
            arrival.streams,
            arrival.timestamp,
            arrival.timestamp,
            tree,
            self._arrived if known is None else known.arrived,
        )
        if known is not None:
            for query in self._standings():
                if isinstance(query, PatternStanding):
                    query.revises(self._stored.values())
            self._stored[arrival.key] = document
            return []
        self._arrived += 1
        for query in self._standings():
            if isinstance(query, PatternStanding):
                query.lateness = self._lateness(query)
                query.arrives(document, before)
        return list(self._cascade(document))

    def _cascade(self, document: Stored) -> Iterator[Match]:
        """The matches that a new document completes or decides, and those of their results."""
        news = [document]
        before = dict(self._stored)
        self._stored[document.key] = document
        for query in _in_reading_order(self._standings()):
            found: list[Match] = []
            if isinstance(query, PatternStanding):
                found = query.step(self._stored.values(), self._highest)
            else:
                seen = dict(before)
                for new in sorted(news, key=lambda d: (d.end, d.start, d.id)):
                    seen[new.key] = new
                    found += matches(query, seen.values(), new)
            yield from found
            if query.stream is not None:
                derived = [query.derived(match) for match in found]
                news += derived
                self._stored.update((each.key, each) for each in derived)

    def _lateness(self, query: AnyStanding) -> int | None:
        """By how much the watermark of a query is behind: WAIT is for streams that are not derived."""
        makers = [each for each in self._standings() if each.stream is not None]
        found: list[int | None] = []
        for block in query.blocks:
            own = [each for each in makers if each.stream == block.stream]
            found += [self._lateness(each) for each in own]
            if not own:
                wait = query.query.wait if isinstance(query, PatternStanding) else None
                found.append(self.lateness if wait is None else wait.microseconds)
        if None in found:
            return None
        return max(each for each in found if each is not None)

    def _standings(self) -> list[AnyStanding]:
        return [standing for of in self._queries.values() for standing in of]

    def _late(self, timestamp: int) -> bool:
        if self.lateness is None or self._highest is None:
            return False
        return timestamp < self._highest - self.lateness


AnyStanding = Standing | PatternStanding


def _in_reading_order(standings: list[AnyStanding]) -> list[AnyStanding]:
    """Each query behind those whose results it reads."""
    makers: dict[str, list[AnyStanding]] = {}
    for standing in standings:
        if standing.stream is not None:
            makers.setdefault(standing.stream, []).append(standing)
    ordered: list[AnyStanding] = []

    def visit(standing: AnyStanding) -> None:
        if any(each is standing for each in ordered):
            return
        for block in standing.blocks:
            for maker in makers.get(block.stream, ()):
                visit(maker)
        ordered.append(standing)

    for standing in standings:
        visit(standing)
    return ordered


def _nested(resolved: Resolved) -> Iterator[Resolved]:
    """The nested queries at any depth, with their names."""
    for term in terms(resolved.query.pattern):
        if isinstance(term, ast.Nested):
            inner = nested_query(term, resolved.namespaces)
            yield inner
            yield from _nested(inner)


@lru_cache(maxsize=4_096)
def _parsed(xml: str | bytes) -> Tree | None:
    """A parsed query, cached, since each query on a stream uses the same text."""
    try:
        return Tree(xml)
    except etree.XMLSyntaxError:
        return None
