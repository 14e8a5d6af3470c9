"""The packs of the spool to which the engine has references: which it needs, and what is lost.

In: the open files of a state. Out: a spool without what nobody needs any more, and an engine
without the documents that the spool does not have.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from broker.delivery import Mailbox
from broker.engine import Engine
from broker.service.core.agreement import LOST
from broker.state.logged_documents import all_references, ends, first_needed
from broker.state.lost_documents import forget_lost
from feeds.kept_packs import lost
from feeds.spool import Reader, Spool

_log = structlog.get_logger(__name__)


class Packs:
    """The packs of a spool, which the engine reads by `reading`. Raises SpoolError and the errors
    of the engine."""

    def __init__(self, engine: Engine, spool: Spool, reading: Reader, mailbox: Mailbox) -> None:
        self._engine = engine
        self._spool = spool
        self._reading = reading
        self._mailbox = mailbox
        reading.given = spool.last_seq()  # by former processes
        self._since = 0
        """The first document that may need one."""
        self._deletions = -1
        """How often documents had been deleted when it was asked last which is needed."""
        self._trimming = threading.Lock()

    def trim(self, position: int) -> int:
        """Delete the rows up to a position, to which the engine has committed, but keep the packs
        that it needs; returns how many documents the rows had."""
        store = self._engine.store
        with self._trimming:
            deletions = self._engine.relations.deletions
            if self._reading.given < store.needs:
                needs, others = position + 1, store.needed_by_snapshots()  # no document needs any
            elif deletions == self._deletions:
                needs, others = store.needs, store.needed_by_snapshots()
            else:
                with store.snapshot() as statements:
                    # What has expired since they were opened, others may still read.
                    others = store.needed_by_snapshots(statements)
                    found, self._since = first_needed(statements, self._since)
                needs = store.needs = found or position + 1
                self._deletions = deletions
            return self._spool.trim(position, min(needs, others))

    @contextmanager
    def untrimmed(self) -> Iterator[None]:
        """A block during which no row of the spool is deleted."""
        with self._trimming:
            yield

    def look(self) -> None:
        """Find out whether the first and the last are there, and if not, which are lost."""
        if lost(self._reading, ends(self._engine.store)):
            self.forget_lost()

    def forget_lost(self) -> None:
        """Have the engine forget the documents that it needs and that the spool has lost. The
        caller holds the engine's lock."""
        store = self._engine.store
        found = lost(self._reading, all_references(store))
        self._reading.lacks = False
        if found:
            documents, matches = forget_lost(store, found, self._engine.outbox.handed)
            text = (
                f"{self._spool.path.name} has lost {documents:,} documents that were matched, and "
                f"with them {matches:,} matches that were not handed over: new documents do not "
                "match these any more. Restore a backup, or publish them again"
            )
            _log.warning(LOST, text=text)
            self._mailbox.record_event(LOST, text)
            store.broken = True  # the next use reads it again
            self._engine.acknowledge(())
