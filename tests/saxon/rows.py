"""A common form of matches for comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape

from lxml import etree

TEXT = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A match. `documents` are ids in pattern order, of a derived one its interval and content.

    `nodes` are those that SELECT names, as paths of XPath 3.1's `fn:path`; `result` as `canonical`
    writes it.
    """

    query: str
    start: int
    end: int
    documents: tuple[str, ...]
    nodes: tuple[str, ...]
    result: str


def canonical(xml: str | bytes) -> str:
    """A result as a text that says the same for the same content, whatever its prefixes."""
    return _expanded(etree.fromstring(xml))


def _expanded(node: etree._Element) -> str:
    if isinstance(node, etree._Comment):
        return f"<!--{_text(node.text)}-->"
    if isinstance(node, etree._ProcessingInstruction):
        return f"<?{_text(node.target)} {_text(node.text)}?>"
    attributes = "".join(f" {_text(name)}={text!r}" for name, text in sorted(node.items()))
    content = "".join(_expanded(child) + escape(child.tail or "") for child in node)
    return f"<{_text(node.tag)}{attributes}>{escape(node.text or '')}{content}</>"


def _text(value: object) -> str:
    """lxml's types allow for names in bytes, which it takes but never gives."""
    return value.decode() if isinstance(value, bytes) else str(value)


def node_paths(xml: str | bytes) -> dict[int, str]:
    """By the engine's number of a node, its path as `fn:path` writes it."""
    root = etree.fromstring(xml)
    named: dict[etree._Element, str] = {}
    found: dict[int, str] = {}
    for index, element in enumerate(root.iter()):
        parent = element.getparent()
        above = "" if parent is None else named[parent]
        named[element] = path = f"{above}/{_step(element)}"
        found[index] = path
        if not isinstance(element.tag, str):
            continue
        for ordinal, name in enumerate(element.attrib, 1):
            found[ordinal << 32 | index] = f"{path}/@{_attribute(str(name))}"
        texts = [element.text, *(child.tail for child in element)]
        for ordinal in range(1, sum(1 for text in texts if text) + 1):
            found[(TEXT | ordinal) << 32 | index] = f"{path}/text()[{ordinal}]"
    return found


def _step(node: etree._Element) -> str:
    ordinal = 1 + sum(1 for before in node.itersiblings(preceding=True) if _like(before, node))
    if isinstance(node, etree._Comment):
        return f"comment()[{ordinal}]"
    if isinstance(node, etree._ProcessingInstruction):
        return f"processing-instruction({_text(node.target)})[{ordinal}]"
    name = etree.QName(node)
    return f"Q{{{name.namespace or ''}}}{name.localname}[{ordinal}]"


def _like(one: etree._Element, other: etree._Element) -> bool:
    if isinstance(other, etree._ProcessingInstruction):
        return isinstance(one, etree._ProcessingInstruction) and one.target == other.target
    return one.tag == other.tag


def _attribute(name: str) -> str:
    return re.sub(r"^\{", "Q{", name)
