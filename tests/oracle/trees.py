"""One document for the oracle: numbered nodes, and steps evaluated by lxml's XPath 1.0.

A `Node` is an element, an attribute, a text node, an aside (comment or processing instruction) or
the document itself, with its number: the preorder index of an element or aside in the low 32 bits,
above them 0 for itself, k for its k-th attribute, 2**20 + k for its k-th text child. The document
is number -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lxml import etree

from xscl import ast

TEXT = 1 << 20
DOCUMENT = -1


@dataclass(frozen=True, slots=True)
class Node:
    """`owner` is the element itself, or the parent of the attribute or text."""

    number: int
    kind: str = field(compare=False)  # document, element, attribute, text or aside
    owner: Any = field(compare=False, repr=False)
    text: str = field(compare=False)  # the XPath string value


class Tree:
    """A parsed document. Raises etree.XMLSyntaxError where it is not well-formed."""

    def __init__(self, xml: bytes | str) -> None:
        data = xml.encode() if isinstance(xml, str) else xml
        own: Any = "internal"  # entities that the document itself declares; newer than the stubs
        self.root = etree.fromstring(data, etree.XMLParser(resolve_entities=own, no_network=True))
        self._index = {element: i for i, element in enumerate(self.root.iter())}
        everything = "descendant-or-self::node() | descendant-or-self::*/attribute::*"
        nodes = _xpath(everything)(self.root)
        self._rank = {self._node(r).number: i for i, r in enumerate(nodes) if self._exists(r)}
        self.document = Node(DOCUMENT, "document", self.root, _xpath("string(/)")(self.root))
        self._found: dict[tuple[int, str], list[Node]] = {}  # what steps found already

    def ordered(self, nodes: Iterable[Node]) -> list[Node]:
        """The distinct nodes, in document order."""
        return sorted(set(nodes), key=lambda node: self._rank.get(node.number, -1))

    def step(self, context: Node, step: ast.Step, namespaces: Mapping[str, str]) -> list[Node]:
        """What one location step, its filters aside, finds from `context`, in document order."""
        if context.kind in ("attribute", "text", "aside"):  # below them there is nothing
            return [context] if step.test.kind == "self" else []
        expression = step_expression(step, namespaces)
        if context.kind == "element":
            return self._select(context.number, context.owner, expression)
        itself = [self.document] if step.test.kind == "self" else []
        if itself and step.axis == "/":
            return itself
        return itself + self._select(context.number, self.root, "/" + expression)

    def _select(self, number: int, context: etree._Element, expression: str) -> list[Node]:
        """What an XPath finds from a node; it is asked for again by each query that is tried."""
        found = self._found.get((number, expression))
        if found is None:
            results = _xpath(expression)(context)
            found = [self._node(result) for result in results if self._exists(result)]
            self._found[number, expression] = found
        return found

    def walk(
        self, context: Node, steps: Iterable[ast.Step], namespaces: Mapping[str, str]
    ) -> list[Node]:
        """The nodes at the end of steps without filters, distinct, in document order."""
        nodes = [context]
        for step in steps:
            nodes = self.ordered(n for node in nodes for n in self.step(node, step, namespaces))
        return nodes

    def _exists(self, result: Any) -> bool:
        """Whether a result is a node in XPath's sense, and one of ours.

        A text node has at least one character, while lxml finds one in an empty CDATA section; and
        a comment beside the root has no number.
        """
        if isinstance(result, etree._Element):
            return result in self._index
        return bool(result) or bool(result.is_attribute)

    def _node(self, result: Any) -> Node:
        if isinstance(result, etree._Element):
            if not isinstance(result.tag, str):
                return Node(self._index[result], "aside", result, result.text or "")
            text = _xpath("string()")(result)
            return Node(self._index[result], "element", result, str(text))
        neighbour = result.getparent()  # of a text behind an element: that element
        if result.is_attribute:
            ordinal = list(neighbour.attrib).index(result.attrname) + 1
            return Node(ordinal << 32 | self._index[neighbour], "attribute", neighbour, str(result))
        parent, ordinal = neighbour, 1
        if result.is_tail:
            parent = neighbour.getparent()
            before = list(parent)[: parent.index(neighbour) + 1]
            ordinal = sum(1 for sibling in before if sibling.tail) + (1 if parent.text else 0)
        return Node((TEXT | ordinal) << 32 | self._index[parent], "text", parent, str(result))


def step_expression(step: ast.Step, namespaces: Mapping[str, str]) -> str:
    """The relative XPath 1.0 of a step: `.` is self::node(), `//` passes any depth."""
    test = step.test
    axis = {"element": "child::*", "attribute": "attribute::*", "text": "child::text()"}
    expression = axis.get(test.kind, "self::node()")
    if test.name is not None:
        expression += f"[local-name()='{test.name}']"
    if test.prefix is not None:
        expression += f"[namespace-uri()='{namespaces[test.prefix]}']"
    return ("descendant-or-self::node()/" if step.axis == "//" else "") + expression


def canonical(node: etree._Element) -> str:
    """An element, comment or instruction as a text in which prefixes do not matter."""
    if isinstance(node, etree._Comment):
        return f"<!--{node.text or ''}-->"
    if isinstance(node, etree._ProcessingInstruction):
        return f"<?{node.target!s} {node.text or ''}?>"
    named = sorted((str(name), str(value)) for name, value in node.items())
    attributes = "".join(f" {name}={value!r}" for name, value in named)
    content = (node.text or "") + "".join(canonical(c) + (c.tail or "") for c in node)
    return f"<{node.tag}{attributes}>{content}</>"


@cache
def _xpath(expression: str) -> Any:
    return etree.XPath(expression)
