"""The effect of Ctrl-C, SIGTERM and the end of the terminal on a command: during imports, while it
runs, and at its end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = "broker: interrupted"

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_SHOW_CURSOR = b"\x1b[?25h"
"""What brings back the cursor, which a line of progress hides."""

_TIDYING = 3.0
"""Seconds after which another signal ends it at once, tidy or not."""

_received: list[tuple[int, float]] = []
"""The signal that came, and when. What it interrupts may turn it into an error of its own."""


@contextmanager
def handled() -> Iterator[None]:
    """Signals end the process with 128 plus their number, like in shells. Main thread only."""
    # Ignored signals stay ignored: nohup ignores the end of the terminal, and shells ignore Ctrl-C
    # for commands in the background.
    ours = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in ours:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _leave)


def interruptible() -> None:
    """From now on a signal raises an exception, so that the command removes temporary files."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, _interrupt)


@contextmanager
def held() -> Iterator[None]:
    """A block that no signal interrupts: one that comes takes effect at its end. Other threads than
    the main one are never interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = [number for number in _SIGNALS if callable(before[number])]
    for number in ours:
        signal.signal(number, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        if waiting:
            signal.raise_signal(waiting[0])


@contextmanager
def if_stopped(say: Callable[[], object]) -> Iterator[None]:
    """A block that says something where a signal ends it. What the signal interrupts may make an
    error of its own of it, as a running statement of DuckDB does."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or received() is not None:
            say()
        raise


def received() -> int | None:
    """The signal that ended the command, None if none did."""
    return _received[0][0] if _received else None


def _leave(number: int, _: FrameType | None) -> None:
    """End the process at a signal during imports or at the end: there is nothing to clean up, and
    some modules would turn an exception into an error of their own."""
    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)
    if number == signal.SIGINT:
        os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(128 + number)


def _interrupt(number: int, _: FrameType | None) -> None:
    if _received:
        # The command is already ending. A second signal shortly after the first is ignored, so that
        # temporary files are still removed.
        if time.monotonic() - _received[0][1] > _TIDYING:
            _leave(number, None)
        return
    _received.append((number, time.monotonic()))
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
