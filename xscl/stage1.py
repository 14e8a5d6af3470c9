"""Stage 1: documents to witnesses (dissertation, section 6.3).

A `Matcher` holds the structural edges that the registered queries need, all in one shared NFA. In
goes one parsed document with its streams; out comes its `Witness`: the rows of the paper's RbinW
(var1, var2, node1, node2), with the coded value of node2 (the paper's RdocW) beside each row.

An edge relates a variable to one above it in the same tree pattern: the pairs of document nodes
that the pattern itself relates, with all filters on the way satisfied. Variable 0 is the document.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import xxhash
from lxml import etree

from xscl import ast
from xscl.document import DOCUMENT_NODE, ELEMENT_BITS, TEXT_NODE, text_children
from xscl.filters import (
    Node,
    Value,
    as_text,
    compile_filter,
    compile_value,
    name_matches,
    text_of,
)
from xscl.functions import to_number
from xscl.nfa import Automaton, LabelPath
from xscl.treepattern import Definition


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


def value_code(text: str) -> int:
    """The integer that stands for a string in the match relations (64 bits, unsigned).

    Equal strings have equal codes. Whether equal codes came from equal strings is checked once more
    on the documents themselves when a match is published.
    """
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


_Row = tuple[Edge, tuple[int, ...]]


@dataclass(slots=True)
class _Plan:
    """What to do at one label path for the edges that share a value expression."""

    evaluate: Callable[[Node], Value] | None
    fixed: list[_Row] = field(default_factory=list)
    filtered: list[Edge] = field(default_factory=list)


class Matcher:
    """The edges of all registered queries over one shared automaton. Not thread-safe."""

    def __init__(self, edges: Iterable[Edge] = (), label_paths: int = 50_000) -> None:
        self.automaton = Automaton(label_paths)
        self.edges: dict[int, Edge] = {}
        self._tests: dict[ast.Expr, tuple[int, Callable[[Node], bool]]] = {}
        self._filters: dict[int, list[list[tuple[int, Callable[[Node], bool]]]]] = {}
        for edge in edges:
            self.add(edge)

    def add(self, edge: Edge) -> None:
        self.edges[edge.id] = edge
        definition = edge.definition
        tests = [[self._test(f) for f in step.filters] for step in definition.steps]
        if any(tests):
            self._filters[edge.id] = tests
        self.automaton.add(definition.stream, definition.steps, edge.id)

    def remove(self, edge_id: int) -> None:
        definition = self.edges.pop(edge_id).definition
        self._filters.pop(edge_id, None)
        self.automaton.remove(definition.stream, definition.steps, edge_id)

    def _test(self, expr: ast.Expr) -> tuple[int, Callable[[Node], bool]]:
        known = self._tests.get(expr)
        if known is None:
            known = self._tests[expr] = (len(self._tests), compile_filter(expr))
        return known

    def match(self, root: etree._Element, streams: tuple[str, ...]) -> Witness:
        """The witness of one document that flows through `streams`."""
        witness = Witness()
        start = self.automaton.root(streams)
        if start is not None:
            _Walk(self, witness).document(root, start)
        return witness

    def plans(self, path: LabelPath) -> list[_Plan]:
        """What to emit at a label path; worked out once for each."""
        grouped: dict[ast.Expr | bool | None, _Plan] = {}
        labels = path.labels()
        for edge_id in path.accepts:
            edge = self.edges[edge_id]
            key = edge.definition.value if edge.evaluated else False
            plan = grouped.get(key)
            if plan is None:
                plan = grouped[key] = _Plan(_evaluator(edge))
            if edge_id in self._filters:
                plan.filtered.append(edge)
            else:
                depths = positions(labels, edge.definition.steps, edge.depth, _always)
                plan.fixed.append((edge, tuple(sorted(depths))))
        plans = list(grouped.values())
        path.plans = plans
        return plans


def _always(step: int, depth: int) -> bool:
    return True


def positions(
    labels: list[str], steps: tuple[ast.Step, ...], depth: int, passes: Callable[[int, int], bool]
) -> set[int]:
    """Where step number `depth` may stand on a label path when the last step stands at its end.

    Depth 0 is the document, depth d the d-th label. `passes(i, d)` says whether the filters of the
    i-th step (from 0) hold at depth d. Forwards the prefixes that embed, backwards those that also
    reach the end: linear in path and labels, however often a tag recurs.
    """
    end = len(labels)
    forward: list[set[int]] = [{0}]
    for i, step in enumerate(steps):
        before = forward[-1]
        last = i == len(steps) - 1
        here: set[int] = set()
        if before:
            least = min(before)
            same = step.test.kind == "self"
            for d in range(least if same else least + 1, end + 1):
                if last and d != end:
                    continue
                if step.axis == "/" and d - 1 not in before:
                    continue
                if d > 0 and label_matches(labels[d - 1], step.test) and passes(i, d):
                    here.add(d)
        forward.append(here)
    backward = forward[-1]
    for i in range(len(steps) - 1, depth - 1, -1):
        step, before = steps[i], forward[i]
        if not backward:
            return set()
        if step.axis == "/":
            backward = {d for d in before if d + 1 in backward}
        else:
            most = max(backward) + (1 if step.test.kind == "self" else 0)
            backward = {d for d in before if d < most}
    return backward


def label_matches(label: str, test: ast.Test) -> bool:
    match test.kind:
        case "self":
            return True
        case "text":
            return label == "#text"
        case "attribute":
            return label[0] == "@" and name_matches(label[1:], test)
        case _:
            return label[0] not in "@#" and name_matches(label, test)


def _evaluator(edge: Edge) -> Callable[[Node], Value] | None:
    if not edge.evaluated:
        return None
    value = edge.definition.value
    return text_of if value is None else compile_value(value)


class _Walk:
    """One pass over one document, in document order."""

    __slots__ = ("chain", "matcher", "nodes", "passed", "witness")

    def __init__(self, matcher: Matcher, witness: Witness) -> None:
        self.matcher = matcher
        self.witness = witness
        # The nodes from the document down to the current one: as contexts, and as numbers.
        self.chain: list[Node | None] = [None]
        self.nodes: list[int] = [DOCUMENT_NODE]
        self.passed: dict[tuple[int, int], bool] = {}

    def document(self, root: etree._Element, start: LabelPath) -> None:
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

    def _enter(self, element: etree._Element, path: LabelPath, index: int) -> bool:
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

    def _attribute_path(self, path: LabelPath, name: str) -> LabelPath | None:
        if name in path.attributes:
            return path.attributes[name]
        found = path.attribute(name)
        automaton = self.matcher.automaton
        if automaton.remembered < automaton.limit:
            automaton.remembered += 1
            path.attributes[name] = found
        return found

    def _leaf(self, path: LabelPath, text: str, node: int) -> None:
        if path.accepts:
            self.chain.append(text)
            self.nodes.append(node)
            self._emit(path)
            self.chain.pop()
            self.nodes.pop()

    def _emit(self, path: LabelPath) -> None:
        plans: list[_Plan] = path.plans or self.matcher.plans(path)  # type: ignore[assignment]
        witness, nodes = self.witness, self.nodes
        node = nodes[-1]
        for plan in plans:
            rows = plan.fixed
            if plan.filtered:
                rows = rows + self._filtered(path, plan.filtered)
            if not rows:
                continue
            code, text, number = None, None, None
            if plan.evaluate is not None:
                context = self.chain[-1]
                assert context is not None
                value = plan.evaluate(context)
                text = as_text(value)
                number = value if isinstance(value, float) else to_number(text)
                if not (isinstance(value, float) and math.isnan(value)):
                    code = value_code(text)
            for edge, depths in rows:
                for depth in depths:
                    witness.var1.append(edge.var1)
                    witness.var2.append(edge.var2)
                    witness.node1.append(nodes[depth])
                    witness.node2.append(node)
                    witness.value.append(code if edge.valued else None)
                    witness.text.append(text if edge.read else None)
                    witness.num.append(number if edge.read and number == number else None)

    def _filtered(self, path: LabelPath, edges: list[Edge]) -> list[_Row]:
        labels = path.labels()
        rows = []
        for edge in edges:
            tests = self.matcher._filters[edge.id]
            depths = positions(
                labels,
                edge.definition.steps,
                edge.depth,
                lambda step, depth, tests=tests: self._passes(tests[step], depth),  # type: ignore[misc]
            )
            if depths:
                rows.append((edge, tuple(sorted(depths))))
        return rows

    def _passes(self, tests: list[tuple[int, Callable[[Node], bool]]], depth: int) -> bool:
        """Filters are shared by queries, so each is evaluated once per node."""
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
