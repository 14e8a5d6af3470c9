"""Definitions of variables that no query uses any more are removed, and no others."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document
from tests.seeds import seeds


def author(name: str, number: int) -> str:
    return (
        f"{name}: S//i->x[./a = 'A{number}'][./l->l] FOLLOWED BY {{l = m, 1 h}}"
        f" S//i->y[./a = 'A{number}'][./l->m];"
    )


def item(number: int, at: float) -> Document:
    return Document(f"{at}", "S", at, f"<i><a>A{number}</a><l>{number}</l></i>")


def stored(broker: Broker) -> dict[str, int]:
    return dict(broker.engine.store.rows("SELECT definition, id FROM variables"))


def used(broker: Broker) -> set[int]:
    queries = broker.engine.catalog.canonical.values()
    return {number for c in queries for number in (*c.variables, *c.quantified)}


def test_what_comes_and_goes_is_bounded(tmp_path: Path) -> None:
    given: set[int] = set()
    for run in range(3):
        with Broker(tmp_path) as broker:
            known = broker.engine.catalog.variables
            known.spare = 6
            for number in range(run * 40, run * 40 + 40):
                new = author(f"q{number}", number)
                before = {*known.values()}
                broker.subscribe(new)
                ids = {*known.values()} - before
                assert ids.isdisjoint(given), "an id was given twice"
                given |= ids
                assert used(broker) <= {*known.values()}
                broker.unsubscribe(f"q{number}")
                assert dict(known) == stored(broker)
                assert len(known) <= 6 + 4
    assert len(given) > 100


def test_shared_definitions_stay_until_the_last_query_goes() -> None:
    broker = Broker()
    known = broker.engine.catalog.variables
    known.spare = 0
    broker.subscribe(author("one", 1))
    broker.subscribe(author("two", 1).replace("1 h", "2 h"))
    broker.subscribe("three: S//i->x[./a = 'A1'][./l->l] JOIN {l = m, 1 h} T//j->y[./l->m];")
    broker.subscribe(author("last", 2))
    there = {text: number for text, number in known.items() if "A1" in text}
    for name in ("one", "two"):
        broker.unsubscribe(name)
        assert there.items() <= known.items()
    broker.unsubscribe("three")
    assert used(broker) == {*known.values()}
    assert not any("A1" in text for text in known)


def change_and_fail(broker: Broker) -> None:
    before = len(broker.engine.catalog.variables)
    with broker.engine.store.transaction():
        broker.unsubscribe("one")
        assert len(broker.engine.catalog.variables) < before
        raise ZeroDivisionError


def test_a_change_that_fails_forgets_nothing(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.engine.catalog.variables.spare = 0
        broker.subscribe(author("one", 1))
        broker.subscribe(author("two", 2))
        broker.process([item(1, 0.0)])
        known = dict(broker.engine.catalog.variables)
        with pytest.raises(ZeroDivisionError):
            change_and_fail(broker)
        assert dict(broker.engine.catalog.variables) == stored(broker) == known
        assert [match.query for match in broker.process([item(1, 1.0)])] == ["one"]


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_forgetting_changes_no_match(seed: int, tmp_path: Path) -> None:
    """A broker that forgets at once against one that never does, with restarts on the way."""
    r = Random(seed)
    spares = {"at once": 0, "never": 1_000_000}
    brokers: dict[str, Broker] = {}
    names = [f"q{n}" for n in range(6)]
    matches = 0
    for at in range(120):
        action, name, number = r.choice("+++-~=.........r"), r.choice(names), r.randrange(3)
        found = []
        for kind, spare in spares.items():
            if action == "r" and kind in brokers:
                brokers.pop(kind).close()
            broker = brokers.get(kind)
            if broker is None:
                broker = brokers[kind] = Broker(tmp_path / kind)
                broker.engine.catalog.variables.spare = spare
            there = name in broker.subscriptions
            if action == "+":
                broker.subscribe(author(name, number))
            elif action == "-" and there:
                broker.unsubscribe(name)
            elif action == "~" and there:
                broker.engine.pause(name)
            elif action == "=" and there:
                broker.engine.resume(name)
            elif action == ".":
                made = broker.process([item(number, float(at))])
                found.append([(match.id, match.query, match.result) for match in made])
            broker.engine.joiner.refresh()
        assert all(each == found[0] for each in found)
        matches += len(found[0]) if found else 0
    assert matches > 10
    sizes = {kind: len(broker.engine.catalog.variables) for kind, broker in brokers.items()}
    assert sizes["at once"] <= sizes["never"]
    for broker in brokers.values():
        broker.close()
