"""Reduces a failing case: greedily, by dropping and simplifying parts as long as it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from lxml import etree

import xscl
from tests.oracle.generate import WEEK, Batch, Case, Event, Subscribe
from xscl import ast


def reduce(case: Case, fails: Callable[[Case], bool], attempts: int = 2000) -> Case:
    """A smaller case that still fails, after at most `attempts` trials."""
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(case):
            attempts -= 1
            if attempts < 0:
                return case
            if fails(smaller):
                case, progress = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases one step smaller, the biggest steps first."""
    if case.lateness != WEEK:
        yield dataclasses.replace(case, lateness=WEEK)
    events = case.events
    for i in range(len(events)):
        yield _with(case, *events[:i], *events[i + 1 :])
    for i, event in enumerate(events):
        for simpler in _simpler_event(event):
            yield _with(case, *events[:i], simpler, *events[i + 1 :])
    for i in range(len(events) - 1):
        one, other = events[i], events[i + 1]
        if isinstance(one, Batch) and isinstance(other, Batch):
            whole = Batch((*one.documents, *other.documents))
            yield _with(case, *events[:i], whole, *events[i + 2 :])


def _with(case: Case, *events: Event) -> Case:
    return dataclasses.replace(case, events=events)


def _simpler_event(event: Event) -> Iterator[Event]:
    if isinstance(event, Batch):
        documents = event.documents
        for i, document in enumerate(documents):
            yield Batch((*documents[:i], *documents[i + 1 :]))
            for xml in _simpler_xml(document.xml):
                simpler = dataclasses.replace(document, xml=xml)
                yield Batch((*documents[:i], simpler, *documents[i + 1 :]))
    elif isinstance(event, Subscribe):
        file = xscl.parse(event.text)
        for simpler_file in _simpler_node(file):
            ids = tuple(
                s.label for s in simpler_file.statements if isinstance(s, ast.Query) and s.label
            )
            try:
                yield Subscribe(xscl.format_file(simpler_file), ids)
            except Exception:  # a tree that no text stands for: not a candidate
                continue


def _simpler_xml(xml: str | bytes) -> Iterator[str]:
    try:
        size = len(list(etree.fromstring(xml).iter()))
    except etree.XMLSyntaxError:
        return
    for i in range(size):
        for change in (_drop, _unwrap, _bare, _silent):
            root = etree.fromstring(xml)
            element = list(root.iter())[i]
            if change(element):
                yield etree.tostring(root, encoding="unicode", with_tail=False)


def _drop(element: Any) -> bool:
    parent = element.getparent()
    if parent is None:
        return False
    parent.remove(element)
    return True


def _unwrap(element: Any) -> bool:
    parent = element.getparent()
    if parent is None or len(element) == 0:
        return False
    for child in list(element):
        element.addprevious(child)
    parent.remove(element)
    return True


def _bare(element: Any) -> bool:
    if not isinstance(element.tag, str) or not element.attrib:
        return False
    element.attrib.clear()
    return True


def _silent(element: Any) -> bool:
    if not (element.text or element.tail):
        return False
    element.text = element.tail = None
    return True


def _simpler_node(node: Any) -> Iterator[Any]:
    """Trees with one part less: a filter, a clause, a conjunct, a side of a join."""
    if isinstance(node, ast.And | ast.Or):
        yield from node.parts
        for i in range(len(node.parts)) if len(node.parts) > 2 else ():
            yield dataclasses.replace(node, parts=node.parts[:i] + node.parts[i + 1 :])
    elif isinstance(node, ast.Not):
        yield node.part
    elif isinstance(node, ast.Join | ast.Arithmetic):
        yield node.left
        yield node.right
    elif isinstance(node, ast.Call):
        yield from node.args
    for name, value in _fields(node):
        if isinstance(value, tuple) and name not in ("parts", "args"):
            for i, part in enumerate(value):
                rest = value[:i] + value[i + 1 :]
                if rest or name in ("filters", "attributes", "content"):
                    yield dataclasses.replace(node, **{name: rest})
                for simpler in _simpler_node(part):
                    changed = (*value[:i], simpler, *value[i + 1 :])
                    yield dataclasses.replace(node, **{name: changed})
        elif isinstance(value, tuple):
            for i, part in enumerate(value):
                for simpler in _simpler_node(part):
                    changed = (*value[:i], simpler, *value[i + 1 :])
                    yield dataclasses.replace(node, **{name: changed})
        elif dataclasses.is_dataclass(value):
            if name in ("predicate", "window", "where", "within", "select"):
                yield dataclasses.replace(node, **{name: None})
            for simpler in _simpler_node(value):
                yield dataclasses.replace(node, **{name: simpler})
        elif (
            name in ("variable", "publish") and value is not None and not isinstance(node, ast.Path)
        ):
            yield dataclasses.replace(node, **{name: None})
    if isinstance(node, ast.Query) and node.select is not None:
        yield dataclasses.replace(node, select=None)


def _fields(node: Any) -> list[tuple[str, Any]]:
    if not dataclasses.is_dataclass(node):
        return []
    return [
        (f.name, getattr(node, f.name))
        for f in dataclasses.fields(node)
        if "span" not in f.name and f.name != "test"
    ]
