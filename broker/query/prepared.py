"""Compiled queries: a shape, which all that differ in constants, windows and names share, and
literals.

Very many subscriptions are a few texts with different constants, such as author and keyword. In: a
checked query. Out: a `Compiled`: the `Shape` of its form, and its literals. The passes run once for
a form, since no pass looks at a literal: in the intermediate form it is a parameter. The parts that
depend on constants are made from the shape by binding the literals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter

import xscl
from broker.model import compact_json
from broker.pattern.reading import streams_of
from broker.query.blueprint import PATTERN, Blueprint, Delivery, Inner, variables_of
from broker.query.conjunctive import has_edge
from broker.query.patterns import PatternQuery, parameters, pattern_query, tap_id
from broker.query.shape import SHAPES, Shape, shape_of
from xscl.check.patterns import holds_pattern
from xscl.check.program import ResolvedQuery
from xscl.normal.bind import Literals, string_of
from xscl.normal.joingraph import JoinGraph, join_graph
from xscl.normal.normalize import NormalQuery, normalize
from xscl.normal.template import Fitted, Template, template


@dataclass(frozen=True, slots=True)
class Passes:
    """A query after all passes. `named` maps what SELECT names to positions: variables, or for `*`
    the numbers of the blocks."""

    normal: NormalQuery
    graph: JoinGraph
    fitted: Fitted
    named: dict[str, int]


def run_passes(resolved: ResolvedQuery) -> Passes:
    """All passes from a checked query to its template."""
    normal = normalize(resolved)
    graph = join_graph(normal)
    fitted = template(graph)
    places = [fitted.positions[i] for i in graph.selected]
    named = dict(zip(normal.named or map(str, range(len(places))), places, strict=True))
    return Passes(normal, graph, fitted, named)


@dataclass(slots=True, eq=False)
class Compiled:
    """A compiled query before it is registered: everything that needs no catalog."""

    id: str
    text: str
    publish: str | None
    shape: Shape
    literals: Literals
    _resolved: ResolvedQuery | None = None

    @property
    def resolved(self) -> ResolvedQuery:
        """The checked query, parsed from its text again if it was dropped."""
        if self._resolved is None:
            self._resolved = resolve(self.id, self.text)
        return self._resolved

    @property
    def pattern(self) -> PatternQuery | None:
        """An event pattern, compiled, once for all that differ in constants of blocks: those in
        its taps are somebody's. None for a query that is none."""
        self.compile_pattern()
        return self.shape.pattern

    def compile_pattern(self) -> None:
        """Compile it if it is an event pattern and was not yet. Raises `XsclError` if the checks
        refuse its text, which may have been written when they were others."""
        if self.shape.is_pattern and self.shape.pattern is None:
            self.shape.pattern = pattern_query(self.resolved)

    @property
    def own_pattern(self) -> PatternQuery | None:
        """The same with its own constants."""
        if self.shape.is_pattern and self.literals:
            return pattern_query(self.resolved)
        return self.pattern

    def passes(self) -> Passes:
        """The outputs of all passes, computed again."""
        return run_passes(self.resolved)

    @property
    def nested(self) -> tuple[Compiled, ...]:
        """The queries in its FROM; of an event pattern also its taps."""
        found = nested_in(self.shape, self.literals)
        if any(inner.shape.is_pattern for inner in found):
            # The text of a query in FROM cannot be read by itself.
            pattern = self.pattern
            assert pattern is not None
            own = {each.id: each for each in pattern.nested}
            found = [replace(inner, _resolved=own.get(inner.id)) for inner in found]
        return tuple(found)

    @property
    def reads(self) -> set[str]:
        """The streams that its result is derived from."""
        return set(self.shape.delivery.streams).union(*(inner.reads for inner in self.nested))


def nested_in(shape: Shape, literals: Literals) -> list[Compiled]:
    """The queries in FROM of a query of this shape; of an event pattern then its taps."""
    return [_inner(inner, each, literals) for inner, each in shape.inner]


def _inner(inner: Inner, shape: Shape, literals: Literals) -> Compiled:
    """A query in FROM, or a tap, of a query with these literals."""
    id, text, own = inner.id, inner.text, inner.literals
    if inner.apart:
        own = tuple([literals[number] for number in inner.numbers])
        text %= own
        id = tap_id(text, inner.apart)
    return Compiled(id, text, id, shape, own)


def forget() -> None:
    """Clear the cache of shapes; the next queries are compiled as if they were the first."""
    SHAPES.clear()
    _FORMS.clear()


def compile_query(resolved: ResolvedQuery) -> Compiled:
    """A checked query, compiled."""
    shape = SHAPES.get(resolved.form)
    if shape is None:
        if resolved.form in _FORMS or holds_pattern(resolved.query):
            return _compiled_pattern(resolved)
        shape = shape_of(blueprint(resolved))
    publish = resolved.query.publish
    return Compiled(resolved.id, resolved.text, publish, shape, resolved.literals, resolved)


def compile_text(id: str, text: str) -> Compiled:
    """A query from its canonical text, which passed all checks before."""
    return replace(compile_query(resolve(id, text)), text=text)


def resolve(id: str, text: str) -> ResolvedQuery:
    """A checked query from its canonical text."""
    (resolved,) = [q for q in xscl.check([xscl.parse(text, id)]).queries if q.id == id]
    return resolved


def value_of(constant: str) -> str | float:
    """The value of a constant as it is written."""
    return string_of(constant) if constant[0] in "'\"" else float(constant)


# -- the passes of a form ------------------------------------------------------------------------


def blueprint(resolved: ResolvedQuery) -> Blueprint:
    """Run all passes on a query's form."""
    if holds_pattern(resolved.query):
        return _compiled_pattern(resolved).shape.blueprint
    passes = run_passes(resolved)
    graph, fitted = passes.graph, passes.fitted
    shape = fitted.template
    nodes = sorted(zip(fitted.positions, graph.nodes, strict=True), key=itemgetter(0))
    by_literals = any(not isinstance(p, str) for name, _ in graph.variables for p in name)
    return Blueprint(
        form=resolved.form,
        template=shape,
        ties=(
            *(
                (position, parent, shape.valued(position), shape.read(position))
                for position, (_, parent) in enumerate(shape.nodes)
                if has_edge(shape, position)
            ),
            *((p, base, False, True) for p, base in enumerate(shape.quantified, len(shape.nodes))),
        ),
        selected=frozenset([fitted.positions[i] for i in graph.selected]),
        definitions=(
            *(node.definition for _, node in nodes),
            *(definition for _, definition in graph.quantified),
        ),
        parameters=fitted.parameters,
        windows=graph.windows,
        variables=graph.variables,
        delivery=Delivery(
            positions=fitted.positions,
            selected=graph.selected,
            variables=() if by_literals else variables_of(graph.variables, ()),
            named=passes.named,
            select=passes.normal.select,
            namespaces=resolved.namespaces,
            streams=frozenset([node.definition.stream for node in graph.nodes]),
        ),
        nested=tuple(
            [
                Inner(inner.id, inner.text, inner.literals, blueprint(inner))
                for inner in passes.normal.nested
            ]
        ),
    )


# -- event patterns ------------------------------------------------------------------------------


_FORMS: dict[str, tuple[int, ...] | None] = {}
_MOST_FORMS = 10_000
"""Forms of event patterns that are remembered."""


def _places(resolved: ResolvedQuery) -> tuple[int, ...] | None:
    """The places of the literals that only the taps of an event pattern depend on, which all of its
    form have in common; None for one with a pattern in its FROM, which shares nothing."""
    if resolved.form not in _FORMS:
        places = None
        if not any(holds_pattern(term.query) for term in streams_of(resolved.query)):
            places = parameters(resolved, pattern_query(resolved))
        if len(_FORMS) >= _MOST_FORMS:
            _FORMS.clear()
        _FORMS[resolved.form] = places
    return _FORMS[resolved.form]


def _compiled_pattern(resolved: ResolvedQuery) -> Compiled:
    # The text of one in a FROM cannot be read by itself, so it has no constants to itself.
    places = None if resolved.id.startswith("~") else _places(resolved)
    literals = resolved.literals
    if places is None:
        form = f"{PATTERN}{resolved.id} {resolved.text}"
    else:
        others = [None if place in places else text for place, text in enumerate(literals)]
        form = PATTERN + compact_json([resolved.form, others])
    shape = SHAPES.get(form)
    if shape is None:
        pattern = pattern_query(resolved)
        shape = shape_of(_blueprint_of_pattern(resolved, form, pattern, bool(places)))
        shape.pattern = pattern
    own = tuple([literals[place] for place in places or ()])
    return Compiled(resolved.id, resolved.text, resolved.query.publish, shape, own, resolved)


def _blueprint_of_pattern(
    resolved: ResolvedQuery, form: str, pattern: PatternQuery, own: bool
) -> Blueprint:
    """A query without a join graph; its blocks are queries in its FROM, with literals of its `own`
    or with those that all of its form have."""
    nested = map(compile_query, pattern.nested)
    inside = [Inner(i.id, i.text, i.literals, i.shape.blueprint) for i in nested]
    first = 0
    for tap in pattern.taps:
        made = tap.resolved
        if own:
            numbers = tuple(range(first, first + len(made.literals)))
            first += len(made.literals)
            inside.append(Inner("", tap.written, (), blueprint(made), numbers, tap.apart))
        else:
            inside.append(Inner(made.id, made.text, made.literals, blueprint(made)))
    return Blueprint(
        form=form,
        template=Template(((0, None),), (), 0),
        ties=(),
        selected=frozenset(),
        definitions=(),
        parameters=(),
        windows=(),
        variables=(),
        delivery=Delivery((), (), (), {}, (), resolved.namespaces, pattern.streams),
        nested=tuple(inside),
    )
