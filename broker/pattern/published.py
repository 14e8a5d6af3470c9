"""Matches as they are published: what tells one apart, and its place among others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.pattern.instances import Instance, Part, Row
from broker.pattern.plan import Plan
from broker.pattern.values import Scope


class Published:
    """A match that is decided, and published if nothing that looks at several of them is against
    it: `nodes` are those that SELECT names. Of several instances that are one match, as they differ
    in other nodes, it is one."""

    __slots__ = ("_names", "_nodes", "_scope", "instance")

    def __init__(
        self, instance: Instance, names: Sequence[str] | None, scope: Scope | None = None
    ) -> None:
        self.instance = instance
        self._names = names
        self._nodes: tuple[int, ...] | None = None
        self._scope = scope

    @property
    def nodes(self) -> tuple[int, ...]:
        if self._nodes is None:
            self._nodes = nodes_of(self.instance, self._names)
        return self._nodes

    @property
    def scope(self) -> Scope:
        """What the expressions of SELECT range over; without one that was given, the match where no
        group is absent."""
        if self._scope is None:
            of = self.instance
            self._scope = Scope(of.single, of.several, of.computed, length=of.span)
        return self._scope

    @property
    def order(self) -> tuple[Any, ...]:
        return order_of(self.instance, self.nodes)

    @property
    def identity(self) -> object:
        return identity_of(self.instance, self.nodes)

    @property
    def name(self) -> str:
        """Its identity as a text."""
        return repr(self.identity)

    @property
    def partition(self) -> tuple[str, ...] | None:
        """Its partition: the least tuple that its documents have in common; None for no PARTITION
        BY."""
        tuples = self.instance.tuples
        return None if tuples is None else min(tuples)

    def prefer(self, other: Instance) -> None:
        """Take another instance of the same match, if it is the one that counts: that of the first
        nodes, and of the least partition."""
        if _rank(other) < _rank(self.instance):
            self.instance = other

    def within(self, scope: Scope) -> Published:
        """The same with what the expressions of SELECT range over."""
        return Published(self.instance, self._names, scope)


def _rank(instance: Instance) -> tuple[object, ...]:
    tuples = instance.tuples
    nodes = [(row.node, *row.nodes.values()) for row in instance.rows]
    return (nodes, () if tuples is None else min(tuples))


def order_of(instance: Instance, nodes: tuple[int, ...]) -> tuple[Any, ...]:
    """The order of matches that are decided together."""
    ids = [row.id for row in instance.rows]
    absent = [instance.parts[slot] is None for slot in sorted(instance.parts)]
    return (instance.end, instance.start, ids, absent, nodes)


def identity_of(instance: Instance, nodes: tuple[int, ...]) -> object:
    """What a match is: its documents by block, and the nodes that SELECT names."""
    return (_documents(instance.parts), nodes)


def nodes_of(instance: Instance, names: Sequence[str] | None) -> tuple[int, ...]:
    """The nodes that SELECT names; None for *: those that blocks select."""
    if names is None:
        return tuple([row.node for row in instance.blocks])
    single = instance.single
    return tuple([single[name].nodes[name] for name in names if name in single])


def scope_of(plan: Plan, instance: Instance) -> Scope:
    """The scope of a match; variables of groups that are absent are no elements."""
    empty: Mapping[str, Sequence[Row | None]] = {
        name: ()
        for slot, names in plan.group_variables.items()
        if instance.parts.get(slot) == ()
        for name in names
    }
    several = {**empty, **instance.several}
    return Scope(instance.single, several, instance.computed, length=instance.span)


def _documents(parts: Mapping[int, Part]) -> tuple[object, ...]:
    """The documents of a match by slot."""
    return tuple([_document(parts[slot]) for slot in sorted(parts)])


def _document(part: Part) -> object:
    if part is None:
        return None
    if isinstance(part, Row):
        return part.doc
    return tuple([_documents(each.parts) for each in part])
