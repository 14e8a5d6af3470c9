"""What lives before a measurement is no part of what it measures."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen() -> Iterator[None]:
    """Exempt from garbage collection what is alive at the beginning, and what is frozen inside.
    Where something was exempt before, as in a run of tests, all of it stays so: else each
    later collection there would go through it again."""
    before = gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not before:
            gc.unfreeze()
