"""What waits for its time is decided together with others: when it comes, and in which order,
changes nothing."""

from __future__ import annotations

from random import Random

import pytest

from broker.pattern.in_order import matchers, noted, takers
from broker.pattern.in_order.ahead import Ahead
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Row
from tests.in_order.sifted import PREFIXES, TEXTS, Offer, offers, row, sifting_all, together
from tests.seeds import seeds

_US = 1_000_000
_QUERIES = 200
_LATENESS = 12 * _US


@pytest.mark.parametrize("seed", range(10))
def test_what_waits_is_taken_in_the_order_of_time(seed: int) -> None:
    random = Random(seed)
    ahead: Ahead[tuple[int, int]] = Ahead()
    left: list[tuple[int, int]] = []
    now = arrival = 0
    for _ in range(200):
        came = []
        for _ in range(random.choice((0, 1, 2, 700))):
            arrival += 1
            came.append((now + random.randrange(1, random.choice((3, 5_000))), arrival))
        ahead.add(sorted(came))
        left = sorted([*left, *came])
        assert sorted(ahead) == left
        assert ahead.first == (left[0][0] if left else 1 << 62)
        now += random.choice((0, 1, 300))
        due = [each for each in left if each[0] <= now]
        left = left[len(due) :]
        assert ahead.take(now) == due
        assert bool(ahead) == bool(left)
        if random.random() < 0.1:
            left = random.sample(left, len(left) // 2)
            left.sort()
            ahead.keep([*left])


def matches(text: str, seed: int, come: list[Offer], lateness: int, values: int) -> list[list[int]]:
    """The matches of queries, of which some are made again of their rows meanwhile."""
    random = Random(seed)
    standing = together(text)
    alive = {n: random.randrange(values) for n in range(_QUERIES)}
    for n in alive:
        standing.join(n, 0)
    channels: dict[tuple[int, int], Channel] = {}
    found: list[list[int]] = []
    had: list[Offer] = []
    highest = 0

    def advance(watermark: int) -> None:
        for owner, published in standing.advance(watermark).items():
            assert published is not None
            found.extend([owner, *[row.doc for row in p.instance.rows]] for p in published)

    while come:
        size = random.choice((1, 60, 120))
        batch, come = come[:size], come[size:]
        for value, tap, made in batch:
            owners = [n for n, own in alive.items() if own == value % values]
            if owners:
                to = channels.setdefault((value % values, tap), Channel(owners))
                standing.offer(to, tap, made)
        had += batch
        highest = max(highest, *[made.end for _, _, made in batch])
        advance(highest - lateness)
        if random.random() < 0.3:
            standing.expire(highest - lateness)
        if random.random() < 0.05:
            again = random.randrange(_QUERIES)
            rows: dict[int, list[Row]] = {}
            for value, tap, made in had:
                if value % values == alive[again]:
                    rows.setdefault(tap, []).append(made)
            standing.again({again: rows}, {})
        if random.random() < 0.2:
            asked = random.randrange(_QUERIES)
            due = [at for at, _ in standing.waiting(asked, Spending(10**9))]
            assert all(at > 2 * (highest - lateness) for at in due)
            assert standing.due() <= min(due, default=1 << 63)
    advance(highest + _US)
    assert standing.due() > 2 * highest
    return sorted(found)


_FOLD = "S/q[./s = 'A'][./p->a] FOLD {{, b {} prev(b, a)}} S/q[./s = 'B'][./p->b] WHERE count(b) {} WITHIN 50 s"
FOLDS = {
    "two falls": _FOLD.format("<", "= 2"),
    "three": _FOLD.format(">=", "= 3"),
    "more": _FOLD.format(">", ">= 3"),
    "some": _FOLD.format("<=", ">= 2 AND count(b) <= 4"),
}
EVERY = TEXTS | PREFIXES | FOLDS


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("first", sorted({*seeds(1, 30), 7}))
def test_what_comes_late_changes_no_match(
    name: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents come in the order of time and are decided one by one, or so late as is allowed and
    are decided in batches."""
    # Each text has another third of what seeds stand for.
    text, seed = EVERY[name], first + [*EVERY].index(name)
    random, values = Random(seed), (200, 200, 20)[seed % 3]
    in_order: list[Offer] = []
    for batch in offers(random, together(text), 1_600):
        in_order += batch
    in_order.sort(key=lambda each: (each[2].end, each[2].doc))
    with monkeypatch.context() as patch:
        patch.setattr(noted, "_MANY", 10**9)
        patch.setattr(matchers, "rising_of", lambda *_: None)
        # What is decided when it starts waits for what ends before.
        one_by_one = matches(text, seed, in_order, 2 * _US, values)
    assert one_by_one or text == PREFIXES["four"]  # of which there are few
    sifted = sifting_all(monkeypatch)
    monkeypatch.setattr(takers, "_STALE", -(10**9))
    monkeypatch.setattr(noted, "MOST", (2_000, 100, 49)[seed % 3])
    delays = [random.choice((0, 0, random.randrange(_LATENESS - 2 * _US))) for _ in in_order]
    late = sorted(range(len(in_order)), key=lambda n: in_order[n][2].end + delays[n])
    assert matches(text, seed, [in_order[n] for n in late], _LATENESS, values) == one_by_one
    assert sifted or values < 200  # where most of what comes is given to queries, none is


def test_rows_of_a_query_that_has_gone_are_dropped_though_some_time_passes_before() -> None:
    """No channel says any more that they were its."""
    standing = together("S/q->a FOLLOWED BY NOT S/q[./s = 'C'] WITHIN 50 s")
    for owner in range(2):
        standing.join(owner, 0)
    first, *_ = sorted(standing.shared.readers)
    for owner in range(2):
        standing.offer(Channel([owner]), first, row(standing, first, 1, 1, 1, 0))
    standing.leave(0)
    standing.expire(0)
    assert sorted(standing.advance(60 * _US)) == [1]
