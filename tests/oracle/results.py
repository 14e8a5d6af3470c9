"""The document that a match publishes, written as text in the simplest way.

In go what SELECT says and the nodes that its variables stand for in a match, out comes XML. Every
element and attribute declares its own namespace, so that no prefix of a document or a query is
ever carried over: results are compared, and read by other queries, by expanded names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from tests.oracle.trees import Node
from tests.oracle.values import NodeSet, to_string, value
from xscl import ast

Nodes = Callable[[ast.Path], Sequence[Node]]
"""The nodes of a path that begins at a variable of SELECT, in document order."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def star(query_id: str, interval: tuple[int, int], selected: Iterable[Node]) -> str:
    """SELECT *: copies of the selected nodes; an attribute becomes an element of its local name."""
    return _result(query_id, interval, map(_element_or_text, selected))


def items(
    query_id: str, interval: tuple[int, int], select: Iterable[ast.SelectItem], nodes: Nodes
) -> str:
    """SELECT with items, in their order."""
    return _result(query_id, interval, (_item(item, nodes) for item in select))


def named(
    select: Iterable[ast.SelectItem] | ast.Element | None, nodes: Nodes
) -> dict[str, set[str]]:
    """The texts of the items to which SELECT gives a name; of two of one name the first counts."""
    found: dict[str, set[str]] = {}
    for item in () if select is None or isinstance(select, ast.Element) else select:
        if item.name is not None and item.name not in found:
            if isinstance(item.expr, ast.Path):
                found[item.name] = {node.text for node in nodes(item.expr)}
            else:
                found[item.name] = set(_texts(item.expr, nodes))
    return found


def constructed(
    made: ast.Element, nodes: Nodes, namespaces: Mapping[str, str], default: str = ""
) -> str:
    """SELECT with a constructor. `default` is the namespace of unprefixed elements."""
    known = dict(namespaces)
    attributes = []
    for name, parts in made.attributes:
        text = "".join(part if isinstance(part, str) else _joined(part, nodes) for part in parts)
        if name == "xmlns":
            default = text
        elif name.startswith("xmlns:"):
            known[name.removeprefix("xmlns:")] = text
        else:
            attributes.append((name, text))
    content = ""
    for part in made.content:
        if isinstance(part, str):
            content += _text(part)
        elif isinstance(part, ast.Element):
            content += constructed(part, nodes, known, default)
        elif isinstance(part, ast.Path):
            content += "".join(map(_copy, nodes(part)))
        else:
            content += _text(_computed(part, nodes))
    expanded = [(_expanded(name, known, ""), text) for name, text in attributes]
    return _markup(_expanded(made.name, known, default), expanded, content)


def moment(microseconds: int) -> str:
    """ISO 8601 in UTC, with as many decimals as it needs."""
    when = EPOCH + timedelta(microseconds=microseconds)
    seconds = when.strftime("%Y-%m-%dT%H:%M:%S")
    decimals = f".{when.microsecond:06}".rstrip("0").rstrip(".")
    return f"{seconds}{decimals}Z"


def _result(query_id: str, interval: tuple[int, int], content: Iterable[str]) -> str:
    start, end = interval
    attributes = [("query", query_id), ("start", moment(start)), ("end", moment(end))]
    return _markup("result", attributes, "".join(content))


def _item(item: ast.SelectItem, nodes: Nodes) -> str:
    if not isinstance(item.expr, ast.Path):
        texts = _texts(item.expr, nodes)
        return "".join(_markup(item.name or "value", [], _text(text)) for text in texts)
    if item.name is None:
        return "".join(map(_copy, nodes(item.expr)))
    return "".join(_markup(item.name, [], _text(node.text)) for node in nodes(item.expr))


def _texts(expr: ast.Expr, nodes: Nodes) -> Sequence[str]:
    """What is computed: one text, or those of a function that gives several."""
    found = value(expr, lambda path: [node.text for node in nodes(path)])
    return found.texts if isinstance(found, NodeSet) else [to_string(found)]


def _computed(expr: ast.Expr, nodes: Nodes) -> str:
    return " ".join(_texts(expr, nodes))


def _joined(expr: ast.Expr, nodes: Nodes) -> str:
    if isinstance(expr, ast.Path):
        return " ".join(node.text for node in nodes(expr))
    return _computed(expr, nodes)


# -- XML -------------------------------------------------------------------------------------


def _element_or_text(node: Node) -> str:
    if node.kind != "attribute":
        return _copy(node)
    name = list(node.owner.attrib)[(node.number >> 32) - 1]
    return _markup(etree.QName(name).localname, [], _text(node.text))


def _copy(node: Node) -> str:
    return _text(node.text) if node.kind in ("attribute", "text") else _tree(node.owner)


def _tree(node: Any) -> str:
    if isinstance(node, etree._Comment):
        return f"<!--{node.text or ''}-->"
    if isinstance(node, etree._ProcessingInstruction):
        return f"<?{node.target!s} {node.text or ''}?>"
    content = _text(node.text or "")
    for child in node:
        content += _tree(child) + _text(child.tail or "")
    return _markup(str(node.tag), [(str(k), str(v)) for k, v in node.items()], content)


def _expanded(name: str, namespaces: Mapping[str, str], default: str) -> str:
    prefix, colon, local = name.rpartition(":")
    uri = namespaces[prefix] if colon else default
    return f"{{{uri}}}{local}" if uri else local


def _markup(name: str, attributes: Iterable[tuple[str, str]], content: str) -> str:
    """An element; names are expanded ones, `{uri}local`."""
    tag, declared = _qualified(name, "e")
    for at, (key, text) in enumerate(attributes):
        qualified, declaration = _qualified(key, f"a{at}")
        shown = quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
        declared += f" {qualified}={shown}{declaration}"
    return f"<{tag}{declared}>{content}</{tag}>"


def _qualified(name: str, prefix: str) -> tuple[str, str]:
    """A name with a prefix, and the declaration of that."""
    qname = etree.QName(name)
    if not qname.namespace:
        return qname.localname, ""
    if qname.namespace == "http://www.w3.org/XML/1998/namespace":
        return f"xml:{qname.localname}", ""
    return f"{prefix}:{qname.localname}", f" xmlns:{prefix}={quoteattr(qname.namespace)}"


def _text(text: str) -> str:
    return escape(text, {"\r": "&#13;"})
