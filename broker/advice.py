"""What is said about queries that are right, but may never match, or that no broker takes.

In: a checked program, and what is known of the streams that it reads. Out: its warnings, and those
about paths that feed items, results of other queries, or the documents seen so far do not have, and
about streams that queries may not publish.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import xscl
from broker.model import RESERVED, iso_time
from broker.statistics.model import StreamSeen
from feeds.vocabulary import AROUND, ATTRIBUTES, CHILDREN, INSTEAD, ROOTS
from xscl.check.known import Known, Look, path_warnings
from xscl.errors import Diagnostic

_MOST = 1_000
"""Queries of a program that are looked at; those of more were made by a program."""

_TEXT = Known("this element of feed items has")
_ITEM = Known("feed items have", dict.fromkeys(CHILDREN, _TEXT), ATTRIBUTES, INSTEAD)
_FEEDS = Known("the documents of feeds", {"item": _ITEM}, frozenset(), ROOTS)


def warnings(program: xscl.Program, look: Look = lambda _: None) -> tuple[xscl.Diagnostic, ...]:
    """The warnings of a program, those about its paths, and those about what it publishes. `look`
    says what is known of a stream that no query of the program publishes."""
    if len(program.queries) > _MOST:
        return program.warnings
    refused = [
        replace(found, severity="warning")
        for each in program.queries
        if (found := reserved_stream(each.query)) is not None
    ]
    return (*program.warnings, *refused, *path_warnings(program, _FEEDS, cache(look)))


def reserved_stream(query: xscl.ast.Query) -> Diagnostic | None:
    """The error where a query publishes a stream of the broker's own."""
    if not (query.publish or "").startswith(RESERVED):
        return None
    return Diagnostic(
        "reserved-stream",
        f"streams that begin with {RESERVED} are the broker's own: it does not take this query",
        query.publish_span or query.span,
        "choose another name",
    )


def unseen(program: xscl.Program, look: Look) -> list[xscl.Diagnostic]:
    """Of these warnings, those that are only due to `look`."""
    said = {each.span for each in warnings(program)}
    return [each for each in warnings(program, look) if each.span not in said]


def observed(find: Callable[[str], StreamSeen | None]) -> Look:
    """What is known of a stream by its documents, which `find` finds."""

    def look(stream: str) -> Known | None:
        seen = find(stream)
        return None if seen is None else known_documents(seen)

    return look


def known_documents(seen: StreamSeen) -> Known | None:
    """What is known of a stream's documents. None where some of their paths are not known, for then
    nothing can be said of what is missing."""
    if not seen.documents or seen.known < seen.documents or seen.cut:
        return None
    count = "the one document" if seen.documents == 1 else f"the {seen.documents:,} documents"
    what = f"none of {count} of {seen.name} has"
    tree: _Tree = {}
    for each in seen.paths:
        inner = tree
        for name in each.path.split("/")[1:]:
            inner = inner.setdefault(name, {})
    return _element(tree, "", what, seen)


_Tree = dict[str, "_Tree"]
"""The names below an element, `@name` for attributes, with what is below each."""


def _element(tree: _Tree, path: str, what: str, seen: StreamSeen) -> Known:
    children: dict[str, Known | None] = {
        name: _element(below, f"{path}/{name}", what, seen)
        for name, below in tree.items()
        if not name.startswith("@")
    }
    # Attributes are known from a sample, which says what there is, but not what there is not.
    attributes = frozenset(name[1:] for name in tree if name.startswith("@"))
    known = attributes if seen.sampled == seen.documents else None
    instead = INSTEAD.items() if path == "/item" else ()
    there = {name: to for name, to in instead if to.removeprefix("./") in children}
    if not path and "item" in children and "channel_title" in tree["item"]:
        there = dict.fromkeys(ROOTS.keys() - children.keys(), AROUND)
    return Known(what, children, known, there, path, f"known since {iso_time(seen.first)}")
