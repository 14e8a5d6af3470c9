"""Where a process keeps very many objects, Python's collector never looks at many of them at once."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

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


_BLOCKS = """
import gc
from xscl import growth

growth.collect_rarely(1_000)
growth._ALL = 100_000
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
    def __init__(self):
        self.own = self
    def __del__(self):
        gone.append(None)

gone = []
with growth.later(many=True):
    Cycle()
    kept = [[n] for n in range(10_000)]
gc.collect()
print(len(gone))
print(blocks(True, 10)[1], len(gone))
growth.thaw()
print(gc.get_freeze_count())
"""


def test_what_many_documents_leave_is_set_aside_until_very_much_has_come() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKS],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    few, many, set_aside, found, thawed = done.stdout.splitlines()
    assert few == "6 0 False"
    assert many == "0 0 True"
    assert set_aside == "0"
    assert found == "1 1"
    assert thawed == "0"
