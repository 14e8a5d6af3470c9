"""Results of event patterns: what is decided now, within the limits and budgets of each query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from broker.join.budget import Budget
from broker.pattern.published import Published
from broker.pattern.setting import HELD
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.results.contents import Contents
from broker.results.match_ids import IdsOf, MatchIds
from broker.results.matches import Result
from broker.shared_match import MOST
from broker.standing.live import Live
from broker.standing.memory import TRIES
from broker.standing.plain_results import PlainResults
from broker.standing.standings import Standings
from broker.subscriptions.limits import Limits
from xscl.functions.texts import TextTooLong
from xscl.interruption import PENDING, check


class Deciding:
    """Makes results of what the patterns decide. Used within transactions."""

    def __init__(
        self,
        standings: Standings,
        catalog: Catalog,
        limits: Limits,
        budget: Budget,
        contents: Contents,
        ids: IdsOf | None = None,
    ) -> None:
        self._standings = standings
        self._catalog = catalog
        self._limits = limits
        self._budget = budget
        self._contents = contents
        self._ids = ids or MatchIds()
        self._plain = PlainResults(contents, budget, self._ids)

    def results(self, doc: int, highest: int, now: int | None) -> Iterator[list[Result]]:
        """The results that are decided at this highest time, which was reached after document
        number `doc`; those of each pattern behind those of patterns whose results it reads. They
        may become documents before the next is asked."""
        limits, work = self._limits, self._budget.work
        live = self._standings.live
        for group, answer in self._standings.settle(highest, self._begins):
            answer = self._standings.deleted.left(answer)
            left: Iterable[int] = answer
            if group is not None:
                if not limits and not limits.cuts and work.care is None:
                    plain, left = self._plain.of_group(group, answer, self._catalog.patterns, doc)
                    if plain:
                        yield plain
                left = sorted(left)
            for number in left:
                pattern = live[number]
                if group is None or (
                    self._standings.is_registered(pattern) and self._begins(pattern)
                ):
                    made = self.of_pattern(pattern, answer[number], doc, now)
                    if work.care is not None:
                        work.leave()
                    yield made

    def _begins(self, pattern: Live) -> bool:
        """Whether a pattern decides: one that is stopped for all who share it does not even
        begin."""
        cuts, work = self._limits.cuts, self._budget.work
        if not cuts and work.care is None:
            return True
        left = [each for number, each in pattern.subscriptions.items() if number not in cuts]
        if not left:
            return False
        if work.care is not None:
            work.enter((left[0].id, left[0].id))
        return True

    def of_pattern(
        self, pattern: Live, published: Sequence[Published] | None, doc: int, now: int | None
    ) -> list[Result]:
        """The matches of one pattern, for the subscriptions whose limits allow so many."""
        limits = self._limits
        here = self._catalog.patterns
        every = pattern.subscriptions.items()
        cuts = limits.cuts
        subscribers = [each for n, each in every if n in here and n not in cuts]
        if len(subscribers) > 1:
            subscribers.sort(key=_number)
        if published is None:
            self._budget.alone()
            most = TRIES * self._budget.combinations
            reason = (
                f"more than {most:,} choices to try at one document, or {most // HELD:,} that wait"
            )
            return self._stop(subscribers, doc, reason)
        count, left, limited = len(published), subscribers, bool(limits)
        if limited:
            left = [each for each in subscribers if limits.admits(each, doc, count, now)]
            if len(left) < len(subscribers):
                limits.stop_outer_queries(self._catalog)
        if not left:
            return []
        audiences = [left] if len(left) == 1 else _audiences(left)
        maker = pattern.maker
        every_rows = [each.instance.rows for each in published]
        documents = self._contents.of(maker.documents(published, every_rows), ())
        pair = (left[0].canonical.number, doc)
        found: list[Result] = []
        for each, rows in zip(published, every_rows, strict=True):
            if PENDING:
                check()
            meter = self._budget.meter(pair, left[0].delivery)
            try:
                matches = maker.matches(each, rows, audiences, documents, meter, self._ids)
            except TextTooLong:
                self._budget.alone()
                most = self._budget.budgets.text
                return self._stop(left, doc, f"results of more than {most:,} characters")
            self._budget.use(pair, left[0].delivery, meter)
            docs, base = tuple([row.doc for row in rows]), min([row.base for row in rows])
            for match, audience in zip(matches, audiences, strict=True):
                numbers = [subscription.number for subscription in audience]
                found.append(Result(match, docs, base, numbers, pair))
        if limited:
            for subscription in left:
                limits.count_matches(subscription.number, count)
        return found

    def _stop(self, subscribers: Sequence[Subscription], doc: int, reason: str) -> list[Result]:
        """Suspend subscriptions as a whole: a part of their matches would be wrong."""
        for each in subscribers:
            self._limits.stop(each, doc, reason)
        self._limits.stop_outer_queries(self._catalog)
        return []


_number = attrgetter("number")


def _audiences(subscribers: Sequence[Subscription]) -> list[list[Subscription]]:
    """Subscribers that share their matches: those that publish nothing, in pieces, and each other
    by itself."""
    groups: dict[object, list[Subscription]] = {}
    for place, each in enumerate(subscribers):
        alone = each.publish is not None or each.number < 0
        groups.setdefault(each.number if alone else ("", place // MOST), []).append(each)
    return [*groups.values()]
