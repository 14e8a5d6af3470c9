"""What is derived of a match when somebody reads it is what the plain way makes of it at once,
whatever the queries and documents; and what the outbox refers to stays as it was found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from broker import Broker, Document
from broker.model import Match
from broker.results.publisher import Publisher
from broker.shared_match import SharedMatch
from tests.oracle.generate import Batch, Subscribe, case
from tests.oracle.generate_documents import Level
from tests.properties.harness import _document
from tests.properties.plainly import match_of
from tests.seeds import seeds


def _both(seed: int, level: Level, state: Path) -> tuple[list[Match], list[Match]]:
    """The matches of a case, read at once, and those in the outbox at its end. Documents expire and
    are revised meanwhile, queries come and go; every match is made in the plain way too."""
    of = case(Random(seed), level)
    found: list[Match] = []
    plain: dict[str, Match] = {}
    made = Publisher.match

    def compared(
        self: Publisher, subscribers: Any, shape: Any, candidate: Any, documents: Any
    ) -> SharedMatch:
        shared = made(self, subscribers, shape, candidate, documents)
        stored = [each.stored for each in documents]
        for match, subscription in zip(shared, subscribers, strict=True):
            plain[match.id] = match_of(subscription, shape, candidate, stored)
        return shared

    with (
        patch.object(Publisher, "match", compared),
        Broker(state, lateness=of.lateness / 10**6, memory=of.memory) as broker,
    ):
        broker.engine.expiry_every = 2
        for event in of.events:
            if isinstance(event, Subscribe):
                broker.subscribe(event.text)
            elif isinstance(event, Batch):
                found += broker.process([_document(arrival) for arrival in event.documents])
                broker.engine.retain(documents=3_600 * 10**6)
            elif hasattr(event, "id"):
                broker.unsubscribe(event.id)
    with Broker(state, memory=of.memory) as broker:
        # Only here: by now the documents have expired.
        stored = broker.undelivered(10**6)
    for match in found:
        assert match == plain[match.id]
    return found, stored


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("start", [10 * n for n in seeds(1, 4)])
def test_a_match_is_derived_as_the_plain_way_makes_it(
    level: Level, start: int, tmp_path: Path
) -> None:
    some = 0
    for seed in range(start, start + 10):
        found, stored = _both(2_000 + seed, level, tmp_path / str(seed))
        assert stored == found, f"seed {seed}"
        some += len(found)
    assert some


def _item(id: str, at: int, title: str, revision: bool = False) -> Document:
    xml = f"<i><k>1</k><title>{title}</title></i>"
    return Document(id, timestamp=at, xml=xml, revision=revision)


PAIR = "pair: S/i[./k->x] FOLLOWED BY {x = y, 1 min} S/i[./k->y]"


def _titles(broker: Broker) -> list[list[str | None]]:
    return [[d.title for d in match.documents] for match in broker.undelivered()]


def test_each_match_has_the_revision_that_it_was_found_with(tmp_path: Path) -> None:
    """However often a document is revised in between, and whatever is acknowledged: numbers of
    matches begin anew with a restart, and what is kept is still not theirs."""
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        (first,) = broker.process([_item("a", 0, "a0"), _item("b", 1, "b")])
        for n in (1, 2, 3):
            broker.process([_item("a", 0, f"a{n}", True)])
        found = broker.process([_item("c", 2, "c")])
        assert _titles(broker) == [["a0", "b"], ["a3", "c"], ["b", "c"]]
        broker.process([_item("a", 0, "a4", True)])
        assert _titles(broker) == [["a0", "b"], ["a3", "c"], ["b", "c"]]
        broker.acknowledge(found)
        assert _titles(broker) == [["a0", "b"]]
    with Broker(tmp_path) as broker:
        broker.process([_item("d", 3, "d")])
        assert _titles(broker) == [["a0", "b"], ["a4", "d"], ["b", "d"], ["c", "d"]]
        broker.process([_item("a", 0, "a5", True), _item("a", 0, "a6", True)])
        assert _titles(broker) == [["a0", "b"], ["a4", "d"], ["b", "d"], ["c", "d"]]
        assert first == broker.undelivered()[0]


def test_an_expired_document_that_is_revised_changes_no_match(tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=0) as broker:
        broker.subscribe(PAIR)
        broker.process([_item("a", 0, "a0"), _item("b", 1, "b")])
        broker.process([_item("far", 10_000, "far")])
        broker.engine.expire()
        broker.process([_item("a", 10_001, "a1", True)])
        broker.process([_item("c", 10_002, "c")])
        assert ["a0", "b"] in _titles(broker)
        assert ["a1", "c"] in _titles(broker)


def test_a_match_refers_to_the_document_that_it_was_found_with(tmp_path: Path) -> None:
    """Also where it was revised in the same batch, before and after, and expired then; the outbox
    lets go what it kept."""

    with Broker(tmp_path, lateness=0) as broker:
        broker.subscribe(PAIR)
        broker.process([_item("a", 0, "one")])
        broker.process([_item("b", 1, "two")])
        broker.process([_item("a", 0, "one, revised", True)])
        broker.process([_item("c", 2, "three"), _item("a", 0, "one, again", True)])
        broker.process([_item("d", 10_000, "far away")])
        broker.engine.expire()
        broker.unsubscribe("pair")
    with Broker(tmp_path) as broker:
        stored = broker.undelivered()
        assert [[d.title for d in match.documents] for match in stored] == [
            ["one", "two"],
            ["one, revised", "three"],
            ["two", "three"],
        ]
        store = broker.engine.store
        broker.acknowledge(stored[1:])
        assert [d.title for d in broker.undelivered()[0].documents] == ["one", "two"]
        assert store.count("SELECT count(*) FROM kept")
        broker.acknowledge(stored)
        assert not store.count("SELECT count(*) FROM kept")


def test_subscribers_of_one_query_have_matches_of_their_own(tmp_path: Path) -> None:
    text = PAIR.removeprefix("pair: ")
    with Broker(tmp_path) as broker, Broker() as alone:
        broker.subscribe(";".join(f"q{n}: {text}" for n in range(3)))
        alone.subscribe(f"q1: {text}")
        documents = [_item("a", 0, "a"), _item("b", 1, "b")]
        found = broker.process(documents)
        assert [match.query for match in found] == ["q0", "q1", "q2"]
        assert [found[1]] == alone.process(documents)
        assert broker.undelivered() == found
        found[0].values["x"].append("changed by a reader")
        assert found[1].values == {"x": ["1"], "y": ["1"]}
        broker.acknowledge(found[:1])
        assert broker.undelivered() == found[1:]
