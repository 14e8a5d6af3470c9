"""What an engine holds: its settings, and everything in memory that is built from its store.

It is built when the state is opened, and built again if DuckDB had to reopen the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from broker.documents.admission import Admission, Requested
from broker.documents.admitted import WITNESS_ROWS
from broker.documents.dead_letters import DeadLetters
from broker.documents.watermark import WallClock, Watermark
from broker.engine.elsewhere import Elsewhere
from broker.engine.retention import Retention
from broker.join.budget import Budget
from broker.join.joiner import MEMORY, Joiner
from broker.join.ownership import ALL
from broker.join.work import Work
from broker.model import Budgets, Limit, Revisions
from broker.planner import PLANNING, Planning
from broker.query.canonical import Subscription
from broker.results.contents import Contents
from broker.results.publisher import Plans
from broker.standing.deciding import Deciding
from broker.standing.standings import Standings, Taken
from broker.state.outbox import Outbox
from broker.state.progress import Progress
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.statistics.outline_table import OutlineTable
from broker.statistics.streams import StreamCatalogue
from broker.stopwatch import Stopwatch
from broker.subscriptions.limits import Limits
from broker.subscriptions.listing import Listing
from broker.subscriptions.registry import Registry

LATENESS = 7 * 86_400 * 1_000_000
"""Allowed lateness by default, in microseconds."""

IDLE = 60 * 1_000_000
"""Default time without documents after which the watermark moves with the clock, in
microseconds."""

DEFAULT_BUDGETS = Budgets()

EXPIRY_EVERY = 64
"""Batches between two runs of expiry, by default."""

_CHUNK = 8_000


def steady_time() -> int:
    """A monotonic clock in microseconds."""
    return time.monotonic_ns() // 1_000


class Parts:
    """The parts of an engine over a store.

    `lateness`, `lateness_of` (by stream) and `idle` are in microseconds, see
    `broker/documents/watermark.py`; `memory` is the number of documents whose values are held in
    memory; `limit` applies to each subscription that has no limit of its own; `budgets` bound the
    work of each query at each document, see `broker/join/budget.py`. `steady` is a monotonic clock
    in microseconds. `pattern_lateness` says of an event pattern by how much its watermark is
    behind, if another engine knows that. `revisions` "replace" the stored document and complete no
    match, or "flow" as documents of their own, which never match other versions of themselves. With
    `keeping`, acknowledged matches stay in the outbox until `release`. `work` is the search while
    it runs, which other threads may stop. Documents expire after every `expiry_every`-th batch.
    What is done `elsewhere` is not done here. `planning` is how event patterns are planned.
    """

    def __init__(  # noqa: PLR0913  # each by its keyword
        self,
        store: Store,
        lateness: int = LATENESS,
        memory: int = MEMORY,
        *,
        lateness_of: Mapping[str, int] | None = None,
        limit: Limit | None = None,
        budgets: Budgets = DEFAULT_BUDGETS,
        idle: int = IDLE,
        steady: Callable[[], int] = steady_time,
        revisions: Revisions = "replace",
        pattern_lateness: Callable[[Subscription], int] | None = None,
        keeping: bool = False,
        work: Work | None = None,
        expiry_every: int = EXPIRY_EVERY,
        elsewhere: Elsewhere | None = None,
        planning: Planning = PLANNING,
    ) -> None:
        self.store = store
        self.elsewhere = elsewhere
        self._keeping = keeping
        self.work = work or Work()
        self._flow = revisions == "flow"
        self.clock = Stopwatch()
        self.wall = WallClock(steady)
        self._settings = (lateness, dict(lateness_of or {}), idle, steady)
        self._memory = memory
        self._limit = limit
        self._budgets = budgets
        self._planning = planning
        self._pattern_lateness = pattern_lateness
        self._requested: Requested | None = None
        self.expiry_every = expiry_every
        with store.loading():
            self._load()

    def _load(self) -> None:
        """Build everything in memory from the store."""
        store = self.store
        self.relations = relations = MatchRelations(store)
        lateness, lateness_of, idle, steady = self._settings
        progress = Progress(store)
        highest = progress.read().highest
        self.watermark = Watermark(highest, lateness, lateness_of, idle, steady)
        self.limits = Limits(store, self._limit)
        self.registry = Registry(store, self._withdrawn)
        self.listing = Listing(store)
        self.catalog = self.registry.catalog
        self.matcher = self.registry.stage1.matcher
        self.budget = Budget(self._budgets, self.work)
        home = ALL if self.elsewhere is None else self.elsewhere.home
        self.joiner = Joiner(relations, self.catalog, self.budget, self._memory, ownership=home)
        self.letter_table = DeadLetters(store)
        self.outbox = Outbox(store, relations, steady, keeping=self._keeping)
        self.outlines = OutlineTable(store)
        self.contents = Contents(relations)
        self.plans = Plans()
        self.admission = Admission(
            store, relations, progress, self.watermark, self.letter_table, flow=self._flow
        )
        self.admission.requested = self._requested
        self.standings = Standings(
            store,
            self.catalog,
            self.contents,
            self.watermark,
            self._budgets.combinations,
            self.work,
            self._pattern_lateness,
            self._planning,
            home,
            self._taken,
        )
        self.deciding = Deciding(
            self.standings, self.catalog, self.limits, self.budget, self.contents
        )
        self.retention = Retention(
            store,
            relations,
            self.catalog,
            self.joiner,
            self.admission,
            self.standings,
            self.outlines,
        )
        self.streams = StreamCatalogue(store)
        self.registry.suspend_refused(self.admission.next_doc)
        self.batches_applied = 0
        self.ticked = steady()

    def _taken(self) -> Iterator[Taken]:
        """All stored documents, with what the blocks of event patterns take of them."""
        self.joiner.refresh()
        for documents in self.relations.history(0, _CHUNK):
            rows = self.relations.rows.witnessed_by(documents[0].doc, documents[-1].doc)
            yield self.joiner.of_one(rows.cast(WITNESS_ROWS)), documents

    def _withdrawn(self, ids: Sequence[str], numbers: Sequence[int]) -> None:
        self.limits.remove(numbers)
        self.outbox.forget(ids)

    def expect(self, requested: Requested) -> None:
        """Set which documents of a log are requested history: these are never late, and while some
        are still to come nothing expires, so that they find the documents they join."""
        self._requested = self.admission.requested = requested

    def ready(self) -> None:
        """Reopen the file if DuckDB has given up on it."""
        if self.store.broken:
            handed = self.outbox.handed
            self.store.reopen()
            with self.store.loading():
                self._load()
            self.outbox.are_handed(handed)

    def newest(self) -> int:
        """The highest time so far, in microseconds; at most -UNBOUNDED before the first
        document."""
        return self.watermark.highest_at(self.wall.believed())
