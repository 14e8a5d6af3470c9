"""Compares the actual matches with the expected ones: none lost, none twice, none that is wrong.

The documents are numbered by the engine, and subscriptions count from numbers. So what is expected
of a subscription is the oracle's answer for the documents between the numbers that were told to its
owner; that all documents are there, in the order in which they were accepted, is looked at first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from lxml import etree

from tests.crash.actors import Accepted
from tests.crash.desk import Desk, Registration
from tests.crash.expected import END, Expected, Hit, Key, Name
from tests.crash.mails import EVERY, Digest
from tests.crash.queries import NAMES, PATTERN_NAMES, PATTERNS, PERMANENT, STANDING
from tests.crash.receivers import Box, Delivered
from tests.crash.state import State
from tests.crash.throttled import left_out
from tests.crash.versions import Versions
from tests.crash.world import World
from tests.oracle.trees import canonical

_MINUTE = 60_000_000
Entries = dict[int, tuple[Key, Delivered]]
"""Of the log, by place."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is when all is over. `log`: all matches, `letters`: the documents kept aside,
    `events`: what owners were told; `throttled`: by subscription, how many matches were left out;
    `lives`: where processes began; `boxes`: by receiver, of all subscriptions; `own`: of single
    ones."""

    world: World
    accepted: Accepted
    desk: Desk
    state: State
    log: list[Delivered]
    letters: list[dict[str, Any]]
    events: list[dict[str, Any]]
    throttled: Mapping[str, int]
    lives: Sequence[int]
    boxes: Sequence[Box] = ()
    own: Mapping[str, Box] | None = None
    digests: Sequence[Digest] | None = None


def judge(evidence: Evidence) -> dict[str, int]:
    """Raises AssertionError with what is wrong; else how much there was of everything."""
    assert not evidence.state.undelivered, "matches are left in the outbox"
    missed = [e["text"] for e in evidence.events if e["kind"].startswith("state.")]
    assert not missed, f"no file has lost anything, but it was told: {missed}"
    numbers = _documents(evidence)
    versions = Versions(evidence.world, evidence.accepted, numbers, evidence.log)
    expected = Expected(evidence.world.docs, numbers, versions, evidence.lives)
    log = _log(evidence.log)
    maybe, left = _matches(evidence, expected, log)
    suspended = _suspensions(evidence)
    _received(evidence, log, maybe)
    registrations = [*evidence.desk.past, *evidence.desk.now.values()]
    return {
        "documents": len(numbers),
        "matches": len(log),
        "of patterns": sum(d["query"] in PATTERN_NAMES for _, d in log.values()),
        "letters": len(evidence.letters),
        "registrations": len(registrations),
        "of history": sum(own.history[1] for own in registrations if own.history),
        "suspended": suspended,
        "left out": left,
        "edited": versions.edited(),
        "digests": len(evidence.digests or ()),
        "repeated": sum(b.repeated for b in [*evidence.boxes, *(evidence.own or {}).values()]),
    }


def _documents(evidence: Evidence) -> dict[Name, int]:
    """Every document that was accepted or shown is there, as it was shown last, and no other; their
    numbers."""
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
    last = evidence.world.latest()
    texts = evidence.state.texts
    old = [name for name in good if name in texts and texts[name] != last[name].xml]
    assert not old, f"{len(old)} documents are not as they were shown last: {old[:3]}"
    return numbers


def _log(log: Sequence[Delivered]) -> Entries:
    """The log, and what its matches are."""
    places = [delivered["n"] for delivered in log]
    assert places == sorted(set(places))
    derived = {
        d["id"]: f"{d['query']}({', '.join(part['id'] for part in d['documents'])})"
        for d in log
        if d["stream"]
    }
    return {delivered["n"]: (_told(delivered, derived), delivered) for delivered in log}


def _told(delivered: Delivered, derived: Mapping[str, str]) -> Key:
    documents = tuple(
        (derived.get(d["id"], d["id"]), d["timestamp"]) for d in delivered["documents"]
    )
    return Key(delivered["query"], documents, canonical(etree.fromstring(delivered["result"])))


# -- the log -------------------------------------------------------------------------------------


def _matches(evidence: Evidence, expected: Expected, log: Entries) -> tuple[set[Key], int]:
    """The log is what the oracle says. Returns what may have been delivered beside it: what was
    pending when a subscription was dropped with it; and how many matches throttles left out."""
    (begun,) = {evidence.desk.now[id].first for id in NAMES}
    standing = Counter(key for key, delivered in log.values() if delivered["query"] in NAMES)
    wanted = Counter(hit.key for hit in expected.of(STANDING, begun))
    _equal("the standing queries", wanted, standing)
    waited = Counter(key for key, delivered in log.values() if delivered["query"] in PATTERN_NAMES)
    _equal("the event patterns", Counter(expected.of_patterns(PATTERNS)), waited)
    maybe: set[Key] = set()
    left = 0
    ids = {own.id for own in [*evidence.desk.past, *evidence.desk.now.values()]}
    unknown = {delivered["query"] for _, delivered in log.values()} - ids
    assert not unknown, f"matches of nobody: {unknown}"
    for id in ids.difference(PERMANENT):
        begin = 0
        for chain in evidence.desk.chains(id):
            end = END if chain[-1].last is None else chain[-1].last
            own = {
                place: entry
                for place, entry in log.items()
                if entry[1]["query"] == id and begin < place <= end
            }
            begin = end
            if chain[-1].dropped == "drop":
                assert not own, f"dropped, and still in the log: {list(own.values())[:3]}"
                maybe |= _before(evidence, expected, chain)
            else:
                left += _chain(evidence, expected, chain, own)
    return maybe, left


def _before(evidence: Evidence, expected: Expected, chain: Sequence[Registration]) -> set[Key]:
    """What a subscription may have found before it was dropped."""
    return {
        hit.key
        for own in chain
        for hit in expected.during(own)
        if hit.number <= _ended(evidence, own)[1]
    }


def _chain(
    evidence: Evidence, expected: Expected, chain: Sequence[Registration], own: Entries
) -> int:
    """What was found under one name between two times at which it was dropped: registrations each
    of which took the place of the one before it. Returns how many matches its throttle left out."""
    found = Counter(key for key, _ in own.values())
    ids = {delivered["id"] for _, delivered in own.values()}
    assert len(own) == len(ids), f"{chain[0].id}: a match is there twice"
    sure: dict[tuple[str, ...], Hit] = {}
    perhaps = 0
    for registration in chain:
        hits = list(expected.during(registration))
        _history(evidence, expected, registration)
        surely, hardly = _ended(evidence, registration)
        # It ended somewhere between two documents; up to the last that has brought a match, it was
        # there.
        reached = max((hit.number for hit in hits if hit.key in found), default=0)
        assert reached <= hardly, f"{registration} has found something after it was dropped"
        for hit in hits:
            if hit.number <= max(surely, reached):
                # Found again in history, it is no news.
                sure.setdefault(hit.which(registration.text), hit)
            else:
                # A throttle may have left it out, and an earlier document's match may say so: what
                # one batch finds is taken in the order of the matches' ends.
                perhaps += hit.number <= hardly
    wanted = Counter(hit.key for hit in sure.values())
    throttle, out = chain[-1].throttle, Counter[Key]()
    if throttle is not None:
        told = evidence.throttled[chain[-1].id] if chain[-1].dropped is None else None
        out = left_out(throttle, sure.values(), own, told, perhaps)
    _equal(f"{chain}", wanted - out, found)
    return out.total()


def _history(evidence: Evidence, expected: Expected, own: Registration) -> None:
    """It began at the document that is told, and what was told of history is so."""
    if own.reach is None:
        return
    ends = {number: end for number, end in evidence.state.ends.items() if number < own.past.doc}
    since = max(ends.values(), default=0) - own.reach * _MINUTE
    first = min((number for number, end in ends.items() if end >= since), default=own.past.doc)
    assert own.first == first, f"it begins at {first}: {own}"
    if own.history is not None:
        hits = list(expected.of(own.text, own.first, own.past.doc, own.past))
        assert own.history == (own.past.doc - own.first, len(hits)), (
            f"{len(hits)} in history: {own}"
        )


def _ended(evidence: Evidence, own: Registration) -> tuple[int, int]:
    """Of a subscription that was dropped: the last document that it has seen for sure, and the last
    that it can have seen."""
    if own.dropped is None:
        return END, END
    seen, unseen = [0], [END]
    for at, name in evidence.accepted.numbers:
        number = evidence.state.numbers.get(name)
        if number is not None and at <= own.surely:
            seen.append(number)
        if number is not None and at > own.hardly:
            unseen.append(number)
    return max(seen), min(unseen) - 1


def unreported(desk: Desk, events: list[dict[str, Any]]) -> list[Registration]:
    """The registrations that were suspended more often than their owners were told."""
    told = _times_told(events)
    return [
        own
        for id, own in desk.now.items()
        if told[id] < sum(gap.status == "suspended" for gap in own.gaps)
    ]


def _times_told(events: list[dict[str, Any]]) -> Counter[str]:
    """By subscription, how often its owner was told that it was suspended."""
    return Counter(
        event["subscription"] for event in events if event["kind"] == "subscription.suspended"
    )


def _suspensions(evidence: Evidence) -> int:
    """Owners hear of each suspension, once or again, and of no other; how often they did."""
    told = _times_told(evidence.events)
    limited = {own.id for own in [*evidence.desk.past, *evidence.desk.now.values()] if own.limit}
    assert told.keys() <= limited, f"suspended without a limit: {told.keys() - limited}"
    silent = unreported(evidence.desk, evidence.events)
    assert not silent, f"told {dict(told)}: {silent}"
    return told.total()


# -- receivers -----------------------------------------------------------------------------------


def _received(evidence: Evidence, log: Entries, maybe: set[Key]) -> None:
    """Each receiver has what is in the log; beside it only what was dropped meanwhile."""
    derived = {
        d["id"]: f"{d['query']}({', '.join(part['id'] for part in d['documents'])})"
        for _, d in log.values()
        if d["stream"]
    }
    every = {n: delivered for n, (_, delivered) in log.items()}
    for box in evidence.boxes:
        _box(box, every, maybe, derived)
    if evidence.own is not None:
        for id in {d["query"] for d in every.values()}.difference(PERMANENT):
            assert id in evidence.own, f"the webhook of {id} has got nothing"
        for id, box in evidence.own.items():
            _box(box, {n: d for n, d in every.items() if d["query"] == id}, maybe, derived)
    if evidence.digests is not None:
        _mailed(evidence, every)


def _box(
    box: Box, wanted: Mapping[int, Delivered], maybe: set[Key], derived: Mapping[str, str]
) -> None:
    lost = wanted.keys() - box.got.keys()
    assert not lost, f"{box.name}: {len(lost)} of {len(wanted)} not received: {sorted(lost)[:3]}"
    for n, delivered in box.got.items():
        if n in wanted:
            assert delivered == wanted[n], f"{box.name}: {delivered}, in the log {wanted[n]}"
        else:
            assert _told(delivered, derived) in maybe, f"{box.name}: no match: {delivered}"


def _mailed(evidence: Evidence, every: Mapping[int, Delivered]) -> None:
    """Who throws away what has come under its id has each match, in the order of the log; and gets
    a mail once a period, but for one that is sent again."""
    places: dict[str, int] = {delivered["id"]: n for n, delivered in every.items()}
    digests = evidence.digests or ()
    got = dict.fromkeys(id for digest in digests for id in digest.matches)
    assert not places.keys() - got, f"not mailed: {places.keys() - got}"
    # What was dropped since has been in the log as well, and nobody else has got it from there.
    known = places.keys() | {d["id"] for box in evidence.boxes for d in box.got.values()}
    dropped = {own.id for own in evidence.desk.past if own.dropped == "drop"}
    unknown = got.keys() - known
    said = [d.text for d in digests if not unknown.isdisjoint(d.matches)]
    assert not unknown, f"mailed, and no matches: {unknown}; dropped: {dropped}; in {said}"
    # Who is registered again may find again what was mailed, and then perhaps dropped from the log.
    once = Counter(d["id"] for d in every.values() if d["query"] not in dropped)
    order = [places[id] for id in got if once[id] == 1]
    assert order == sorted(order), "mailed out of order"
    for before, digest in pairwise(digests):
        again = not {*digest.matches}.isdisjoint(before.matches)
        assert again or (digest.at - before.at) * 1_000_000 >= EVERY, f"{digest} after {before}"


def read_file(path: Path) -> Box:
    """What a file channel has written: whole lines, each match once."""
    box = Box(path.name, ordered=True)
    data = path.read_bytes() if path.exists() else b""
    assert not data or data.endswith(b"\n"), f"{path}: a torn line"
    for line in data.splitlines():
        box.add(json.loads(line))
    assert not box.repeated, f"{path}: {box.repeated} lines stand there twice"
    return box


def _equal(whose: str, wanted: Counter[Key], found: Counter[Key]) -> None:
    lost, extra = wanted - found, found - wanted
    assert not lost, f"lost, {lost.total()} of {wanted.total()}: {sorted(lost)[:3]}, of {whose}"
    assert not extra, (
        f"no matches, {extra.total()} of {found.total()}: {sorted(extra)[:3]}, of {whose}"
    )


def _same(what: str, wanted: Iterable[Name], got: Iterable[Name]) -> None:
    missing, unknown = set(wanted) - set(got), set(got) - set(wanted)
    assert not missing, f"{what}: {len(missing)} missing: {sorted(missing)[:5]}"
    assert not unknown, f"{what}: {len(unknown)} of nowhere: {sorted(unknown)[:5]}"
