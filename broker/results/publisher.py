"""From candidate rows to matches: each with its documents, the values that join, and its result.

Documents are parsed again only here, for those that matched, and each once per batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lxml import etree

from broker.join.candidates import Candidate
from broker.model import DocumentRef, Match, iso_time, match_id
from broker.query.catalog import Canonical, Subscription
from broker.results.construct import (
    construct,
    element,
    item_texts,
    item_xml,
    node_xml,
    renamed,
    text_xml,
)
from broker.results.headline import headline
from broker.results.joined import joined
from broker.state.relations import StoredDocument
from xscl.normal import ir
from xscl.stage1.document import (
    ELEMENT_BITS,
    ELEMENT_MASK,
    TEXT_NODE,
    attribute_name,
    parse_document,
    text_at,
)
from xscl.stage1.filters import as_text, compile_value, text_of
from xscl.stage1.tree import Node


class Publisher:
    """Makes the matches of one batch, of these documents by number."""

    def __init__(self, documents: Mapping[int, StoredDocument]) -> None:
        self._stored = documents
        self._elements: dict[int, list[etree._Element]] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self._copies: dict[tuple[int, int], str] = {}
        self._refs: dict[int, DocumentRef] = {}

    def _element(self, doc: int, node: int) -> etree._Element:
        """The element that a node is or belongs to; a document's nodes are counted once."""
        elements = self._elements.get(doc)
        if elements is None:
            root = parse_document(self._stored[doc].xml)
            elements = self._elements[doc] = list(root.iter())
        return elements[node & ELEMENT_MASK]

    def _text(self, doc: int, node: int) -> str:
        text = self._texts.get((doc, node))
        if text is None:
            text = self._texts[doc, node] = text_at(self._element(doc, node), node)
        return text

    def confirmed(
        self,
        canonical: Canonical,
        blocks: Sequence[int],
        candidate: Candidate,
        joins: Sequence[tuple[int, int]],
    ) -> bool:
        """Whether joined values are equal as strings, and not only their codes, which are
        hashes."""
        for a, b in joins:
            lefts, rights = candidate.at(a), candidate.at(b)
            one, other = candidate.docs[blocks[a]], candidate.docs[blocks[b]]
            left = [text for node in lefts for text in self._value(canonical, one, a, node)]
            right = [text for node in rights for text in self._value(canonical, other, b, node)]
            if set(left).isdisjoint(right):
                return False
        return True

    def _value(self, canonical: Canonical, doc: int, position: int, node: int) -> list[str]:
        """The values at a node: one, unless what is computed of it gives several."""
        expr = canonical.values[position]
        if expr is None:
            return [self._text(doc, node)]
        value = compile_value(expr)(self._context(doc, node))
        return [*map(text_of, value)] if isinstance(value, list) else [as_text(value)]

    def _context(self, doc: int, node: int) -> Node:
        return self._text(doc, node) if node >> ELEMENT_BITS else self._element(doc, node)

    def _ref(self, doc: int) -> DocumentRef:
        ref = self._refs.get(doc)
        if ref is None:
            stored = self._stored[doc]
            called = headline(self._element(doc, 0))
            ref = DocumentRef(stored.id, stored.streams[0], stored.end, *called)
            self._refs[doc] = ref
        return ref

    def match(
        self,
        subscription: Subscription,
        blocks: Sequence[int],
        candidate: Candidate,
        joins: tuple[tuple[int, int], ...],
    ) -> Match:
        """The match that a candidate is for one subscriber; `joins` are the template's."""
        stored = [self._stored[d] for d in candidate.docs]
        delivery, positions = subscription.delivery, subscription.delivery.positions
        nodes = tuple([candidate.nodes[positions[i]] or 0 for i in delivery.selected])
        values: dict[str, list[str]] = {}
        for name, index in delivery.variables:
            position = positions[index]
            doc = candidate.docs[blocks[position]]
            texts = [self._text(doc, n) for n in sorted(candidate.at(position))]
            values[name] = list(dict.fromkeys(texts))
        for item in renamed(delivery.select):
            if item.name not in values:
                values[item.name or ""] = self._selected(subscription, blocks, candidate, item)
        start, end = min(s.start for s in stored), max(s.end for s in stored)
        id, text = subscription.id, subscription.text
        return Match(
            id=match_id(id, text, [s.identity for s in stored], nodes),
            query=id,
            stream=subscription.publish,
            start_us=start,
            end_us=end,
            documents=tuple([self._ref(doc) for doc in candidate.docs]),
            values=values,
            nodes=nodes,
            result=self._result(subscription, blocks, candidate, start, end),
            joined=joined(delivery.variables, positions, joins),
        )

    def _result(
        self,
        subscription: Subscription,
        blocks: Sequence[int],
        candidate: Candidate,
        start: int,
        end: int,
    ) -> str:
        places = [
            (name, candidate.docs[blocks[p]], candidate.nodes[p] or 0)
            for name, p in subscription.delivery.named.items()
        ]
        select, namespaces = subscription.delivery.select, subscription.delivery.namespaces
        if select is None:
            content = [self._copy(doc, node) for _, doc, node in places]
        else:
            env = {name: self._context(doc, node) for name, doc, node in places}
            if isinstance(select, ir.Element):
                return construct(select, env, namespaces)
            content = [item_xml(item, env) for item in select]
        times = (("start", iso_time(start)), ("end", iso_time(end)))
        return element("result", (("query", subscription.id), *times), "".join(content))

    def _selected(
        self,
        subscription: Subscription,
        blocks: Sequence[int],
        candidate: Candidate,
        item: ir.Item,
    ) -> list[str]:
        """The texts that SELECT gives a name with AS."""
        delivery = subscription.delivery
        env = {
            name: self._context(candidate.docs[blocks[p]], candidate.nodes[p] or 0)
            for name, p in delivery.named.items()
        }
        return item_texts(item, env)

    def _copy(self, doc: int, node: int) -> str:
        """A copy of a node; an attribute becomes an element of its name."""
        copy = self._copies.get((doc, node))
        if copy is None:
            ordinal = node >> ELEMENT_BITS
            if ordinal and not ordinal & TEXT_NODE:
                name = attribute_name(self._element(doc, node), node)
                copy = element(name, (), text_xml(self._text(doc, node)))
            else:
                copy = node_xml(self._context(doc, node))
            self._copies[doc, node] = copy
        return copy
