"""A batch is processed without Python's garbage collector, which goes on behind it as it was set."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from broker import ArgumentError, Broker, Document

PAIRS = "q: S//i->x[./a->a] FOLLOWED BY {a=b, 100} T//j->y[./b->b];"


def batch(seen: list[bool]) -> Iterator[Document]:
    """Documents of which the second half completes matches; `seen` tells whether there is a
    collector while they are made."""
    for n in range(200):
        seen.append(gc.isenabled())
        yield Document(f"s{n}", "S", float(n), f"<i><a>{n}</a></i>")
    for n in range(200):
        yield Document(f"t{n}", "T", float(n) + 50, f"<j><b>{n}</b></j>")


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Collect after every few objects, so that a batch would be interrupted many times."""
    before = gc.get_threshold()
    gc.set_threshold(50, 10, 10)
    yield
    gc.set_threshold(*before)


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_during_a_batch() -> None:
    with Broker() as broker:
        broker.subscribe(PAIRS)
        seen: list[bool] = []
        documents = list(batch(seen))
        before = collections()
        matches = broker.process(documents)
        # Those before it, while its rows are made, and the one behind it.
        assert collections() - before < 20
        assert len(matches) == 200
        assert all(seen)
        assert gc.isenabled()


def test_whoever_makes_the_documents_has_a_collector() -> None:
    with Broker() as broker:
        seen: list[bool] = []
        broker.process(batch(seen))
        assert len(seen) == 200
        assert all(seen)


def test_a_batch_that_fails_leaves_the_collector_on() -> None:
    with Broker() as broker:
        with pytest.raises(ArgumentError):
            broker.process([Document("1", "S", 0.0, "<i/>"), "no document"])  # type: ignore[list-item]
        broker.close()
        with pytest.raises(Exception, match="closed"):
            broker.process([Document("1", "S", 0.0, "<i/>")])
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with Broker() as broker:
            broker.process(batch([]))
        assert not gc.isenabled()
    finally:
        gc.enable()
