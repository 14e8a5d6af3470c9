"""Stage 1: documents to witnesses (dissertation, section 6.3).

A `Matcher` holds the structural edges that the registered queries need, all in one shared NFA. In
goes one parsed document with its streams; out comes its `Witness`: the rows of the paper's RbinW
(var1, var2, node1, node2), with the coded value of node2 (the paper's RdocW) beside each row.

An edge relates a variable to one above it in the same tree pattern: the pairs of document nodes
that the pattern itself relates, with all filters on the way satisfied. Variable 0 is the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lxml import etree

from xscl import ast
from xscl.constants import Atom, ConstantIndex, Subject, atom_of
from xscl.filters import Node, Value, compile_filter, compile_value, text_of
from xscl.nfa import Automaton, LabelPath
from xscl.positions import positions
from xscl.treepattern import Definition
from xscl.walk import Walk


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of tree patterns: `var1` is the first `depth` steps of `var2`'s definition.

    `depth` is 0 for an edge from the document. `valued`: the value of var2 joins others, by its
    code; `read`: predicates read its text and number.
    """

    id: int
    var1: int
    var2: int
    definition: Definition
    depth: int
    valued: bool
    read: bool = False

    @property
    def evaluated(self) -> bool:
        return self.valued or self.read


@dataclass(slots=True)
class Witness:
    """Rows of one document, as parallel columns.

    `value` is the code of node2's value, None where nobody joins it or where it is NaN, which equals
    nothing. `text` and `num` are the value itself and its number, where predicates read them.
    """

    var1: list[int] = field(default_factory=list)
    var2: list[int] = field(default_factory=list)
    node1: list[int] = field(default_factory=list)
    node2: list[int] = field(default_factory=list)
    value: list[int | None] = field(default_factory=list)
    text: list[str | None] = field(default_factory=list)
    num: list[float | None] = field(default_factory=list)


Filter = tuple[int, Callable[[Node], bool]]
"""A filter's number, equal for equal filters, and its test."""


class Group:
    """Edges with one path and one value, apart from the filters on the path.

    Without filters there is one edge. With filters, a *trigger* is a step and the constants with
    which the filters there compare one subject: only edges whose constant is satisfied are looked
    at, in `by_constant`. Edges without such a constant are in `edges` and looked at each time.
    """

    __slots__ = (
        "by_constant",
        "depth",
        "edges",
        "evaluate",
        "filtered",
        "steps",
        "trigger",
        "value",
    )

    def __init__(
        self, edge: Edge, steps: tuple[ast.Step, ...], trigger: tuple[int, ConstantIndex] | None
    ) -> None:
        self.steps = steps
        self.depth = edge.depth
        self.value = edge.definition.value if edge.evaluated else False
        self.evaluate = _evaluator(edge)
        self.filtered = steps != edge.definition.steps
        self.trigger = trigger
        self.edges: list[Edge] = []
        self.by_constant: dict[int, list[Edge]] = {}

    def __len__(self) -> int:
        return len(self.edges) + len(self.by_constant)


@dataclass(frozen=True, slots=True)
class Plan:
    """A group at a label path: the depths of var1, or with a trigger those of its step."""

    group: Group
    depths: tuple[int, ...]


class Matcher:
    """The edges of all registered queries over one shared automaton. Not thread-safe."""

    def __init__(self, edges: Iterable[Edge] = (), label_paths: int = 50_000) -> None:
        self.automaton: Automaton[Group] = Automaton(label_paths)
        self.edges: dict[int, Edge] = {}
        self.filters: dict[int, list[list[Filter]]] = {}
        """By edge and step, the filters there; only for edges with filters."""
        self._tests: dict[ast.Expr, Filter] = {}
        self._groups: dict[object, Group] = {}
        self._places: dict[int, tuple[object, int | None]] = {}
        self._indexes: dict[Subject, ConstantIndex] = {}
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        self.edges[edge.id] = edge
        definition = edge.definition
        tests = [[self._test(f) for f in step.filters] for step in definition.steps]
        steps = definition.steps
        found = None
        if any(tests):
            self.filters[edge.id] = tests
            steps = tuple(replace(step, filters=()) for step in steps)
            found = _trigger(definition)
        value = (definition.value,) if edge.evaluated else ()
        subject = (found[0], found[1].subject) if found else bool(any(tests))
        key = (definition.stream, steps, edge.depth, value, subject)
        trigger = None
        if found is not None:
            step, atom = found
            index = self._indexes.setdefault(atom.subject, ConstantIndex(atom.subject))
            trigger = (step, index)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(edge, steps, trigger)
            self.automaton.add(definition.stream, steps, group)
        number = None
        if found is not None and trigger is not None:
            number = trigger[1].add(found[1].op, found[1].constant)
            group.by_constant.setdefault(number, []).append(edge)
        else:
            group.edges.append(edge)
        self._places[edge.id] = (key, number)

    def remove(self, edge_id: int) -> None:
        edge = self.edges.pop(edge_id)
        self.filters.pop(edge_id, None)
        key, number = self._places.pop(edge_id)
        group = self._groups[key]
        if number is None:
            group.edges.remove(edge)
        else:
            group.by_constant[number].remove(edge)
            if not group.by_constant[number]:
                del group.by_constant[number]
            found = _trigger(edge.definition)
            assert found is not None
            index = self._indexes[found[1].subject]
            index.remove(found[1].op, found[1].constant)
            if not index:
                del self._indexes[found[1].subject]
        if not group:
            del self._groups[key]
            self.automaton.remove(edge.definition.stream, group.steps, group)

    def _test(self, expr: ast.Expr) -> Filter:
        known = self._tests.get(expr)
        if known is None:
            known = self._tests[expr] = (len(self._tests), compile_filter(expr))
        return known

    def match(self, root: etree._Element, streams: tuple[str, ...]) -> Witness:
        """The witness of one document that flows through `streams`."""
        witness = Witness()
        start = self.automaton.root(streams)
        if start is not None:
            Walk(self, witness).document(root, start)
        return witness

    def plans(self, path: LabelPath[Group]) -> list[Plan]:
        """What to look at in a node of a label path; worked out once for each."""
        labels = path.labels()
        plans = []
        for group in path.accepts:
            depth = group.depth if group.trigger is None else group.trigger[0] + 1
            plans.append(Plan(group, tuple(sorted(positions(labels, group.steps, depth)))))
        path.plans = plans
        return plans


def _trigger(definition: Definition) -> tuple[int, Atom] | None:
    """The filter that decides whether a definition is looked at: its step and its atom."""
    atoms = [
        (i, atom)
        for i, step in enumerate(definition.steps)
        for part in step.filters
        if (atom := atom_of(part)) is not None
    ]
    return min(atoms, key=lambda found: found[1].selectivity(), default=None)


def _evaluator(edge: Edge) -> Callable[[Node], Value] | None:
    if not edge.evaluated:
        return None
    value = edge.definition.value
    return text_of if value is None else compile_value(value)
