"""Matching in the order of time changes nothing: what is published and when, and what waits, are
those of the general way, however rows are cut, and after what is known was made again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker.pattern.in_order.standing import InOrder
from broker.pattern.instances import Instance, Row
from broker.pattern.standing import Published, Standing
from broker.query.patterns import PatternQuery
from tests.in_order.generate import pattern, rows
from tests.seeds import seeds

CASES = 60
_LATENESS = 2_000_000


def told(published: Sequence[Published]) -> list[object]:
    """What is published: of several matches of the same documents and nodes one is, whichever."""
    return [(_told(each.instance), each.nodes, each.scope.length) for each in published]


def _told(instance: Instance) -> tuple[object, ...]:
    docs = [row.id for row in instance.rows]
    return (instance.start, instance.end, instance.first, instance.last, docs)


def waits(standing: Standing | InOrder) -> list[tuple[int, list[int]]]:
    """What waits by its documents: of several matches of the same it is not said which one is."""
    return sorted((due, [row.doc for row in each.rows]) for due, each in standing.waiting())


def compare(random: Random, text: str, query: PatternQuery, count: int) -> int:
    """Feed both ways alike; the number of matches."""
    assert query.ordered is not None
    general, ordered = Standing(query.plan, None, 10**9), InOrder(query.ordered, 10**9)
    known: list[tuple[int, Row]] = []
    pending: dict[int, list[Row]] = {}
    highest, matches = -(2**40), 0
    everything = [*rows(random, query.plan, count)]
    for number, (place, row) in enumerate(everything):
        if row.end >= highest - _LATENESS:
            known.append((place, row))
            pending.setdefault(place, []).append(row)
        highest = max(highest, row.end)
        together = number + 1 < len(everything) and everything[number + 1][1].doc == row.doc
        if together or random.random() < 0.4:
            continue
        if random.random() < 0.1:
            for each in (general, ordered):
                seen = [(p, r) for p, r in known if not any(r is q for q in pending.get(p, ()))]
                each.again({p: [r for q, r in seen if q == p] for p, _ in seen})
        watermark = highest - _LATENESS
        wanted = told(general.advance(pending, watermark))
        assert told(ordered.advance(pending, watermark)) == wanted, text
        assert waits(ordered) == waits(general), text
        matches += len(wanted)
        pending = {}
        if random.random() < 0.2:
            general.expire(watermark)
            ordered.expire(watermark)
            kept = query.plan.kept
            if kept is not None:
                known = [(p, r) for p, r in known if r.end >= watermark - kept]
    wanted = told(general.advance(pending, 2**50))
    assert told(ordered.advance(pending, 2**50)) == wanted, text
    assert waits(ordered) == waits(general) == [], text
    return matches + len(wanted)


@pytest.mark.parametrize("start", seeds(4, 100))
def test_the_order_of_time_changes_no_match(start: int) -> None:
    matches, forms = 0, set()
    for seed in range(CASES * start, CASES * (start + 1)):
        random = Random(seed)
        text, query = pattern(random)
        assert query.ordered is not None
        found = compare(random, f"{seed}: {text}", query, 24)
        matches += found
        if found:
            forms.add(query.ordered.form.name)
    assert matches > CASES, "cases without matches say nothing"
    assert forms == {"NEXT", "FOLD", "NOT"}
