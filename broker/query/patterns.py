"""Event patterns as queries: each of their blocks becomes a query of its own, a *tap*.

A tap is a query of one block over the variables that the pattern reads. Stage 1 and the join find
its documents like those of any query, and share the work among all that have the same block.

Very many patterns differ in the constants of their blocks only, an author or a product. Their taps
do, and nothing else: they are compiled once, and the taps of each are made of its literals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.model import UNBOUNDED
from broker.pattern.reading import named_in, streams_of
from broker.pattern.values import path_text
from xscl import ast
from xscl.check.patterns import holds_pattern
from xscl.check.program import ResolvedQuery
from xscl.check.sites import bound_in
from xscl.errors import Source, Span
from xscl.normal.lower import rebuilt
from xscl.normal.normalize import nested_query
from xscl.syntax.printer import MARK, split_query

if TYPE_CHECKING:
    from broker.pattern.in_order.shared import Shared
    from broker.pattern.plan import Plan, Tap

TAP = "~tap-"
"""What the ids of taps begin with; users cannot write such a name."""

_NODE = "selected"
_NOWHERE = Span(Source("", ""), 0, 0)


@dataclass(frozen=True, slots=True)
class TapQuery:
    """A tap as a query: `resolved`, of which `variables` are selected, and `node` is the variable
    of the selected node. Its variables have names of its own, so that blocks which differ in
    theirs have one tap; the pattern's are `names`. `paths` are read of its documents, and the
    pattern has written them as `texts`, in the same order. `told_apart`: somebody asks for that
    node. `written` is its text as a format for its literals; `apart` is what else its id is made
    of."""

    tap: Tap
    resolved: ResolvedQuery
    variables: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[ast.Path, ...]
    texts: tuple[str, ...]
    node: str | None
    told_apart: bool
    written: str
    apart: str


@dataclass(frozen=True, slots=True)
class PatternQuery:
    """An event pattern, compiled: its plan, its taps by their places in the plan, and the queries
    in its FROM. `retention` is how long its documents are needed, in microseconds."""

    plan: Plan
    taps: tuple[TapQuery, ...]
    nested: tuple[ResolvedQuery, ...]
    namespaces: Mapping[str, str]
    ordered: Shared | None
    """What its queries share where they are matched in the order of time; None: they are not."""

    @property
    def streams(self) -> frozenset[str]:
        return self.plan.streams

    @property
    def values(self) -> list[str]:
        """The names of which its matches have values: variables in SELECT, and what AS names."""
        select = self.plan.query.select
        items = select if isinstance(select, tuple) else ()
        return [*dict.fromkeys([*(named_in(select) or ()), *(i.name for i in items if i.name)])]

    @property
    def retention(self) -> int:
        query = self.plan.query
        parts = [self.plan.kept]
        if query.over is not None:
            parts.append(query.over.window.microseconds)
        if query.wait is not None:
            parts.append(query.wait.microseconds)
        known = [part for part in parts if part is not None]
        return UNBOUNDED if len(known) < len(parts) else min(UNBOUNDED, sum(known))


def pattern_query(resolved: ResolvedQuery) -> PatternQuery:
    """The compiled form of a checked query for which `holds_pattern`."""
    # Imported for the first event pattern: that takes a third of the start of a command.
    from broker.pattern.compiling import plan
    from broker.pattern.in_order.forms import form_of
    from broker.pattern.in_order.shared import Shared

    nested: dict[str, ResolvedQuery] = {}
    streams: dict[int, str] = {}
    for term in streams_of(resolved.query):
        inner = nested_query(term, resolved.namespaces)
        if holds_pattern(inner.query):
            inner = _own(inner, resolved.id)
        nested[inner.id] = inner
        streams[id(term)] = inner.id
    made = plan(resolved.query, streams)
    taps = tuple([_tap(tap, resolved) for tap in made.taps])
    form = form_of(made)
    ordered = None if form is None else Shared(made, form)
    return PatternQuery(made, taps, tuple(nested.values()), resolved.namespaces, ordered)


def _own(inner: ResolvedQuery, outer: str) -> ResolvedQuery:
    """A pattern in a FROM belongs to the query around it: what it finds depends on when that was
    registered."""
    name = f"{inner.id}-{_digest(outer)}"
    return replace(inner, id=name, query=replace(inner.query, publish=name))


def shown_id(id: str) -> str:
    """The id of a query as its results say it: of a pattern in a FROM that of its text."""
    return id.partition("-")[0] if id.startswith("~") else id


def _digest(*parts: object) -> str:
    return _digest_of(repr(parts))


def _digest_of(text: str) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _tap(tap: Tap, resolved: ResolvedQuery) -> TapQuery:
    own = {name: f"v{n}" for n, name in enumerate(dict.fromkeys(bound_in(tap.block.steps)), 1)}
    steps = renamed(tap.block.steps, own)
    paths = sorted([(path_text(renamed(p, own)), text) for text, p in tap.paths.items()])
    used = {path.variable for path in tap.paths.values()}
    names = tuple([name for name in own if name in used])
    variables = tuple([own[name] for name in names])
    node = None
    told_apart = resolved.query.select is None or bool(tap.partition)
    if told_apart or not variables:
        *before, last = steps
        node = last.variable or _NODE
        steps = (*before, replace(last, variable=node))
    selected = [*variables, *([node] if node is not None and node not in variables else [])]
    query = ast.Query(
        ast.Block(tap.block.stream, steps, span=_NOWHERE),
        tuple(
            ast.SelectItem(ast.Path(name, (), span=_NOWHERE), span=_NOWHERE) for name in selected
        ),
        span=_NOWHERE,
    )
    text, form, literals = split_query(query)
    namespaces = resolved.namespaces
    prefixes = sorted((p, u) for p, u in namespaces.items() if f"{p}:" in text)
    partition = [*map(repr, tap.partition)]
    read = [read for read, _ in paths]
    apart = repr((sorted(namespaces.items()), read, partition, node, told_apart))[1:]
    made = ResolvedQuery(
        tap_id(text, apart), query, namespaces, text, f"{prefixes}{form}", literals
    )
    _, *pieces = form.split(MARK)
    return TapQuery(
        tap=tap,
        resolved=made,
        variables=variables,
        names=names,
        paths=tuple([renamed(tap.paths[text], own) for _, text in paths]),
        texts=tuple([text for _, text in paths]),
        node=node,
        told_apart=told_apart,
        written="%s".join([piece.replace("%", "%%") for piece in pieces]),
        apart=apart,
    )


def renamed(part: Any, names: Mapping[str, str]) -> Any:
    """A part of a query in which variables have other names."""
    if isinstance(part, ast.Path | ast.Step) and part.variable is not None:
        part = replace(part, variable=names.get(part.variable, part.variable))
    return rebuilt(part, partial(renamed, names=names))


def tap_id(text: str, apart: str) -> str:
    """The id of a tap: of its text and what else tells it apart."""
    return TAP + _digest_of(f"({text!r}, {apart}")


# -- literals --------------------------------------------------------------------------------


def parameters(resolved: ResolvedQuery, pattern: PatternQuery) -> tuple[int, ...]:
    """The places of the literals that only the pattern's taps depend on, in the order of the
    taps."""
    count = len(resolved.literals)
    one, other = (_literals(resolved.query, mark) for mark in ("~one", "~other"))
    if len(one) != count or len(other) != count:
        return ()  # a number that is no literal, such as a position
    places = tuple([place for place in range(count) if one[place] != other[place]])
    own = [resolved.literals[place] for place in places]
    of_taps = [literal for tap in pattern.taps for literal in tap.resolved.literals]
    return places if own == of_taps else ()


def _literals(query: ast.Query, mark: str) -> tuple[str, ...]:
    """The literals of a query in which those of its blocks are replaced."""
    parts = {each.name: getattr(query, each.name) for each in fields(ast.Query)}
    return split_query(ast.Query(**{**parts, "pattern": _marked(query.pattern, mark)}))[2]


def _marked(part: Any, mark: str, inside: bool = False) -> Any:
    if isinstance(part, ast.Nested):
        return part
    if isinstance(part, tuple):
        return tuple([_marked(each, mark, inside) for each in part])
    if inside and isinstance(part, ast.String | ast.Number):
        return ast.String(mark, span=part.span)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    inside = inside or isinstance(part, ast.Block)
    names = [each.name for each in fields(part) if each.compare]
    return replace(part, **{name: _marked(getattr(part, name), mark, inside) for name in names})
