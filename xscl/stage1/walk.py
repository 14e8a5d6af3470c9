"""What is witnessed at an element of a document beyond its label path: conditions, computed values,
attributes and texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from lxml import etree

from xscl.functions.table import to_number
from xscl.interruption import PENDING, check
from xscl.stage1.constants import HOLDS, Check, ConstantIndex, Satisfied, satisfied_by
from xscl.stage1.document import (
    ELEMENT_BITS,
    TEXT_NODE,
    attributes,
    has_name,
    text_children,
    value_code,
)
from xscl.stage1.filters import Value, as_text, text_of
from xscl.stage1.groups import ENTRIES, Entry, Group, Tried
from xscl.stage1.nfa import Automaton
from xscl.stage1.positions import positions
from xscl.stage1.states import StateSet
from xscl.stage1.tree import Node, tree_of
from xscl.stage1.witness import Witness

Open = tuple[int, Node | None]
"""An open node: its number, and the node itself, which is None for the document."""

Computed = dict[object, Sequence[tuple[int, str | None, float]]]
"""Code, text and number of the values of one node, by the function that computes them."""
_NO_VALUE: Sequence[tuple[int, str | None, float]] = ((0, None, math.nan),)


STANDING = 10_000
"""Label paths for which the positions of variables are cached."""

Standing = dict[tuple[Group, tuple[str, ...]], tuple[int, ...]]
"""The positions of var1 among the open nodes, by its group and the labels of the nodes."""


class Walk:
    """The elements of one document that have to be looked at, in document order. `open` are the
    nodes above the next one."""

    __slots__ = (
        "automaton",
        "label",
        "open",
        "passed",
        "satisfied",
        "standing",
        "values",
        "witness",
    )

    def __init__(
        self, automaton: Automaton, standing: Standing, witness: Witness, satisfied: Satisfied
    ) -> None:
        self.automaton = automaton
        self.standing = standing
        self.witness = witness
        # The open nodes from the document down: elements, except that the last one may be an
        # attribute or text, which has a `label`.
        self.open: list[Open] = []
        self.label = ""
        # Caches by node number, so that nothing is computed twice.
        self.passed: dict[tuple[Tried, int], bool] = {}
        self.values: dict[tuple[ConstantIndex, int], Sequence[str | float]] = {}
        self.satisfied = satisfied

    def visit(self, here: StateSet, element: etree._Element, number: int) -> None:
        """Witness an element below those that are open, if its label path alone does not decide."""
        if here.general:
            self._general(here, element, number)
        if here.wants_leaves:
            self._leaves(here, element, number)

    def _leaf(self, here: StateSet, label: str, text: str, number: int) -> None:
        """Witness an attribute or text of the element that is the last open node."""
        flat, opened = self.witness.flat, self.open
        code = 0
        if here.rows:
            code = value_code(text)
            self.witness.texts[number] = text
        for back, var1, var2, valued in here.rows:
            flat += (var1, var2, opened[back][0], number, code if valued else 0)
        if here.general:
            self._general(here, text, number, label)

    def _leaves(self, here: StateSet, element: etree._Element, number: int) -> None:
        """Witness the attributes and texts of an element."""
        automaton = self.automaton
        self.open.append((number, element))
        if here.wants_attributes:
            known = here.attributes
            for ordinal, (name, value) in enumerate(attributes(element), 1):
                found = known[name] if name in known else automaton.attribute(here, name)
                if found is not None:
                    self._leaf(found, f"@{name}", value, number | ordinal << ELEMENT_BITS)
        if here.wants_texts:
            found = here.texts or automaton.text(here)
            for ordinal, text in enumerate(text_children(element), 1):
                self._leaf(found, "#text", text, number | (TEXT_NODE | ordinal) << ELEMENT_BITS)
        self.open.pop()

    def _general(self, here: StateSet, context: Node, number: int, label: str = "") -> None:
        """Witness a node for the edges whose conditions go beyond the label path. Only attributes
        and texts are given a `label`."""
        if PENDING:
            check()
        self.open.append((number, context))
        self.label = label
        computed: Computed = {}
        texts, flat = self.witness.texts, self.witness.flat
        rows = len(flat)
        for group in here.general:
            entries: Iterable[Entry]
            trigger = group.trigger
            if trigger is None:
                entries = group.entries.values()
            elif group.fixed:
                satisfied = self._satisfied(trigger[1], group.place)
                if not satisfied:
                    continue
                entries = of_constants(group, satisfied)
            else:
                entries = self._triggered(group)
            plainly = group.fixed and group.evaluate is None
            for entry in entries:
                if plainly and not entry.tests:
                    flat += (entry.var1, entry.var2, self.open[group.back[0]][0], number, 0)
                    continue
                depths = self._depths(group, entry)
                if depths:
                    self._rows(group, entry, depths, computed)
        if len(flat) > rows and number not in texts:
            if isinstance(context, str):
                texts[number] = context
            elif not len(context):
                texts[number] = context.text or ""
        self.open.pop()

    def _labels(self) -> tuple[str, ...]:
        """The labels from the root down to the current node."""
        elements = [node for _, node in self.open if isinstance(node, etree._Element)]
        labels = [node.tag if has_name(node) else "#other" for node in elements]
        return (*labels, self.label) if self.label else (*labels,)

    def _satisfied(self, index: ConstantIndex, depth: int) -> AbstractSet[int]:
        """The constants that the subject satisfies at an open node."""
        number, context = self.open[depth]
        assert context is not None
        return satisfied_by(self.satisfied, (index, number), context)

    def _triggered(self, group: Group) -> list[Entry]:
        """The edges of a group that is not fixed whose constant the document satisfies."""
        assert group.trigger is not None
        step, index = group.trigger
        found: dict[int, Entry] = {}
        for depth in positions(self._labels(), group.steps, step + 1):
            for number in group.by_constant.keys() & self._satisfied(index, depth):
                ENTRIES.collect(group.by_constant[number], found)
        return list(found.values())

    def _depths(self, group: Group, entry: Entry) -> Sequence[int]:
        """The positions of var1 of an edge among the open nodes, of which the last is var2."""
        if group.fixed:
            length = group.length
            for step, test in entry.tests:
                if not self._passes(test, step - length):  # which is `group.at(step + 1)`
                    return ()
            return group.back
        if group.filtered:
            by_step: dict[int, list[Tried | Check]] = {}
            for step, test in entry.tests:
                by_step.setdefault(step, []).append(test)
            return sorted(
                positions(
                    self._labels(),
                    group.steps,
                    group.depth,
                    lambda step, depth: all(self._passes(t, depth) for t in by_step.get(step, ())),
                )
            )
        standing = self.standing
        key = (group, self._labels())
        known = standing.get(key)
        if known is None:
            known = tuple(sorted(positions(key[1], group.steps, group.depth)))
            if len(standing) >= STANDING:
                standing.clear()
            standing[key] = known
        return known

    def _rows(self, group: Group, entry: Entry, depths: Sequence[int], computed: Computed) -> None:
        values = _NO_VALUE
        if group.evaluate is not None:
            known = computed.get(group.value)
            if known is None:
                known = computed[group.value] = self._value(group.evaluate)
                if group.value is None:
                    self.witness.texts[self.open[-1][0]] = known[0][1] or ""
            values = known
        witness, opened = self.witness, self.open
        for code, text, number in values:
            valued = code if group.valued else 0
            for depth in depths:
                if group.read and text is not None:
                    row = len(witness)
                    witness.text[row] = text
                    if number == number:
                        witness.num[row] = number
                witness.flat += (entry.var1, entry.var2, opened[depth][0], opened[-1][0], valued)

    def _value(self, evaluate: Callable[[Node], Value]) -> Sequence[tuple[int, str | None, float]]:
        """Code, text and number of the value, or of each of several, at the current node. The code
        of NaN is 0, as it equals nothing."""
        context = self.open[-1][1]
        assert context is not None
        value = evaluate(context)
        if isinstance(value, list):
            texts = dict.fromkeys(map(text_of, value))
            return [(value_code(text), text, to_number(text)) for text in texts]
        text = as_text(value)
        if not isinstance(value, float):
            return ((value_code(text), text, to_number(text)),)
        return ((0 if math.isnan(value) else value_code(text), text, value),)

    def _passes(self, test: Tried | Check, depth: int) -> bool:
        """Whether a filter holds at an open node."""
        number, context = self.open[depth]
        if isinstance(test, Check):
            index = test.index
            values = self.values.get((index, number))
            if values is None:
                assert context is not None
                values = self.values[index, number] = index.values(context)
            compare, constant = HOLDS[test.test], test.constant
            if len(values) == 1:
                return compare(values[0], constant)
            return any(compare(value, constant) for value in values)
        key = (test, number)
        passed = self.passed.get(key)
        if passed is None:
            assert context is not None
            passed = test.holds(context) if test.holds else self._around(test, number)
            self.passed[key] = passed
        return passed

    def _around(self, test: Tried, number: int) -> bool:
        root = self.open[1][1]  # the open node below the document
        assert test.around is not None
        assert isinstance(root, etree._Element)
        tree = tree_of(root)
        return test.around(tree, tree.at(number), 1, 1)


def of_constants(group: Group, satisfied: AbstractSet[int]) -> Iterable[Entry]:
    """The edges of a group with one of these constants; mostly there is one of these, with one."""
    of = group.by_constant
    if len(satisfied) == 1:
        (number,) = satisfied
        return ENTRIES.items(of.get(number))
    return [entry for number in of.keys() & satisfied for entry in ENTRIES.items(of[number])]
