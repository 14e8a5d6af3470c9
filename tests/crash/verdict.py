"""What came out against what had to: nothing lost, nothing doubled, nothing that is not a match.

The documents are numbered by the engine, and subscriptions count from numbers. So what is expected
of a subscription is the oracle's answer for the documents between the numbers that were told to its
owner; that all documents are there, in the order in which they were accepted, is looked at first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from lxml import etree

import xscl
from broker.model import iso_time
from tests.crash.actors import Accepted, Desk, Registration
from tests.crash.receivers import Box, Delivered
from tests.crash.world import STANDING, Doc, World
from tests.oracle.matches import Found
from tests.oracle.oracle import Arrival, Oracle
from tests.oracle.trees import canonical

Name = tuple[str, str]
_END = 2**62
_STANDING = {"first", "second"}


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What tells a match from others, in the words of both sides."""

    query: str
    documents: tuple[tuple[str, str], ...]  # id and time
    result: str


@dataclass(frozen=True, slots=True)
class State:
    """What a state holds when it is closed: the documents' numbers, and how much is in the outbox."""

    numbers: dict[Name, int]
    undelivered: int

    @classmethod
    def read(cls, state: Path) -> State:
        with duckdb.connect(str(state / "broker.duckdb"), read_only=True) as db:
            # Beside what comes from outside stand results of matches, and what the service tells.
            rows = db.execute(
                "SELECT source, id, doc FROM documents"
                " WHERE NOT list_contains(streams, 'pairs') AND NOT starts_with(streams[1], 'broker.')"
            ).fetchall()
            (outbox,) = db.execute("SELECT count(*) FROM outbox").fetchall()[0]
        numbers = {(source, id): doc for source, id, doc in rows}
        assert len(numbers) == len(rows), "a document is there twice"
        return cls(numbers, outbox)


class Expected:
    """The oracle's answers, by registration."""

    def __init__(self, docs: Mapping[Name, Doc], numbers: Mapping[Name, int]) -> None:
        self._groups: dict[str, list[tuple[int, Doc]]] = {}
        for name, number in numbers.items():
            doc = docs[name]
            self._groups.setdefault(doc.key, []).append((number, doc))
        for group in self._groups.values():
            group.sort(key=lambda each: each[0])
        self._known: dict[tuple[str, tuple[int, ...]], list[tuple[int, Key]]] = {}

    def of(self, text: str, first: int, end: int = _END) -> Iterator[tuple[int, Key]]:
        """The matches of queries among the documents of these numbers, each with the number of the
        document that completes it."""
        for group in self._groups.values():
            chosen = [(number, doc) for number, doc in group if first <= number < end]
            asked = (text, tuple(number for number, _ in chosen))
            if asked not in self._known:
                self._known[asked] = list(_ask(text, chosen))
            yield from self._known[asked]

    def during(self, own: Registration) -> Iterator[tuple[int, Key]]:
        """The matches of a registration, over all the time in which it was active."""
        begin = own.first
        for first, last in own.gaps:
            yield from self.of(own.text, begin, first)
            if last is None:
                return
            begin = last
        yield from self.of(own.text, begin, _END if own.end is None else own.end)


def _ask(text: str, docs: Sequence[tuple[int, Doc]]) -> Iterator[tuple[int, Key]]:
    oracle = Oracle()
    for query in xscl.check([xscl.parse(text)]).queries:
        oracle.subscribe(query)
    for number, doc in docs:
        arrival = Arrival(doc.id, doc.streams, doc.timestamp, doc.xml, doc.source)
        for found in oracle.arrive(arrival):
            yield number, _wanted(found)


def _wanted(found: Found) -> Key:
    documents = tuple((_unnumbered(id), iso_time(time)) for id, time in found.documents)
    return Key(found.query, documents, found.result)


def _unnumbered(id: str) -> str:
    """A derived document's name without the numbers of nodes, which a match does not tell."""
    return re.sub(r"; [\d ]*\)$", ")", id)


def _told(delivered: Delivered, derived: dict[str, str]) -> Key:
    documents = tuple(
        (derived.get(d["id"], d["id"]), d["timestamp"]) for d in delivered["documents"]
    )
    return Key(delivered["query"], documents, canonical(etree.fromstring(delivered["result"])))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is when all is over. `log`: all matches, `letters`: the documents kept aside,
    `files`: the lines of files; `boxes`: by receiver, of all subscriptions; `own`: of single ones."""

    world: World
    accepted: Accepted
    desk: Desk
    state: State
    log: list[Delivered]
    letters: list[dict[str, Any]]
    boxes: Sequence[Box]
    own: dict[str, Box]


def judge(evidence: Evidence) -> dict[str, int]:
    """Raises AssertionError with what is wrong; else how much there was of everything."""
    assert not evidence.state.undelivered, "matches are left in the outbox"
    numbers = _documents(evidence)
    registrations = [*evidence.desk.past, *evidence.desk.now.values()]
    expected = Expected(evidence.world.docs, numbers)
    log = _log(evidence.log)
    maybe = _matches(evidence, expected, log, registrations)
    _received(evidence, log, maybe)
    return {
        "documents": len(numbers),
        "matches": len(log),
        "letters": len(evidence.letters),
        "registrations": len(registrations),
        "repeated": sum(box.repeated for box in [*evidence.boxes, *evidence.own.values()]),
    }


def _documents(evidence: Evidence) -> dict[Name, int]:
    """Every document that was accepted or shown is there, and no other; their numbers."""
    numbers = evidence.state.numbers
    shown = {name: doc for name, doc in evidence.world.docs.items() if doc.kind == "item"}
    due = evidence.accepted.docs | shown
    aside = Counter((letter["source"], letter["id"]) for letter in evidence.letters)
    good = {name for name, doc in due.items() if doc.kind in ("posted", "item")}
    wrong = [
        letter["reason"] for letter in evidence.letters if letter["reason"].startswith("the engine")
    ]
    assert not wrong, f"{len(wrong)} documents at which the engine failed: {wrong[0]}"
    _same("documents", good, numbers)
    _same("dead letters", due.keys() - good, aside)
    twice = [name for name, count in aside.items() if count > 1]
    assert not twice, f"kept aside twice: {twice}"
    told = sorted(evidence.accepted.numbers)
    order = [numbers[name] for _, name in told if name in numbers]
    assert order == sorted(order), "documents are not in the order in which they were accepted"
    return numbers


def _log(log: Sequence[Delivered]) -> dict[Key, Delivered]:
    """The log by what its matches are, each there once."""
    twice = [id for id, count in Counter(d["id"] for d in log).items() if count > 1]
    assert not twice, f"in the log twice: {twice}"
    places = [delivered["n"] for delivered in log]
    assert places == sorted(set(places))
    derived = {
        d["id"]: f"{d['query']}({', '.join(part['id'] for part in d['documents'])})"
        for d in log
        if d["stream"]
    }
    found: dict[Key, Delivered] = {}
    for delivered in log:
        key = _told(delivered, derived)
        assert key not in found, f"one match under two ids: {delivered} and {found[key]}"
        found[key] = delivered
    return found


def _matches(
    evidence: Evidence,
    expected: Expected,
    log: dict[Key, Delivered],
    registrations: Sequence[Registration],
) -> set[Key]:
    """The log is what the oracle says. Returns what may have been delivered beside it: what was
    pending when a subscription was dropped with it."""
    (begun,) = {evidence.desk.now[id].first for id in _STANDING}
    sure = {key for _, key in expected.of(STANDING, begun)}
    maybe: set[Key] = set()
    dropped: set[str] = set()
    for own in reversed(registrations):
        if own.id in _STANDING:
            continue
        # What is dropped takes all with it that was found under its name.
        if own.dropped == "drop":
            dropped.add(own.id)
        found = list(expected.during(own))
        if own.dropped is None and own.id not in dropped:
            sure |= {key for _, key in found}
            continue
        surely, hardly = _ended(evidence, own)
        if own.id in dropped:
            maybe |= {key for number, key in found if number <= hardly}
            continue
        # It ended somewhere between two documents; up to the last that has brought a match, it was
        # there.
        reached = max((number for number, key in found if key in log), default=0)
        assert reached <= hardly, f"{own} has found something after it was dropped"
        sure |= {key for number, key in found if number <= max(surely, reached)}
    lost, extra = sure - log.keys(), log.keys() - sure - maybe
    if lost:
        concerned = [own for own in registrations if own.id in {key.query for key in lost}]
        raise AssertionError(
            f"lost, {len(lost)} of {len(sure)}: {sorted(lost)[:3]}, registered: {concerned}"
        )
    assert not extra, f"no matches, {len(extra)} of {len(log)}: {sorted(extra)[:3]}"
    left = maybe & log.keys()
    assert not left, f"dropped, and still in the log: {sorted(left)[:3]}"
    return maybe


def _ended(evidence: Evidence, own: Registration) -> tuple[int, int]:
    """Of a subscription that was dropped: the last document that it has seen for sure, and the last
    that it can have seen."""
    if own.dropped is None:
        return _END, _END
    seen, unseen = [0], [_END]
    for at, name in evidence.accepted.numbers:
        number = evidence.state.numbers.get(name)
        if number is not None and at <= own.surely:
            seen.append(number)
        if number is not None and at > own.hardly:
            unseen.append(number)
    return max(seen), min(unseen) - 1


def _received(evidence: Evidence, log: dict[Key, Delivered], maybe: set[Key]) -> None:
    """Each receiver has what is in the log; beside it only what was dropped meanwhile."""
    derived = {
        d["id"]: f"{d['query']}({', '.join(part['id'] for part in d['documents'])})"
        for d in log.values()
        if d["stream"]
    }
    every = {delivered["id"]: delivered for delivered in log.values()}
    for box in evidence.boxes:
        _box(box, every, maybe, derived)
    for id in {d["query"] for d in every.values()} - _STANDING if evidence.own else ():
        assert id in evidence.own, f"the webhook of {id} has got nothing"
    for id, box in evidence.own.items():
        _box(box, {key: d for key, d in every.items() if d["query"] == id}, maybe, derived)


def _box(box: Box, wanted: dict[str, Delivered], maybe: set[Key], derived: dict[str, str]) -> None:
    lost = wanted.keys() - box.got.keys()
    assert not lost, f"{box.name}: {len(lost)} of {len(wanted)} not received: {sorted(lost)[:3]}"
    for id, delivered in box.got.items():
        if id in wanted:
            assert delivered == wanted[id], f"{box.name}: {delivered}, in the log {wanted[id]}"
        else:
            assert _told(delivered, derived) in maybe, f"{box.name}: no match: {delivered}"


def read_file(path: Path) -> Box:
    """What a file channel has written: whole lines, each match once."""
    box = Box(path.name, ordered=True)
    data = path.read_bytes() if path.exists() else b""
    assert not data or data.endswith(b"\n"), f"{path}: a torn line"
    for line in data.splitlines():
        box.add(json.loads(line))
    assert not box.repeated, f"{path}: {box.repeated} lines stand there twice"
    return box


def _same(what: str, wanted: Iterable[Name], got: Iterable[Name]) -> None:
    missing, unknown = set(wanted) - set(got), set(got) - set(wanted)
    assert not missing, f"{what}: {len(missing)} missing: {sorted(missing)[:5]}"
    assert not unknown, f"{what}: {len(unknown)} of nowhere: {sorted(unknown)[:5]}"
