"""The expected matches: the oracle's result for a range of documents, per registration."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import xscl
from broker.model import iso_time
from tests.crash.desk import Gap, Registration
from tests.crash.notes import Past
from tests.crash.versions import Versions
from tests.crash.world import Doc
from tests.oracle.matches import Found
from tests.oracle.oracle import Arrival, Oracle

Name = tuple[str, str]
END = 2**62
_NONE = Past()


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The identity of a match, in a form that oracle and service share."""

    query: str
    documents: tuple[tuple[str, str], ...]  # id and time
    result: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A match, completed by the document of a number. `values` are those of the variable k."""

    number: int
    key: Key
    end: int
    values: frozenset[str]

    def which(self, text: str) -> tuple[str, ...]:
        """What its id is made of, where the query has that text: an item that was edited makes no
        other match, and a query that was changed finds others."""
        return (text, *(id for id, _ in self.key.documents))


class Expected:
    """The oracle's results. `lives`: the documents at which processes began."""

    def __init__(
        self,
        docs: Mapping[Name, Doc],
        numbers: Mapping[Name, int],
        versions: Versions | None = None,
        lives: Sequence[int] = (),
    ) -> None:
        self._groups: dict[str, list[tuple[int, Doc]]] = {}
        for name, number in numbers.items():
            doc = docs[name]
            self._groups.setdefault(doc.key, []).append((number, doc))
        for group in self._groups.values():
            group.sort(key=lambda each: each[0])
        self._versions = versions
        self._lives = lives
        self._known: dict[object, list[Hit]] = {}

    def of(self, text: str, first: int, end: int = END, past: Past = _NONE) -> Iterator[Hit]:
        """The matches of queries among the documents with these numbers; history is matched as one
        batch."""
        for group in self._groups.values():
            chosen = [(number, doc) for number, doc in group if first <= number < end]
            yield from self._asked(text, chosen, past)

    def _asked(self, text: str, chosen: Sequence[tuple[int, Doc]], past: Past) -> list[Hit]:
        then: dict[Name, Doc] = {}
        for number, doc in chosen:
            if doc.kind == "item" and number < past.doc:
                assert self._versions is not None
                then[doc.name] = self._versions.at(doc.name, past)
        asked = (text, tuple(number for number, _ in chosen), past.doc, tuple(then.values()))
        if asked not in self._known:
            oracle = Oracle()
            for query in xscl.check([xscl.parse(text)]).queries:
                oracle.subscribe(query)
            self._known[asked] = [
                _hit(number, found)
                for number, doc, revision in self._arriving(chosen, past.doc, then)
                for found in oracle.arrive(_arrival(doc, revision))
            ]
        return self._known[asked]

    def _arriving(
        self, chosen: Sequence[tuple[int, Doc]], past: int, then: Mapping[Name, Doc]
    ) -> Iterator[tuple[int, Doc, bool]]:
        """Documents in order, each preceded by the revisions that it has met."""
        items: dict[Name, Doc] = {}
        versions = self._versions
        for number, doc in chosen:
            for name, before in items.items() if number >= past else ():
                met = versions.met(name, number) if versions else None
                if met is not None and met != before:
                    items[name] = met
                    yield number, met, True
            if doc.kind == "item" and versions is not None:
                doc = items[doc.name] = then.get(doc.name) or versions.first(doc.name)
            yield number, doc, False

    def of_patterns(self, text: str) -> Iterator[Key]:
        """The matches of event patterns that were registered before the first document, each of
        documents of one group. What they decide depends on the times of all documents."""
        queries = xscl.check([xscl.parse(text)]).queries
        numbered = sorted((n, doc.timestamp) for group in self._groups.values() for n, doc in group)
        highest = [*accumulate([time for _, time in numbered], max)]
        places = {number: place for place, (number, _) in enumerate(numbered)}
        for group in self._groups.values():
            oracle = Oracle()
            for query in queries:
                oracle.subscribe(query)
            arriving: list[Arrival] = []
            for number, doc in group:
                if places[number]:
                    arriving.append(_time(number, highest[places[number] - 1]))
                arriving.append(_arrival(doc, revision=False))
            for each in [*arriving, _time(0, highest[-1])]:
                yield from map(_pattern_key, oracle.arrive(each))

    def during(self, own: Registration) -> Iterator[Hit]:
        """The matches of a registration in all periods in which it was active."""
        begin = own.first
        for gap in [*own.gaps, None]:
            end = _until(own, gap)
            hits = sorted(self.of(own.text, begin, end, own.past), key=lambda hit: hit.number)
            if own.limit is not None:
                hits, stopped = self._limited(hits, own.limit)
                suspended = gap.first if gap and gap.status == "suspended" else None
                ended = gap is None and (own.end is not None or own.dropped is not None)
                # How one ended whose end we have not seen is not known.
                assert stopped == suspended or ended, (
                    f"to be suspended at {stopped}, and was at {suspended}: {own}"
                )
            yield from hits
            if gap is None or gap.last is None:
                return
            begin = gap.last

    def _limited(self, hits: Sequence[Hit], limit: int) -> tuple[list[Hit], int | None]:
        """The matches before the limit, and the document that exceeds it. The count begins anew
        with each process and after each gap."""
        taken: list[Hit] = []
        used = (-1, 0)
        for number, group in groupby(hits, key=lambda hit: hit.number):
            found, life = list(group), bisect_right(self._lives, number)
            before = used[1] if used[0] == life else 0
            if before + len(found) > limit:
                return taken, number
            used = life, before + len(found)
            taken += found
        return taken, None


def _until(own: Registration, gap: Gap | None) -> int:
    """The last document of a registration; for one with a limit, enough are tried to exceed it by
    one."""
    if gap is not None:
        return gap.first + (gap.status == "suspended")
    return END if own.end is None else own.end


def _arrival(doc: Doc, revision: bool) -> Arrival:
    return Arrival(doc.id, doc.streams, doc.timestamp, doc.xml, doc.source, revision=revision)


def _hit(number: int, found: Found) -> Hit:
    documents = tuple((_unnumbered(id), iso_time(time)) for id, time in found.documents)
    values = dict(found.values).get("k", ())
    return Hit(number, Key(found.query, documents, found.result), found.end, frozenset(values))


def _time(number: int, highest: int) -> Arrival:
    """A document that says how far the time was before another one, and nothing else."""
    return Arrival(f"~{number}", ("~",), highest, "<time/>", "~")


def _pattern_key(found: Found) -> Key:
    """The documents of a pattern are nested, and those of a branch not taken are None."""

    def flat(part: object) -> Iterator[tuple[str, str]]:
        match part:
            case (str(id), int(time)):
                yield _unnumbered(id), iso_time(time)
            case tuple():
                for each in part:
                    yield from flat(each)

    return Key(found.query, tuple(flat(found.documents)), found.result)


def _unnumbered(id: str) -> str:
    """The name of a derived document without node numbers, which matches do not have."""
    return re.sub(r"; [\d ]*\)$", ")", id)
