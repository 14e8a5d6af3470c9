"""From candidates to matches: each with its documents, the values that join, and its result.

Most queries select nodes. Their matches refer to documents and nodes, and what they publish is
derived when somebody reads it (`broker/rendering/rendering.py`). Where SELECT computes, names or
constructs something, the text is made here.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.join.budget import Budget
from broker.join.candidates import Candidate, Chosen
from broker.query.blueprint import Delivery
from broker.query.canonical import Canonical, Subscription
from broker.rendering.content import Content
from broker.rendering.rendering import Places, Rendering, places
from broker.results.construct import construct, evaluator, item_texts, item_xml, renamed
from broker.results.contents import Matched
from broker.results.joined import joined
from broker.results.match_ids import IdsOf, MatchIds, id_suffix
from broker.shared_match import Shared, SharedMatch, Whole
from broker.text.meter import Meter
from xscl.normal import ir
from xscl.normal.template import Template
from xscl.stage1.filters import as_text, compile_value, text_of
from xscl.stage1.tree import Node

_PLACES = 50
"""Places of a plan that are remembered."""

_PLANS = 10_000


class Plan:
    """How the matches of all subscriptions with one delivery are made, in positions of the
    template. `pieces` are None where SELECT asks for more than copies of nodes."""

    __slots__ = (
        *("_known", "_same", "blocks", "delivery", "joined"),
        *("pieces", "selected", "shape", "values"),
    )

    def __init__(self, delivery: Delivery, shape: Template) -> None:
        self.delivery = delivery
        self.shape = shape
        self.blocks = blocks = [block for block, _ in shape.nodes]
        positions = delivery.positions
        self.selected = [positions[i] for i in delivery.selected]
        self.values = [(n, blocks[positions[i]], positions[i]) for n, i in delivery.variables]
        self.joined = joined(delivery.variables, positions, shape.joins)
        self.pieces = _pieces(delivery, blocks)
        self._known: dict[tuple[object, ...], Places] = {}
        self._same: dict[Chosen, Places] = {}
        """By the object, which is faster than by what it says."""

    def places(self, chosen: Chosen) -> Places:
        """Where the parts of a match stand in its documents."""
        same = self._same.get(chosen)
        if same is not None:
            return same
        nodes = chosen.nodes
        key = (nodes, *chosen.lists.items())
        known = self._known.get(key)
        if known is None:
            pieces = [(block, nodes[p] or 0, item) for block, p, item in self.pieces or ()]
            known = places(
                tuple([nodes[position] or 0 for position in self.selected]),
                tuple([(n, b, tuple(sorted(chosen.at(p)))) for n, b, p in self.values]),
                tuple(pieces),
                self.joined,
            )
            if len(self._known) >= _PLACES:
                self._known.clear()
            self._known[key] = known
        if len(self._same) >= _PLACES:
            self._same.clear()
        self._same[chosen] = known
        return known


def _pieces(delivery: Delivery, blocks: Sequence[int]) -> list[tuple[int, int, bool]] | None:
    """Block and position of each node that SELECT copies, and whether it is an item of a list."""
    select, named = delivery.select, delivery.named
    if select is None:
        return [(blocks[p], p, False) for p in named.values()]
    if isinstance(select, ir.Element):
        return None
    found = []
    for item in select:
        if item.name is not None:
            return None
        match item.expr:
            case ir.VariablePath(variable=variable, steps=()):
                found.append((blocks[named[variable]], named[variable], True))
            case _:
                return None
    return found


class Plans:
    """The plans of the queries that matched, the last few thousand, and the `ids` of their
    matches."""

    def __init__(self, ids: IdsOf | None = None) -> None:
        self.ids = ids or MatchIds()
        # By the delivery's identity: to compare deliveries costs more than to make a match. The
        # plan holds the delivery, so no other one can have its identity.
        self._plans: dict[tuple[int, int], Plan] = {}

    def of(self, delivery: Delivery, shape: Template) -> Plan:
        key = (id(delivery), id(shape))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = Plan(delivery, shape)
        return plan


def confirmed(
    canonical: Canonical, shape: Template, candidate: Candidate, documents: Sequence[Matched]
) -> bool:
    """Whether joined values are equal as strings, and not only their codes, which are
    hashes."""
    compared = candidate.chosen.compared(canonical, shape)
    if compared is not None:
        for one_block, one_node, other_block, other_node in compared:
            one, other = documents[one_block], documents[other_block]
            left_text = one.texts.get(one_node)
            if left_text is None:
                left_text = one.text(one_node)
            right_text = other.texts.get(other_node)
            if right_text is None:
                right_text = other.text(other_node)
            if left_text != right_text:
                return False
        return True
    values, blocks = canonical.values, shape.nodes
    for a, b in shape.joins:
        one, other = documents[blocks[a][0]], documents[blocks[b][0]]
        lefts, rights = candidate.chosen.at(a), candidate.chosen.at(b)
        left = [text for node in lefts for text in _texts(values[a], one, node)]
        right = [text for node in rights for text in _texts(values[b], other, node)]
        if set(left).isdisjoint(right):
            return False
    return True


class Publisher:
    """Makes the matches of some candidates."""

    def __init__(self, plans: Plans, budget: Budget) -> None:
        self._plans = plans
        self._budget = budget
        self._candidate: Candidate | None = None
        self._delivery: Delivery | None = None
        self._suffix = b""
        self._last: SharedMatch | None = None
        """The match that was made last, of this candidate for subscribers of this delivery."""

    def match(
        self,
        subscribers: Sequence[Subscription],
        shape: Template,
        candidate: Candidate,
        documents: list[Matched],
    ) -> SharedMatch:
        """The match that a candidate of these documents is for subscribers with one delivery and
        one stream to publish to; `shape` is their template. Raises TextTooLong where the query has
        too long results at the document that completes the match."""
        first = subscribers[0]
        last, delivery = self._last, first.delivery
        queries = [first.id] if len(subscribers) == 1 else [each.id for each in subscribers]
        if last is None or self._candidate is not candidate or self._delivery is not delivery:
            plan = self._plans.of(delivery, shape)
            found = plan.places(candidate.chosen)
            start, end = documents[0].stored.start, documents[0].stored.end
            said: list[str] = []
            identities: list[str] = []
            size = 0
            for document in documents:
                said.append(document.said)
                identities.append(document.identity)
                size += len(document.xml)
                stored = document.stored
                if stored.start < start:
                    start = stored.start
                if stored.end > end:
                    end = stored.end
            rendering = Rendering(candidate.docs, documents, said, found, len(queries) > 1)
            shared: Shared = rendering
            # Each copy is shorter than its document, so this is rarely so.
            if plan.pieces is None or len(found.pieces) * size > self._budget.budgets.text:
                shared = self._measured(plan, candidate, documents, rendering, first)
            self._suffix = id_suffix(identities, found.nodes_json)
            last = SharedMatch(
                self._plans.ids.of(subscribers, self._suffix),
                queries,
                first.publish,
                start,
                end,
                found.nodes,
                plan.joined,
                shared,
            )
            self._candidate, self._delivery, self._last = candidate, delivery, last
            return last
        if isinstance(last.shared, Rendering):
            last.shared.several = True
        return SharedMatch(
            self._plans.ids.of(subscribers, self._suffix),
            queries,
            first.publish,
            last.start_us,
            last.end_us,
            last.nodes,
            last.joined,
            last.shared,
        )

    def _measured(
        self,
        plan: Plan,
        candidate: Candidate,
        documents: Sequence[Matched],
        rendering: Rendering,
        subscriber: Subscription,
    ) -> Shared:
        """The parts of a match, once it is certain that its result is not too long. Raises
        TextTooLong."""
        budget = self._budget
        pair = (subscriber.canonical.number, budget.completing(candidate.docs))
        meter = budget.meter(pair, plan.delivery)
        if plan.pieces is None:
            made = _made(plan, candidate, documents, rendering, meter)
            budget.use(pair, plan.delivery, meter)
            return made
        for place, node, item in rendering.places.pieces:
            meter(documents[place].copy(node, item))
        return rendering  # nothing is kept of the copies: a match refers to its nodes


def _made(
    plan: Plan,
    candidate: Candidate,
    contents: Sequence[Content],
    rendering: Rendering,
    meter: Meter,
) -> Whole:
    """A match with what SELECT makes of its nodes, as text. Raises TextTooLong."""
    delivery = plan.delivery
    select = delivery.select
    env: dict[str, Node] = {
        name: contents[plan.blocks[p]].context(candidate.chosen.nodes[p] or 0)
        for name, p in delivery.named.items()
    }
    evaluate = evaluator(env)
    values = rendering.derive_values()
    for item in renamed(select):
        if item.name not in values:
            values[item.name or ""] = [*map(meter, item_texts(item, evaluate))]
    if isinstance(select, ir.Element):
        content, wrapped = construct(select, evaluate, delivery.namespaces, meter), False
    else:
        content, wrapped = "".join([item_xml(item, evaluate, meter) for item in select or ()]), True
    return Whole(rendering.derive_documents(), values, content, wrapped)


def _texts(expr: ir.Expr | None, content: Content, node: int) -> list[str]:
    """The values at a node: one, unless what is computed of it gives several."""
    if expr is None:
        return [content.text(node)]
    value = compile_value(expr)(content.context(node))
    return [*map(text_of, value)] if isinstance(value, list) else [as_text(value)]
