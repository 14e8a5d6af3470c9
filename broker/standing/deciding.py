"""Results of event patterns: what is decided now, within the limits and budgets of each query."""

from __future__ import annotations

from collections.abc import Iterator

from broker.join.budget import Budget
from broker.pattern.standing import Published
from broker.query.catalog import Catalog
from broker.results.contents import Contents
from broker.results.matches import Result
from broker.standing.live import Live
from broker.standing.results import documents_of
from broker.standing.standings import TRIES, Standings
from broker.subscriptions.limits import Limits
from xscl.functions.texts import TextTooLong


class Deciding:
    """Makes results of what the patterns decide. Used within transactions."""

    def __init__(
        self,
        standings: Standings,
        catalog: Catalog,
        limits: Limits,
        budget: Budget,
        contents: Contents,
    ) -> None:
        self._standings = standings
        self._catalog = catalog
        self._limits = limits
        self._budget = budget
        self._contents = contents

    def results(self, doc: int, highest: int, now: int | None) -> Iterator[list[Result]]:
        """The results that are decided at this highest time, which was reached after document
        number `doc`; pattern by pattern, each behind those whose results it reads. Those of one may
        become documents before the next is asked."""
        for pattern, published in self._standings.settle(highest):
            yield self._of_pattern(pattern, published, doc, now)

    def _of_pattern(
        self, pattern: Live, published: list[Published] | None, doc: int, now: int | None
    ) -> list[Result]:
        """The matches of one pattern; none if they are more than its limit allows."""
        subscription, limits = pattern.subscription, self._limits
        number = subscription.number
        if published is None:
            most = TRIES * self._budget.combinations
            limits.stop(subscription, doc, f"more than {most:,} choices to try at one document")
            limits.stop_outer_queries(self._catalog)
            return []
        if not limits.admits(subscription, doc, len(published), now):
            limits.stop_outer_queries(self._catalog)
            return []
        documents = self._contents.of(documents_of(published), ())
        found: list[Result] = []
        for each in published:
            rows = each.instance.rows
            pair = (subscription.canonical.number, doc)
            meter = self._budget.meter(pair, subscription.delivery)
            try:
                match = pattern.maker.match(each, documents, meter)
            except TextTooLong:
                most = self._budget.budgets.text
                limits.stop(subscription, doc, f"results of more than {most:,} characters")
                return []
            self._budget.use(pair, subscription.delivery, meter)
            base = min([row.base for row in rows])
            found.append(Result(match, tuple([row.doc for row in rows]), base, [number], pair))
        limits.count_matches(number, len(found))
        return found
