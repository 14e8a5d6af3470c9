"""Expiry: which documents can be deleted, and when.

The rows of a document can be deleted when no future match can contain it. A future document is not
older than the watermark of its stream, and no match spans more than the widest window of any query.
So a document expires when it ended more than that window and the largest lateness before the
highest time. With a window of INFINITY no document ever expires, unless the user sets a bound
(`retain`).

A document that was dated beyond the clock when it came counts under such a bound as old as when it
came.

The identity of an expired document stays, so that a repetition is recognised, until the user's
bound for identities. It is never deleted within the lateness: a repetition of an older document is
late, so it is not admitted a second time either.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from broker.documents.admission import Admission
from broker.join.joiner import Joiner
from broker.model import UNBOUNDED
from broker.query.catalog import Catalog
from broker.standing.deleted import Deleted
from broker.standing.standings import Standings
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.statistics.outline_table import OutlineTable


class Retained(NamedTuple):
    """How many documents expired, and how many identities of expired documents were deleted."""

    documents: int
    identities: int


class Retention:
    """Deletes documents that ended before a horizon, within a transaction."""

    def __init__(
        self,
        store: Store,
        relations: MatchRelations,
        catalog: Catalog,
        joiner: Joiner,
        admission: Admission,
        standings: Standings,
        outlines: OutlineTable,
    ) -> None:
        self.store = store
        self.relations = relations
        self.catalog = catalog
        self.joiner = joiner
        self.admission = admission
        self.standings = standings
        self.outlines = outlines
        self._natural = -UNBOUNDED
        self._expired = -UNBOUNDED

    @property
    def horizon(self) -> int:
        """The last horizon, in microseconds; at most -UNBOUNDED if nothing has expired."""
        return self._expired

    def expire(self, seen: int, keep: int | None = None) -> int:
        """Expire the documents that ended more than the largest lateness and the widest window
        before `seen`, the highest time, and those that ended more than `keep` before it; returns
        how many. All times are in microseconds. While requested history is still to come nothing
        expires, because it joins documents that are older than any window reaches; and nothing does
        that event patterns have not decided about."""
        if self.admission.history_is_pending():
            self._expired = -UNBOUNDED
            return 0
        if self.standings:
            seen = min(seen, self.standings.settled)
        watermark = self.admission.watermark
        natural = horizon = seen - watermark.largest - self.catalog.widest_window()
        if keep is not None:
            horizon = max(horizon, seen - keep)
        if natural < self._natural:
            # A wrong time was corrected, or a window became wider: there may be documents older
            # than the last horizon.
            self._expired = -UNBOUNDED
        self._natural = natural
        if horizon <= max(-UNBOUNDED, self._expired):
            return 0
        # Documents older than the horizon may still be admitted; the next run expires them.
        self._expired = horizon
        self.store.on_rollback(self._forget)
        self.joiner.expire(horizon)
        if horizon > natural:
            # Windows still reach these documents, and the posting lists drop expired documents only
            # from time to time, so they are removed here.
            postings = self.joiner.postings
            postings.remove([d for d, record in postings.records.items() if record.end < horizon])
            self._delete(max(self.standings.deleted.before, horizon), self.standings.deleted.docs)
        self.standings.expire(horizon)
        expired = self.relations.expire(horizon)
        if keep is not None:
            expired += self._expire_postdated(seen - keep)
        self.outlines.release()
        return expired

    def _forget(self) -> None:
        """What was deleted may be there again."""
        self._expired = -UNBOUNDED
        self.relations.rolled_back()

    def _expire_postdated(self, horizon: int) -> int:
        """Expire the documents that came before a time, and are dated after it."""
        older = self.admission.postdated.older(horizon)
        there = self.relations.unexpired(older)
        docs = {doc: end for doc, end in older.items() if doc in there}
        if docs:
            self.joiner.postings.remove(docs)
            known = {**self.standings.deleted.docs, **docs}
            # Windows do not reach those before the horizon, or all of them are deleted.
            left = {doc: end for doc, end in known.items() if end >= self._expired}
            self._delete(self.standings.deleted.before, left)
            self.standings.drop([*docs])
        return self.relations.expire_each(docs)

    def _delete(self, before: int, docs: Mapping[int, int]) -> None:
        """Have these documents in no match of an event pattern any more."""
        self.store.on_rollback(partial(setattr, self.standings, "deleted", self.standings.deleted))
        self.standings.deleted = Deleted(
            before, docs, self.admission.next_doc - 1, self.relations.unexpired
        )

    def forget(self, seen: int, keep: int) -> int:
        """Delete the identities of expired documents that ended more than `keep` before `seen`;
        returns how many."""
        self.store.on_rollback(self._forget)
        keep = max(keep, self.admission.watermark.largest)
        postdated = self.admission.postdated
        gone = self.relations.forget(seen - keep, postdated.older(seen - keep))
        postdated.forget_gone(seen - keep)
        return gone
