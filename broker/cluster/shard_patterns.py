"""The event patterns of a shard: what they are told, and what they find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from broker.cluster.answers import Suffixes, Waits
from broker.cluster.keys import Key, owns
from broker.cluster.patterns import Patterns
from broker.cluster.segments import Step
from broker.documents.watermark import Watermark
from broker.join.budget import Budget
from broker.join.candidates import Found
from broker.join.joiner import Joiner
from broker.model import UNBOUNDED
from broker.pattern.instances import Row
from broker.query.catalog import Catalog
from broker.results.contents import Contents
from broker.results.matches import Result
from broker.standing.deciding import Deciding
from broker.standing.live import Live
from broker.standing.standings import Standings
from broker.state.pattern_tables import Entry, Mark
from broker.state.store import Store
from broker.state.stored_documents import StoredDocument
from broker.subscriptions.limits import Limits

Place = tuple[int, int]


class ShardPatterns:
    """The patterns whose home a shard is, and its share of those that are divided by values, over
    its parts. `place` is which of how many shards it is. All but `reload` is used within
    transactions."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        contents: Contents,
        limits: Limits,
        budget: Budget,
        place: Place,
    ) -> None:
        self._catalog = catalog
        self._place = place
        self.keys: dict[int, tuple[Key, ...]] = {}
        """By number, of those that all shards have, what their rows are divided by."""
        self._lateness: dict[int, int] = {}
        """By number, as the coordinator has them registered."""
        self._standings = Standings(
            store,
            catalog,
            contents,
            Watermark(-UNBOUNDED, 0, {}, 0, lambda: 0),  # asked for lateness, which is known
            budget.combinations,
            budget.work,
            lambda each: self._lateness[each.number],
            owns=self._owns,
        )
        self._deciding = Deciding(
            self._standings, catalog, limits, budget, contents, ids=Suffixes()
        )

    def __bool__(self) -> bool:
        return bool(self._standings)

    @property
    def marked(self) -> Mapping[int, Mapping[str, int]]:
        """What patterns have kept of their matches in this transaction, by number."""
        return dict(self._standings.marked)

    def _owns(self, pattern: Live, place: int, row: Row) -> bool:
        """Whether a row is for this shard; all are whose pattern has its home here."""
        keys = self.keys.get(pattern.subscription.number)
        return keys is None or owns(keys, place, row, *self._place)

    # -- making a shard anew -----------------------------------------------------------------

    def load(self, patterns: Patterns) -> None:
        """Begin with patterns that are as far as is said."""
        self._enter(patterns.entries)
        self._standings.tables.settle(patterns.settled)
        own = patterns.marks.keys() & self._catalog.patterns.keys()
        self._standings.tables.mark(
            [Mark(n, key, end) for n in sorted(own) for key, end in patterns.marks[n].items()]
        )
        self._standings.begin(patterns.settled)

    def drop(self, docs: Sequence[int]) -> None:
        """Drop the rows of documents that are revised."""
        self._standings.drop(docs)

    def fill(self, step: Step, rows: pa.Table, joiner: Joiner) -> None:
        """Store the rows of a step that is committed, without deciding anything."""
        if self:
            self._standings.note(step.late)
            if rows.num_rows:
                self._standings.fill(joiner.of_one(rows), ())

    def reload(self) -> None:
        """Make the patterns of all these rows, at the next batch."""
        self._standings.reload()

    # -- a batch -----------------------------------------------------------------------------

    def begin(self, entries: Mapping[int, Entry]) -> None:
        """Begin with those that are registered, or have changed."""
        self._enter(entries)
        self._standings.begin(-UNBOUNDED)

    def note(self, step: Step) -> None:
        self._standings.note(step.late)

    def take(self, found: list[Found], seen: Mapping[int, int]) -> list[Found]:
        """Take the candidates that are documents of patterns; the others are left."""
        return self._standings.take(found, (), seen)

    def decided(self, doc: int, highest: int) -> Iterator[list[Result]]:
        """What is decided at this highest time, after document number `doc`."""
        return self._deciding.results(doc, highest, None)

    def replace(self, rows: pa.Table, documents: Sequence[StoredDocument], joiner: Joiner) -> None:
        """Replace the rows of documents that are revised."""
        self._standings.replace(joiner.of_one(rows), documents)

    def expire(self, horizon: int) -> None:
        self._standings.expire(horizon)

    def end(self) -> None:
        self._standings.end()

    def waiting(self) -> Waits:
        """What they have not decided."""
        self._standings.begin(-UNBOUNDED)
        return Waits(self._standings.waiting(), self._standings.latest())

    def _enter(self, entries: Mapping[int, Entry]) -> None:
        own = {n: entry for n, entry in entries.items() if n in self._catalog.patterns}
        self._lateness.update({number: entry.lateness for number, entry in own.items()})
        self._standings.enter(own)
