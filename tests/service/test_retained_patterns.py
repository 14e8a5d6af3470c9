"""Event patterns where documents are kept for less time than their windows are long, or little more."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.service.core.answers import Posted
from tests.seeds import seeds
from tests.service.data import HOUR
from tests.service.desk import Desk

QUERIES = {
    "fold": "S/a[./x->t][./y->p] FOLD {t = s, q < prev(q, p)} S/a[./x->s][./y->q]"
    " WHERE count(q) >= 2 WITHIN 2 hours",
    "not": "S//a[./x->p] FOLLOWED BY {p = q, 40 min} NOT S//b[./x->q]",
    "next": "S//a[./x->p] NEXT {p = q, 2 hours} S//b[./x->q]",
    "join": "S//a[./x->p] JOIN {p = q, 2 hours} S//b[./x->q]",
    "published": "SELECT <c>{p}{s}</c> FROM S//a[./x->p][./y->s] FOLLOWED BY {p = q, 2 hours}"
    " S//b[./x->q] PUBLISH T; r: T//c->c NEXT {2 hours} T//c->d",
}


@pytest.mark.parametrize("name", [*QUERIES])
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_what_is_deleted_is_in_no_match(tmp_path: Path, name: str, seed: int) -> None:
    """Whether it is still remembered or not; and the state can be opened again."""
    random = Random(f"{seed} {name}")
    remembers = random.random() < 0.5
    desk = Desk(tmp_path / "state", remembers=remembers, retention={"documents": "1 h"})
    desk.subscribe(f"q: {QUERIES[name]};")
    clock = desk.core.now() - 50 * HOUR
    for n in range(120):
        clock += random.randrange(HOUR // 20)
        tag = random.choice("aab")
        text = f"<{tag}><x>{random.randrange(4)}</x><y>{random.randrange(9)}</y></{tag}>"
        _publish(desk, Posted(text.encode(), id=f"d{n}", timestamp=clock))
        if random.random() < 0.3:
            desk.upkeep.retain()
    assert desk.found()
    desk.again()
    desk.core.close()


@pytest.mark.parametrize("name", [*QUERIES])
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_what_was_dated_beyond_the_clock_and_is_deleted_is_in_no_match(
    tmp_path: Path, name: str, seed: int
) -> None:
    """Also long after, when its time has come, not even its identity is remembered, and the state
    was opened again in between."""
    random = Random(f"{seed} {name}")
    desk = Desk(
        tmp_path / "state",
        remembers=random.random() < 0.5,
        retention={"documents": "1 h", "identities": random.choice(["2 h", "INFINITY"])},
    )
    desk.subscribe(f"q: {QUERIES[name]};")
    clock = _Clock(desk)
    for n in range(120):
        clock.now += random.randrange(HOUR // 4)
        tag = random.choice("aab")
        text = f"<{tag}><x>{random.randrange(2)}</x><y>{random.randrange(9)}</y></{tag}>"
        dated = clock.now + (random.randrange(6 * HOUR) if random.random() < 0.5 else 0)
        _publish(desk, Posted(text.encode(), id=f"d{n}", timestamp=dated))
        if random.random() < 0.3:
            desk.upkeep.retain()
        if random.random() < 0.05:
            desk.again()
            clock.move(desk)
    assert desk.found() or name == "fold"
    desk.core.close()


MINUTE = HOUR // 60


@pytest.fixture
def timed(tmp_path: Path) -> tuple[Desk, _Clock]:
    desk = Desk(tmp_path / "state", retention={"documents": "1 h"})
    return desk, _Clock(desk)


def _post(desk: Desk, clock: _Clock, xml: str, at: int = 0, **more: Any) -> None:
    """A document dated `at` minutes after now."""
    desk.publish(Posted(xml.encode(), timestamp=clock.now + at * MINUTE, **more))


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_deleted_and_is_revised_is_there_again(
    timed: tuple[Desk, _Clock], restarts: bool
) -> None:
    desk, clock = timed
    desk.subscribe("p: S/a->x NEXT {9 h} S/b->y; q: S/a->x FOLLOWED BY {9 h} S/b->y")
    _post(desk, clock, "<a/>", 500, id="one")
    clock.now += 3 * HOUR
    _post(desk, clock, "<t/>", id="t")
    desk.upkeep.retain()
    assert _stored(desk) == {"t"}
    _post(desk, clock, "<a/>", id="one", revision=True)
    if restarts:
        desk.again()
        clock.move(desk)
    clock.now += MINUTE
    _post(desk, clock, "<b/>", id="two")
    clock.now += MINUTE
    _post(desk, clock, "<t/>", id="end")
    found = sorted((match.query, *[each.id for each in match.documents]) for match in desk.found())
    assert found == [("p", "one", "two"), ("q", "one", "two")]
    desk.core.close()


@pytest.mark.parametrize("first", [0, 500])
def test_a_revision_says_anew_how_old_a_document_is(timed: tuple[Desk, _Clock], first: int) -> None:
    """Also of one that was dated beyond the clock."""
    desk, clock = timed
    desk.subscribe("q: S/a->x FOLLOWED BY {9 h} S/b->y")
    _post(desk, clock, "<a/>", first, id="one")
    clock.now += 50 * MINUTE
    _post(desk, clock, "<a/>", id="one", revision=True)
    clock.now += 30 * MINUTE
    _post(desk, clock, "<t/>", id="t")
    desk.upkeep.retain()
    assert _stored(desk) == {"one", "t"}
    _post(desk, clock, "<b/>", id="two")
    assert [[each.id for each in match.documents] for match in desk.found()] == [["one", "two"]]
    desk.core.close()


def test_a_result_that_is_dated_beyond_the_clock_goes_with_its_documents(
    timed: tuple[Desk, _Clock],
) -> None:
    desk, clock = timed
    desk.subscribe("p: S/a->x FOLLOWED BY {900 h} S/b->y PUBLISH R; r: R/result NEXT S/c")
    _post(desk, clock, "<a/>", id="a")
    _post(desk, clock, "<b/>", 500 * 60, id="b")
    assert len(_stored(desk)) == 3
    clock.now += 2 * HOUR
    _post(desk, clock, "<t/>", id="t")
    desk.upkeep.retain()
    assert _stored(desk) == {"t"}
    desk.core.close()


def _publish(desk: Desk, document: Posted) -> None:
    """Publish it; what is matched then was stored before, or came by then."""
    before, stored = len(desk.found()), _stored(desk)
    desk.publish(document)
    for match in desk.found()[before:]:
        assert {each.id for each in match.documents} <= stored | _stored(desk)


def _stored(desk: Desk) -> set[str]:
    """The documents whose bytes a match can still show."""
    query = "SELECT id FROM documents WHERE xml IS NOT NULL"
    return {id for (id,) in desk.core.engine.store.rows(query)}


class _Clock:
    """What a state takes for the time, in microseconds."""

    def __init__(self, desk: Desk) -> None:
        self.now = desk.core.now()
        self.move(desk)

    def move(self, desk: Desk) -> None:
        desk.core.clock = lambda: self.now / 1_000_000
        desk.core.engine.wall.steady = lambda: self.now
