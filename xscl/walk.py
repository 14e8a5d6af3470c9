"""One pass over one document: nodes along label paths, witnesses out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from lxml import etree
from xxhash import xxh3_64_intdigest

from xscl.constants import Check, ConstantIndex, holds
from xscl.document import (
    DOCUMENT_NODE,
    ELEMENT_BITS,
    TEXT_NODE,
    count_below,
    string_value,
    text_children,
    value_code,
)
from xscl.filters import Node, Value, as_text
from xscl.functions import to_number
from xscl.positions import positions
from xscl.states import StateSet

if TYPE_CHECKING:
    from xscl.stage1 import Entry, Group, Matcher, Tried, Witness

Computed = dict[object, tuple[int, str, float]]
"""Code, text and number of the values of one node, by what is computed of it."""


STANDING = 10_000
"""Label paths for which it is remembered where a variable stands."""


class Walk:
    """One pass over one document, in document order."""

    __slots__ = (
        "chain",
        "computed",
        "label",
        "matcher",
        "nodes",
        "passed",
        "satisfied",
        "values",
        "witness",
    )

    def __init__(self, matcher: Matcher, witness: Witness) -> None:
        self.matcher = matcher
        self.witness = witness
        # The open nodes from the document down, as contexts and as numbers. They are elements, but
        # for the last one where that has a `label`.
        self.chain: list[Node | None] = [None]
        self.nodes: list[int] = [DOCUMENT_NODE]
        self.label = ""
        # What is known of nodes by their numbers, so that nothing is computed twice.
        self.passed: dict[tuple[Tried, int], bool] = {}
        self.values: dict[tuple[ConstantIndex, int], Sequence[str | float]] = {}
        self.satisfied: dict[tuple[ConstantIndex, int], set[int]] = {}

    def document(self, root: etree._Element, start: StateSet) -> None:
        """Witness all nodes. The loop is what every element costs, so it calls nothing of ours."""
        chain, nodes = self.chain, self.nodes
        witness, digest = self.witness, xxh3_64_intdigest
        add_var1, add_var2 = witness.var1.append, witness.var2.append
        add_node1, add_node2 = witness.node1.append, witness.node2.append
        add_value = witness.value.append
        every = enumerate(root.iter())
        # One iterator for all; the number of children `left` says where those of a node end.
        above, known, left = start, start.children, 0
        stack: list[tuple[StateSet, int]] = []
        for index, element in every:
            try:
                here = known[element.tag]
            except KeyError:
                here = self.matcher.automaton.child(above, element.tag)
            inner = len(element)
            if not here.idle:
                code = 0
                if here.coded:
                    text = string_value(element) if inner else element.text or ""
                    code = digest(text.encode())
                for back, var1, var2, valued in here.rows:
                    add_var1(var1)
                    add_var2(var2)
                    add_node1(nodes[back])
                    add_node2(index)
                    add_value(code if valued else 0)
                if here.general:
                    self._general(here, element, index)
                if here.wants_leaves:
                    self._leaves(here, element, index)
            left -= 1
            if inner:
                if here.wants_below:
                    stack.append((above, left))
                    chain.append(element)
                    nodes.append(index)
                    above, known, left = here, here.children, inner
                    continue
                below = count_below(element)
                next(islice(every, below, below), None)
            while not left:
                above, left = stack.pop()
                known = above.children
                chain.pop()
                nodes.pop()

    def _leaf(self, here: StateSet, label: str, text: str, number: int) -> None:
        """Witness an attribute or text, below the element that is the last open node."""
        witness, nodes = self.witness, self.nodes
        code = value_code(text) if here.rows else 0
        for back, var1, var2, valued in here.rows:
            witness.var1.append(var1)
            witness.var2.append(var2)
            witness.node1.append(nodes[back])
            witness.node2.append(number)
            witness.value.append(code if valued else 0)

        if here.general:
            self._general(here, text, number, label)

    def _leaves(self, here: StateSet, element: etree._Element, number: int) -> None:
        """Witness the attributes and texts of an element."""
        automaton = self.matcher.automaton
        self.chain.append(element)
        self.nodes.append(number)
        if here.wants_attributes:
            known = here.attributes
            for ordinal, (key, value) in enumerate(element.items(), 1):
                name = str(key)
                found = known[name] if name in known else automaton.attribute(here, name)
                if found is not None:
                    self._leaf(found, f"@{name}", str(value), number | ordinal << ELEMENT_BITS)
        if here.wants_texts:
            found = here.texts or automaton.text(here)
            for ordinal, text in enumerate(text_children(element), 1):
                self._leaf(found, "#text", text, number | (TEXT_NODE | ordinal) << ELEMENT_BITS)
        self.chain.pop()
        self.nodes.pop()

    def _general(self, here: StateSet, context: Node, number: int, label: str = "") -> None:
        """Witness a node for the edges that ask for more than its label path. A node that is no
        element has a label of its own."""
        self.chain.append(context)
        self.nodes.append(number)
        self.label = label
        computed: Computed = {}
        for group in here.general:
            entries: Iterable[Entry] = group.entries.values()
            if group.trigger is not None:
                if group.fixed and not self._satisfied(group.trigger[1], group.place):
                    continue
                entries = self._triggered(group)
            for entry in entries:
                depths = self._depths(group, entry)
                if depths:
                    self._rows(group, entry, depths, computed)
        self.chain.pop()
        self.nodes.pop()

    def _labels(self) -> tuple[str, ...]:
        """The labels from the root down to the node that is looked at."""
        tags = [node.tag for node in self.chain[1:] if isinstance(node, etree._Element)]
        labels = [tag if isinstance(tag, str) else "#other" for tag in tags]
        return (*labels, self.label) if self.label else (*labels,)

    def _satisfied(self, index: ConstantIndex, depth: int) -> set[int]:
        """The constants that the subject satisfies at an open node."""
        key = (index, self.nodes[depth])
        known = self.satisfied.get(key)
        if known is None:
            context = self.chain[depth]
            assert context is not None
            known = self.satisfied[key] = index.satisfied(index.values(context))
        return known

    def _triggered(self, group: Group) -> list[Entry]:
        """The edges of a group whose constant the document satisfies."""
        assert group.trigger is not None
        step, index = group.trigger
        depths: Iterable[int] = (group.place,)
        if not group.fixed:
            depths = positions(self._labels(), group.steps, step + 1)
        found: dict[int, Entry] = {}
        for depth in depths:
            for number in group.by_constant.keys() & self._satisfied(index, depth):
                there = group.by_constant[number]
                if isinstance(there, dict):
                    found.update(there)
                else:
                    found[there.id] = there
        return list(found.values())

    def _depths(self, group: Group, entry: Entry) -> Sequence[int]:
        """Where var1 of an edge stands when the last of the open nodes is var2."""
        if group.fixed:
            for step, test in entry.tests:
                if not self._passes(test, group.at(step + 1)):
                    return ()
            return (group.at(group.depth),)
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
        standing = self.matcher.standing
        key = (group, self._labels())
        known = standing.get(key)
        if known is None:
            known = tuple(sorted(positions(key[1], group.steps, group.depth)))
            if len(standing) >= STANDING:
                standing.clear()
            standing[key] = known
        return known

    def _rows(self, group: Group, entry: Entry, depths: Sequence[int], computed: Computed) -> None:
        code = 0
        text: str | None = None
        number = math.nan
        if group.evaluate is not None:
            known = computed.get(group.value)
            if known is None:
                known = computed[group.value] = self._value(group.evaluate)
            code, text, number = known
        witness, nodes = self.witness, self.nodes
        for depth in depths:
            if group.read and text is not None:
                row = len(witness.var1)
                witness.text[row] = text
                if number == number:
                    witness.num[row] = number
            witness.var1.append(entry.var1)
            witness.var2.append(entry.var2)
            witness.node1.append(nodes[depth])
            witness.node2.append(nodes[-1])
            witness.value.append(code if group.valued else 0)

    def _value(self, evaluate: Callable[[Node], Value]) -> tuple[int, str, float]:
        """Code, text and number of the current node's value; NaN equals nothing, its code is 0."""
        context = self.chain[-1]
        assert context is not None
        value = evaluate(context)
        text = as_text(value)
        if not isinstance(value, float):
            return value_code(text), text, to_number(text)
        return (0 if math.isnan(value) else value_code(text)), text, value

    def _passes(self, test: Tried | Check, depth: int) -> bool:
        """Whether a filter holds at an open node."""
        if isinstance(test, Check):
            return holds(test, self._values(test.index, depth))
        key = (test, self.nodes[depth])
        passed = self.passed.get(key)
        if passed is None:
            context = self.chain[depth]
            assert context is not None
            passed = self.passed[key] = test.holds(context)
        return passed

    def _values(self, index: ConstantIndex, depth: int) -> Sequence[str | float]:
        """What a subject is at an open node."""
        key = (index, self.nodes[depth])
        values = self.values.get(key)
        if values is None:
            context = self.chain[depth]
            assert context is not None
            values = self.values[key] = index.values(context)
        return values
