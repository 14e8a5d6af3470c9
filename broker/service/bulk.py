"""Pausing, resuming and dropping very many subscriptions at once: those of a list or of a prefix.

A request is one transaction of the engine: it applies to all of its subscriptions or to none, from
the same document on. Documents wait meanwhile, so callers split large changes by `limit` and
`after`, in the order of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import structlog

from broker.model import UNBOUNDED
from broker.service.access.access import Access
from broker.service.access.scopes import SERVICE, Identity
from broker.service.core.answers import Pending
from broker.service.core.core import Core
from broker.service.subscriptions import is_partly_dropped
from broker.service.tenants import Tenants

_log = structlog.get_logger(__name__)

Change = Literal["pause", "resume", "unsubscribe"]

_EVENTS: dict[Change, str] = {"pause": "paused", "resume": "resumed", "unsubscribe": "dropped"}


@dataclass(frozen=True, slots=True)
class Selection:
    """Subscriptions by their ids, or by the prefix of these: at most `limit` after `after`."""

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

    def __init__(self, core: Core, access: Access, tenants: Tenants) -> None:
        self._core = core
        self._access = access
        self._tenants = tenants

    def change(
        self,
        change: Change,
        selection: Selection,
        *,
        pending: Pending = "deliver",
        dry_run: bool = False,
        who: Identity = SERVICE,
    ) -> Changed:
        """Change the selected subscriptions of `who`; with `dry_run` only return the result.
        `pending` is for undelivered matches of dropped ones, as in `Subscriptions.drop`."""
        core = self._core
        with core.at_once():
            ids, left = self._select(selection, who)
            own = [id for id in ids if self._access.owns(who, id)]
            known = [id for id in own if core.engine.registry.known(id) is not None]
            partly: list[str] = []
            if change == "unsubscribe" and (who.operates or selection.ids is not None):
                partly = self._partly_dropped(selection, own, known, left)
            existing = [*known, *partly]
            changed = self._affected(change, existing)
            if change == "resume":
                self._tenants.check_streams_of(who, changed)
            if not dry_run:
                self._apply(change, known, changed, pending)
            first_doc = core.engine.admission.next_doc
        if changed and not dry_run:
            if change == "unsubscribe":
                self._tenants.release(changed)
            event = f"subscriptions.{_EVENTS[change]}"
            _log.info(event, count=len(changed), prefix=selection.prefix)
        found = {*existing}
        unknown = [id for id in ids if id not in found]
        last = ids[-1] if ids else None
        return Changed(changed, len(existing) - len(changed), unknown, left, last, first_doc)

    def _affected(self, change: Change, existing: list[str]) -> list[str]:
        """The ids whose status the change alters."""
        if change == "unsubscribe":
            return existing
        halted = self._core.engine.registry.halted
        return [id for id in existing if (id in halted) == (change == "resume")]

    def _apply(
        self, change: Change, known: list[str], changed: list[str], pending: Pending
    ) -> None:
        core = self._core
        match change:
            case "pause":
                core.engine.pause_all(changed, now=core.now())
            case "resume":
                core.engine.resume_all(changed, core.now())
            case "unsubscribe":
                core.empty_outbox()
                core.engine.unsubscribe(*known)
                core.mailbox.drop_all(changed, pending)

    def _select(self, selection: Selection, who: Identity) -> tuple[list[str], int]:
        """The ids, and the number of further ones with the prefix."""
        if selection.ids is not None:
            return [*dict.fromkeys(selection.ids)], 0
        if not who.operates:
            found = self._access.owned(who.name, selection.prefix, selection.after)
            found = [id for id in found if self._core.engine.registry.known(id) is not None]
            return found[: selection.limit], max(0, len(found) - selection.limit)
        return self._core.engine.listing.ids(selection.prefix, selection.after, selection.limit)

    def _partly_dropped(
        self, selection: Selection, ids: Iterable[str], known: Iterable[str], left: int
    ) -> list[str]:
        """The ids that a process removed from the engine, but died before it removed them from the
        mailbox."""
        mailbox = self._core.mailbox
        if selection.ids is not None:
            return sorted(id for id in {*ids} - {*known} if is_partly_dropped(mailbox, id))
        if left:  # the last request for the prefix searches for them
            return []
        in_mailbox = mailbox.left_of(selection.prefix) - {*known}
        return sorted(id for id in in_mailbox if self._core.engine.registry.known(id) is None)
