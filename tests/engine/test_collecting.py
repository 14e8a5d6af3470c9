"""Where a process keeps very many objects, Python's collector never looks at many of them at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

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
