"""How many combinations a query has at a document in all shards together, beside its budget.

In: what shards say of their combinations. Out: the pairs that are set aside. A shard tells of a
pair only where it has more than its part of the budget, as most pairs have few. Once one of them
has, what the others have below their parts counts as well: the batch is begun again, and from then
on all shards tell all that they have of that query. So they do of queries that read results, whose
combinations at one document may be found in several rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker.cluster.answers import Answer
from broker.cluster.variants import Variants
from broker.engine.suspending import report_set_aside
from broker.join.budget import Again, Pair
from broker.query.canonical import Subscription

if TYPE_CHECKING:
    from broker.engine import Engine


class Counting:
    """The combinations of the pairs of a batch, which have more than a few."""

    def __init__(self) -> None:
        self._counts: Counter[Pair] = Counter()
        self._reading: set[int] = set()
        self._near: set[int] = set()
        """Canonical queries that had more than the part of one shard."""

    def begin(self) -> None:
        """Begin a batch."""
        self._counts.clear()

    def read(self, numbers: Iterable[int]) -> None:
        """These canonical queries read results."""
        self._reading = {*numbers}

    def told(self, variants: Variants) -> frozenset[str]:
        """The variants of which shards tell all their combinations."""
        numbers = self._reading | self._near
        return variants.names(numbers) if numbers else frozenset()

    def take(
        self, answers: Sequence[Answer], engine: Engine, variants: Variants, now: int | None
    ) -> None:
        """Set the pairs aside that exceed a budget in one shard, or in all of them together. Raises
        Again where more has to be known."""
        counts, budget = self._counts, engine.budget
        fresh: set[Pair] = set()
        for each in answers:
            for query, doc, combinations, why, of in each.asides:
                number = _named(query, engine, variants)[0].canonical.number
                pair = (number, budget.completing((doc,)))
                counts[pair] += combinations
                if of is not None:
                    subscriptions = [s for n in of for s in _named(n, engine, variants)]
                    budget.too_long(pair, [each.number for each in subscriptions])
                elif why is not None:
                    budget.refuse(pair, why)
                elif counts[pair] > budget.combinations:
                    budget.too_many(pair)
                else:
                    fresh.add(pair)
        near = {pair[0] for pair in fresh if pair not in budget.exceeded}
        near -= self._near | self._reading
        if near:
            self._near |= near
            raise Again
        if counts:
            report_set_aside(engine, now)


def _named(name: str, engine: Engine, variants: Variants) -> list[Subscription]:
    """The subscriptions that shards know by a name."""
    known = engine.catalog.subscriptions.get(name)
    return variants.subscribers(name) if known is None else [known]
