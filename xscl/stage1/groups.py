"""Groups of edges that share their path, value, and the subject by which they are looked up."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from xscl.compact import OneOrMany
from xscl.normal import ir
from xscl.normal.lower import complete
from xscl.stage1 import xpath
from xscl.stage1.constants import Check, ConstantIndex, Test
from xscl.stage1.filters import Value, bounded, compile_filter, compile_value, text_of
from xscl.stage1.states import Row, State, StateSet
from xscl.stage1.tree import Node
from xscl.stage1.witness import Edge


class Tried:
    """A filter that no index serves. Equal filters share one object, so it is evaluated once per
    node.

    It is evaluated by `holds` on a node or, beyond plain steps downwards, by `around` on a node of
    the numbered document; the other one is None.
    """

    __slots__ = ("__weakref__", "around", "expr", "holds")

    def __init__(self, expr: ir.Expr) -> None:
        self.expr = expr
        self.around: xpath.Truth | None = None
        self.holds: Callable[[Node], bool] | None = None
        if ir.looks_around(expr):
            self.around = bounded(expr, xpath.compile_truth(complete(expr)), False)
        else:
            self.holds = bounded(expr, compile_filter(expr), False)

    def __reduce__(self) -> tuple[object, ...]:
        return Tried, (self.expr,)


Tests = tuple[tuple[int, Tried | Check], ...]
"""Filters, each with the number of its step."""

Constant = tuple[Test, str | float]
"""How an edge is found: a test and its constant."""


class Entry:
    """An edge in the automaton: its variables, its group, and the filters that the group does not
    evaluate. `atom` is the constant by which the group finds it."""

    __slots__ = ("atom", "group", "id", "tests", "var1", "var2")

    def __init__(
        self,
        id: int,
        var1: int,
        var2: int,
        group: Group,
        tests: Tests,
        atom: Constant | None,
    ) -> None:
        self.id = id
        self.var1 = var1
        self.var2 = var2
        self.group = group
        self.tests = tests
        self.atom = atom


ENTRIES: OneOrMany[int, Entry] = OneOrMany(attrgetter("id"))
"""The edges of one constant: most constants have a single edge."""


class Columns(NamedTuple):
    """The edges of a group, in their order, as another process gets them: very many objects take
    several times as long to pickle as what they are made of. Without a trigger no constants."""

    group: Group
    ids: array[int]
    var1: array[int]
    var2: array[int]
    tests: list[Tests]
    kinds: list[Test]
    constants: list[str | float]

    @classmethod
    def of(cls, group: Group, entries: Sequence[Entry]) -> Columns:
        atoms = [entry.atom for entry in entries if entry.atom is not None]
        return cls(
            group,
            array("q", [entry.id for entry in entries]),
            array("q", [entry.var1 for entry in entries]),
            array("q", [entry.var2 for entry in entries]),
            [entry.tests for entry in entries],
            [test for test, _ in atoms],
            [constant for _, constant in atoms],
        )

    def enter(self) -> list[Entry]:
        """The edges, which the group has now."""
        group = self.group
        atoms: Iterable[Constant | None] = repeat(None)
        if group.trigger is not None:
            atoms = zip(self.kinds, self.constants, strict=True)
        entries = [
            Entry(id, var1, var2, group, tests, atom)
            for id, var1, var2, tests, atom in zip(
                self.ids, self.var1, self.var2, self.tests, atoms, strict=False
            )
        ]
        if group.trigger is None:
            group.entries.update(zip(self.ids, entries, strict=True))
            return entries
        found = group.by_constant
        numbers = group.trigger[1].numbers(self.kinds, self.constants)
        for number, entry in zip(numbers, entries, strict=True):
            found[number] = ENTRIES.add(found[number], entry) if number in found else entry
        return entries


Computed = ir.Expr | Literal[False] | None
"""What is computed of a node: None for its string value, False for nothing."""


class Group:
    """Edges with the same path, value and trigger; their other filters may differ.

    A *trigger* is a step and the index of the constants with which filters of that step compare one
    subject. Only edges whose constant is satisfied are then processed, from `by_constant`. Edges
    without a trigger are in `entries` and processed each time.

    `fixed`: no `//` follows var1, filters and trigger, so that they are a known number of nodes
    above the end of the path, which the automaton has found; `back` is where var1 stands among the
    open nodes. Otherwise their positions are found from the labels of these. `simple`: the
    automaton alone decides.
    """

    __slots__ = (
        *("back", "by_constant", "depth", "entries", "evaluate", "filtered", "fixed", "key"),
        *("length", "place", "read", "simple", "state", "steps", "trigger", "value", "valued"),
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
        self.value: Computed = definition.value if edge.evaluated else False
        self.evaluate = _evaluator(self.value)
        self.length = len(definition.steps)
        # The steps are needed again only if positions are not fixed.
        self.steps = () if fixed else definition.steps
        self.filtered = filtered
        self.fixed = fixed
        self.trigger = trigger
        self.place = 0 if trigger is None else self.at(trigger[0] + 1)
        self.back = (self.at(self.depth),)
        self.simple = fixed and not (filtered or edge.read) and (not edge.valued or not self.value)
        self.entries: dict[int, Entry] = {}
        self.by_constant: dict[int, Entry | dict[int, Entry]] = {}

    def __getstate__(self) -> dict[str, object]:
        """All but the state and the edges, which the matcher puts back when it has its
        automaton."""
        skipped = ("by_constant", "entries", "evaluate", "state")
        return {name: getattr(self, name) for name in self.__slots__ if name not in skipped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.evaluate = _evaluator(self.value)
        self.entries = {}
        self.by_constant = {}

    def stands(self) -> bool:
        """Whether it has not been removed from its state."""
        return (self.state.accepts or {}).get(self.key) is self

    def at(self, depth: int) -> int:
        """The index, among the open nodes, of a step of a fixed group, which ends at the last."""
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


def _evaluator(value: Computed) -> Callable[[Node], Value] | None:
    if value is False:
        return None
    return text_of if value is None else bounded(value, compile_value(value), [])
