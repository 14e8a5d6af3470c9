"""The edges that stage 1 witnesses for the registered queries: the values they carry, and their
users.

In: canonical queries as they are added and removed. Out: the current edges, and those that have
changed. For an edge with a single user, as most have where queries differ in constants, only the
user is stored; the edge's definition, a syntax tree, is rebuilt when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from xscl.compact import Uses
from xscl.normal.bind import Literals
from xscl.normal.treepattern import Definition
from xscl.stage1.witness import AlikeEdges, Edge

Tie = tuple[int, int | None, bool, bool]
"""An edge in a template: its position, that of its parent, and what it carries (see `Edge`).
Quantified paths come after the template's positions."""


class User(Protocol):
    """A user of edges: a canonical query. `edges` has an id for each of `ties`, `trees` a
    definition for each position."""

    @property
    def ties(self) -> tuple[Tie, ...]: ...
    @property
    def edges(self) -> tuple[int, ...]: ...
    @property
    def trees(self) -> tuple[Definition, ...]: ...


class Edges(Mapping[int, Edge]):
    """By id, which is the two variables in one number."""

    __slots__ = ("_alike", "_changed", "_of", "_uses")

    def __init__(self) -> None:
        self._of: dict[int, Edge | User] = {}
        self._uses: Uses[int] = Uses()
        self._changed: dict[int, Edge | None] = {}
        self._alike: list[AlikeEdges] = []
        """New edges, before those in `_changed`."""

    def use(self, user: User, definitions: Sequence[Definition], forms: Sequence[object]) -> None:
        """Add a user of its edges, which have these definitions of these forms (see `Edge`); edges
        that are new are added.

        An edge that has to carry more (a value, a text) than so far is upgraded, so that no edge is
        witnessed twice; the rows from before serve only queries that need less.
        """
        for tie, edge_id in zip(user.ties, user.edges, strict=True):
            self._use(user, tie, edge_id, definitions, forms)

    def _use(
        self,
        user: User,
        tie: Tie,
        edge_id: int,
        definitions: Sequence[Definition],
        forms: Sequence[object],
    ) -> None:
        known = self._of
        before = known.get(edge_id)
        if before is None:
            known[edge_id] = user
            self._changed[edge_id] = _edge(edge_id, tie, definitions, forms)
            return
        self._uses.add(edge_id)
        position, parent, valued, read = tie
        if isinstance(before, Edge):
            carried = (before.valued, before.read)
        else:
            carried = _tie(before, edge_id)[2:]
        asked = (valued or carried[0], read or carried[1])
        if asked != carried or not isinstance(before, Edge):
            upgraded = (position, parent, *asked)
            edge = known[edge_id] = _edge(edge_id, upgraded, definitions, forms)
            if asked != carried:
                self._changed[edge_id] = edge

    def use_alike(
        self,
        users: Sequence[User],
        tie: Tie,
        ids: Sequence[int] | int,
        form: Sequence[Definition],
        forms: Sequence[object],
        literals: Sequence[Literals],
    ) -> None:
        """Add users of one shape with these literals, for one of its ties: the `ids` of their
        edges, one if all have the same, and the definitions with parameters (`form`)."""
        if isinstance(ids, int):
            self._use(users[0], tie, ids, users[0].trees, forms)
            self._uses.add(ids, len(users) - 1)
            return
        position, parent, valued, read = tie
        fresh: list[int] = []
        own: list[Literals] = []
        known = self._of
        for user, edge_id, bound in zip(users, ids, literals, strict=True):
            if edge_id in known or forms[position] is None:
                self._use(user, tie, edge_id, user.trees, forms)
            else:
                known[edge_id] = user
                fresh.append(edge_id)
                own.append(bound)
        if self._changed:
            for edge_id in fresh:
                self._changed.pop(edge_id, None)
        depth = 0 if parent is None else len(form[parent].steps)
        alike = (form[position], depth, valued, read, forms[position], fresh, own)
        self._alike.append(AlikeEdges(*alike))

    def release(self, user: User) -> None:
        """Remove a user; edges without users are removed."""
        for edge_id in user.edges:
            if self._uses.remove(edge_id):
                del self._of[edge_id]
                self._changed[edge_id] = None

    def changes(self) -> dict[int, Edge | None]:
        """The edges that were added, changed, or removed (None) since the last call."""
        changed: dict[int, Edge | None] = {}
        for alike in self.alike():
            changed.update((id, alike.edge(place)) for place, id in enumerate(alike.ids))
        changed |= self._changed
        self._changed = {}
        return changed

    def alike(self) -> list[AlikeEdges]:
        """Of the edges that were added since the last call those that came together with very many
        of their form; they came before the other changes, which then tell of these only."""
        alike, self._alike = self._alike, []
        return alike

    def __getitem__(self, edge_id: int) -> Edge:
        found = self._of[edge_id]
        if isinstance(found, Edge):
            return found
        return _edge(edge_id, _tie(found, edge_id), found.trees)

    def __iter__(self) -> Iterator[int]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


def _tie(user: User, edge_id: int) -> Tie:
    """The tie by which this user, the only one, uses an edge."""
    return user.ties[user.edges.index(edge_id)]


def _edge(
    edge_id: int, tie: Tie, definitions: Sequence[Definition], forms: Sequence[object] = ()
) -> Edge:
    position, parent, valued, read = tie
    depth = 0 if parent is None else len(definitions[parent].steps)
    var1, var2 = edge_id >> 32, edge_id & 0xFFFF_FFFF
    form = forms[position] if forms else None
    return Edge(edge_id, var1, var2, definitions[position], depth, valued, read, form)
