"""What may be forgotten, and when.

A row of the match relations may go when no match to come can hold its document. A document to come
is not older than the watermark of its stream, and no match spans more than the widest window of any
query, so a document that ended more than that window and the largest lateness before the highest
time is out of reach. With a window of INFINITY nothing ever is; a bound that the user sets
(`retain`) makes an end of that.

The identity of a document that has gone stays, so that it is known when it comes again, until the
user's bound for identities. It is never forgotten within the lateness: a document that old is late
by itself, so repeating it never makes a second one.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.documents.admission import Admission
from broker.join.joiner import Joiner
from broker.model import UNBOUNDED
from broker.query.catalog import Catalog
from broker.state.relations import MatchRelations
from broker.state.store import Store


class Retained(NamedTuple):
    """How many documents were let go, and how many identities of such."""

    documents: int
    identities: int


class Retention:
    """Lets go, within a transaction, of what ended before a horizon."""

    def __init__(
        self,
        store: Store,
        relations: MatchRelations,
        catalog: Catalog,
        joiner: Joiner,
        admission: Admission,
    ) -> None:
        self.store = store
        self.relations = relations
        self.catalog = catalog
        self.joiner = joiner
        self.admission = admission
        self._natural = -UNBOUNDED
        self._expired = -UNBOUNDED

    def expire(self, seen: int, keep: int | None = None) -> int:
        """Forget what ended more than the largest lateness and the widest window before `seen`, and
        what ended more than `keep` before it. The number of documents that went. While history that
        was asked for is still to come nothing goes: it joins what is older than any window
        reaches."""
        if self.admission.history_is_pending():
            self._expired = -UNBOUNDED
            return 0
        watermark = self.admission.watermark
        natural = horizon = seen - watermark.largest - self.catalog.widest_window()
        if keep is not None:
            horizon = max(horizon, seen - keep)
        if natural < self._natural:
            # Time has been put right, or a window is wider: documents may have come that are older.
            self._expired = -UNBOUNDED
        self._natural = natural
        if horizon <= max(-UNBOUNDED, self._expired):
            return 0
        # Documents may still come that are older; the next look takes them too.
        self._expired = horizon
        self.store.undo(lambda: setattr(self, "_expired", -UNBOUNDED))
        self.joiner.expire(horizon)
        if horizon > natural:
            # A window would still reach them, and memory lets go only now and then.
            postings = self.joiner.postings
            postings.remove([d for d, record in postings.records.items() if record.end < horizon])
        return self.relations.expire(horizon)

    def forget(self, seen: int, keep: int) -> int:
        """Forget the identities of documents that have gone and ended more than `keep` before
        `seen`. Their number."""
        keep = max(keep, self.admission.watermark.largest)
        return self.relations.forget(seen - keep)
