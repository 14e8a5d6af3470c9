"""Stage 1: documents to witnesses (dissertation, section 6.3).

A `Matcher` holds the structural edges that the registered queries need, all in one shared NFA. In
goes one parsed document with its streams; out comes its `Witness`: the rows of the paper's RbinW
(var1, var2, node1, node2), with the coded value of node2 (the paper's RdocW) beside each row.

An edge relates a variable to one above it in the same tree pattern: the pairs of document nodes
that the pattern itself relates, with all filters on the way satisfied. Variable 0 is the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from lxml import etree

from xscl import ast
from xscl.constants import Atom, Check, ConstantIndex, Subject, atom_of
from xscl.filters import Node, Value, compile_filter, compile_value, text_of
from xscl.nfa import Automaton
from xscl.states import Row, State, StateSet
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


WIDTH = 5
"""Integers of a row of a witness."""


@dataclass(slots=True)
class Witness:
    """Rows of one document: var1, var2, node1, node2 and value, `WIDTH` unsigned integers of 64 bits, one
    after the other. So the document's own node, -1, is 2**64 - 1.

    The value is the code of node2's value, 0 where nobody joins it or where it is NaN, which equals
    nothing. `text` and `num` are the value itself and its number, by the row's number, where
    predicates read them; NaN is left out. Rows are flat since a list for each column costs more to
    fill than all else that a row costs.
    """

    flat: list[int] = field(default_factory=list)
    text: dict[int, str] = field(default_factory=dict)
    num: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flat) // WIDTH

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """The rows, a tuple each, with signed nodes."""
        for at in range(0, len(self.flat), WIDTH):
            var1, var2, node1, node2, value = self.flat[at : at + WIDTH]
            yield var1, var2, node1 if node1 < 2**63 else node1 - 2**64, node2, value


class Tried:
    """A filter that no index serves. Equal ones are one object, so it is tried once a node."""

    __slots__ = ("__weakref__", "holds")

    def __init__(self, expr: ast.Expr) -> None:
        self.holds = compile_filter(expr)


Tests = tuple[tuple[int, Tried | Check], ...]
"""Filters, each with the number of its step."""


class Entry:
    """What is kept of an edge: variables, its group, and the filters that the group does not
    decide. `atom` is the constant by which the group finds it."""

    __slots__ = ("atom", "group", "id", "tests", "var1", "var2")

    def __init__(
        self, edge: Edge, group: Group, tests: Tests, atom: tuple[str, str | float] | None
    ) -> None:
        self.id = edge.id
        self.var1 = edge.var1
        self.var2 = edge.var2
        self.group = group
        self.tests = tests
        self.atom = atom


class Group:
    """Edges with one path, one value and one way to be found, whatever their filters otherwise.

    With a *trigger*, a step and the index of the constants with which filters there compare one
    subject, only edges whose constant is satisfied are looked at, in `by_constant`. The others are
    in `entries` and looked at each time.

    `fixed`: var1, filters and trigger are followed by no `//`, so that they stand a known number of
    nodes above the one where the path ends, which the automaton has found. For the others the
    labels of the open nodes say where. `simple`: the automaton says all there is to say.
    """

    __slots__ = (
        *("by_constant", "depth", "entries", "evaluate", "filtered", "fixed", "key", "length"),
        *("place", "read", "simple", "state", "steps", "trigger", "value", "valued"),
    )

    def __init__(
        self,
        edge: Edge,
        key: object,
        state: State,
        fixed: bool,
        filtered: bool,
        trigger: tuple[int, ConstantIndex] | None,
    ) -> None:
        definition = edge.definition
        self.key = key
        self.state = state
        self.depth = edge.depth
        self.valued = edge.valued
        self.read = edge.read
        self.value = definition.value if edge.evaluated else False
        self.evaluate = _evaluator(edge)
        self.length = len(definition.steps)
        # Filters and names: kept only where they are looked at again.
        self.steps = () if fixed else definition.steps
        self.filtered = filtered
        self.fixed = fixed
        self.trigger = trigger
        self.place = 0 if trigger is None else self.at(trigger[0] + 1)
        self.simple = fixed and not (filtered or edge.read) and (not edge.valued or not self.value)
        self.entries: dict[int, Entry] = {}
        self.by_constant: dict[int, Entry | dict[int, Entry]] = {}

    def at(self, depth: int) -> int:
        """Where a place of a fixed group is among the open nodes, of which the path's end is last."""
        return depth - self.length - 1 if depth else 0

    def row(self, entry: Entry) -> Row:
        # The row is for a node that is not opened: its parent is the last of the open nodes.
        return (self.depth and self.at(self.depth) + 1, entry.var1, entry.var2, self.valued)

    def enter(self, here: StateSet) -> None:
        if self.simple:
            here.simple.update((entry.id, self.row(entry)) for entry in self.entries.values())
        else:
            here.general[self] = None

    def leave(self, here: StateSet) -> None:
        here.general.pop(self, None)


class Matcher:
    """The edges of all registered queries over one shared automaton. Not thread-safe."""

    def __init__(self, edges: Iterable[Edge] = (), limit: int = 200_000) -> None:
        self.automaton = Automaton(limit)
        self.edges: dict[int, Entry] = {}
        self.standing: dict[tuple[Group, tuple[str, ...]], tuple[int, ...]] = {}
        """Where var1 of a group that is not fixed stands on a label path; `Walk` fills it."""
        self._tests: WeakValueDictionary[ast.Expr, Tried] = WeakValueDictionary()
        self._indexes: WeakValueDictionary[Subject, ConstantIndex] = WeakValueDictionary()
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        """From the next document on, match an edge too. Costs the same however many there are."""
        definition = edge.definition
        steps = definition.steps
        filters = [(i, f, atom_of(f)) for i, step in enumerate(steps) for f in step.filters]
        places = [edge.depth, *(i + 1 for i, _, _ in filters)]
        fixed = _fixed(steps, places)
        atoms = [(i, atom) for i, _, atom in filters if atom is not None]
        step, atom = min(atoms, key=lambda found: found[1].selectivity(), default=(0, None))
        index = None if atom is None else self._index(atom.subject)
        tests = tuple(
            (i, self._test(part, other))
            for i, part, other in filters
            if not (fixed and other is atom is not None)
        )
        state = self.automaton.reach(definition.stream, steps)
        value = (definition.value,) if edge.evaluated else ()
        key = (edge.depth, value, edge.valued, edge.read, step, index, bool(filters), fixed)
        group: Group | None = (state.accepts or {}).get(key)
        if group is None:
            trigger = None if index is None else (step, index)
            group = Group(edge, key, state, fixed, bool(filters), trigger)
            self.automaton.accept(state, key, group)
        entry = Entry(edge, group, tests, None if atom is None else (atom.op, atom.constant))
        self.edges[edge.id] = entry
        if atom is not None and index is not None:
            number = index.add(atom.op, atom.constant)
            _put(group.by_constant, number, entry)
            return
        group.entries[edge.id] = entry
        if group.simple:
            row = group.row(entry)
            self.automaton.tell(state, lambda here: here.simple.update({entry.id: row}))

    def change(self, edges: Iterable[tuple[int, Edge | None]]) -> None:
        """From the next document on, match these edges as they are here, None for not at all."""
        for edge_id, edge in edges:
            if edge_id in self.edges:
                self.remove(edge_id)
            if edge is not None:
                self.add(edge)

    def remove(self, edge_id: int) -> None:
        """From the next document on, match an edge no longer."""
        entry = self.edges.pop(edge_id)
        group = entry.group
        if entry.atom is not None and group.trigger is not None:
            _take(group.by_constant, group.trigger[1].remove(*entry.atom), edge_id)
        else:
            del group.entries[edge_id]
            if group.simple:
                self.automaton.tell(group.state, lambda here: here.simple.pop(edge_id, None))
        if not (group.entries or group.by_constant):
            self.automaton.refuse(group.state, group.key)
            if not group.fixed:
                self.standing.clear()

    def match(self, root: etree._Element, streams: tuple[str, ...]) -> Witness:
        """The witness of one document that flows through `streams`."""
        witness = Witness()
        start = self.automaton.root(streams)
        if start is not None:
            Walk(self, witness, start).document(root)
        return witness

    def _index(self, subject: Subject) -> ConstantIndex:
        found = self._indexes.get(subject)
        if found is None:
            found = self._indexes[subject] = ConstantIndex(subject)
        return found

    def _test(self, expr: ast.Expr, atom: Atom | None) -> Tried | Check:
        if atom is not None:
            return Check(self._index(atom.subject), atom.op, atom.constant)
        found = self._tests.get(expr)
        if found is None:
            found = self._tests[expr] = Tried(expr)
        return found


def _fixed(steps: tuple[ast.Step, ...], places: Iterable[int]) -> bool:
    """Whether all these places, apart from 0, are a fixed number of nodes above the path's end."""
    lowest = min((place for place in places if place), default=len(steps))
    return all(step.axis == "/" for step in steps[lowest:]) and all(
        step.test.kind != "self" for step in steps
    )


def _put(found: dict[int, Entry | dict[int, Entry]], number: int, entry: Entry) -> None:
    """Most constants are those of one edge, which needs no dictionary."""
    there = found.setdefault(number, entry)
    if isinstance(there, dict):
        there[entry.id] = entry
    elif there is not entry:
        found[number] = {there.id: there, entry.id: entry}


def _take(found: dict[int, Entry | dict[int, Entry]], number: int, edge_id: int) -> None:
    there = found[number]
    if isinstance(there, dict):
        del there[edge_id]
    if isinstance(there, Entry) or not there:
        del found[number]


def _evaluator(edge: Edge) -> Callable[[Node], Value] | None:
    if not edge.evaluated:
        return None
    value = edge.definition.value
    return text_of if value is None else compile_value(value)
