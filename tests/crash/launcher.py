"""Starts `broker serve` in a process that can be made to die at a named point, and in which
maintenance is always due.

    python -m tests.crash.launcher '{"aim": {...}, "told": "FILE", "ahead": 0}' serve --config FILE

In production upkeep comes every few minutes and a feed is fetched every quarter of an hour, and what
the journal has is brought to the tables by the hundred; here all of it comes several times a
second, so that it is met by a kill. `ahead`: seconds by which the
clock of the wall is wrong from the start; at SIGUSR1 it jumps by `jump`, and back at the next.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.notes import take_notes
from tests.crash.points import Aim, aim
from tests.waiting import PATIENCE

_UPKEEP = {"clock": 0.4, "intake": 0.3, "trim": 0.3, "retention": 0.5, "compaction": 0.7}
"""Seconds between two turns of each task."""
_FETCH = 0.1
"""Seconds between two fetches of a feed."""
_DYING = 0.1
"""The share of batches during which the process for stage 1 dies."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The instructions for a process. `told`: a file created when it dies, `notes`: a file to which
    it appends facts that cannot be requested. `slow`: the factor by which feeds are fetched and
    maintenance runs less often. `disk`: while this file is there, writes and syncs of the state fail as
    it says, see `tests/disk/failing.py`. `apart`: unless it is 0, a second process does stage 1, of
    the smallest batches too, and dies now and then, at random moments of this seed."""

    aim: Aim | None = None
    told: str = ""
    notes: str = ""
    ahead: float = 0.0
    jump: float = 0.0
    upkeep: bool = True
    slow: float = 1.0
    disk: str = ""
    apart: int = 0

    def dumps(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Orders:
        plain = json.loads(text)
        return cls(**plain | {"aim": Aim(**plain["aim"]) if plain["aim"] else None})


def serve(arguments: list[str], orders: Orders) -> None:
    """Run `broker` with these arguments; never returns."""
    if orders.ahead or orders.jump:
        _set_clock(orders.ahead, orders.jump)
    _hurry(orders.upkeep, orders.slow)
    if orders.apart:
        _set_apart(Random(orders.apart))
    if orders.notes:
        take_notes(orders.notes)
    if orders.disk:
        from tests.disk.failing import fail_while

        fail_while(Path(orders.disk), Path(arguments[arguments.index("--config") + 1]))
    if orders.aim is not None:
        aim(orders.aim, orders.told)
    sys.argv = ["broker", *arguments]
    from broker.cli import main

    main()


def forked(arguments: list[str], orders: Orders, log: str, environment: Mapping[str, str]) -> None:
    """Run `broker` in a forked process, with a process group and an environment of its own, and
    output to a file."""
    gc.freeze()  # what was imported before is no garbage, and is not to be gone through
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    serve(arguments, orders)


def _hurry(upkeep: bool, slow: float) -> None:
    from broker.service.maintenance import Maintenance
    from broker.state import behind, checkpoints
    from feeds import poll

    # A thread brings the tables what the journal has, and makes checkpoints, all the time.
    behind._MANY, checkpoints.LOG = 8, 20_000

    def soon(*_: object, **__: object) -> float:
        return _FETCH * slow

    for name in ("regular_wait", "failure_wait"):
        assert hasattr(poll, name)
        setattr(poll, name, soon)
    if not upkeep:
        return
    original = Maintenance.__init__

    def hurried(self: Maintenance, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        assert {task.name for task in self._tasks} == _UPKEEP.keys()
        for task in self._tasks:
            task.every = _UPKEEP[task.name] * slow
            task.due = time.monotonic() + task.every

    Maintenance.__init__ = hurried  # type: ignore[method-assign]


def _set_apart(random: Random) -> None:
    from broker.documents import ahead
    from broker.engine import engine
    from broker.service import service
    from broker.service.pipeline import local

    for module, name, value in (
        (ahead, "WORTH", 1),
        (engine, "WORTH", 1),
        (local, "WORTH", 1),
        (ahead, "machine_is_busy", lambda: False),
        (service, "cores", lambda: 2),
    ):
        assert hasattr(module, name)
        setattr(module, name, value)
    original = ahead.Ahead.begin

    def begin(self: ahead.Ahead, rows: Sequence[Any]) -> bool:
        with suppress(OSError, EOFError, ValueError):  # it died, which the original finds out
            self.ready(PATIENCE)
        begun = original(self, rows)
        if begun and random.random() < _DYING:
            threading.Timer(random.random() * 0.005, self.kill).start()
        return begun

    ahead.Ahead.begin = begin  # type: ignore[method-assign]


def _set_clock(ahead: float, jump: float) -> None:
    """Set this process's wall clock, before any import can take a reference to the real one."""
    assert "broker" not in sys.modules
    seconds, nanoseconds = time.time, time.time_ns

    def jumped(*_: object) -> None:
        nonlocal ahead, jump
        ahead, jump = ahead + jump, -jump

    signal.signal(signal.SIGUSR1, jumped)
    time.time = lambda: seconds() + ahead
    time.time_ns = lambda: nanoseconds() + int(ahead * 1e9)


if __name__ == "__main__":
    serve(sys.argv[2:], Orders.loads(sys.argv[1]))
