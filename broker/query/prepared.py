"""Shapes: what queries that differ only in constants, windows and names have in common.

Very many subscriptions are a few texts with other constants in them: this author and that keyword.
In goes a checked query, or the canonical text of one; out comes a `Compiled`. The first query of a
kind goes through all passes by itself. For the second, the passes run once more over the query with
holes where its constants and windows stand, and what comes out is the `Shape` that it and all later
ones share; of their own they have the texts of their constants.

A shape is shared only where that is the same as compiling each query by itself: where the canonical
text is this one outside of the holes, and no pass looks into a hole (but to order filters, which is
done again). Other queries are compiled each by itself: those with a query in FROM, and those with
something like a number in the text of an XML constructor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter

import xscl
from broker.model import UNBOUNDED
from broker.query.conjunctive import has_edge
from broker.query.edges import Tie
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.normal.holes import (
    Holes,
    Literals,
    Make,
    Unfit,
    cut,
    has_hole,
    placeless,
    punch,
    window_of,
)
from xscl.normal.joingraph import JoinGraph, join_graph
from xscl.normal.normalize import NormalQuery, normalize
from xscl.normal.template import Fitted, Template, template
from xscl.normal.treepattern import Definition, paths

Select = tuple[ast.SelectItem, ...] | ast.Element | None

_MOST = 1 << 14
"""Shapes kept; a shape takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class Passes:
    """A query after all passes."""

    resolved: ResolvedQuery
    normal: NormalQuery
    graph: JoinGraph
    fitted: Fitted
    named: dict[str, int]


def run_passes(resolved: ResolvedQuery) -> Passes:
    """All passes from a checked query to its template."""
    normal = normalize(resolved)
    names = selected_variables(resolved.query)
    graph = join_graph(normal, names)
    fitted = template(graph)
    places = [fitted.positions[i] for i in graph.selected]
    named = dict(zip(names or map(str, range(len(places))), places, strict=True))
    return Passes(resolved, normal, graph, fitted, named)


def selected_variables(query: ast.Query) -> list[str]:
    """The variables that SELECT names, in order; none for `*`."""
    if query.select is None:
        return []
    select = query.select
    exprs = _expressions(select) if isinstance(select, ast.Element) else [i.expr for i in select]
    names = dict.fromkeys(path.variable for expr in exprs for path in paths(expr))
    return [name for name in names if name is not None]


def _expressions(element: ast.Element) -> Iterator[ast.Expr]:
    for part in [*(p for _, parts in element.attributes for p in parts), *element.content]:
        if isinstance(part, ast.Element):
            yield from _expressions(part)
        elif not isinstance(part, str):
            yield part


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a match becomes a result.

    `positions` are the template's positions of the nodes of the query's join graph; `selected` and
    `variables` are those of the graph. `named` maps what SELECT names to positions: variables, or for
    `*` the numbers of the blocks. `streams` are those that the query reads.
    """

    positions: tuple[int, ...]
    selected: tuple[int, ...]
    variables: tuple[tuple[str, int], ...]
    named: dict[str, int]
    select: Select
    namespaces: Mapping[str, str]
    streams: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Open:
    """A definition with holes: its place among the shape's; its steps, where open as indices of the
    shape's; its text as a format and holes, None where the literals decide in which order its
    filters stand."""

    place: int
    stream: str
    steps: tuple[ast.Step | int, ...]
    value: ast.Expr | None
    make_value: Make | None
    text: tuple[str, tuple[int, ...]] | None


class Shape:
    """A compiled query but for its literals. `ties` are its edges, by position."""

    def __init__(self, passes: Passes, holes: Holes) -> None:
        graph, fitted = passes.graph, passes.fitted
        shape = fitted.template
        self.template: Template = shape
        self.selected = frozenset(fitted.positions[i] for i in graph.selected)
        self.ties: tuple[Tie, ...] = (
            *(
                (position, parent, shape.valued(position), shape.read(position))
                for position, (_, parent) in enumerate(shape.nodes)
                if has_edge(shape, position)
            ),
            *((p, base, False, True) for p, base in enumerate(shape.quantified, len(shape.nodes))),
        )
        self._steps: dict[ast.Step, int] = {}
        self._makes: list[Make] = []
        nodes = zip(fitted.positions, graph.nodes, fitted.texts, strict=True)
        placed = sorted(nodes, key=itemgetter(0))
        self._definitions = [node.definition for _, node, _ in placed]
        self._texts = [text for _, _, text in placed]
        self._definitions += [definition for _, definition in graph.quantified]
        self._texts += [definition.text() for _, definition in graph.quantified]
        self._opened = [
            found for i in range(len(self._texts)) if (found := self._open(i, holes)) is not None
        ]
        self._values = tuple([d.value for d in self._definitions[: len(shape.nodes)]])
        self._valued = not any(each.make_value for each in self._opened)
        self._settled = all(each.text is not None for each in self._opened)
        self._constants = [
            (c, holes.strings.get(c) if isinstance(c, str) else holes.numbers.get(c))
            for c in fitted.constants
        ]
        asked = [UNBOUNDED if w is None else w for w in graph.windows]
        self._windows = [(w, holes.windows.get(w)) for w in asked]
        select = placeless(passes.resolved.query.select)
        self._select = holes.make(select)
        if holes.texts and any(
            map(has_hole, [*passes.named, *(name for name, _ in graph.variables)])
        ):
            raise Unfit
        self.delivery = Delivery(
            positions=fitted.positions,
            selected=graph.selected,
            variables=graph.variables,
            named=passes.named,
            select=None if self._select else select,
            namespaces=passes.resolved.namespaces,
            streams=frozenset(node.definition.stream for node in graph.nodes),
        )

    def _open(self, place: int, holes: Holes) -> _Open | None:
        definition = self._definitions[place]
        steps: list[ast.Step | int] = []
        for step in definition.steps:
            make = holes.step(step)
            if make is None:
                steps.append(step)
                continue
            if step not in self._steps:
                self._steps[step] = len(self._makes)
                self._makes.append(make)
            steps.append(self._steps[step])
        value = None if definition.value is None else holes.make(definition.value, ordered=False)
        if value is None and all(isinstance(step, ast.Step) for step in steps):
            return None
        text = holes.text(self._texts[place]) if holes.settled(definition) else None
        return _Open(place, definition.stream, tuple(steps), definition.value, value, text)

    def definitions(self, literals: Literals) -> tuple[Definition, ...]:
        """The definitions of all positions, then of the quantified paths."""
        found = self._definitions.copy()
        made = [make(literals) for make in self._makes]
        for each in self._opened:
            steps = tuple([made[s] if isinstance(s, int) else s for s in each.steps])
            value = each.value if each.make_value is None else each.make_value(literals)
            found[each.place] = Definition(each.stream, steps, value)
        return tuple(found)

    def texts(self, literals: Literals) -> list[str]:
        """The texts of `definitions`."""
        if not self._settled:
            return [definition.text() for definition in self.definitions(literals)]
        found = self._texts.copy()
        for each in self._opened:
            assert each.text is not None
            text, order = each.text
            found[each.place] = text % tuple([literals[i] for i in order])
        return found

    def values(self, literals: Literals) -> tuple[ast.Expr | None, ...]:
        """What is computed of the nodes at all positions."""
        if self._valued:
            return self._values
        return tuple([d.value for d in self.definitions(literals)[: len(self._values)]])

    def constants(self, literals: Literals) -> tuple[str | float, ...]:
        """The constants of the template's parameters, in order."""
        return tuple(
            [
                value
                if hole is None
                else literals[hole][1:-1]
                if isinstance(value, str)
                else float(literals[hole])
                for value, hole in self._constants
            ]
        )

    def windows(self, literals: Literals) -> tuple[int, ...]:
        """As `windows_of` the graph."""
        asked = self._windows
        return _together(
            tuple([w if hole is None else window_of(literals[hole]) for w, hole in asked])
        )

    def deliver(self, literals: Literals) -> Delivery:
        if self._select is None:
            return self.delivery
        return replace(self.delivery, select=self._select(literals))


@lru_cache(maxsize=4_096)
def _together(asked: tuple[int, ...]) -> tuple[int, ...]:
    """What `windows_of` makes of the operators' windows and WITHIN; equal ones are one object."""
    *own, whole = asked
    return (*own, min([whole, *own[-1:]]))


class Compiled:
    """A query on its way to become a subscription: everything that needs no catalog.

    What the passes left on their way (`resolved`, `normal`, `graph`, `fitted`) is made again where
    it is asked for and not there any more.
    """

    __slots__ = (
        *("_definitions", "_passes", "_resolved", "id", "literals", "nested", "publish", "shape"),
        "text",
    )

    def __init__(
        self,
        id: str,
        text: str,
        publish: str | None,
        shape: Shape,
        literals: Literals,
        nested: tuple[Compiled, ...] = (),
        resolved: ResolvedQuery | None = None,
    ) -> None:
        self.id = id
        self.text = text
        self.publish = publish
        self.shape = shape
        self.literals = literals
        self.nested = nested
        self._resolved = resolved
        self._passes: Passes | None = None
        self._definitions: tuple[Definition, ...] | None = None

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """Those of all positions, then of the quantified paths."""
        if self._definitions is None:
            self._definitions = self.shape.definitions(self.literals)
        return self._definitions

    @property
    def resolved(self) -> ResolvedQuery:
        if self._resolved is None:
            self._resolved = _resolve(self.id, self.text)
        return self._resolved

    def _run(self) -> Passes:
        if self._passes is None:
            self._passes = run_passes(self.resolved)
        return self._passes

    @property
    def normal(self) -> NormalQuery:
        return self._run().normal

    @property
    def graph(self) -> JoinGraph:
        return self._run().graph

    @property
    def fitted(self) -> Fitted:
        return self._run().fitted

    @property
    def reads(self) -> set[str]:
        """The streams that its result is derived from."""
        return set(self.shape.delivery.streams).union(*(inner.reads for inner in self.nested))


_SEEN, _ALONE = "seen once", "compiled each by itself"
_shapes: dict[str, Shape | str] = {}
_LETS = re.compile(r"""(?:LET NAMESPACE [^ ]+ = (?:'[^']*'|"[^"]*"); )+""")
_PUBLISH = re.compile(r""" PUBLISH ([^ '"]+)$""")


def forget() -> None:
    """Forget all shapes; the next queries are compiled as if they were the first."""
    _shapes.clear()
    recall.cache_clear()


def _cut(id: str, text: str) -> tuple[str, str, Literals, str | None]:
    """A canonical text as its LETs, what is fixed, its literals, and the stream that it publishes;
    the label is left out."""
    start, end, lets, publish = 0, len(text), "", None
    if text.startswith("LET NAMESPACE "):
        found = _LETS.match(text)
        assert found is not None
        lets, start = found[0], found.end()
    if text.startswith(id, start) and text.startswith(": ", start + len(id)):
        start += len(id) + 2
    if " PUBLISH " in text:
        found = _PUBLISH.search(text)
        if found is not None:
            end, publish = found.start(), found[1]
    fixed, literals = cut(text[start:end])
    return lets, fixed, literals, publish


def compile_query(resolved: ResolvedQuery) -> Compiled:
    """A checked query, compiled."""
    lets, fixed, literals, _ = _cut(resolved.id, resolved.text)
    shape = _shapes.get(lets + fixed)
    if isinstance(shape, str):
        try:
            shape = _opened(resolved, fixed) if shape is _SEEN else _ALONE
        except Unfit:
            shape = _ALONE
        _shapes[lets + fixed] = shape
    elif shape is None:
        if len(_shapes) >= _MOST:
            _shapes.clear()
        _shapes[lets + fixed] = _SEEN
    if not isinstance(shape, Shape):
        return _alone(resolved)
    publish = resolved.query.publish
    return Compiled(resolved.id, resolved.text, publish, shape, literals, (), resolved)


def compile_text(id: str, text: str) -> Compiled:
    """A query from its canonical text, which passed all checks before."""
    lets, fixed, literals, publish = _cut(id, text)
    shape = _shapes.get(lets + fixed)
    if not isinstance(shape, Shape):
        return compile_query(_resolve(id, text))
    return Compiled(id, text, publish, shape, literals)


@lru_cache(maxsize=4_096)
def recall(id: str, text: str) -> Compiled:
    """A registered query, with all that its passes find."""
    return compile_text(id, text)


def _resolve(id: str, text: str) -> ResolvedQuery:
    (resolved,) = [q for q in xscl.check([xscl.parse(text, id)]).queries if q.id == id]
    return resolved


def _opened(resolved: ResolvedQuery, fixed: str) -> Shape:
    query, holes = punch(resolved.query, fixed)
    return Shape(run_passes(replace(resolved, query=query)), holes)


def _alone(resolved: ResolvedQuery) -> Compiled:
    passes = run_passes(resolved)
    # A query in FROM has a text without its prefixes, so that it shares with no other.
    nested = tuple(_alone(inner) for inner in passes.normal.nested)
    shape = Shape(passes, Holes())
    made = Compiled(resolved.id, resolved.text, resolved.query.publish, shape, (), nested, resolved)
    made._passes = passes
    return made


def windows_of(graph: JoinGraph) -> tuple[int, ...]:
    """Windows by operator, then WITHIN; the last also says how long a whole match may be."""
    return _together(tuple(UNBOUNDED if w is None else w for w in graph.windows))
