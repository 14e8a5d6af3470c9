"""What a signal sets: from any moment of the code that waits for it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from broker.cli import signals
from broker.cli.signals import if_stopped
from broker.runs import Stop, stop_on_signals
from tests.waiting import NEVER, PATIENCE


class _At:
    """Calls a function at the nth line of Python that is reached while it is traced."""

    def __init__(self, line: int, do: Callable[[], object]) -> None:
        self._left = line
        self._do = do
        self.reached = False

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            self._left -= 1
            if self._left < 0 and not self.reached:
                self.reached = True
                self._do()
        return self


def test_a_signal_may_come_at_any_line_of_a_wait() -> None:
    line, reached = 0, True
    while reached:
        with stop_on_signals() as stop:
            at = _At(line, lambda: signal.raise_signal(signal.SIGTERM))
            sys.settrace(at)
            try:
                stop.wait(0.01)
            finally:
                sys.settrace(None)
            reached = at.reached
            if reached:
                assert stop.wait(NEVER)
                assert stop.signal == signal.SIGTERM
            else:
                assert not stop.is_set()
        line += 1
    assert line > 3


def test_a_signal_ends_a_wait_and_all_that_wait_are_told() -> None:
    with stop_on_signals() as stop:
        others = [threading.Thread(target=stop.wait) for _ in range(3)]
        for each in others:
            each.start()
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
        assert stop.wait(PATIENCE)
        assert stop.signal == signal.SIGINT
        for each in others:
            each.join(PATIENCE)
            assert not each.is_alive()


def test_no_signal_is_missed_by_a_wait_that_begins() -> None:
    """However it falls into the moment between the last look for signals and sleep."""
    for _ in range(300):
        with stop_on_signals() as stop:
            other = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM))
            other.start()
            assert stop.wait(PATIENCE)
            other.join()


def test_whatever_a_signal_is_turned_into_the_command_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), if_stopped(lambda: said.append("of its own")):
        raise RuntimeError("an error of its own")
    with pytest.raises(KeyboardInterrupt), if_stopped(lambda: said.append("plain")):
        raise KeyboardInterrupt
    monkeypatch.setattr(signals, "_received", [(signal.SIGTERM, 0.0)])
    with pytest.raises(RuntimeError), if_stopped(lambda: said.append("turned")):
        raise RuntimeError("Query interrupted")
    assert said == ["plain", "turned"]


def test_a_second_signal_does_what_it_would_have_done() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert signal.getsignal(signal.SIGINT) is before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_stop_that_is_not_set_waits_no_longer_than_it_may() -> None:
    stop = Stop()
    assert not stop.wait(0.001)
    stop.set()
    assert stop.wait()
    assert stop.wait(0.0)
