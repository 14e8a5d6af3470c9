"""Stage 1: documents to witnesses (dissertation, section 6.3).

A `Matcher` holds the structural edges that the registered queries need, all in one shared NFA. In:
one parsed document with its streams. Out: its `Witness`, the rows of the paper's RbinW
(var1, var2, node1, node2), with the coded value of node2 (the paper's RdocW) beside each row.

An edge relates a variable to one above it in the same tree pattern: the pairs of document nodes
that the pattern itself relates, with all filters on the way satisfied. Variable 0 is the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast
from weakref import WeakValueDictionary

from lxml import etree

from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.stage1.constants import (
    Atom,
    Check,
    ConstantIndex,
    Subject,
    Test,
    atom_of,
    constant_of,
    constants_of,
    is_unvarying,
    selectivity,
)
from xscl.stage1.groups import ENTRIES, Columns, Entry, Group, Tests, Tried
from xscl.stage1.nfa import Automaton
from xscl.stage1.reading import Reading
from xscl.stage1.witness import AlikeEdges, Edge, Witness

_KNOWN_FORMS = 10_000


@dataclass(slots=True)
class _Alike:
    """Edges of one form whose filters are all atoms that differ in the constant alone: for each
    filter its step and its place there, the index and the test. `groups` are theirs, by the filter
    whose constant is the trigger."""

    fixed: bool
    places: tuple[tuple[int, int], ...]
    atoms: tuple[tuple[ConstantIndex, Test], ...]
    groups: dict[int, Group]

    def constants(self, steps: Sequence[ir.Step]) -> list[str | float] | None:
        """The constants in these steps; None if one makes its filter no atom."""
        found: list[str | float] = []
        for (i, place), (index, _) in zip(self.places, self.atoms, strict=True):
            constant = constant_of(steps[i].filters[place], index.subject.numeric)
            if constant is None:
                return None
            found.append(constant)
        return found

    def columns(
        self, steps: Sequence[ir.Step], literals: Sequence[Literals]
    ) -> list[Sequence[str | float | None]]:
        """By filter the constants of these literals, which the steps have parameters for."""
        return [
            constants_of(steps[i].filters[place], index.subject.numeric, literals)
            for (i, place), (index, _) in zip(self.places, self.atoms, strict=True)
        ]

    def always(self) -> int | None:
        """The filter that finds an edge whatever its constants are, None if it depends on them."""
        ranks = [selectivity(test, "")[0] for _, test in self.atoms]
        return ranks.index(min(ranks)) if ranks.count(min(ranks)) == 1 else None

    def others(self, trigger: int) -> list[tuple[int, int, ConstantIndex, Test]]:
        """The filters that are asked of what the trigger finds: their numbers and steps, indexes
        and tests."""
        return [
            (n, step, *atom)
            for n, ((step, _), atom) in enumerate(zip(self.places, self.atoms, strict=True))
            if not (self.fixed and n == trigger)
        ]

    def trigger(self, constants: Sequence[str | float]) -> int:
        """The filter that finds an edge with these constants."""
        ranks = [
            selectivity(test, constant)
            for (_, test), constant in zip(self.atoms, constants, strict=True)
        ]
        return ranks.index(min(ranks))


class Matcher:
    """The edges of all registered queries over one shared automaton. Not thread-safe."""

    def __init__(
        self, edges: Iterable[Edge] = (), limit: int = 200_000, block: int = 10_000
    ) -> None:
        """`limit` bounds the cached automaton, `block` the elements in memory at a time, beside
        the document itself."""
        self.automaton = Automaton(limit)
        self.reading = Reading(self.automaton, block)
        self.edges: dict[int, Entry] = {}
        self._tests: WeakValueDictionary[ir.Expr, Tried] = WeakValueDictionary()
        self._indexes: WeakValueDictionary[Subject, ConstantIndex] = WeakValueDictionary()
        self._alike: dict[object, _Alike] = {}
        """What is known of the edges of a form, by what else a group depends on."""
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        """Match an edge from the next document on. The cost does not grow with the other edges."""
        form = (edge.form, edge.depth, edge.valued, edge.read)
        alike = None if edge.form is None else self._alike.get(form)
        if alike is not None and self._add_alike(edge, alike):
            return
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
        if atom is not None and index is not None:
            entry = Entry(
                *(edge.id, edge.var1, edge.var2, group, tests, (atom.test, atom.constant))
            )
            self._enter(entry, index)
            whole = len(atoms) == len(filters) and all(
                is_unvarying(a.subject.expr) for _, a in atoms
            )
            if edge.form is not None and whole:
                if alike is None:
                    alike = self._known_form(form, steps, fixed, [a for _, a in atoms])
                alike.groups[next(n for n, (_, a) in enumerate(atoms) if a is atom)] = group
            return
        entry = self.edges[edge.id] = Entry(edge.id, edge.var1, edge.var2, group, tests, None)
        group.entries[edge.id] = entry
        if group.simple:
            row = group.row(entry)
            self.automaton.change_actions(state, lambda here: here.simple.update({entry.id: row}))

    def _known_form(
        self, form: object, steps: Sequence[ir.Step], fixed: bool, atoms: Sequence[Atom]
    ) -> _Alike:
        if len(self._alike) >= _KNOWN_FORMS:
            self._alike.clear()
        places = [(i, n) for i, step in enumerate(steps) for n in range(len(step.filters))]
        indexed = [(self._index(atom.subject), atom.test) for atom in atoms]
        found = self._alike[form] = _Alike(fixed, tuple(places), tuple(indexed), {})
        return found

    def _add_alike(self, edge: Edge, alike: _Alike) -> bool:
        """Add an edge like others, whose filters need not be analysed again; False if it has to be
        added in the general way."""
        constants = alike.constants(edge.definition.steps)
        if constants is None:
            return False
        trigger = alike.trigger(constants)
        group = alike.groups.get(trigger)
        if group is None or not group.stands():
            return False
        tests = tuple(
            [
                (step, Check(index, test, constants[n]))
                for n, step, index, test in alike.others(trigger)
            ]
        )
        index, test = alike.atoms[trigger]
        atom = (test, constants[trigger])
        self._enter(Entry(edge.id, edge.var1, edge.var2, group, tests, atom), index)
        return True

    def _enter(self, entry: Entry, index: ConstantIndex) -> None:
        """Add an edge that is found by its constant."""
        assert entry.atom is not None
        self.edges[entry.id] = entry
        number = index.add(*entry.atom)
        found = entry.group.by_constant
        found[number] = ENTRIES.add(found[number], entry) if number in found else entry

    def add_alike(self, edges: AlikeEdges) -> None:
        """Add edges of one form, as `add` does: what they have in common is looked up once."""
        ids, at = edges.ids, 0
        while at < len(ids) and edges.kind not in self._alike:
            self.change([(ids[at], edges.edge(at))])
            at += 1
        if at == len(ids):
            return
        alike = self._alike[edges.kind]
        columns = alike.columns(edges.definition.steps, edges.literals[at:])
        always = alike.always()
        if always is not None and self._add_columns(alike, always, ids[at:], columns):
            return
        ready: dict[int, tuple[Group, list[tuple[int, int, ConstantIndex, Test]]]] = {}
        for place, constants in enumerate(zip(*columns, strict=True), at):
            id = ids[place]
            if id in self.edges or None in constants:
                self.change([(id, edges.edge(place))])
                ready.clear()
                continue
            trigger = alike.trigger(constants) if always is None else always
            if trigger not in ready:
                known = alike.groups.get(trigger)
                if known is None or not known.stands():
                    self.change([(id, edges.edge(place))])
                    continue
                ready[trigger] = (known, alike.others(trigger))
            group, others = ready[trigger]
            tests = tuple(
                [(step, Check(index, test, constants[n])) for n, step, index, test in others]
            )
            index, test = alike.atoms[trigger]
            atom = (test, constants[trigger])
            self._enter(Entry(id, id >> 32, id & 0xFFFF_FFFF, group, tests, atom), index)

    def _add_columns(
        self,
        alike: _Alike,
        trigger: int,
        ids: Sequence[int],
        columns: Sequence[Sequence[str | float | None]],
    ) -> bool:
        """Add edges of one form with these constants by filter, which one filter finds whatever its
        constant is; False if they have to be added one by one, as some are known or no atoms."""
        group = alike.groups.get(trigger)
        if (
            group is None
            or not group.stands()
            or any(None in column for column in columns)
            or not self.edges.keys().isdisjoint(ids)
        ):
            return False
        known = cast(Sequence[Sequence[str | float]], columns)
        tests: Iterable[Tests] = repeat((), len(ids))
        others = [
            [(step, Check(index, test, constant)) for constant in known[n]]
            for n, step, index, test in alike.others(trigger)
        ]
        if others:
            tests = zip(*others, strict=True)
        index, test = alike.atoms[trigger]
        constants = known[trigger]
        entries = [
            Entry(id, id >> 32, id & 0xFFFF_FFFF, group, own, (test, constant))
            for id, own, constant in zip(ids, tests, constants, strict=True)
        ]
        self.edges.update(zip(ids, entries, strict=True))
        found = group.by_constant
        for number, entry in zip(index.add_all(test, constants), entries, strict=True):
            found[number] = ENTRIES.add(found[number], entry) if number in found else entry
        return True

    def change(self, edges: Iterable[tuple[int, Edge | None]]) -> None:
        """Add or replace these edges from the next document on; those that are None are removed."""
        for edge_id, edge in edges:
            if edge_id in self.edges:
                self.remove(edge_id)
            if edge is not None:
                self.add(edge)

    def remove(self, edge_id: int) -> None:
        """Remove an edge from the next document on."""
        entry = self.edges.pop(edge_id)
        group = entry.group
        if entry.atom is not None and group.trigger is not None:
            number = group.trigger[1].remove(*entry.atom)
            left = ENTRIES.remove(group.by_constant.pop(number), entry)
            if left is not None:
                group.by_constant[number] = left
        else:
            del group.entries[edge_id]
            if group.simple:
                self.automaton.change_actions(
                    group.state, lambda here: here.simple.pop(edge_id, None)
                )
        if not (group.entries or group.by_constant):
            self.automaton.refuse(group.state, group.key)
            if not group.fixed:
                self.reading.standing.clear()

    def __getstate__(self) -> tuple[object, ...]:
        """What another process goes on with: all but what documents have filled in."""
        tests, indexes = list(self._tests.items()), list(self._indexes.items())
        by_group: dict[Group, list[Entry]] = {}
        for entry in self.edges.values():
            by_group.setdefault(entry.group, []).append(entry)
        columns = [Columns.of(group, entries) for group, entries in by_group.items()]
        return self.automaton, columns, tests, indexes, self.reading.block

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.automaton, columns, tests, indexes, block = state
        self.edges = {entry.id: entry for part in columns for entry in part.enter()}
        self.reading = Reading(self.automaton, block)
        self._tests = WeakValueDictionary(tests)
        self._indexes = WeakValueDictionary(indexes)
        self._alike = {}
        for place in self.automaton.states():
            for group in (place.accepts or {}).values():
                group.state = place

    def match(self, root: etree._Element, streams: tuple[str, ...]) -> Witness:
        """The witness of one document that flows through `streams`."""
        start = self.automaton.root(streams)
        return self.reading.witness(root, start)

    def _index(self, subject: Subject) -> ConstantIndex:
        found = self._indexes.get(subject)
        if found is None:
            found = self._indexes[subject] = ConstantIndex(subject)
        return found

    def _test(self, expr: ir.Expr, atom: Atom | None) -> Tried | Check:
        if atom is not None:
            return Check(self._index(atom.subject), atom.test, atom.constant)
        found = self._tests.get(expr)
        if found is None:
            found = self._tests[expr] = Tried(expr)
        return found


def _fixed(steps: tuple[ir.Step, ...], places: Iterable[int]) -> bool:
    """Whether all these places, apart from 0, are a fixed number of nodes above the path's end."""
    lowest = min((place for place in places if place), default=len(steps))
    return all(step.axis == "/" for step in steps[lowest:]) and all(
        step.test.kind != "self" for step in steps
    )
