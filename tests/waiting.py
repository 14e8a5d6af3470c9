"""Waiting for what other threads and processes bring about: for a condition, never for a time.

A machine that is busy with other things may take a hundred times as long as a quiet one. So nothing
here says how long something takes; `PATIENCE` only ends a test whose condition never comes true.
Where the product itself is given a limit that must not be reached, `PATIENCE` is that limit too;
where one must not be reached while a test waits, it is `NEVER`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 600.0
"""Seconds after which a test that still waits has failed."""
NEVER = 10 * PATIENCE
"""Seconds that no test lives to see."""
_BETWEEN, _SELDOM = 0.005, 0.1
"""Seconds between two checks of a condition: at first, and when it has been waited for long."""


def until(condition: Callable[[], T], what: str | Callable[[], str] = "it did not happen") -> T:
    """Wait until a condition is true, and return its value; `what` is the message if it never
    is."""
    begin = before = time.monotonic()
    while not (found := condition()):
        now = time.monotonic()
        assert now < begin + PATIENCE, what if isinstance(what, str) else what()
        # Who asks a service all the time keeps it from what is waited for.
        pause(min(max(_BETWEEN, 3 * (now - before), (now - begin) / 10), _SELDOM))
        before = time.monotonic()
    return found


def pause(seconds: float = _BETWEEN) -> None:
    """Sleep between two checks of a condition. Nothing may depend on how long it takes."""
    time.sleep(seconds)
