"""The moments at which a process is killed: functions of the service, by name.

A point is passed before or after a function, or in front of a commit. `aim` makes this process end
itself at the n-th passing, as SIGKILL does: nothing is flushed, nothing is reported.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

When = Literal["before", "after", "during", "committing", "committed"]


@dataclass(frozen=True, slots=True)
class Point:
    """`committing` and `committed`: of the transactions of a class, the outermost ones."""

    module: str
    name: str
    when: When


_OFTEN = {
    # A feed, from the fetch to the spool.
    "fetched": Point("feeds.spool", "Spool.append", "before"),
    "feed stored": Point("feeds.spool", "Spool.append", "after"),
    # A document that is posted.
    "spool inserted": Point("feeds.row_log", "insert", "after"),
    "recent storing": Point("feeds.recent", "Recent.append", "before"),
    "recent stored": Point("feeds.recent", "Recent.append", "after"),
    "spool committing": Point("feeds.spool", "Spool._transaction", "committing"),
    "spool committed": Point("feeds.spool", "Spool._transaction", "committed"),
    "published": Point("feeds.spool", "Spool.publish", "after"),
    # A batch.
    "batch begun": Point("broker.engine", "Engine.apply", "before"),
    "batch found": Point("broker.state.outbox", "Outbox.post", "after"),
    "engine committing": Point("broker.state.store", "Store.transaction", "committing"),
    "engine committed": Point("broker.state.store", "Store.transaction", "committed"),
    "batch done": Point("broker.engine", "Engine.apply", "after"),
    "tables begun": Point("broker.state.behind", "Behind.begin", "during"),
    "tables brought": Point("broker.state.behind", "Behind.brought", "before"),
    "journal released": Point("broker.state.behind", "Behind.brought", "after"),
    # From the outbox to the mailbox.
    "taking": Point("broker.delivery.log", "Log.take", "before"),
    "taken ids": Point("broker.delivery.ids", "store", "after"),
    "mailbox committing": Point("broker.delivery.tables", "Database.transaction", "committing"),
    "mailbox committed": Point("broker.delivery.tables", "Database.transaction", "committed"),
    "taken": Point("broker.delivery.log", "Log.take", "after"),
    "acknowledged": Point("broker.engine", "Engine.acknowledge", "after"),
    # To the receivers.
    "webhook sent": Point("broker.delivery.webhook", "WebhookSender.send", "after"),
    "file written": Point("broker.delivery.files", "write", "after"),
    "file writing": Point("broker.state.append", "_write_all", "during"),
    "mail sent": Point("broker.delivery.mail", "MailSender.send", "after"),
    "settling": Point("broker.delivery.channels", "apply_report", "after"),
    "settled": Point("broker.delivery.mailbox", "Mailbox.apply_reports", "after"),
    "pulled": Point("broker.delivery.mailbox", "Mailbox.ack", "after"),
}
SELDOM = {
    # Subscriptions.
    "channels made": Point("broker.service.subscriptions", "put_channel", "after"),
    "registering": Point("broker.engine", "Engine.subscribe", "before"),
    "subscription written": Point("broker.subscriptions.registry", "Registry.subscribe", "after"),
    "subscribed": Point("broker.engine", "Engine.subscribe", "after"),
    "halting": Point("broker.subscriptions.registry", "Registry.halt", "before"),
    "paused": Point("broker.engine", "Engine.pause", "after"),
    "resumed": Point("broker.engine", "Engine.resume", "after"),
    "unsubscribed": Point("broker.engine", "Engine.unsubscribe", "after"),
    "dropped": Point("broker.delivery.mailbox", "Mailbox.drop", "after"),
    "throttle set": Point("broker.delivery.mailbox", "Mailbox.set_throttle", "after"),
    "history found": Point("broker.backfill", "backfill", "after"),
    "history taking": Point("broker.service.core.core", "Core.empty_outbox", "before"),
    "suspended": Point("broker.subscriptions.limits", "Limits.take_stopped", "after"),
    "suspension recorded": Point("broker.delivery.mailbox", "Mailbox.record_event", "after"),
    # An item that was edited.
    "replaced": Point("broker.join.joiner", "Joiner.replace", "after"),
    # Upkeep.
    "trimming": Point("feeds.row_log", "delete", "after"),
    "recent brought": Point("feeds.row_log", "bring", "after"),
    "trimmed": Point("feeds.spool", "Spool.trim", "after"),
    "checkpoint": Point("broker.state.store", "Store._checkpoint", "during"),
    "checkpointed": Point("broker.state.store", "Store._checkpoint", "after"),
    "spool compaction": Point("feeds.spool", "Spool.compact", "during"),
    "mailbox compaction": Point("broker.delivery.mailbox", "Mailbox.compact", "during"),
    "engine retention": Point("broker.engine", "Engine.retain", "during"),
    "mailbox retention": Point("broker.delivery.mailbox", "Mailbox.retain", "during"),
    "engine copy": Point("broker.state.store", "Store.backup", "during"),
    "spool copy": Point("feeds.spool", "Spool.backup", "during"),
    "mailbox copy": Point("broker.delivery.mailbox", "Mailbox.backup", "during"),
}
"""What happens a few times a second."""
POINTS = {**_OFTEN, **SELDOM}


@dataclass(frozen=True, slots=True)
class Aim:
    """Die when a point is passed for the `passing`-th time; `delay` seconds later for a point
    within a function."""

    point: str
    passing: int = 1
    delay: float = 0.0

    def __str__(self) -> str:
        return f"{self.point} #{self.passing}" + (f" +{self.delay:.4f} s" if self.delay else "")


def aim(at: Aim, mark: str) -> None:
    """Make this process die there; the empty file `mark` is created just before."""
    point = POINTS[at.point]
    lock, passed = threading.Lock(), 0

    def die() -> None:
        os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
        os.kill(os.getpid(), signal.SIGKILL)

    def passing() -> None:
        nonlocal passed
        with lock:
            passed += 1
            due = passed == at.passing
        if due and point.when == "during":
            threading.Timer(at.delay, die).start()
        elif due:
            die()

    patch(point, passing)


def patch(point: Point, passing: Callable[[], None]) -> None:
    """Call `passing` whenever the point is passed."""
    owner, last = place(point)
    original = getattr(owner, last)
    if point.when in ("committing", "committed"):
        setattr(owner, last, _transactions(original, passing, point.when))
    elif asyncio.iscoroutinefunction(original):
        assert point.when == "after"
        setattr(owner, last, _awaited(original, passing))
    else:
        setattr(owner, last, _called(original, passing, point.when))


def place(point: Point) -> tuple[Any, str]:
    """The module or class, and the function's name there. AttributeError if it is gone."""
    owner: Any = importlib.import_module(point.module)
    *classes, last = point.name.split(".")
    for name in classes:
        owner = getattr(owner, name)
    getattr(owner, last)
    return owner, last


def _called(
    original: Callable[..., Any], passing: Callable[[], None], when: When
) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(*args: Any, **named: Any) -> Any:
        if when != "after":
            passing()
        result = original(*args, **named)
        if when == "after":
            passing()
        return result

    return wrapped


def _awaited(original: Callable[..., Any], passing: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def wrapped(*args: Any, **named: Any) -> Any:
        result = await original(*args, **named)
        passing()
        return result

    return wrapped


def _transactions(
    original: Callable[..., Any], passing: Callable[[], None], when: When
) -> Callable[..., Any]:
    depth = threading.local()

    @contextmanager
    def wrapped(self: Any) -> Iterator[Any]:
        level = depth.__dict__.get("level", 0)
        depth.level = level + 1
        try:
            with original(self) as inside:
                yield inside
                if when == "committing" and not level:
                    passing()
        finally:
            depth.level = level
        if when == "committed" and not level:
            passing()

    return wrapped
