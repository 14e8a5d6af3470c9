"""Results of patterns whose matches say nothing but documents and nodes, and for one subscriber:
those of nearly all of very many patterns. They are what `Maker` makes, in fewer steps."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from broker.join.budget import Budget
from broker.model import UNBOUNDED
from broker.pattern.in_order.standing import Answer
from broker.pattern.published import Published
from broker.query.canonical import Subscription
from broker.query.patterns import shown_id
from broker.rendering.rendering import Rendering
from broker.results.contents import Contents, Matched
from broker.results.match_ids import IdsOf, id_suffix
from broker.results.matches import Result
from broker.shared_match import SharedMatch
from broker.standing.live import Group
from broker.standing.results import Maker
from xscl.interruption import PENDING, check


class PlainResults:
    """Makes them with these contents and ids."""

    def __init__(self, contents: Contents, budget: Budget, ids: IdsOf) -> None:
        self._contents = contents
        self._budget = budget
        self._ids = ids

    def of_group(
        self,
        group: Group,
        answer: Answer,
        registered: Container[int],
        doc: int,
    ) -> tuple[list[Result], Collection[int]]:
        """The results that patterns of a group have decided after document number `doc`, for those
        of their subscribers that are `registered`; and the numbers of the patterns whose results
        take more to be made: several subscriptions have them, others read what they publish, or a
        text may be too long."""
        maker = group.maker
        if not (maker.plain and group.standing.shared.of_blocks):
            return [], answer
        found: list[Result] = []
        left: list[int] = []
        for number, published in answer.items():
            subscriptions = group.patterns[number].subscriptions
            if published is None or len(subscriptions) != 1:
                left.append(number)
                continue
            ((of, to),) = subscriptions.items()
            if of not in registered:
                continue
            if to.publish is not None or of < 0 or not self._add(maker, to, published, doc, found):
                left.append(number)
        return found, left

    def _add(
        self,
        maker: Maker,
        to: Subscription,
        published: Sequence[Published],
        doc: int,
        results: list[Result],
    ) -> bool:
        """Add the results that matches are for a subscriber; False, and none, where a text may be
        too long."""
        pair, numbers, subscribers = (to.canonical.number, doc), (to.number,), (to,)
        shown = (shown_id(to.id),)
        one, most, ids = self._contents.one, self._budget.budgets.text, self._ids
        known = maker.same
        found: list[Result] = []
        for each in published:
            if PENDING:
                check()
            docs, matched, said, identities, objects = [], [], [], [], []
            base: int = UNBOUNDED
            instance = each.instance
            rows = instance.rows
            for row in rows:
                number = row.doc
                there: Matched = one(number)
                if len(there.xml) > most:
                    return False
                docs.append(number)
                matched.append(there)
                said.append(there.said)
                identities.append(there.identity)
                objects.append(id(row.nodes))
                objects.append(row.node)
                if row.base < base:
                    base = row.base
            own, key = (*docs,), (*objects,)
            same = known.get(key)
            places = maker.places(each, rows, own, key) if same is None else same[0]
            suffix = id_suffix(identities, places.identity_json)
            match = SharedMatch(
                *(ids.of(subscribers, suffix), shown, None, instance.start, instance.end),
                *(places.nodes, (), Rendering(own, matched, said, places)),
            )
            found.append(Result(match, own, base, numbers, pair))
        results += found
        return True
