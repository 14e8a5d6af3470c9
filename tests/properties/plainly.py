"""Matches made in the plain way: each of its documents is parsed, and all of it is text at once."""

from __future__ import annotations

from collections.abc import Sequence

from broker.join.candidates import Candidate
from broker.model import UNBOUNDED, DocumentRef, Match, compact_json, iso_time
from broker.query.canonical import Subscription
from broker.rendering.copies import node_xml
from broker.rendering.headline import headline
from broker.results.construct import construct, evaluator, item_texts, item_xml, renamed
from broker.results.joined import joined
from broker.results.match_ids import id_suffix, match_ids
from broker.state.stored_documents import StoredDocument
from broker.text.markup import element, text_xml
from broker.text.meter import Meter
from xscl.normal import ir
from xscl.normal.template import Template
from xscl.stage1.document import (
    ELEMENT_BITS,
    TEXT_NODE,
    attribute_name,
    node_element,
    node_text,
    parse_document,
)
from xscl.stage1.tree import Node


def match_of(
    subscription: Subscription,
    shape: Template,
    candidate: Candidate,
    stored: Sequence[StoredDocument],
) -> Match:
    """The match that a candidate of these documents is for one subscriber."""
    blocks = [block for block, _ in shape.nodes]
    roots = [parse_document(each.xml) for each in stored]
    delivery, positions = subscription.delivery, subscription.delivery.positions
    nodes = tuple(candidate.chosen.nodes[positions[i]] or 0 for i in delivery.selected)
    values = {}
    for name, index in delivery.variables:
        position = positions[index]
        root = roots[blocks[position]]
        texts = [node_text(root, node) for node in sorted(candidate.chosen.at(position))]
        values[name] = list(dict.fromkeys(texts))
    places = {
        name: (roots[blocks[p]], candidate.chosen.nodes[p] or 0)
        for name, p in delivery.named.items()
    }
    env: dict[str, Node] = {
        name: node_text(root, node) if node >> ELEMENT_BITS else node_element(root, node)
        for name, (root, node) in places.items()
    }
    for item in renamed(delivery.select):
        if item.name not in values:
            values[item.name or ""] = item_texts(item, evaluator(env))
    start, end = min(each.start for each in stored), max(each.end for each in stored)
    times = (("query", subscription.id), ("start", iso_time(start)), ("end", iso_time(end)))
    if isinstance(delivery.select, ir.Element):
        result = construct(delivery.select, evaluator(env), delivery.namespaces, Meter(UNBOUNDED))
    elif delivery.select is None:
        result = element("result", times, "".join(map(_copy, env.values(), places.values())))
    else:
        result = element(
            "result",
            times,
            "".join(item_xml(each, evaluator(env), Meter(UNBOUNDED)) for each in delivery.select),
        )
    identities = [compact_json(each.identity) for each in stored]
    return Match(
        id=match_ids([subscription], id_suffix(identities, compact_json(nodes))).hex(),
        query=subscription.id,
        stream=subscription.publish,
        start_us=start,
        end_us=end,
        documents=tuple(
            DocumentRef(each.id, each.streams[0], each.end, *headline(root))
            for each, root in zip(stored, roots, strict=True)
        ),
        values=values,
        nodes=nodes,
        result=result,
        joined=joined(delivery.variables, positions, shape.joins),
    )


def _copy(node: Node, place: tuple[Node, int]) -> str:
    """A copy of a node; an attribute becomes an element of its name."""
    root, number = place
    ordinal = number >> ELEMENT_BITS
    if not ordinal or ordinal & TEXT_NODE:
        return node_xml(node)
    assert not isinstance(root, str)
    assert isinstance(node, str)
    return element(attribute_name(node_element(root, number), number), (), text_xml(node))
