"""The bytes of a document of a match, and what has been made of them."""

from __future__ import annotations

from lxml import etree

from broker.model import DocumentRef
from broker.rendering.copies import node_xml
from broker.rendering.headline import Headline, headline
from broker.text.json_text import from_json, inside, to_json
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


class Content:
    """The bytes of a document, and what has been made of them. `texts` are the string values of
    nodes that are known without parsing it."""

    __slots__ = (
        "_copies",
        "_elements",
        "_headline",
        "_reference",
        "_root",
        "_written",
        "texts",
        "xml",
    )

    def __init__(self, xml: bytes, texts: dict[int, str]) -> None:
        self.xml = xml
        self.texts = texts
        self._root: etree._Element | None = None
        self._elements: list[etree._Element] | None = None
        self._copies: dict[tuple[int, bool], str] | None = None
        self._written: dict[tuple[int, bool], bytes] | None = None
        self._headline: Headline | None = None
        self._reference: tuple[str, bytes] | None = None

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
            copy = copies[node, item] = self._copied(node, item)
        return copy

    def inside(self, node: int, item: bool) -> bytes:
        """The same as it stands in a text in JSON."""
        written = self._written
        if written is None:
            written = self._written = {}
        found = written.get((node, item))
        if found is None:
            found = written[node, item] = inside(self._copied(node, item))
        return found

    def _copied(self, node: int, item: bool) -> str:
        ordinal = node >> ELEMENT_BITS
        if ordinal and not ordinal & TEXT_NODE and not item:
            name = attribute_name(self.element(node), node)
            return element(name, (), text_xml(self.text(node)))
        return node_xml(self.context(node))

    def reference(self, said: str) -> bytes:
        """What a match tells of the document, as JSON; its id, stream and time are `said` in
        JSON."""
        known = self._reference
        if known is None or known[0] != said:
            id, stream, end = from_json(said)
            told = DocumentRef(id, stream, end, *self.headline()).to_json()
            known = self._reference = said, to_json(told)
        return known[1]

    def headline(self) -> Headline:
        found = self._headline
        if found is None:
            found = self._headline = headline(self.element(0))
        return found

    def release(self) -> None:
        """Drop the parsed document, which takes many times the memory of its bytes."""
        self._root = self._elements = None
