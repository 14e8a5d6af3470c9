"""Work that a thread does beside the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

_NICE = 10
"""How much nicer than the others the thread is: who waits for a match does not wait for it."""


def beside(name: str, work: Callable[[], object]) -> Future[None]:
    """Begin work in a thread of this name; the result says when it has ended, and raises what it
    raised. The process waits for it when it ends."""
    done: Future[None] = Future()

    def run() -> None:
        with suppress(OSError):  # not every system knows the priority of a thread
            own = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + _NICE)
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name=name).start()
    return done
