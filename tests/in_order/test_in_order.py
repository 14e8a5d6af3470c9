"""Matching in the order of time changes nothing: what is published and when, and what waits, are
those of the general way, however rows are cut, and after what is known was made again. Queries of
one form are matched together, and each of them takes rows of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from broker.model import UNBOUNDED
from broker.pattern.in_order import noted, sifting, takers
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import ALL
from broker.pattern.in_order.matchers import deferred_of
from broker.pattern.in_order.member import Member
from broker.pattern.in_order.noted import Noted
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Instance, Row
from broker.pattern.published import Published
from broker.pattern.standing import Standing
from broker.pattern.values import Scope
from broker.query.patterns import PatternQuery
from tests.in_order.generate import MAKERS, pattern, rows
from tests.seeds import seeds
from xscl import ast

CASES = 40
QUERIES = 3
ROWS = (12, 20, 24, 30)
WAYS = ("NON OVERLAPPING", "ONE PER START", "OVER ")
"""To look at several matches."""
_LATENESS = 2_000_000
Known = list[tuple[int, Row]]


def told(published: Sequence[Published] | None) -> list[object]:
    """What is published: of several matches of the same documents and nodes one is, whichever."""
    assert published is not None
    return [(_told(each.instance), each.nodes, *_scope(each.scope)) for each in published]


def _scope(scope: Scope) -> tuple[object, ...]:
    """The length of a match, and what its functions range over."""
    windows = {}
    for name in sorted(scope.windowed):
        windows[name] = [None if row is None else row.doc for row in scope.several[name]]
    return (scope.length, windows)


def _told(instance: Instance) -> tuple[object, ...]:
    docs = [row.id for row in instance.rows]
    return (instance.start, instance.end, instance.first, instance.last, docs)


def waits(standing: Standing | Member) -> list[tuple[int, list[int]]]:
    """What waits by its documents: of several matches of the same it is not said which one is."""
    return sorted((due, [row.doc for row in each.rows]) for due, each in standing.waiting())


def left(query: PatternQuery, known: Known, watermark: int) -> list[tuple[int, list[int]]]:
    """What is found among all rows if nothing else comes, and is not decided at the watermark."""
    found = Standing(query.plan, None, 10**9).found(by_tap(known))
    return sorted(
        (each.due, [row.doc for row in each.rows]) for each in found if each.due > 2 * watermark
    )


def by_tap(rows: Known) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for place, row in rows:
        found.setdefault(place, []).append(row)
    return found


def compare(random: Random, text: str, query: PatternQuery, count: int) -> int:
    """Feed both ways alike; the number of matches."""
    assert query.ordered is not None
    since = [random.choice((0, 0, 4)) for _ in range(QUERIES)]
    stored: list[dict[str, int]] = [{} for _ in range(QUERIES)]

    def made() -> Together:
        assert query.ordered is not None
        found = Together(query.ordered, 10**9, lambda n: [*stored[n].items()])
        for n in range(QUERIES):
            found.join(n, since[n])
        return found

    together = made()
    channels: dict[tuple[int, tuple[int, ...]], Channel] = {}
    common: Known = []
    general = [Standing(query.plan, None, 10**9) for _ in range(QUERIES)]
    known: list[Known] = [[] for _ in range(QUERIES)]
    pending: list[Known] = [[] for _ in range(QUERIES)]

    def advance(watermark: int) -> int:
        found = together.advance(watermark, (lambda _: True) if random.random() < 0.5 else None)
        news = dict(together.news())
        matches = 0
        for n, each in enumerate(general):
            wanted = told(each.advance(by_tap(pending[n]), watermark))
            assert told(found.get(n, [])) == wanted, text
            matches += len(wanted)
            pending[n] = []
            assert news.get(n, {}) == each.news(), text
            stored[n].update(news.get(n, {}))
        for n, each in enumerate(general if random.random() < 0.4 else ()):
            waiting = waits(each)
            assert waits(Member(together, n)) == waiting, text
            if not any(way in text for way in WAYS):
                assert waiting == left(query, known[n], watermark), text
        return matches

    highest, matches = -(2**40), 0
    everything = [*rows(random, query.plan, count)]
    whole = len(text) % 2 > 0
    takes: list[int] = []
    knows: list[int] = []
    for number, (place, row) in enumerate(everything):
        if not number or everything[number - 1][1].doc != row.doc:
            knows = [n for n in range(QUERIES) if row.base >= since[n]]
            takes = [n for n in knows if random.random() < 0.7 or whole]
        if row.end >= highest - _LATENESS:
            all_take = place in query.ordered.common
            if all_take:
                common.append((place, row))
            owners = (ALL,) if all_take else tuple(takes)
            if (place, owners) not in channels:
                channels[place, owners] = Channel([*owners])
            together.offer(channels[place, owners], place, row)
            for n in knows if all_take else takes:
                known[n].append((place, row))
                pending[n].append((place, row))
        highest = max(highest, row.end)
        following = number + 1 < len(everything) and everything[number + 1][1].doc == row.doc
        if following or random.random() < 0.4:
            continue
        watermark = highest - _LATENESS
        if random.random() < 0.1:
            matches += advance(watermark)
            renewed = [n for n in range(QUERIES) if random.random() < 0.7]
            for n in renewed:
                revised = random.choice(everything)[1].doc if random.random() < 0.5 else -1
                own_taps = [each for each in known[n] if each[0] not in query.ordered.common]
                gone = [each for each in own_taps if each[1].doc == revised]
                known[n] = [each for each in known[n] if each not in gone]
            own = {
                n: [(p, r) for p, r in known[n] if p not in query.ordered.common] for n in renewed
            }
            if len(renewed) == QUERIES and random.random() < 0.5:  # as after a restart
                together = made()
                channels.clear()
                together.advance_to(watermark)
                for n, marks in enumerate(stored):
                    general[n] = Standing(query.plan, None, 10**9, [*marks.items()])
                    general[n].watermark = watermark
            together.again({n: by_tap(each) for n, each in own.items()}, by_tap(common))
            for n in renewed:
                general[n].again(by_tap(known[n]))
        matches += advance(watermark)
        if random.random() < 0.2:
            together.expire(watermark)
            kept = None if query.retention >= UNBOUNDED else query.retention
            for n, each in enumerate(general):
                each.expire(watermark)
                if kept is not None:
                    known[n] = [(p, r) for p, r in known[n] if r.end >= watermark - kept]
            if kept is not None:
                common = [(p, r) for p, r in common if r.end >= watermark - kept]
    matches += advance(2**50)
    assert not any(waits(Member(together, n)) for n in range(QUERIES)), text
    return matches


@pytest.fixture(params=["one by one", "in columns"])
def sifts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """What comes to many queries is looked at one by one, as it is for few documents, or always in
    columns, a few documents at once; and channels to which nothing comes for a while are always
    forgotten. Whether it is."""
    if request.param == "in columns":
        monkeypatch.setattr(noted, "_MANY", 1)
        monkeypatch.setattr(noted, "MOST", 3)
        monkeypatch.setattr(sifting, "_CONCERN", 0)
        monkeypatch.setattr(sifting, "_HEAT", 0)
        monkeypatch.setattr(takers, "_STALE", -(10**9))
    return bool(request.param == "in columns")


NEVER_NOTED = {"chain of one value", "list", "runs", "last group"}
"""Of all others some are noted in columns."""


@pytest.mark.parametrize("several", [False, True], ids=["each", "several"])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("start", seeds(1, 75))
def test_the_order_of_time_changes_no_match(
    start: int, make: str, several: bool, sifts: bool
) -> None:
    matches: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    for seed in range(CASES * start, CASES * (start + 1)):
        random = Random(seed)
        text, query = pattern(random, MAKERS[make], several=several)
        assert query.ordered is not None
        if sifts and not isinstance(deferred_of(query.ordered), Noted):
            continue  # nothing is looked at in columns, so it is the same as one by one
        count = ROWS[seed % len(ROWS)]
        found = compare(random, f"{seed}: {text}", query, count)
        matches[query.ordered.form.name] += found
        for way in WAYS:
            ways[way] += found * (way in text)
    assert bool(matches) != (sifts and make in NEVER_NOTED)
    if not matches:
        return
    most = CASES // 4 if several else CASES
    some = (
        matches.total() > most
        if make.startswith("chain") or make == "list"
        else all(matches.values())
    )
    assert some, "cases without matches say nothing"
    if make == "runs":
        assert matches.keys() == {*ast.RUNS}
    assert all(ways.values()) if several else not ways.total(), ways
