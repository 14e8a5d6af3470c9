"""What the Python workers of the executors keep between tasks.

A worker unpickles what a task needs for every task anew; only what a module holds lasts. And after
every task it runs Python's garbage collector over all that the imported modules and a large matcher
hold: 20 ms of the 22 that a small task takes. What is there before the first row never becomes
garbage, so it is taken out of the collector's sight.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

_kept: tuple[str, bytes] | None = None
_settled_for: str | None = None


def keep(key: str, load: Callable[[], bytes]) -> bytes:
    """What `load` gives, the same object for as long as the key stays the same."""
    global _kept
    if _kept is None or _kept[0] != key:
        _kept = (key, load())
    return _kept[1]


def settle(key: str = "") -> None:
    """Exempt what is alive now from garbage collection: once, and again for each new `key`.

    Called by a task before its first row; the key is that of what it keeps, if anything.
    """
    global _settled_for
    if _settled_for is None or (key and key != _settled_for):
        gc.unfreeze()  # what belonged to the former key may be garbage
        gc.collect()
        gc.freeze()
        _settled_for = key
