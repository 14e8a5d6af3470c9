"""Very many subscriptions paused, resumed or dropped at once: those of a list, or of a prefix.

A request is one transaction of the engine: it happens to all of its subscriptions or to none, and
from one document on. Who does not want to hold up documents for as long as very many take asks for
some at a time (`limit`), in the order of ids, each time behind the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import structlog

from broker.model import UNBOUNDED
from broker.service.core.answers import Pending
from broker.service.core.core import Core
from broker.service.subscriptions import half_gone

_log = structlog.get_logger(__name__)

Change = Literal["pause", "resume", "unsubscribe"]

_DONE: dict[Change, str] = {"pause": "paused", "resume": "resumed", "unsubscribe": "dropped"}


@dataclass(frozen=True, slots=True)
class Which:
    """Subscriptions by their ids, or by how these begin: at most `limit` behind `after`."""

    ids: tuple[str, ...] | None = None
    prefix: str = ""
    after: str = ""
    limit: int = UNBOUNDED


@dataclass(frozen=True, slots=True)
class Changed:
    """The result of a bulk change, or of its dry run: the ids that changed, how many were unchanged
    because they had the status already, which ids are unknown, and how many of the prefix are
    `left` after the `last`. The change holds from document number `first_doc` on."""

    changed: list[str]
    unchanged: int
    unknown: list[str]
    left: int
    last: str | None
    first_doc: int


class Bulk:
    """Changes many subscriptions of a state."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def change(
        self, what: Change, which: Which, *, pending: Pending = "deliver", dry_run: bool = False
    ) -> Changed:
        """Do it, or with `dry_run` only say what would be done. `pending` is for what is dropped,
        as in `Subscriptions.drop`."""
        core = self._core
        with core.lock:
            ids, left = self._found(which)
            known = [id for id in ids if core.engine.registry.known(id) is not None]
            gone = self._half_gone(which, ids, known, left) if what == "unsubscribe" else []
            there = [*known, *gone]
            changed = self._affected(what, there)
            if not dry_run:
                self._do(what, known, changed, pending)
            first_doc = core.engine.admission.next_doc
        if changed and not dry_run:
            _log.info(f"subscriptions.{_DONE[what]}", count=len(changed), prefix=which.prefix)
        unknown = [id for id in ids if id not in there]
        last = ids[-1] if ids else None
        return Changed(changed, len(there) - len(changed), unknown, left, last, first_doc)

    def _affected(self, what: Change, there: list[str]) -> list[str]:
        """Those whose status is another one afterwards."""
        if what == "unsubscribe":
            return there
        halted = self._core.engine.registry.halted
        return [id for id in there if (id in halted) == (what == "resume")]

    def _do(self, what: Change, known: list[str], changed: list[str], pending: Pending) -> None:
        core = self._core
        match what:
            case "pause":
                core.engine.pause_all(changed, now=core.now())
            case "resume":
                core.engine.resume_all(changed, core.now())
            case "unsubscribe":
                core.empty_outbox()
                core.engine.unsubscribe(*known)
                core.mailbox.drop_all(changed, pending)

    def _found(self, which: Which) -> tuple[list[str], int]:
        """The ids, and how many more there are behind them."""
        if which.ids is not None:
            return [*dict.fromkeys(which.ids)], 0
        return self._core.engine.listing.ids(which.prefix, which.after, which.limit)

    def _half_gone(
        self, which: Which, ids: Iterable[str], known: Iterable[str], left: int
    ) -> list[str]:
        """The ids that a process removed from the engine, but died before it removed them from the
        mailbox."""
        mailbox = self._core.mailbox
        if which.ids is not None:
            return sorted(id for id in {*ids} - {*known} if half_gone(mailbox, id))
        if left:  # the last request for the prefix looks for them
            return []
        found = mailbox.left_of(which.prefix) - {*known}
        return sorted(id for id in found if self._core.engine.registry.known(id) is None)
