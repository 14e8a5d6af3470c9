"""What a document forbids to come behind another one: a later version of that document may still
come there, unless other documents forbid it too."""

from __future__ import annotations

from random import Random

import pytest

from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Row
from broker.pattern.plan import Plan
from broker.pattern.standing import Standing
from broker.query.patterns import pattern_query
from xscl import check, parse

SECOND = 1_000_000
TEXTS = {
    "all": "S/a[./p->p] FOLLOWED BY NOT S/b[./p->q] FOLLOWED BY S/c[./p->r] WITHIN 9 s",
    "by a bound": "S/a[./p->p] FOLLOWED BY {q > p} NOT S/b[./p->q] FOLLOWED BY S/c[./p->r]"
    " WITHIN 9 s",
    "by a tie": "S/a[./s->s] FOLLOWED BY NOT S/b[./s->t] FOLLOWED BY S/c[./s->u]"
    " WHERE s = t AND s = u WITHIN 9 s",
}

Came = tuple[int, Row]
"""A document, and the place of its tap."""

Matches = list[list[int]]
"""The documents of each."""


def planned(text: str) -> tuple[Plan, Shared]:
    (query,) = check([parse(text)]).queries
    pattern = pattern_query(query)
    assert pattern.ordered is not None
    return pattern.plan, pattern.ordered


def came(plan: Plan, tap: int, doc: int, key: int, span: tuple[int, int], value: str) -> Came:
    values = {path: [value] for path in plan.taps[tap].paths}
    start, end = (SECOND * each for each in span)
    return (tap, Row(doc, key, doc, start, end, f"{doc:03}", 1, dict.fromkeys(values, 1), values))


def both(plan: Plan, shared: Shared, batches: list[list[Came]]) -> tuple[Matches, Matches]:
    """What both ways find of documents in batches, up to whose last end all is decided."""
    together, general = Together(shared, 10**9), Standing(plan, None, 10**9)
    together.join(0, 0)
    found, wanted, number = Matches(), Matches(), 0
    for batch in batches:
        arrived: dict[int, list[Row]] = {}
        watermark = max([row.end for _, row in batch])
        for tap, row in batch:
            number += 1
            arrived.setdefault(tap, []).append(row)
            event = shared.readers[tap].read(0, number, row)
            together.extend([] if event is None else [event])
        published = together.advance(watermark).get(0) or []
        found += [[row.doc for row in each.instance.rows] for each in published]
        wanted += [
            [row.doc for row in each.instance.rows] for each in general.advance(arrived, watermark)
        ]
        together.expire(watermark)
    return found, wanted


@pytest.mark.parametrize(("others", "matches"), [([], [[1, 4]]), ([3], [])])
def test_a_later_version_may_come_unless_others_forbid_it(
    others: list[int], matches: Matches
) -> None:
    plan, shared = planned(TEXTS["all"])
    batches = [[came(plan, 0, 1, 1, (1, 1), "1")], [came(plan, 1, 2, 5, (2, 2), "1")]]
    batches += [[came(plan, 1, doc, doc, (3, 3), "1")] for doc in others]
    batches.append([came(plan, 2, 4, 5, (4, 4), "1")])
    assert both(plan, shared, batches) == (matches, matches)


@pytest.mark.parametrize("name", TEXTS)
def test_versions_are_forbidden_as_in_the_general_way(name: str) -> None:
    plan, shared = planned(TEXTS[name])
    some = 0
    for seed in range(60):
        random, batches, doc, now = Random(seed), list[list[Came]](), 0, 0
        while doc < 60:
            batch = []
            for _ in range(random.choice((1, 3, 9))):
                doc, now = doc + 1, now + random.choice((0, 1))
                span, key = (now - random.choice((0, 0, 0, 2)), now), random.randrange(5)
                batch.append(came(plan, random.randrange(3), doc, key, span, random.choice("12")))
            batches.append(batch)
            now += 1
        found, wanted = both(plan, shared, batches)
        assert found == wanted, f"seed {seed}"
        some += len(wanted)
    assert some
