"""Compiled queries: a shape, which all that differ in constants, windows and names share, and
literals.

Very many subscriptions are a few texts with different constants, such as author and keyword. In: a
checked query. Out: a `Compiled`: the `Shape` of its form, and its literals. The passes run once for
a form, since no pass looks at a literal: in the intermediate form it is a parameter. The parts that
depend on constants are made from the shape by binding the literals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

import xscl
from broker.model import UNBOUNDED, compact_json
from broker.pattern.reading import streams_of
from broker.query.conjunctive import has_edge
from broker.query.edges import Tie
from broker.query.patterns import PatternQuery, parameters, pattern_query, tap_id
from xscl.check.patterns import holds_pattern
from xscl.check.program import ResolvedQuery
from xscl.normal import ir
from xscl.normal.bind import Bind, Literals, binder, string_of, window_of
from xscl.normal.canonical import settled_throughout
from xscl.normal.joingraph import JoinGraph, join_graph
from xscl.normal.normalize import NormalQuery, normalize
from xscl.normal.template import Fitted, Template, template
from xscl.normal.text import filled
from xscl.normal.treepattern import Definition


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


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a match becomes a result.

    `positions` are the template's positions of the nodes of the query's join graph; `selected` and
    `variables` are those of the graph. `named` maps what SELECT names to positions: variables, or
    for `*` the numbers of the blocks. `streams` are those that the query reads.
    """

    positions: tuple[int, ...]
    selected: tuple[int, ...]
    variables: tuple[tuple[str, int], ...]
    named: Mapping[str, int]
    select: ir.Select
    namespaces: Mapping[str, str]
    streams: frozenset[str]


COMPILER = 2
"""The version of the compiler. It is raised with every change of the passes' output, of how forms
or definitions are written, or of `Blueprint`; shapes that a state holds from an older version are
compiled again from the texts of the queries."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parts that all queries of one form share, as plain data.

    `form` is `ResolvedQuery.form`. `ties` are its edges, by position; `definitions` those of all
    positions, then of the quantified paths. Numbers of literals are `parameters`, which are the
    template's, and `windows`, those of the operators and of WITHIN, None for no bound. `variables`
    are those of the delivery, as they are written. `nested` are the queries in FROM.
    """

    form: str
    template: Template
    ties: tuple[Tie, ...]
    selected: frozenset[int]
    definitions: tuple[Definition, ...]
    parameters: tuple[int, ...]
    windows: tuple[int | None, ...]
    variables: tuple[tuple[ir.Written, int], ...]
    delivery: Delivery
    nested: tuple[Inner, ...]


@dataclass(frozen=True, slots=True)
class Inner:
    """A query in FROM, which publishes a stream of its id. Of a tap of an event pattern whose
    literals are the pattern's, `numbers` are their places, `text` is a format for them, and `apart`
    is what else its id is made of."""

    id: str
    text: str
    literals: Literals
    blueprint: Blueprint
    numbers: tuple[int, ...] = ()
    apart: str = ""


_PATTERN = "pattern "
"""What the forms of event patterns begin with, which have no join graph."""


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
            variables=() if by_literals else _variables(graph.variables, ()),
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


class _Form(NamedTuple):
    """What event patterns of one form have in common: the places of the literals that only their
    taps depend on; None for those with a pattern in their FROM, which share nothing."""

    places: tuple[int, ...] | None


_forms: dict[str, _Form] = {}
_FORMS = 10_000
"""Forms that are remembered."""


def _form(resolved: ResolvedQuery) -> _Form:
    found = _forms.get(resolved.form)
    if found is None:
        places = None
        if not any(holds_pattern(term.query) for term in streams_of(resolved.query)):
            places = parameters(resolved, pattern_query(resolved))
        if len(_forms) >= _FORMS:
            _forms.clear()
        found = _forms[resolved.form] = _Form(places)
    return found


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


def _variables(
    variables: tuple[tuple[ir.Written, int], ...], literals: Literals
) -> tuple[tuple[str, int], ...]:
    return tuple({filled(name, literals): index for name, index in variables}.items())


class Shape:
    """A blueprint, and the functions that bind its definitions and its SELECT to literals."""

    __slots__ = (
        *("__weakref__", "_bind_select", "_bind_values", "_bound", "_inner", "_own_delivery"),
        *("_values", "blueprint", "delivery", "is_pattern", "pattern", "selected", "template"),
        "ties",
    )

    def __init__(self, made: Blueprint) -> None:
        self.blueprint = made
        self.template = made.template
        self.selected = made.selected
        self.ties = made.ties
        self.delivery = made.delivery
        self._inner = tuple([(inner, shape_of(inner.blueprint)) for inner in made.nested])
        self._bound = _Definitions([*made.definitions])
        self.is_pattern = made.form.startswith(_PATTERN)
        self.pattern: PatternQuery | None = None
        """Of an event pattern what it is compiled to, once somebody has asked."""
        self._values = tuple([d.value for d in made.definitions[: len(made.template.nodes)]])
        self._bind_values = binder(self._values)
        self._bind_select = binder(made.delivery.select)
        self._own_delivery = self._bind_select is not None or (
            bool(made.variables) and not made.delivery.variables
        )

    def nested(self, literals: Literals) -> tuple[Compiled, ...]:
        """The queries in FROM; of an event pattern then its taps."""
        found = []
        for inner, shape in self._inner:
            id, text, own = inner.id, inner.text, inner.literals
            if inner.apart:
                own = tuple([literals[number] for number in inner.numbers])
                text %= own
                id = tap_id(text, inner.apart)
            found.append(Compiled(id, text, id, shape, own))
        return tuple(found)

    def definitions(self, literals: Literals) -> tuple[Definition, ...]:
        """The definitions of all positions, then of the quantified paths."""
        return self._bound.definitions(literals)

    def texts(self, literals: Literals) -> list[str]:
        """The texts of `definitions`."""
        return self._bound.texts(literals)

    def values(self, literals: Literals) -> tuple[ir.Expr | None, ...]:
        """The expressions computed of the nodes at all positions, None where there is none."""
        if self._bind_values is None:
            return self._values
        bound: tuple[ir.Expr | None, ...] = self._bind_values(literals)
        return bound

    def constants(self, literals: Literals) -> tuple[str, ...]:
        """The literals that are the template's parameters, in order."""
        return tuple([literals[index] for index in self.blueprint.parameters])

    def windows(self, literals: Literals) -> tuple[int, ...]:
        """The windows of the operators in microseconds, then how long a whole match may be."""
        asked = self.blueprint.windows
        return _together(tuple([UNBOUNDED if w is None else window_of(literals[w]) for w in asked]))

    def deliver(self, literals: Literals) -> Delivery:
        if not self._own_delivery:
            return self.delivery
        select = self.delivery.select if self._bind_select is None else self._bind_select(literals)
        variables = _variables(self.blueprint.variables, literals)
        return replace(self.delivery, select=select, variables=variables)


@dataclass(frozen=True, slots=True)
class _Open:
    """A definition with parameters: its place among the shape's; its steps, those with parameters
    as indices of the shape's; its text as a format and the literals in it, None where the literals
    decide in which order its filters stand."""

    place: int
    stream: str
    steps: tuple[ir.Step | int, ...]
    value: ir.Expr | None
    bind_value: Bind | None
    text: tuple[str, tuple[int, ...]] | None


class _Definitions:
    """The definitions of a shape. Steps that several of them have are bound once."""

    def __init__(self, definitions: list[Definition]) -> None:
        self._fixed = definitions
        self._texts = [definition.text() for definition in definitions]
        self._indices: dict[ir.Step, int] = {}
        self._binds: list[Bind] = []
        opened = [self._open(place, each) for place, each in enumerate(definitions)]
        self._opened = [each for each in opened if each is not None]
        self._settled = all(each.text is not None for each in self._opened)

    def _open(self, place: int, definition: Definition) -> _Open | None:
        steps: list[ir.Step | int] = []
        for step in definition.steps:
            bind = binder(step)
            if bind is not None and step not in self._indices:
                self._indices[step] = len(self._binds)
                self._binds.append(bind)
            steps.append(step if bind is None else self._indices[step])
        bind_value = binder(definition.value)
        if bind_value is None and all(isinstance(step, ir.Step) for step in steps):
            return None
        return _Open(
            *(place, definition.stream, tuple(steps), definition.value, bind_value),
            _format(definition.written()) if settled_throughout(definition.steps) else None,
        )

    def definitions(self, literals: Literals) -> tuple[Definition, ...]:
        found = self._fixed.copy()
        bound = [bind(literals) for bind in self._binds]
        for each in self._opened:
            steps = tuple([bound[s] if isinstance(s, int) else s for s in each.steps])
            value = each.value if each.bind_value is None else each.bind_value(literals)
            found[each.place] = Definition(each.stream, steps, value)
        return tuple(found)

    def texts(self, literals: Literals) -> list[str]:
        if not self._settled:
            return [definition.text() for definition in self.definitions(literals)]
        found = self._texts.copy()
        for each in self._opened:
            assert each.text is not None
            text, order = each.text
            found[each.place] = text % tuple([literals[i] for i in order])
        return found


def _format(text: ir.Written) -> tuple[str, tuple[int, ...]]:
    """A text as a format of `%`, and the literals in it."""
    pieces = [piece.replace("%", "%%") if isinstance(piece, str) else "%s" for piece in text]
    return "".join(pieces), tuple([p.index for p in text if not isinstance(p, str)])


@lru_cache(maxsize=4_096)
def _together(asked: tuple[int, ...]) -> tuple[int, ...]:
    """The windows of the operators and of WITHIN, cached so that equal tuples are one object."""
    *own, whole = asked
    return (*own, min([whole, *own[-1:]]))


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
        if self.shape.is_pattern and self.shape.pattern is None:
            self.shape.pattern = pattern_query(self.resolved)
        return self.shape.pattern

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
        found = self.shape.nested(self.literals)
        if any(inner.shape.is_pattern for inner in found):
            # The text of a query in FROM cannot be read by itself.
            pattern = self.pattern
            assert pattern is not None
            own = {each.id: each for each in pattern.nested}
            return tuple([replace(inner, _resolved=own.get(inner.id)) for inner in found])
        return found

    @property
    def reads(self) -> set[str]:
        """The streams that its result is derived from."""
        return set(self.shape.delivery.streams).union(*(inner.reads for inner in self.nested))


_shapes: WeakValueDictionary[str, Shape] = WeakValueDictionary()
"""The cache of shapes by form; a shape stays as long as a query has it."""


def forget() -> None:
    """Clear the cache of shapes; the next queries are compiled as if they were the first."""
    _shapes.clear()
    _forms.clear()


def shape_of(made: Blueprint) -> Shape:
    """The shape of a blueprint, the same one for as long as any query has it."""
    found = _shapes.get(made.form)
    if found is None:
        found = _shapes[made.form] = Shape(made)
    return found


def compile_query(resolved: ResolvedQuery) -> Compiled:
    """A checked query, compiled."""
    shape = _shapes.get(resolved.form)
    if shape is None:
        if resolved.form in _forms or holds_pattern(resolved.query):
            return _compiled_pattern(resolved)
        shape = shape_of(blueprint(resolved))
    publish = resolved.query.publish
    return Compiled(resolved.id, resolved.text, publish, shape, resolved.literals, resolved)


def _compiled_pattern(resolved: ResolvedQuery) -> Compiled:
    # The text of one in a FROM cannot be read by itself, so it has no constants to itself.
    places = None if resolved.id.startswith("~") else _form(resolved).places
    literals = resolved.literals
    if places is None:
        form = f"{_PATTERN}{resolved.id} {resolved.text}"
    else:
        others = [None if place in places else text for place, text in enumerate(literals)]
        form = _PATTERN + compact_json([resolved.form, others])
    shape = _shapes.get(form)
    if shape is None:
        pattern = pattern_query(resolved)
        shape = shape_of(_blueprint_of_pattern(resolved, form, pattern, bool(places)))
        shape.pattern = pattern
    own = tuple([literals[place] for place in places or ()])
    return Compiled(resolved.id, resolved.text, resolved.query.publish, shape, own, resolved)


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
