"""What a unit of a pattern matches in a set of documents: every choice, tried one by one.

An `Instance` is a match of a unit with one node for each variable. First the single items are chosen,
one document each, with every branch of every OR; then groups are filled from left to right; then what
must be absent is looked for. Windows, order and predicates are asked of the whole, as the page says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from tests.oracle.matches import Stored
from tests.oracle.part2 import shape
from tests.oracle.part2.scope import Bindings, Bound, Scope
from tests.oracle.part2.times import AT_ONCE, Span, Timing, Wait, hull, later
from tests.oracle.patterns import embeddings, path_nodes
from tests.oracle.trees import Node
from tests.oracle.values import Value
from xscl import ast

Tuples = frozenset[tuple[str, ...]] | None
"""What a match may have in PARTITION BY; None where nothing is asked."""


@dataclass(frozen=True)
class Taken:
    """A document as a block takes it."""

    document: Stored
    node: Node
    bound: tuple[tuple[str, Node], ...]

    @property
    def bindings(self) -> Bindings:
        return {name: (self.document, node) for name, node in self.bound}


@dataclass(frozen=True)
class Instance:
    """A match of a unit. `parts` by slot: a document, None for an absent block, or the elements of a
    group or of FOLD, which are instances. `wait` is when it is decided."""

    parts: Mapping[int, Taken | tuple[Instance, ...] | None]
    span: Span
    inner: Span
    """The hull of its documents, without deadlines."""
    wait: Wait = AT_ONCE
    computed: Mapping[str, Value] = field(default_factory=dict)
    tuples: Tuples = None

    def documents(self) -> list[Stored]:
        found: list[Stored] = []
        for part in self.parts.values():
            if isinstance(part, Taken):
                found.append(part.document)
            elif part is not None:
                found += [document for each in part for document in each.documents()]
        return found

    def single(self) -> dict[str, Bound]:
        """The variables of single documents."""
        found: dict[str, Bound] = {}
        for part in self.parts.values():
            if isinstance(part, Taken):
                found.update(part.bindings)
        return found

    def elements(self) -> dict[str, list[Bound | None]]:
        """The variables of groups: for each element the node, or None."""
        found: dict[str, list[Bound | None]] = {}
        for part in self.parts.values():
            if isinstance(part, tuple):
                found.update(several(part))
        return found

    @property
    def order(self) -> tuple[object, ...]:
        return (
            self.inner.end,
            self.inner.start,
            [(d.end, d.start, d.id) for d in self.documents()],
        )


def several(elements: Sequence[Instance]) -> dict[str, list[Bound | None]]:
    bound = [each.single() for each in elements]
    names = {name for each in bound for name in each}
    return {name: [each.get(name) for each in bound] for name in names}


@dataclass
class Around:
    """What a unit sees of the match around it: variables, documents that are taken, and the time after
    which its documents must begin."""

    single: Mapping[str, Bound] = field(default_factory=dict)
    several: Mapping[str, Sequence[Bound | None]] = field(default_factory=dict)
    computed: Mapping[str, Value] = field(default_factory=dict)
    taken: frozenset[object] = frozenset()
    after: int | None = None
    tuples: Tuples = None


class World:
    """Documents and one query: what a block matches in a document is looked up here."""

    def __init__(
        self,
        documents: Iterable[Stored],
        namespaces: Mapping[str, str],
        partition: Sequence[ast.Path],
        combinations: bool,
        registered: int | None,
        bound: Mapping[int, frozenset[str]],
    ) -> None:
        self.documents = sorted(documents, key=lambda d: (d.end, d.start, d.id))
        self.namespaces = namespaces
        self.partition = partition
        self.combinations = combinations  # SKIP TILL ANY MATCH
        self.registered = registered
        """The highest time seen at registration; None where nothing had been seen."""
        self.bound = bound
        """By slot of a group its variables."""
        self._taken: dict[tuple[int, object], list[Taken]] = {}

    def taken(self, block: ast.Block, document: Stored) -> list[Taken]:
        if block.stream not in document.streams:
            return []
        key = (id(block), document.key)
        if key not in self._taken:
            every = embeddings(document.tree, block, self.namespaces)
            found = [Taken(document, node, bound) for node, bound in every]
            self._taken[key] = sorted(found, key=_numbers)
        return self._taken[key]

    def tuples(self, taken: Taken) -> Tuples:
        """The tuples of values of PARTITION BY, from the selected node."""
        if not self.partition:
            return None
        values = []
        for path in self.partition:
            tree = taken.document.tree
            nodes = path_nodes(tree, taken.node, path.steps, self.namespaces)
            values.append(sorted({node.text for node in nodes}))
        return frozenset(product(*values))

    def scope(self, instance: Instance, around: Around, length: int | None = None) -> Scope:
        """The variables of an instance and of what is around it."""
        empty: dict[str, list[Bound | None]] = {
            name: []
            for slot, part in instance.parts.items()
            if isinstance(part, tuple)
            for name in self.bound.get(slot, ())
        }
        return Scope(
            self.namespaces,
            {**around.single, **instance.single()},
            {**empty, **around.several, **instance.elements()},
            {**around.computed, **instance.computed},
            length=instance.span.length if length is None else length,
        )

    # -- units ---------------------------------------------------------------------------------

    def instances(self, unit: shape.Unit, around: Around) -> Iterator[Instance]:
        """The matches of a unit, judged by its own predicates, windows, groups and absences."""
        from tests.oracle.part2.absences import unblocked
        from tests.oracle.part2.groups import filled

        for choice in self._choices(unit, around):
            for state in filled(self, unit, choice, around):
                timing = Timing(unit, state.spans(), state.branches, runs=self.combinations)
                span = timing.whole()
                if span is None or not _agree(state, around):
                    continue
                instance = state.instance(unit, span)
                inside = Around(around.single, around.several, around.computed)
                if not self.scope(instance, inside).all(unit.conjuncts):
                    continue
                if unblocked(self, unit, state, instance, around):
                    waits = [instance.wait, *timing.waits()]
                    yield replace(instance, wait=later(waits))

    def _choices(self, unit: shape.Unit, around: Around) -> Iterator[State]:
        """Every choice of the single items, with the branches that are taken."""
        for branches in _branches(unit.tree):
            items = [
                item
                for item in unit.order
                if not isinstance(item, shape.Group) and _within(item, branches)
            ]
            before = _orders(branches)

            def choose(at: int, state: State, items=items, before=before) -> Iterator[State]:  # type: ignore[no-untyped-def]
                if at == len(items):
                    yield state
                    return
                item = items[at]
                for found in self._singles(item, around):
                    if state.shares(found) or _taken_around(found, around):
                        continue
                    if around.after is not None and not found.span.start > around.after:
                        continue
                    tuples = common(state.tuples, found.tuples)
                    if tuples is not None and not tuples:
                        continue
                    fits = all(
                        state.chosen[one].span.end < found.span.start
                        for one in items[:at]
                        if (id(one), id(item)) in before
                    )
                    if fits:
                        yield from choose(at + 1, state.with_item(item, found, tuples))

            yield from choose(0, State(unit, branches, {}, {}, around.tuples))

    def _singles(self, item: shape.Tree, around: Around) -> Iterator[Instance]:
        from tests.oracle.part2.choosing import folds, nexts

        match item:
            case shape.Leaf():
                for document in self.documents:
                    for taken in self.taken(item.block, document):
                        yield self.of_one(item.slot, taken)
            case shape.Judged():
                yield from self.instances(item.unit, Around())
            case shape.Next():
                yield from nexts(self, item)
            case shape.Fold():
                yield from folds(self, item)

    def of_one(self, slot: int, taken: Taken) -> Instance:
        span = Span(taken.document.start, taken.document.end)
        return Instance({slot: taken}, span, span, tuples=self.tuples(taken))


# -- the state of a choice -----------------------------------------------------------------------


@dataclass
class State:
    """A choice of single items, and the groups filled so far."""

    unit: shape.Unit
    branches: shape.Tree
    """The tree with one branch of each OR."""
    chosen: Mapping[shape.Tree, Instance]
    groups: Mapping[shape.Group, tuple[Instance, ...]]
    tuples: Tuples

    def with_item(self, item: shape.Tree, found: Instance, tuples: Tuples) -> State:
        return replace(self, chosen={**self.chosen, item: found}, tuples=tuples)

    def with_group(self, group: shape.Group, elements: Sequence[Instance], tuples: Tuples) -> State:
        return replace(self, groups={**self.groups, group: tuple(elements)}, tuples=tuples)

    def keys(self) -> set[object]:
        every = [*self.chosen.values(), *(e for each in self.groups.values() for e in each)]
        return {document.key for instance in every for document in instance.documents()}

    def shares(self, found: Instance) -> bool:
        return not self.keys().isdisjoint(d.key for d in found.documents())

    def spans(self) -> dict[shape.Tree, tuple[Span, Span] | Sequence[Instance] | None]:
        """By item: the interval and the hull of documents; the elements of groups."""
        spans: dict[shape.Tree, tuple[Span, Span] | Sequence[Instance] | None] = {}
        for item, found in self.chosen.items():
            spans[item] = (found.span, found.inner)
        for group, elements in self.groups.items():
            spans[group] = elements
        return spans

    def instance(self, unit: shape.Unit, span: Span) -> Instance:
        parts: dict[int, Taken | tuple[Instance, ...] | None] = {}
        computed: dict[str, Value] = {}
        waits = [Wait()]
        for item in unit.order:
            if isinstance(item, shape.Group):
                if item in self.groups:
                    parts[item.slot] = self.groups[item]
                    waits += [each.wait for each in self.groups[item]]
                else:
                    parts[item.slot] = None
                continue
            found = self.chosen.get(item)
            if found is None:
                parts.update(dict.fromkeys(slots(item)))
                continue
            parts.update(found.parts)
            computed.update(found.computed)
            waits.append(found.wait)
        documents = [document for part in parts.values() for document in _documents(part)]
        inner = hull([Span(d.start, d.end) for d in documents])
        assert inner is not None
        return Instance(
            dict(sorted(parts.items())), span, inner, later(waits), computed, self.tuples
        )


def _documents(part: Taken | tuple[Instance, ...] | None) -> list[Stored]:
    if part is None:
        return []
    if isinstance(part, Taken):
        return [part.document]
    return [document for each in part for document in each.documents()]


def slots(item: shape.Tree) -> Iterator[int]:
    """The slots of an item that is absent."""
    match item:
        case shape.Leaf() | shape.Group():
            yield item.slot
        case shape.Judged():
            for each in item.unit.order:
                yield from slots(each)
        case shape.Next():
            for each in [*item.left.order, *item.right.order]:
                yield from slots(each)
        case shape.Fold():
            for each in item.left.order:
                yield from slots(each)
            yield item.slot


def common(one: Tuples, other: Tuples) -> Tuples:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _agree(state: State, around: Around) -> bool:
    return state.tuples is None or bool(state.tuples)


def _taken_around(found: Instance, around: Around) -> bool:
    return any(document.key in around.taken for document in found.documents())


def _known(conjuncts: Sequence[ast.Expr], instance: Instance, around: Around) -> list[ast.Expr]:
    return list(conjuncts)


def _numbers(taken: Taken) -> tuple[int, ...]:
    return (taken.node.number, *(node.number for _, node in taken.bound))


# -- branches ------------------------------------------------------------------------------------


def _branches(tree: shape.Tree) -> Iterator[shape.Tree]:
    """The tree with one branch of each OR, in every way; items keep their identity."""
    match tree:
        case shape.Either():
            for branch in tree.branches:
                yield from _branches(branch)
        case shape.List():
            for items in product(*(list(_branches(item)) for item in tree.items)):
                yield shape.List(list(items), tree.windows)
        case shape.Both():
            for left in _branches(tree.left):
                for right in _branches(tree.right):
                    yield shape.Both(left, right, tree.window)
        case _:
            yield tree


def leaves(tree: shape.Tree) -> Iterator[shape.Tree]:
    match tree:
        case shape.List():
            for item in tree.items:
                yield from leaves(item)
        case shape.Both():
            yield from leaves(tree.left)
            yield from leaves(tree.right)
        case _:
            yield tree


def _within(item: shape.Tree, tree: shape.Tree) -> bool:
    return any(each is item for each in leaves(tree))


def _orders(tree: shape.Tree) -> set[tuple[int, int]]:
    """Pairs of items of which one must be before the other."""
    found: set[tuple[int, int]] = set()
    match tree:
        case shape.List():
            for number, item in enumerate(tree.items):
                found |= _orders(item)
                for other in tree.items[number + 1 :]:
                    found |= {(id(a), id(b)) for a in leaves(item) for b in leaves(other)}
        case shape.Both():
            found |= _orders(tree.left) | _orders(tree.right)
    return found
