"""Very many long-lived objects without the cost of Python's cyclic garbage collector."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1_000
"""Queries; fewer leave too little to be worth it."""

MANY = 10_000
"""Queries from which on what is made of them is worth freezing."""


_ALL = 14_000_000
"""Objects that come, less those that are gone, before all are looked at."""


def collect_rarely(at_once: int = 10_000) -> None:
    """For a process that keeps very many objects, such as the documents in a window. With Python's
    own thresholds the collector takes a sixth of its time. Objects that stay are looked at twice,
    soon, so that it never takes long, and then when all are. `at_once`: how many are looked at
    together, while no other thread runs Python; four times as many the second time."""
    gc.set_threshold(at_once, 2, _ALL // (4 * at_once))


_IN_BLOCK = 500_000
"""Objects that may come within `later`, less those that are gone, before they are gone through."""

_MANY = 3_000_000
"""Objects that come, less those that are gone, before all are looked at that were set aside; and at
least half as many as there were the last time."""

_come = _there = 0
"""Objects that came since, and how many there were."""

_ours: bool | None = None
"""Whether what is frozen was frozen here, None if it was not looked at: that counts all of it."""


def freeze() -> None:
    """Let the collector never look again at what is there now, until `thaw`: very many objects that
    stay. Within `growing`, or it goes through all of them once when that ends."""
    _is_ours()
    gc.freeze()
    # Unfrozen at exit, when extension modules look for leaked objects.
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)


def _is_ours() -> bool:
    """Whether nobody else has frozen anything."""
    global _ours
    if _ours is None:
        _ours = gc.get_freeze_count() == 0
    return _ours


def thaw() -> None:
    """Let the collector look at all of it again, as much of it is needed no more. What somebody
    else had frozen before stays as it is."""
    global _ours
    if _ours:
        _ours = None
        gc.unfreeze()


@contextmanager
def growing(queries: int) -> Iterator[None]:
    """A block that works on so many queries, without garbage collection if they are many. Syntax
    trees and compiled queries have no cycles, and collecting repeatedly while their number grows
    costs three times as much as making them."""
    if queries < _LARGE:
        yield
    else:
        with paused():
            yield


@contextmanager
def paused() -> Iterator[None]:
    """A block without garbage collection, in all threads of the process; what it leaves is gone
    through once, behind it. For work without cycles that makes many objects of which most stay."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def later(many: bool = False) -> Iterator[None]:
    """A block whose objects are gone through behind it, when most are gone by themselves, unless
    they become too many; such as a batch of documents, in all threads of the process. What `many`
    documents leave is set aside instead, until `thaw`: to look at it twice takes a twentieth of the
    time of a batch, and finds a few objects in cycles among ten thousand."""
    few, *others = gc.get_threshold()
    gc.set_threshold(max(few, _IN_BLOCK) if few else 0, *others)
    try:
        yield
    finally:
        if many and few and _is_ours():
            _set_aside(few, others[0])
        gc.set_threshold(few, *others)


def _set_aside(few: int, often: int) -> None:
    """Freeze all that is there, also what others have made meanwhile, and their garbage; so all of
    it is looked at first where much has come since the last time."""
    global _come, _there
    new, younger, older = gc.get_count()
    # Each collection of younger objects was one of so many that came.
    _come += new + few * (younger + often * older)
    if _come >= max(_MANY, _there // 2):
        gc.unfreeze()
        gc.collect()
        freeze()
        _come, _there = 0, gc.get_freeze_count()
    else:
        freeze()
