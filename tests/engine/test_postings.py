"""Posting lists and signatures give the same results as comparing all pairs of documents, with and
without hot values."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from broker.join.frequent import Sizes
from broker.join.pair_query import Plan
from broker.join.postings import Postings
from broker.join.records import Layout, Record
from broker.join.signatures import Signatures
from broker.join.time_lists import flatten, within
from broker.query.canonical import Canonical
from tests.seeds import seeds
from xscl.normal.operators import FollowedBy, Join
from xscl.normal.template import Template

TOP = 100


@cache
def layout(rows: tuple[tuple[int, int, int, int], ...]) -> Layout:
    """Documents with the same rows have one layout, as a `Reader` sees to."""
    return Layout(rows)


def record(r: Random, doc: int, start: int, end: int, variables: int, repeats: bool) -> Record:
    """A document with some of the variables, each below one node, and few different values."""
    rows: list[tuple[int, int, int, int]] = []
    codes = []
    for variable in range(1, variables + 1):
        for _ in range(r.choice((0, 1, 1, 2)) if repeats else r.choice((0, 1, 1, 1))):
            rows.append((TOP, variable, 0, len(rows) + 1))
            codes.append(r.choice((0, 11, 11, 12, 13, 14)))
    return Record(doc, doc, start, end, layout(tuple(rows)), tuple(codes))


def plan(r: Random, number: int, variables: int) -> Plan:
    """A query of one to three joins between distinct leaves."""
    k = r.randint(1, min(3, variables))
    lefts = r.sample(range(1, variables + 1), k)
    rights = r.sample(range(1, variables + 1), k)
    nodes = [(0, None), *[(0, 0)] * k, (1, None), *[(1, k + 1)] * k]
    joins = tuple((i + 1, i + k + 2) for i in range(k))
    shape = Template(tuple(nodes), joins, r.choice((FollowedBy, Join))(0, 1))
    own = (TOP, *lefts, TOP, *rights)
    made = Plan(Canonical(number, 0, own, frozenset((0, k + 1)), (), (), (), ()), shape)
    made.window = r.choice((0, 3, 10, 2**62))
    return made


def satisfied(made: Plan, left: Record, right: Record) -> bool:
    """Whether a pair satisfies the joins, the order and the window of a query."""
    codes = [
        {
            v: {c for row, w in enumerate(d.layout.variables) if w == v and (c := d.codes[row])}
            for v in d.layout.variables
        }
        for d in (left, right)
    ]
    joined = all(codes[0].get(u, set()) & codes[1].get(v, set()) for u, v in made.pairs())
    length = max(left.end, right.end) - min(left.start, right.start)
    follows = not made.ordered or left.end < right.start
    return joined and length <= made.window and follows


def told(lists: Postings, new: Record) -> Counter[tuple[int, int, bool]]:
    found: Counter[tuple[int, int, bool]] = Counter()
    for verdict, right, olds in flatten(lists.probe(new)):
        for ordered, plans, window in verdict.orders:
            for old in within(olds, new, right, window, ordered):
                for each in plans:
                    if each.admits(*((old, new) if right else (new, old))):
                        found[each.canonical.number, old.doc, right] += 1
    return found


@pytest.mark.parametrize("hot", [2, 3, 8])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("seed", seeds(4, 25))
def test_a_probe_tells_what_comparing_all_pairs_would(seed: int, repeats: bool, hot: int) -> None:
    r = Random(f"{seed} {repeats} {hot}")
    variables = r.randint(2, 5)
    signatures = Signatures()
    # With these, lists become long, are shortened, and become long again, within a few documents.
    crowd, longer = r.choice((1, 2, 64)), r.choice((2, 3))
    lists = Postings(signatures, Sizes(hot, crowd, longer))
    plans: dict[int, Plan] = {}
    live: dict[int, Record] = {}
    for doc in range(1, 60):
        if r.random() < 0.25:
            number = len(plans) + doc * 100
            plans[number] = plan(r, number, variables)
            signatures.add([plans[number]])
        if plans and r.random() < 0.08:
            signatures.remove(plans.pop(r.choice(list(plans))))
        if live and r.random() < 0.15:
            gone = r.sample(list(live), r.randint(1, min(4, len(live))))
            lists.remove([*gone, 10_000])
            for each in gone:
                del live[each]
        start = doc // 2 if r.random() < 0.7 else r.randint(0, 40)
        length = 0 if r.random() < 0.8 else r.randint(0, 4)
        new = record(r, doc, start, start + length, variables, repeats)
        expected = Counter(
            (number, old.doc, right)
            for number, each in plans.items()
            for old in live.values()
            for right in (True, False)
            if satisfied(each, *((old, new) if right else (new, old)))
        )
        found = told(lists, new)
        assert found.keys() == expected.keys(), (doc, found - expected, expected - found)
        assert repeats or found == expected
        lists.insert(new)
        live[doc] = new
        assert len(lists._hot._together) <= crowd, "too many lists in common are kept"
    assert len(lists.records) == len(live)


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_the_same_values_meet_the_same_lists_as_lists_come_and_go(seed: int) -> None:
    """Few subscriptions and few values, so that most documents have the hot values of others before
    them; what goes are mostly all documents of a value."""
    r = Random(seed)
    signatures = Signatures()
    lists = Postings(signatures, Sizes(hot=2))
    plans = [plan(r, number, 3) for number in range(1, r.choice((2, 2, 6)))]
    for each in plans:
        each.window = 2**62
        signatures.add([each])
    live: dict[int, Record] = {}
    rows = layout(tuple((TOP, variable, 0, variable) for variable in (1, 2, 3)))
    for doc in range(1, 160):
        if live and r.random() < 0.06:
            value = r.choice((11, 12, 13, 14))
            gone = [d for d, old in live.items() if value in old.codes] or [*live]
            lists.remove(gone[: r.randint(1, len(gone))])
            live = {d: old for d, old in live.items() if d in lists.records}
        codes = tuple(r.choices((11, 12, 13, 14), (9, 5, 2, 1), k=3))
        new = Record(doc, doc, doc, doc, rows, codes)
        expected = Counter(
            (each.canonical.number, old.doc, right)
            for each in plans
            for old in live.values()
            for right in (True, False)
            if satisfied(each, *((old, new) if right else (new, old)))
        )
        assert told(lists, new) == expected, doc
        lists.insert(new)
        live[doc] = new


def test_a_list_that_has_become_short_is_not_taken_for_one_that_has_stayed_long() -> None:
    """The lists of the values 11 and 12 are long first, and of one kind. When there are too many
    intersections, that of 12 is short, and its documents are in none of those made from then on."""
    signatures = Signatures()
    lists = Postings(signatures, Sizes(hot=2, together=1, longer=4))
    for number, other in ((1, 2), (2, 3)):
        nodes = ((0, None), (0, 0), (0, 0), (1, None), (1, 3), (1, 3))
        own = (TOP, 1, other, TOP, 1, other)
        shape = Template(nodes, ((1, 4), (2, 5)), FollowedBy(0, 1))
        made = Plan(Canonical(number, 0, own, frozenset((0, 3)), (), (), (), ()), shape)
        made.window = 2**62
        signatures.add([made])
    rows = layout(tuple((TOP, variable, 0, variable) for variable in (1, 2, 3)))
    both, third = [(11, 20), (12, 20)], [(11, 30)]
    pairs = [both[0]] * 4 + [both[1]] * 3 + third * 4 + both[:1] * 2 + both[1:]
    before: Counter[tuple[int, int]] = Counter()
    for doc, (first, second) in enumerate(pairs, 1):
        alone = 1_000 + doc
        codes = (first, alone, second) if second == 30 else (first, second, alone)
        new = Record(doc, doc, doc, doc, rows, codes)
        assert sum(told(lists, new).values()) == before[first, second], doc
        lists.insert(new)
        before[first, second] += 1
    assert lists._hot._long_at > 1, "no list was shortened"


def test_what_values_in_common_satisfy_is_worked_out_once() -> None:
    signatures = Signatures()
    signatures.add([plan(Random(1), 1, 3)])
    links = frozenset(signatures._by_link)
    found = signatures.needs(links)
    assert found
    assert signatures.needs(links) is found
    signatures.add([plan(Random(2), 2, 3)])
    assert signatures.needs(links) is not found
