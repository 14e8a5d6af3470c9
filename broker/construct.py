"""Result documents: copies of nodes, computed items, and constructed elements (SELECT)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy

from lxml import etree

from xscl import ast
from xscl.filters import Node, as_text, compile_value, text_of
from xscl.treepattern import resolve_names

Environment = Mapping[str, Node]
"""The node that each variable of SELECT stands for in a match."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode")


def add_item(
    parent: etree._Element,
    item: ast.SelectItem,
    env: Environment,
    namespaces: Mapping[str, str],
) -> None:
    """Append what an item of SELECT gives.

    Nodes are copied, or with AS become elements of that name with their text; a computed value
    becomes an element, named `value` where there is no AS.
    """
    value = compile_value(resolve_names(item.expr, namespaces))(env)
    if not isinstance(value, list):
        etree.SubElement(parent, item.name or "value").text = clean(as_text(value))
    elif item.name is not None:
        for node in value:
            etree.SubElement(parent, item.name).text = text_of(node)
    else:
        for node in value:
            add_node(parent, node)


def add_node(parent: etree._Element, node: Node) -> None:
    """Append a copy of an element, or the text of another node."""
    if isinstance(node, str):
        append_text(parent, node)
        return
    child = deepcopy(node)
    child.tail = None
    parent.append(child)


def append_text(parent: etree._Element, text: str) -> None:
    """Add text after what the element already holds."""
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + clean(text)
    else:
        parent.text = (parent.text or "") + clean(text)


def clean(text: str) -> str:
    """The text without characters that XML has no way to write."""
    return _NOT_XML.sub("", text)


def construct(
    element: ast.Element, env: Environment, namespaces: Mapping[str, str]
) -> etree._Element:
    """The element that a constructor makes of a match."""
    declared = dict(namespaces)
    own: dict[str, str] = {}
    for name, parts in element.attributes:
        if name == "xmlns" or name.startswith("xmlns:"):
            prefix = name.partition(":")[2]
            own[prefix] = "".join(p for p in parts if isinstance(p, str))
            declared[prefix] = own[prefix]
    used = {name.partition(":")[0] for name, _ in element.attributes if ":" in name}
    used |= {element.name.partition(":")[0]} if ":" in element.name else set()
    nsmap = own | {p: declared[p] for p in used if p in declared and p != "xml"}
    bound: dict[str | None, str] = {p or None: uri for p, uri in nsmap.items() if uri}
    made = etree.Element(_clark(element.name, declared), nsmap=bound)  # type: ignore[arg-type]  # None is the default namespace
    for name, parts in element.attributes:
        if name == "xmlns" or name.startswith("xmlns:"):
            continue
        texts = [p if isinstance(p, str) else _joined(p, env, namespaces) for p in parts]
        made.set(_clark(name, declared, attribute=True), clean("".join(texts)))
    for part in element.content:
        if isinstance(part, str):
            append_text(made, part)
        elif isinstance(part, ast.Element):
            made.append(construct(part, env, declared))
        else:
            value = compile_value(resolve_names(part, namespaces))(env)
            for node in value if isinstance(value, list) else [as_text(value)]:
                add_node(made, node)
    return made


def _joined(expr: ast.Expr, env: Environment, namespaces: Mapping[str, str]) -> str:
    """The value of an expression in an attribute: several nodes are parted by blanks."""
    value = compile_value(resolve_names(expr, namespaces))(env)
    if isinstance(value, list):
        return " ".join(text_of(node) for node in value)
    return as_text(value)


def _clark(name: str, declared: Mapping[str, str], attribute: bool = False) -> str:
    prefix, colon, local = name.partition(":")
    if not colon:
        space = "" if attribute else declared.get("", "")
        return f"{{{space}}}{name}" if space else name
    return f"{{{declared[prefix]}}}{local}"
