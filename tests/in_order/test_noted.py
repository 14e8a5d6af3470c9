"""What comes to very many queries is sifted in batches: the matches are those that are found where
it is looked at one by one, also with documents of the same time, and as queries come and go."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker.pattern.in_order import noted, sifting, takers
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Row
from tests.in_order.sifted import PREFIXES, TEXTS, VALUES, offers, row, sifting_all, together
from tests.seeds import seeds

_US = 1_000_000
_QUERIES = 600


def matches(text: str, seed: int) -> list[object]:
    """The matches of queries that go, one after the other."""
    random = Random(seed)
    standing = together(text)
    alive = {n: random.randrange(VALUES) for n in range(_QUERIES)}
    for n in alive:
        standing.join(n, 0)
    channels: dict[tuple[int, int], Channel] = {}
    found: list[object] = []
    for batch in offers(random, standing, 2_500):
        if random.random() < 0.2:
            gone = random.choice([*alive])
            value = alive.pop(gone)
            channels = {key: channel for key, channel in channels.items() if key[0] != value}
            standing.leave(gone)
        for value, tap, made in batch:
            owners = [n for n, own in alive.items() if own == value]
            if owners:
                standing.offer(channels.setdefault((value, tap), Channel(owners)), tap, made)
        latest = max([made.end for _, _, made in batch])
        decided = standing.advance(latest - random.choice((0, 0, _US)))
        for owner, published in sorted(decided.items()):
            assert published is not None
            found += [(owner, [each.doc for each in p.instance.rows]) for p in published]
        if random.random() < 0.2:
            standing.expire(latest - _US)
    return found


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_sifted_loses_no_match(
    text: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(noted, "_MANY", 10**9)
        one_by_one = matches(text, seed)
    assert one_by_one
    assert matches(text, seed) == one_by_one
    sifted = sifting_all(monkeypatch)
    assert matches(text, seed) == one_by_one
    assert sum(sifted) > 100


def with_one_prefix(text: str, seed: int, shares: bool) -> tuple[list[object], int]:
    """The matches of queries of which many have the same first blocks, and few the same last one,
    as queries come, go, are made again of their rows, and decide one after the other; and how many
    prefixes there were."""
    random = Random(seed)
    standing = together(text)
    of = standing._noted
    assert of is not None
    of.shares = of.shares and shares
    last = next(tap for tap, of_it in standing.shared.readers.items() if of_it.place == of.last)
    prefixes, values, count = 3, 20, 0
    alive: dict[int, tuple[int, int]] = {}
    since: dict[int, int] = {}
    channels: dict[tuple[int, int], Channel] = {}
    came: list[tuple[int, int, Row]] = []
    found: list[object] = []
    watermark = 0

    def come() -> None:
        nonlocal count
        number = count
        count += 1
        alive[number] = (random.randrange(prefixes), random.randrange(values))
        since[number] = len(came)
        standing.join(number, 0)
        channels.clear()

    def takes(query: int, tap: int, value: int) -> bool:
        first, own = alive[query]
        return value % values == own if tap == last else value % prefixes == first

    for _ in range(40):
        come()
    for batch in offers(random, standing, 400):
        for value, tap, made in batch:
            came.append((value, tap, made))
            kind = value % (values if tap == last else prefixes)
            owners = [n for n in alive if takes(n, tap, value)]
            if owners:
                standing.offer(channels.setdefault((kind, tap), Channel(owners)), tap, made)
        latest = max([made.end for _, _, made in batch])
        watermark = max(watermark, latest - random.choice((0, 0, _US)))
        one_by_one = random.random() < 0.1
        decided = standing.advance(watermark, (lambda _: True) if one_by_one else None)
        for owner, published in sorted(decided.items()):
            assert published is not None
            found += sorted([owner, *[r.doc for r in p.instance.rows]] for p in published)
        assert [*of._ends] == sorted(of._ends)
        chance = random.random()
        if chance < 0.1:
            come()
        elif chance < 0.2:
            gone = random.choice([*alive])
            standing.leave(gone)
            del alive[gone]
            channels.clear()
        elif chance < 0.3:
            again = random.choice([*alive])
            rows: dict[int, list[Row]] = {}
            for value, tap, made in came[since[again] :]:
                if takes(again, tap, value):
                    rows.setdefault(tap, []).append(made)
            standing.again({again: rows}, {})
        elif chance < 0.5:
            standing.expire(watermark)
        elif chance < 0.6:
            asked = random.choice([*alive])
            waits = standing.waiting(asked, Spending(10**9))
            found.append([asked, sorted([[r.doc for r in w.rows] for _, w in waits])])
    return found, of.prefixes.count()


@pytest.mark.parametrize("text", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("seed", seeds(3, 30))
def test_what_waits_is_made_once_for_a_prefix(
    text: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text.replace("50 s", ("20 s", "50 s")[seed % 2])
    each_for_itself, none = with_one_prefix(text, seed, shares=False)
    for module in (sifting, takers) if seed % 3 else ():
        monkeypatch.setattr(module, "LARGE", 5)
    if seed % 3 == 2:
        monkeypatch.setattr(noted, "_MANY", 8)
        monkeypatch.setattr(sifting, "_CONCERN", 0)
    shared, some = with_one_prefix(text, seed, shares=True)
    assert each_for_itself
    assert shared == each_for_itself
    assert some > none == 0


@pytest.mark.parametrize("goes", [False, True], ids=["made again", "gone"])
def test_what_has_come_and_is_not_looked_at_comes_once(goes: bool) -> None:
    """One of two queries is made again of its rows, or goes, when the first one has come."""
    standing = together(TEXTS["NEXT"])
    for n in (0, 1):
        standing.join(n, 0)
    first, second = Channel([0, 1]), Channel([1] if goes else [0, 1])
    standing.advance_to(0)
    begun = row(standing, 0, 1, 1, 1, 5)
    standing.offer(first, 0, begun)
    if goes:
        standing.leave(0)
    else:
        standing.again({0: {0: [begun]}}, {})
    standing.offer(second, 1, row(standing, 1, 2, 2, 2, 7))
    found = {owner: len(each or ()) for owner, each in standing.advance(2 * _US).items()}
    assert found == ({1: 1} if goes else {0: 1, 1: 1})


def test_what_came_of_a_second_is_taken_whenever_it_comes_to_a_query() -> None:
    """All documents of one second are the next one; a query has those that come behind its own
    document before its next one, whatever was dropped meanwhile."""
    standing = together(PREFIXES["chain"])
    standing.join(0, 0)
    channels = [Channel([0]) for _ in standing.shared.readers]
    found = []
    came = [[(0, 12, 1), (1, 13, 4), (2, 13, 0)], [(1, 13, 4)], [(1, 14, 4)], [(2, 15, 0)]]
    number = 0
    for batch in came:
        for tap, at, price in batch:
            number += 1
            standing.offer(channels[tap], tap, row(standing, tap, number, at, at, price))
        for each in standing.advance(batch[-1][1] * _US).get(0) or ():
            found.append([of.doc for of in each.instance.rows])
        standing.expire(batch[-1][1] * _US)
    assert found == [[1, 2, 6], [1, 4, 6]]


def test_an_iteration_that_ends_takes_another_document_of_that_time() -> None:
    """What is over is dropped in between, and what may still come is not."""
    standing = together("S/q[./p->a] FOLD {, b < prev(b, a)} S/q[./p->b]")
    standing.join(0, 0)
    begins, goes_on = sorted(standing.shared.readers)
    of_it = Channel([0])
    found = []
    for number, (tap, at, price) in enumerate([(begins, 1, 5), (goes_on, 2, 7), (goes_on, 2, 3)]):
        standing.offer(of_it, tap, row(standing, tap, number, at, at, price))
        found.append(len(standing.advance(at * _US).get(0) or ()))
        standing.expire(at * _US)
        of_it = Channel([0])
    assert found == [0, 0, 1]


def test_a_document_of_which_another_version_came_does_not_hide_what_goes_on_with_that() -> None:
    """It was noted for a query that is made again of other rows."""
    standing = together(
        "S/q[./s = 'A'][./p->a] FOLD {, b > prev(b, a)} S/q[./s = 'B'][./p->b]"
        " WHERE count(b) = 2 WITHIN 50 s"
    )
    standing.join(0, 0)
    begins, goes_on = Channel([0]), Channel([0])
    begun = row(standing, 0, 1, 1, 1, 5)
    standing.offer(begins, 0, begun)
    standing.offer(goes_on, 1, row(standing, 1, 2, 2, 2, 9))
    assert not standing.advance(2 * _US)
    standing.again({0: {0: [begun], 1: [row(standing, 1, 2, 2, 2, 7)]}}, {})
    standing.offer(goes_on, 1, row(standing, 1, 3, 3, 3, 8))
    published = standing.advance(3 * _US)[0]
    assert published is not None
    (found,) = published
    assert [each.doc for each in found.instance.rows] == [1, 2, 3]


@pytest.mark.parametrize("tied", ["a", "b"])
def test_a_chain_whose_documents_have_one_value_is_found_whatever_other_values_ended(
    tied: str,
) -> None:
    """What comes of one value is noted until a document for the last block has it; until then a
    document of another value may have come to the query."""
    standing = together(
        "S/q[./s = 'A'][./p->a] NEXT {b = a, 50 s} S/q[./s = 'C'][./p->b]"
        f" NEXT {{c = {tied}, 50 s}} S/q[./s = 'B'][./p->c]"
    )
    standing.join(0, 0)
    channels = [Channel([0]) for _ in standing.shared.readers]
    came = [(0, 1, 5), (0, 1, 7), (1, 2, 5), (1, 2, 7), (2, 3, 7), (2, 4, 5)]
    found = []
    for number, (tap, at, price) in enumerate(came):
        standing.offer(channels[tap], tap, row(standing, tap, number, at, at, price))
        for each in standing.advance(at * _US).get(0) or ():
            found.append([of.doc for of in each.instance.rows])
    assert found == [[1, 3, 4], [0, 2, 5]]


@pytest.mark.parametrize("many", [1, 48], ids=["in columns", "one by one"])
def test_documents_of_one_time_follow_the_same_whenever_they_come(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one of them follows is spent for what comes later, also where so much is noted then that
    it is left to the matcher, and when somebody has asked what the query waits for."""
    monkeypatch.setattr(noted, "_MANY", many)
    standing = together(TEXTS["NEXT"])
    standing.join(0, 0)
    channels = [Channel([0]) for _ in range(2)]
    found = []
    number = 0
    batches = [
        *([(0, 1, 5)], [(1, 2, 7)], [(0, 2, 90)] * 9, [(1, 2, 8)], [(1, 2, 4)], [(1, 3, 9)]),
        *([(0, 4, price) for price in range(20)], [(1, 5, 3)], [(1, 5, 1), (1, 5, 12)]),
        *([(1, 6, 14)], [(0, 6, 1), (1, 6, 30)], [(1, 7, 2)]),
    ]
    for batch in batches:
        for tap, at, price in batch:
            standing.offer(channels[tap], tap, row(standing, tap, number, at, at, price))
            number += 1
        decided = standing.advance(batch[-1][1] * _US).get(0) or ()
        found.append(sorted([r.doc for r in each.instance.rows] for each in decided))
        standing.expire(batch[-1][1] * _US)
        if number > 2:  # when it is asked first, what one document followed is spent
            assert not [*standing.waiting(0, Spending(10**9))]
    first = 14
    last = first + 20
    assert found == [
        *([], [[0, 1]], [], [[0, 11]], [], [], []),
        [[first + price, last] for price in range(3)],
        sorted([[first, last + 1], *[[first + price, last + 2] for price in range(12)]]),
        [[first + price, last + 3] for price in range(12, 14)],
        [[first + price, last + 5] for price in range(12, 20)],
        [[last + 4, last + 6]],
    ]


@pytest.mark.parametrize("many", [1, 48], ids=["in columns", "one by one"])
def test_a_document_follows_no_version_of_itself(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noted, "_MANY", many)
    standing = together(TEXTS["NEXT"])
    standing.join(0, 0)
    channels = [Channel([0]) for _ in range(2)]
    found = []
    for number, (tap, key) in enumerate([(0, 7), (1, 7), (1, 8), (1, 9)]):
        made = row(standing, tap, number, number + 1, number + 1, number)
        standing.offer(channels[tap], tap, replace(made, key=key))
        decided = standing.advance((number + 1) * _US).get(0) or ()
        found.append([[r.doc for r in each.instance.rows] for each in decided])
    assert found == [[], [], [[0, 2]], []]


@pytest.mark.parametrize("many", [1, 48], ids=["in columns", "one by one"])
def test_what_a_query_was_made_again_without_is_not_paired(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document has come, and is decided later; one of two queries does not have it any more."""
    monkeypatch.setattr(noted, "_MANY", many)
    standing = together(TEXTS["NEXT"])
    channels = [Channel([0, 1]) for _ in range(2)]
    for owner in (0, 1):
        standing.join(owner, 0)
    standing.advance_to(0)
    standing.offer(channels[0], 0, row(standing, 0, 1, 1, 1, 5))
    standing.again({0: {}}, {})
    assert not standing.advance(_US)
    for number in (2, 3):
        standing.offer(channels[1], 1, row(standing, 1, number, number, number, 7))
        decided = standing.advance(number * _US)
        found = {
            owner: [[r.doc for r in each.instance.rows] for each in published or ()]
            for owner, published in decided.items()
        }
        assert found == ({1: [[1, 2]]} if number == 2 else {})


def test_a_chain_goes_on_with_what_is_noted_after_its_window_for_that_is_over() -> None:
    """The document for the third block came in time, and comes to the query before its next one for
    the last block."""
    standing = together(
        "(S/q->a[./s = 'A'] NEXT {2 s} S/q->b[./s = 'B']) NEXT {4 s} S/q->c[./s = 'C']"
        " NEXT {3 s AFTER} S/q->d[./s = 'D']"
    )
    standing.join(0, 0)
    channels = [Channel([0]) for _ in standing.shared.readers]
    for number, (tap, at) in enumerate([(0, 10), (1, 12), (3, 13), (2, 14)]):
        standing.offer(channels[tap], tap, row(standing, tap, number, at, at, 0))
    assert standing.advance(15 * _US) == {}
    standing.expire(15 * _US)
    standing.offer(channels[3], 3, row(standing, 3, 4, 16, 16, 0))
    found = standing.advance(16 * _US).get(0) or ()
    assert [[of.doc for of in each.instance.rows] for each in found] == [[0, 1, 3, 4]]


def test_queries_that_decide_one_by_one_for_a_while_have_their_matches() -> None:
    """What waits for a query by itself is not what waits for the prefix that it has otherwise."""
    standing = together(
        "S/q[./p->a] FOLLOWED BY NOT S/q FOLLOWED BY {b > a} S/q[./p->b] WITHIN 9 s"
    )
    for n in (0, 1):
        standing.join(n, 0)
    first, last = Channel([0, 1]), Channel([0, 1])
    found: list[tuple[int, int]] = []

    def come(*rows: Row, until: int, one_by_one: bool) -> None:
        for each in rows:
            standing.offer(first if each.doc == 0 else last, 0 if each.doc == 0 else 2, each)
        decided = standing.advance(until * _US, (lambda _: True) if one_by_one else None)
        for owner, published in decided.items():
            found.extend((owner, each.instance.rows[-1].doc) for each in published or ())

    begun, answer = row(standing, 0, 0, 10, 10, 5), row(standing, 2, 1, 11, 11, 7)
    come(begun, answer, until=11, one_by_one=True)
    come(row(standing, 2, 2, 10, 12, 3), until=11, one_by_one=False)
    come(row(standing, 2, 3, 12, 13, 7), until=12, one_by_one=True)
    assert found == [(0, 1), (1, 1), (0, 3), (1, 3)]
