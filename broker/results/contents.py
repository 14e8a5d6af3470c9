"""The documents of matches: their bytes, and what has been made of them, once for all matches.

Stage 1 hands over the texts that it has made for the codes of values, so that a document need not
be parsed again to confirm a match. It is parsed again, once, where somebody reads what a match
publishes, or a query asks for more than those texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring

from lxml import etree

from broker.results.construct import node_xml
from broker.results.headline import Headline, headline
from broker.state.relations import MatchRelations, StoredDocument
from broker.text.markup import element, text_xml
from xscl.stage1.document import (
    ELEMENT_BITS,
    ELEMENT_MASK,
    TEXT_NODE,
    attribute_name,
    parse_document,
    text_at,
)
from xscl.stage1.tree import Node

REMEMBERED = 64 << 20
"""Bytes of documents that are remembered across batches."""

_COST = 1_500
"""What a document takes in memory beside its bytes, about."""


class Content:
    """The bytes of a document, and what has been made of them. `texts` are the string values of
    nodes that are known without parsing it."""

    __slots__ = ("_copies", "_elements", "_headline", "_root", "texts", "xml")

    def __init__(self, xml: bytes, texts: dict[int, str]) -> None:
        self.xml = xml
        self.texts = texts
        self._root: etree._Element | None = None
        self._elements: list[etree._Element] | None = None
        self._copies: dict[tuple[int, bool], str] | None = None
        self._headline: Headline | None = None

    def element(self, node: int) -> etree._Element:
        """The element that a node is or belongs to; a document's nodes are counted once."""
        index = node & ELEMENT_MASK
        root = self._root
        if root is None:
            root = self._root = parse_document(self.xml)
        if not index:
            return root
        elements = self._elements
        if elements is None:
            elements = self._elements = list(root.iter())
        return elements[index]

    def text(self, node: int) -> str:
        """The string value of a node."""
        text = self.texts.get(node)
        if text is None:
            text = self.texts[node] = text_at(self.element(node), node)
        return text

    def context(self, node: int) -> Node:
        """A node as expressions take it."""
        return self.text(node) if node >> ELEMENT_BITS else self.element(node)

    def copy(self, node: int, item: bool) -> str:
        """A copy of a node: an attribute becomes an element of its name, or its text if it is an
        `item` of SELECT."""
        copies = self._copies
        if copies is None:
            copies = self._copies = {}
        copy = copies.get((node, item))
        if copy is None:
            ordinal = node >> ELEMENT_BITS
            if ordinal and not ordinal & TEXT_NODE and not item:
                name = attribute_name(self.element(node), node)
                copy = element(name, (), text_xml(self.text(node)))
            else:
                copy = node_xml(self.context(node))
            copies[node, item] = copy
        return copy

    def headline(self) -> Headline:
        found = self._headline
        if found is None:
            found = self._headline = headline(self.element(0))
        return found

    def release(self) -> None:
        """Drop the parsed document, which takes many times the memory of its bytes."""
        self._root = self._elements = None


class Matched:
    """A document of matches. `identity` is what its matches' ids are made of, in JSON, and `said`
    its id, stream and time, in JSON."""

    __slots__ = ("content", "identity", "said", "stored")

    def __init__(self, stored: StoredDocument, texts: dict[int, str]) -> None:
        self.stored = stored
        self.content = Content(stored.xml, texts)
        source, id, stream = map(encode_basestring, (stored.source, stored.id, stored.streams[0]))
        self.identity = (
            f"[{source},{id},{stored.version}]" if stored.version else f"[{source},{id}]"
        )
        self.said = f"[{id},{stream},{stored.end}]"


class Contents:
    """The newest documents by number, as many as `remembered` bytes hold, and all others of the
    relations.

    Whoever changes a document says so (`forget`), and a transaction that fails has changed all that
    it brought (`clear`).
    """

    def __init__(self, relations: MatchRelations, remembered: int = REMEMBERED) -> None:
        self._relations = relations
        self._remembered = remembered
        self._bytes = 0
        self._known: dict[int, Matched | tuple[StoredDocument, dict[int, str]]] = {}
        """Most documents never match; of these there are only the parts."""
        self._used: list[Matched] = []

    def add(self, documents: Sequence[StoredDocument], texts: Sequence[dict[int, str]]) -> None:
        """Remember new documents, with the texts of their nodes that are known."""
        known = self._known
        for document, own in zip(documents, texts, strict=True):
            if own:
                known[document.doc] = (document, own)
                self._bytes += len(document.xml) + _COST
        self._trim()

    def _trim(self) -> None:
        known = self._known
        while self._bytes > self._remembered:
            oldest = known.pop(next(iter(known)))
            stored = oldest.stored if isinstance(oldest, Matched) else oldest[0]
            self._bytes -= len(stored.xml) + _COST

    def of(self, docs: Iterable[int], run: Sequence[StoredDocument]) -> Mapping[int, Matched]:
        """The documents of these numbers; `run` are the newest."""
        found: dict[int, Matched] = {}
        missing: list[int] = []
        known = self._known
        for doc in docs:
            there = known.get(doc)
            if there is None:
                missing.append(doc)
                continue
            if not isinstance(there, Matched):
                there = known[doc] = Matched(*there)
            found[doc] = there
        if missing:
            fetched = {document.doc: document for document in run}
            fetched |= self._relations.documents(
                sorted([doc for doc in missing if doc not in fetched])
            )
            for doc in missing:
                there = found[doc] = known[doc] = Matched(fetched[doc], {})
                self._bytes += len(there.stored.xml) + _COST
            self._trim()
        self._used += found.values()
        return found

    def forget(self, docs: Iterable[int]) -> None:
        """Forget documents whose bytes are others now."""
        for doc in docs:
            gone = self._known.pop(doc, None)
            if gone is not None:
                stored = gone.stored if isinstance(gone, Matched) else gone[0]
                self._bytes -= len(stored.xml) + _COST

    def release(self) -> None:
        """Drop what was parsed since the last call."""
        for matched in self._used:
            matched.content.release()
        self._used.clear()

    def clear(self) -> None:
        """Forget all documents."""
        self._known.clear()
        self._used.clear()
        self._bytes = 0
