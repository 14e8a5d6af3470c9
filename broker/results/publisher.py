"""From candidates to matches: each with its documents, the values that join, and its result.

Most queries select nodes. Their matches refer to documents and nodes, and what they publish is
derived when somebody reads it (`broker/rendering/rendering.py`). Where SELECT computes, names or
constructs something, the text is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.join.budget import Budget
from broker.join.candidates import Candidate
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

    __slots__ = ("blocks", "delivery", "joined", "known", "pieces", "selected", "shape", "values")

    def __init__(self, delivery: Delivery, shape: Template) -> None:
        self.delivery = delivery
        self.shape = shape
        self.blocks = blocks = [block for block, _ in shape.nodes]
        positions = delivery.positions
        self.selected = [positions[i] for i in delivery.selected]
        self.values = [(n, blocks[positions[i]], positions[i]) for n, i in delivery.variables]
        self.joined = joined(delivery.variables, positions, shape.joins)
        self.pieces = _pieces(delivery, blocks)
        self.known: dict[tuple[object, ...], Places] = {}

    def places(self, candidate: Candidate) -> Places:
        """Where the parts of a match stand in its documents."""
        nodes = candidate.nodes
        key = (nodes, *candidate.lists.items())
        known = self.known.get(key)
        if known is None:
            pieces = [(block, nodes[p] or 0, item) for block, p, item in self.pieces or ()]
            known = places(
                tuple([nodes[position] or 0 for position in self.selected]),
                tuple([(n, b, tuple(sorted(candidate.at(p)))) for n, b, p in self.values]),
                tuple(pieces),
                self.joined,
            )
            if len(self.known) >= _PLACES:
                self.known.clear()
            self.known[key] = known
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
    values, blocks = canonical.values, shape.nodes
    for a, b in shape.joins:
        one = documents[blocks[a][0]].content
        other = documents[blocks[b][0]].content
        lefts, rights = candidate.at(a), candidate.at(b)
        if len(lefts) == len(rights) == 1 and values[a] is values[b] is None:
            if one.text(lefts[0]) != other.text(rights[0]):
                return False
            continue
        left = [text for node in lefts for text in _texts(values[a], one, node)]
        right = [text for node in rights for text in _texts(values[b], other, node)]
        if set(left).isdisjoint(right):
            return False
    return True


class _Found(NamedTuple):
    """What the matches of a candidate have in common for subscribers of one delivery."""

    candidate: Candidate
    plan: Plan
    suffix: bytes
    start: int
    end: int
    nodes: tuple[int, ...]
    shared: Shared


class Publisher:
    """Makes the matches of some candidates."""

    def __init__(self, plans: Plans, budget: Budget) -> None:
        self._plans = plans
        self._budget = budget
        self._last: _Found | None = None

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
        found = self._last
        if (
            found is None
            or found.candidate is not candidate
            or found.plan.delivery is not first.delivery
        ):
            several = len(subscribers) > 1
            pair = (first.canonical.number, self._budget.completing(candidate.docs))
            meter = self._budget.meter(pair, first.delivery)
            found = self._found(first.delivery, shape, candidate, documents, several, meter)
            self._budget.use(pair, first.delivery, meter)
            self._last = found
        elif isinstance(found.shared, Rendering):
            found.shared.several = True
        _, plan, suffix, start, end, nodes, shared = found
        return SharedMatch(
            self._plans.ids.of(subscribers, suffix),
            [each.id for each in subscribers],
            first.publish,
            start,
            end,
            nodes,
            plan.joined,
            shared,
        )

    def _found(
        self,
        delivery: Delivery,
        shape: Template,
        candidate: Candidate,
        documents: list[Matched],
        several: bool,
        meter: Meter,
    ) -> _Found:
        plan = self._plans.of(delivery, shape)
        found = plan.places(candidate)
        contents = [d.content for d in documents]
        said = [d.said for d in documents]
        rendering = Rendering(candidate.docs, contents, said, found, several)
        shared: Shared = rendering
        if plan.pieces is None:
            shared = _made(plan, candidate, contents, rendering, meter)
        elif len(found.pieces) * sum([len(each.xml) for each in contents]) > meter.room:
            # Each copy is shorter than its document, so this is rarely so.
            for place, node, item in found.pieces:
                meter(contents[place].copy(node, item))
            meter.used = 0  # nothing is kept of them: a match refers to its nodes
        return _Found(
            candidate,
            plan,
            id_suffix([d.identity for d in documents], found.nodes_json),
            min([d.stored.start for d in documents]),
            max([d.stored.end for d in documents]),
            found.nodes,
            shared,
        )


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
        name: contents[plan.blocks[p]].context(candidate.nodes[p] or 0)
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
