"""One pass over one document: nodes along label paths, witnesses out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lxml import etree

from xscl.constants import ConstantIndex
from xscl.document import DOCUMENT_NODE, ELEMENT_BITS, TEXT_NODE, text_children, value_code
from xscl.filters import Node, Value, as_text
from xscl.functions import to_number
from xscl.nfa import LabelPath
from xscl.positions import positions

if TYPE_CHECKING:
    from xscl.stage1 import Edge, Filter, Group, Matcher, Plan, Witness


class Walk:
    """One pass over one document, in document order."""

    __slots__ = ("chain", "matcher", "nodes", "passed", "satisfied", "witness")

    def __init__(self, matcher: Matcher, witness: Witness) -> None:
        self.matcher = matcher
        self.witness = witness
        # The nodes from the document down to the current one: as contexts, and as numbers.
        self.chain: list[Node | None] = [None]
        self.nodes: list[int] = [DOCUMENT_NODE]
        self.passed: dict[tuple[int, int], bool] = {}
        self.satisfied: dict[tuple[ConstantIndex, int], set[int]] = {}

    def document(self, root: etree._Element, start: LabelPath[Group]) -> None:
        automaton = self.matcher.automaton
        index = 0
        tag = str(root.tag)
        path = start.children.get(tag) or automaton.child(start, tag)
        stack = []
        if self._enter(root, path, 0):
            stack.append((iter(root), path))
        else:
            return
        while stack:
            siblings, path = stack[-1]
            element = next(siblings, None)
            if element is None:
                stack.pop()
                self.chain.pop()
                self.nodes.pop()
                continue
            index += 1
            label = element.tag
            if not isinstance(label, str):
                if path.wants_texts:
                    kind = "#comment" if label is etree.Comment else "#instruction"
                    self._leaf(path.other(kind), element.text or "", index)
                continue
            below = path.children.get(label) or automaton.child(path, label)
            if self._enter(element, below, index):
                stack.append((iter(element), below))
            elif len(element):
                index += sum(1 for _ in element.iterdescendants())

    def _enter(self, element: etree._Element, path: LabelPath[Group], index: int) -> bool:
        """Witness an element with its attributes and texts. Whether to go on below it."""
        self.chain.append(element)
        self.nodes.append(index)
        if path.accepts:
            self._emit(path)
        if path.wants_attributes:
            for ordinal, (name, value) in enumerate(element.items(), 1):
                found = self._attribute_path(path, str(name))
                if found is not None:
                    self._leaf(found, str(value), index | ordinal << ELEMENT_BITS)
        if path.wants_texts:
            if path.texts is None:
                path.texts = path.text()
            for ordinal, text in enumerate(text_children(element), 1):
                self._leaf(path.texts, text, index | (TEXT_NODE | ordinal) << ELEMENT_BITS)
        if path.wants_below and len(element):
            return True
        self.chain.pop()
        self.nodes.pop()
        return False

    def _attribute_path(self, path: LabelPath[Group], name: str) -> LabelPath[Group] | None:
        if name in path.attributes:
            return path.attributes[name]
        found = path.attribute(name)
        automaton = self.matcher.automaton
        if automaton.remembered < automaton.limit:
            automaton.remembered += 1
            path.attributes[name] = found
        return found

    def _leaf(self, path: LabelPath[Group], text: str, node: int) -> None:
        if path.accepts:
            self.chain.append(text)
            self.nodes.append(node)
            self._emit(path)
            self.chain.pop()
            self.nodes.pop()

    def _emit(self, path: LabelPath[Group]) -> None:
        """Witness the node at the end of the chain for every edge that accepts it."""
        plans: list[Plan] = path.plans if path.plans is not None else self.matcher.plans(path)
        values: dict[object, tuple[int | None, str, float]] = {}
        for plan in plans:
            group = plan.group
            if group.trigger is not None:
                for edge in self._triggered(group, plan.depths):
                    self._edge(path, group, edge, values)
            elif group.filtered:
                for edge in group.edges:
                    self._edge(path, group, edge, values)
            else:
                for edge in group.edges:
                    self._rows(group, edge, plan.depths, values)

    def _triggered(self, group: Group, depths: tuple[int, ...]) -> list[Edge]:
        """The edges of a group whose constant the document satisfies."""
        assert group.trigger is not None
        index = group.trigger[1]
        found: dict[int, Edge] = {}
        for depth in depths:
            key = (index, self.nodes[depth])
            satisfied = self.satisfied.get(key)
            if satisfied is None:
                context = self.chain[depth]
                assert context is not None
                satisfied = self.satisfied[key] = index.satisfied(context)
            for number in satisfied:
                for edge in group.by_constant.get(number, ()):
                    found[edge.id] = edge
        return list(found.values())

    def _edge(
        self,
        path: LabelPath[Group],
        group: Group,
        edge: Edge,
        values: dict[object, tuple[int | None, str, float]],
    ) -> None:
        """Witness an edge with filters, where they hold."""
        tests = self.matcher.filters[edge.id]
        depths = positions(
            path.labels(),
            edge.definition.steps,
            edge.depth,
            lambda step, depth: self._passes(tests[step], depth),
        )
        if depths:
            self._rows(group, edge, tuple(sorted(depths)), values)

    def _rows(
        self,
        group: Group,
        edge: Edge,
        depths: tuple[int, ...],
        values: dict[object, tuple[int | None, str, float]],
    ) -> None:
        code: int | None = None
        text: str | None = None
        number: float | None = None
        if group.evaluate is not None:
            computed = values.get(group.value)
            if computed is None:
                computed = values[group.value] = self._value(group.evaluate)
            code, text, number = computed
        witness, nodes = self.witness, self.nodes
        for depth in depths:
            witness.var1.append(edge.var1)
            witness.var2.append(edge.var2)
            witness.node1.append(nodes[depth])
            witness.node2.append(nodes[-1])
            witness.value.append(code if edge.valued else None)
            witness.text.append(text if edge.read else None)
            witness.num.append(number if edge.read and number == number else None)

    def _value(self, evaluate: Callable[[Node], Value]) -> tuple[int | None, str, float]:
        """Code, text and number of the current node's value; NaN equals nothing and has no code."""
        context = self.chain[-1]
        assert context is not None
        value = evaluate(context)
        text = as_text(value)
        if not isinstance(value, float):
            return value_code(text), text, to_number(text)
        return (None if math.isnan(value) else value_code(text)), text, value

    def _passes(self, tests: list[Filter], depth: int) -> bool:
        """Whether filters hold. They are shared by queries, so each is evaluated once per node."""
        for number, test in tests:
            key = (number, self.nodes[depth])
            passed = self.passed.get(key)
            if passed is None:
                context = self.chain[depth]
                assert context is not None
                passed = self.passed[key] = test(context)
            if not passed:
                return False
        return True
