"""What the Python workers of the executors share: one thing kept between tasks, and a calm collector.

A worker runs Python's garbage collector after every task, over all that the imported modules and a
large matcher hold: 20 ms of 22 for a small task. What is loaded before the first row never becomes
garbage, so it is taken out of the collector's sight.
"""

from __future__ import annotations

import gc

_settled_for: object = None


def settle(state: object = None) -> None:
    """Exempt what is alive now from garbage collection: once, and again for each new `state`.

    Called by a task before its first row, with what it keeps between tasks, if anything.
    """
    global _settled_for
    if _settled_for is None or (state is not None and state is not _settled_for):
        gc.unfreeze()  # what belonged to the former state may be garbage
        gc.collect()
        gc.freeze()
        _settled_for = state or ()
