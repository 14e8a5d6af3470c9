"""Where a process keeps very many objects, Python's collector never looks at many of them at once."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from broker import Broker, Document
from broker.join.records import Record
from tests.waiting import PATIENCE
from xscl.growth import collect_rarely

KEPT = 20_000


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def looked_at(at_once: int) -> list[int]:
    """How many objects each collection goes through while many are made that stay."""
    found: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            young = range(about["generation"] + 1)
            found.append(sum(len(gc.get_objects(each)) for each in young))

    gc.collect()
    collect_rarely(at_once)
    gc.callbacks.append(note)
    try:
        kept = [[n] for n in range(KEPT)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == KEPT
    return found


@pytest.mark.parametrize("at_once", [500, 1_000, 4_000])
def test_no_more_are_looked_at_together_than_was_asked_for(at_once: int) -> None:
    found = looked_at(at_once)
    # Each of them twice: by itself, and with those of the three collections before it.
    assert sum(found) > KEPT
    assert max(found) < 5 * at_once


def test_all_are_looked_at_as_rarely_whatever_is_looked_at_together() -> None:
    thresholds = []
    for at_once in (1_000, 10_000):
        collect_rarely(at_once)
        first, second, third = gc.get_threshold()
        thresholds.append(first * third)
        assert second == 2
    assert thresholds[0] == thresholds[1]


def test_a_dry_run_leaves_no_documents_to_the_collector() -> None:
    def records() -> int:
        return sum(type(each) is Record for each in gc.get_objects())

    documents = [
        Document(str(n), "S", n, f"<{tag}><k>{n // 2}</k></{tag}>".encode())
        for n in range(400)
        for tag in ("ab"[n % 2],)
    ]
    with Broker() as broker:
        broker.process(documents)
        gc.collect()
        gc.disable()
        try:
            before = records()
            would = broker.dry_run("S//a[./k->x] FOLLOWED BY {x = y, 1 h} S//b[./k->y];", 0.0)
            assert len(would.matches) == 200
            assert records() == before
        finally:
            gc.enable()


_BLOCKS = """
import gc
from xscl import growth

growth.collect_rarely(1_000)
growth._MANY = 100_000
looks = []
gc.callbacks.append(lambda phase, about: phase == "start" and looks.append(about["generation"]))

def blocks(many, count):
    looks.clear()
    kept = []
    for _ in range(count):
        with growth.later(many=many):
            kept.append([[n] for n in range(10_000)])
        [[] for _ in range(10)]
    return len(looks), looks.count(2), gc.get_freeze_count() > 60_000

print(*blocks(False, 6))
print(*blocks(True, 6))

class Cycle:
    there = 0
    def __init__(self):
        self.own = self
        Cycle.there += 1
    def __del__(self):
        Cycle.there -= 1

most = 0
for _ in range(60):
    kept = [Cycle() for _ in range(10_000)]  # old enough to survive what collects the young ones
    gc.collect(1)
    del kept
    with growth.later(many=True):
        pass
    most = max(most, Cycle.there)
print(most < 500_000, Cycle.there < 500_000)
growth.thaw()
gc.collect()
print(gc.get_freeze_count(), Cycle.there)
"""


def test_what_many_documents_leave_is_set_aside_but_no_garbage_for_good() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKS],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "6 0 False",
        "0 0 True",
        "True True",
        "0 0",
    ], done.stderr
