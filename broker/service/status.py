"""The service in numbers: the sizes of its files, and the figures of an engine that may be busy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from broker.figures import Figures
from broker.figures import figures as engine_figures
from broker.service.core.core import Core
from broker.service.core.watchdog import resident
from broker.service.course import Look
from broker.state.disk import free, size
from broker.state.store import DatabaseError, StateError

_GLANCE = 0.5
"""The longest time in seconds that figures wait for the engine."""

_FRESH = 1_000_000
"""Microseconds for which figures are told again while documents wait: to count anew holds up the
next batch."""

_SHOWN = 100
"""The largest number of suspended subscriptions that figures name."""


class EngineFigures:
    """The figures of the engine, the last ones while it is busy. May be used from several
    threads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._last: tuple[Figures | None, tuple[str, ...], int] = (None, (), 0)

    def read(self, now: int, waits: bool) -> tuple[Figures | None, tuple[str, ...], int]:
        """The figures, the ids of suspended subscriptions, and when they were read: while documents
        wait (`waits`), at most once a second."""
        core, last = self._core, self._last
        if waits and last[0] is not None and 0 <= now - last[2] < _FRESH:
            return last
        # The pipeline reopens a broken database and reports its failure.
        with suppress(DatabaseError):
            core.engine.store.catch_up()  # while batches go on
        with core.lock.within(_GLANCE) as acquired:
            if acquired:
                with suppress(DatabaseError, StateError):
                    figures = engine_figures(core.engine)
                    ids: tuple[str, ...] = ()
                    if figures.suspended:
                        suspended = core.engine.registered(status="suspended", limit=_SHOWN)
                        ids = tuple([subscription.id for subscription in suspended])
                    self._last = (figures, ids, now)
        return self._last


def look(core: Core) -> Look:
    """Figures that are read without the engine."""
    last, applied = core.spool.last_seq(), core.position
    return Look(
        at=core.now(),
        accepted=last,
        applied=applied,
        backlog=max(0, last - applied),
        memory=resident(),
        files=sum(sizes(core.state).values()),
        free=free(core.state),
    )


def sizes(state: Path) -> dict[str, int]:
    """The size of each file in bytes, including write-ahead logs and the journal."""
    found = {
        name: sum(size(state / f"{name}{suffix}") for suffix in ("", "-wal", ".wal"))
        for name in ("broker.duckdb", "spool.sqlite", "mailbox.sqlite")
    }
    found["broker.duckdb"] += size(state / "journal")
    return found
