"""The values of XPath 1.0 over a numbered document: how one kind becomes another, and the functions
of nodes.

In: a `Tree`, and values of an expression that `xscl/stage1/xpath.py` compiled. Out: another value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from lxml import etree

from xscl.functions.table import to_number, to_string
from xscl.stage1.tree import ATTRIBUTE, ELEMENT, Tree

Value = str | float | bool | list[int] | tuple[str, ...]
"""A tuple holds the strings of a function that gives several; a comparison holds if one does."""

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"

# -- conversions (section 4) ---------------------------------------------------------------


def as_truth(value: Value) -> bool:
    if isinstance(value, float):
        return value != 0 and value == value
    return bool(value)


def as_text(tree: Tree, value: Value) -> str:
    if isinstance(value, list):
        return tree.text(value[0]) if value else ""
    return to_string(_single(value))


def _single(value: Value) -> str | float | bool:
    """The value, which the checks guarantee to be neither nodes nor several strings."""
    assert not isinstance(value, list | tuple)
    return value


def as_number(tree: Tree, value: Value) -> float:
    return to_number(as_text(tree, value) if isinstance(value, list) else _single(value))


def as_text_or_number(tree: Tree, value: Value) -> str | float:
    return as_text(tree, value) if isinstance(value, list) else _single(value)


def items(tree: Tree, value: Value, numeric: bool) -> set[str | float]:
    if isinstance(value, list | tuple):
        texts = [tree.text(each) if isinstance(each, int) else each for each in value]
        return {*map(to_number, texts)} if numeric else {*texts}
    return {to_number(value)} if numeric else {to_string(value)}


# -- functions of nodes (section 4) --------------------------------------------------------


def _name(tree: Tree, value: Value) -> str:
    """The name as the document writes it, with its prefix."""
    local = _local_name(tree, value)
    uri = _namespace(tree, value)
    if not uri or not isinstance(value, list):
        return local
    named = value[0]
    element = tree.values[named if tree.kinds[named] == ELEMENT else tree.parents[named]]
    assert isinstance(element, etree._Element)
    prefix = element.prefix
    if tree.kinds[named] == ATTRIBUTE:
        declared = {u: p for p, u in element.nsmap.items() if p}
        prefix = declared.get(uri, "xml")
    return f"{prefix}:{local}" if prefix else local


def _local_name(tree: Tree, value: Value) -> str:
    if not isinstance(value, list) or not value:
        return ""
    named = tree.values[value[0]]
    if isinstance(named, etree._ProcessingInstruction):
        return str(named.target)
    return tree.names[value[0]].rpartition("}")[2]


def _namespace(tree: Tree, value: Value) -> str:
    if not isinstance(value, list) or not value:
        return ""
    return tree.names[value[0]].rpartition("}")[0][1:]


def _sum(tree: Tree, value: Value) -> float:
    return sum([to_number(tree.text(each)) for each in cast(list[int], value)], 0.0)


def _ids(tree: Tree, value: Value) -> list[int]:
    """The elements with these ids by the document's DTD or by xml:id."""
    texts = map(tree.text, value) if isinstance(value, list) else [as_text(tree, value)]
    find = cast(Callable[..., list[etree._Element]], tree.root.getroottree().xpath)
    found = {element for text in texts for element in find("id($ids)", ids=text)}
    return sorted(map(tree.index, found))


def in_language(tree: Tree, node: int, value: Value) -> bool:
    """Section 4.3: whether the nearest xml:lang is that language or a sublanguage of it."""
    wanted = as_text(tree, value).lower()
    for above in (node, *tree.ancestors(node)):
        for attribute in tree.attributes(above) if tree.kinds[above] == ELEMENT else ():
            if tree.names[attribute] == _XML_LANG:
                lang = tree.text(attribute).lower()
                return lang == wanted or lang.startswith(f"{wanted}-")
    return False


OF_NODES: dict[str, Callable[[Tree, Value], Value]] = {
    "count": lambda tree, value: float(len(cast(list[int], value))),
    "sum": _sum,
    "name": _name,
    "local-name": _local_name,
    "namespace-uri": _namespace,
    "id": _ids,
}
