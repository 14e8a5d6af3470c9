"""After a restart patterns are asleep until something of them is decided: that changes no match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from broker import Broker, Document, Match
from broker.standing.live import Live
from broker.standing.memory import Memory
from tests.engine.test_patterns_shared import TEXTS, stream, told
from tests.seeds import seeds

LATENESS = (0.0, 3.0, 40.0)
_LAST = Document("z", timestamp=1_000.0, xml="<z/>")


def queries(name: str) -> str:
    texts = {key: TEXTS[name].format({"e": "%"}.get(key, key)) for key in "pqre"}
    return ";\n".join(f"{label}: {text}" for label, text in texts.items())


def matched(
    text: str, batches: list[list[Document]], lateness: float, *, restart: Random | None = None
) -> tuple[list[Match], list[object]]:
    """What is matched in batches, with restarts before some of them, and what waits behind each."""
    found: list[Match] = []
    waits: list[object] = []
    with Broker(lateness=lateness) as broker:
        broker.subscribe(text)
        for batch in batches:
            if restart is not None and restart.random() < 0.4:
                broker.engine.standings.reload()
            found += broker.process(batch)
            if restart is None or restart.random() < 0.2:
                waits.append((len(found), broker.waiting()))
        found += broker.process([_LAST])
    return found, waits


@contextmanager
def awakened() -> Iterator[list[str]]:
    """The queries that are made of their stored rows when they were asleep."""
    found: list[str] = []
    wake = Memory.wake

    def noted(self: Memory, pattern: Live) -> int:
        if pattern.asleep is not None:
            found.extend(each.id for each in pattern.subscriptions.values())
        return wake(self, pattern)

    with patch.object(Memory, "wake", noted):
        yield found


@pytest.mark.parametrize("lateness", LATENESS)
@pytest.mark.parametrize("name", TEXTS)
def test_restarts_change_no_match(name: str, lateness: float) -> None:
    text = queries(name)
    # Every second case has revisions.
    for seed in seeds(1, 8, start=LATENESS.index(lateness)):
        random = Random(seed)
        documents = stream(seed, 80)
        if seed % 2:
            for _ in range(6):
                old = random.randrange(40)
                place = random.randrange(old + 1, len(documents) + 1)
                of = documents[old]
                assert isinstance(of.xml, str)
                new = of.xml if random.random() < 0.3 else of.xml.replace("<k>p", "<k>q")
                documents.insert(
                    place,
                    Document(of.id, timestamp=of.timestamp, xml=new, revision=True),
                )
        size = random.choice((7, 17))
        batches = [documents[at : at + size] for at in range(0, len(documents), size)]
        expected, waits = matched(text, batches, lateness)
        found, others = matched(text, batches, lateness, restart=random)
        assert told(found) == told(expected)
        assert [each for each in others if each not in waits] == []


def quote(n: int, key: str, name: str = "a") -> Document:
    return Document(f"{name}{n}-{key}", timestamp=float(n), xml=f"<{name}><k>{key}</k></{name}>")


@pytest.mark.parametrize("name", ["next", "fold", "list"])
def test_only_those_are_awakened_for_which_something_comes(name: str) -> None:
    text = ";\n".join(f"k{n}: {TEXTS[name].format(n)}" for n in range(20))
    with Broker(lateness=0.0) as broker, awakened() as awake:
        broker.subscribe(text)
        broker.process([quote(n // 10, str(n)) for n in range(20)])
        broker.engine.standings.reload()
        broker.process([quote(2, "nobody")])
        if name != "list":
            # What a document begins is only noted.
            broker.process([quote(2, "3")])
        assert not awake
        broker.process([quote(3, "7", "b")])
        assert awake == ["k7"]
        assert len([*broker.engine.standings.awake()]) == 20
        broker.waiting()
        assert sorted(awake) == sorted(f"k{n}" for n in range(20))


def test_time_awakens_those_of_which_a_row_is_decided() -> None:
    text = ";\n".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(5))
    with Broker(lateness=10.0) as broker, awakened() as awake:
        broker.subscribe(text)
        broker.process([quote(n, str(n)) for n in range(5)])
        broker.process([quote(1, "0", "b")])
        broker.engine.standings.reload()
        assert not broker.process([quote(10, "nobody")])
        assert awake == ["k0"]
        (found,) = broker.process([quote(12, "nobody")])
        assert (found.query, found.start_us, found.end_us) == ("k0", 0, 1_000_000)
        assert sorted(awake) == ["k0", "k1", "k2"]


def test_what_can_be_in_no_match_any_more_is_never_awakened() -> None:
    with Broker(lateness=0.0) as broker, awakened() as awake:
        broker.subscribe(";\n".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(5)))
        broker.process([quote(n, str(n)) for n in range(5)])
        broker.engine.standings.reload()
        broker.process([quote(5, "nobody")])
        assert len([*broker.engine.standings.awake()]) == 5
        broker.process([quote(10_000, "nobody")])
        broker.engine.expire()
        assert not [*broker.engine.standings.awake()]
        assert not awake


def test_a_pattern_that_is_asleep_may_go() -> None:
    with Broker(lateness=5.0) as broker:
        broker.subscribe(";\n".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(3)))
        broker.process([quote(n, str(n)) for n in range(3)])
        broker.engine.standings.reload()
        broker.process([])
        broker.unsubscribe("k1")
        found: list[Any] = broker.process([quote(3, str(n), "b") for n in range(1)])
        found += broker.process([_LAST])
        assert [each.query for each in found] == ["k0"]


def test_a_look_at_the_figures_awakens_some_and_the_next_one_more() -> None:
    with Broker(lateness=10.0) as broker, awakened() as awake:
        broker.subscribe(";\n".join(f"k{n}: {TEXTS['next'].format(n)}" for n in range(10)))
        broker.process([quote(n // 10, str(n % 10), "ab"[n // 10]) for n in range(20)])
        broker.engine.standings.reload()
        assert len(broker.engine.waiting(6)) == 3  # of two rows each
        assert len(broker.engine.waiting(6)) == 6
        assert len(awake) == 6
        assert len(broker.engine.waiting()) == 10


def test_who_goes_while_others_wait_has_no_rows() -> None:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(";\n".join(f"k{n}: {TEXTS['next prefix'].format(n)}" for n in range(3)))
        broker.process([quote(0, "x")])
        broker.unsubscribe("k1")
        broker.process([])
        assert [each.subscription.id for each in broker.engine.standings.awake()] == ["k0", "k2"]
        broker.process([quote(1, "x")])
        broker.unsubscribe("k0")
        broker.subscribe(f"k0: {TEXTS['next prefix'].format(0)}")
        broker.process([])
        assert [each.subscription.id for each in broker.engine.standings.awake()] == ["k2"]
        found = broker.process([quote(2, "0", "b"), quote(2, "2", "b"), quote(3, "nobody")])
        assert [each.query for each in found] == ["k2", "k2"]
