"""`why` beside a stream: it rests now and then, holds the engine's lock for no search, and says where
it did not look at everything."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

import xscl
from broker import Broker, Document
from broker.asking import Asking, Told
from broker.service.explanations import Rest
from broker.standing.why import Why
from broker.why.model import Budget, Explanation
from feeds.fair_lock import FairLock

CROSSED = "q: S//a[./k->x] FOLLOWED BY {x = y, 1 day} S//a[./k->y]"
PATTERN = "p: S//a[./k->x] FOLLOWED BY {x = y, 1 day} NOT S//b[./k->y]"


@contextmanager
def holding(count: int, *queries: str, apart: float = 60.0) -> Iterator[Broker]:
    with Broker(lateness=0.0) as broker:
        for query in queries:
            broker.subscribe(query)
        broker.process(
            [Document(str(n), "S", n * apart, f"<a><k>hot{n % 2}</k></a>") for n in range(count)]
        )
        yield broker


def explained(broker: Broker, text: str, pairs: int) -> Explanation:
    (told,) = Asking(broker.engine).of_queries(
        xscl.check([xscl.parse(text)]).queries, Budget(pairs=pairs)
    )
    assert isinstance(told, Explanation)
    return told


def test_where_there_are_too_many_pairs_the_counts_are_called_lower_bounds() -> None:
    with holding(100, apart=100_000.0) as broker:
        part, whole = explained(broker, CROSSED, 1_000), explained(broker, CROSSED, 100_000)
    assert whole.joins[0].agree == 2 * 50 * 49
    assert whole.joins[0].exact
    assert "at least" not in "\n".join(whole.lines)
    assert not part.joins[0].exact
    assert part.joins[0].agree < whole.joins[0].agree
    # That none is within a day is only known of those that were looked at.
    assert part.sentence.endswith("so some may match all the same")
    for words in ("pairs", "of them in this order", "of those within 1 day"):
        (line,) = [line for line in part.lines[1:] if line.endswith(words)]
        assert "at least" in line
    assert any("more pairs than were looked at" in line for line in part.lines[1:])


PAIRS = (
    "p: S//a[./k->x] FOLLOWED BY {x = y} S//a[./k->y] FOLLOWED BY {1 day} NOT S//b WITHIN 2 days"
)


@pytest.mark.parametrize("text", [CROSSED, f"{CROSSED} WHERE x != 'hot0'", PAIRS])
def test_it_rests_all_along(text: str) -> None:
    """At least once for each 1,000 pairs or choices, besides once for each slice of documents."""
    rests: list[None] = []
    with holding(400) as broker:
        asking = Asking(broker.engine, rest=lambda: rests.append(None))
        asking.of_queries(xscl.check([xscl.parse(text)]).queries)
    in_order = 2 * 200 * 199 / 2
    assert len(rests) > in_order / 1_000


def test_the_lock_is_free_while_a_registered_pattern_is_told_about() -> None:
    """Who works beside gets the lock at each rest."""
    lock = threading.Lock()
    taken: list[bool] = []

    def rest() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[-1]:
            lock.release()

    with holding(1_200, PATTERN) as broker:
        told: Sequence[Told] = Asking(broker.engine, lock, rest).of_subscription("p")
    (found,) = told
    assert isinstance(found, Why)
    assert found.blocks[0].documents == 1_200
    assert len(taken) > 1
    assert all(taken)


def test_it_sleeps_only_while_somebody_else_works_with_the_engine() -> None:
    slept: list[float] = []
    lock = FairLock()
    rest = Rest(lock, slept.append)
    rest()
    assert slept == []
    held, done = threading.Event(), threading.Event()

    def pipeline() -> None:
        with lock:
            held.set()
            done.wait()

    worker = threading.Thread(target=pipeline)
    worker.start()
    held.wait()
    rest()
    done.set()
    worker.join()
    assert len(slept) == 1
