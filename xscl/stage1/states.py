"""The states of the shared NFA, and the sets of them that are the states of its DFA."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Protocol

from xscl.normal import ir

Row = tuple[int, int, int, bool]
"""A witness row for every node of a state set: where var1 stands in a list of the open nodes, var1,
var2, and whether the string value of the node is coded."""


class Accept(Protocol):
    """An action at nodes where paths end. It adds itself to the state sets of such nodes, and
    removes itself from them."""

    def enter(self, here: StateSet) -> None: ...
    def leave(self, here: StateSet) -> None: ...


class State:
    """An NFA state. `accepts` is what is done where a path ends here, by key.

    `elements`, `attributes` and `texts` are the moves on a child of that kind, by name test: a
    local name (any namespace), a name in Clark notation, or `*`. `loop` is the state that stays
    active on every element below, for `//`, and `self_below` the state after `//.`. The state was
    reached from `origin` by the move `key` of its `kind`.
    """

    __slots__ = (
        *("accepts", "attributes", "elements", "key", "kind", "loop", "origin", "self_below"),
        "texts",
    )

    def __init__(self, origin: State | None = None, kind: str = "", key: str = "") -> None:
        self.origin = origin
        self.kind = kind
        self.key = key
        self.elements: dict[str, State] | None = None
        self.attributes: dict[str, State] | None = None
        self.texts: State | None = None
        self.self_below: State | None = None
        self.loop: State | None = None
        self.accepts: dict[Hashable, Any] | None = None

    def move(self, kind: str, key: str) -> State | None:
        found = getattr(self, kind)
        return found.get(key) if isinstance(found, dict) else found

    def grow(self, kind: str, key: str) -> State:
        """A new state below this one."""
        below = State(self, kind, key)
        if kind in ("elements", "attributes"):
            moves = getattr(self, kind)
            if moves is None:
                setattr(self, kind, {key: below})
            else:
                moves[key] = below
        else:
            setattr(self, kind, below)
        return below

    def discard(self, below: State) -> None:
        moves = getattr(self, below.kind)
        if isinstance(moves, dict) and len(moves) > 1:
            del moves[below.key]
        else:
            setattr(self, below.kind, None)

    def empty(self) -> bool:
        return not (
            self.accepts
            or self.elements
            or self.attributes
            or self.texts
            or self.self_below
            or self.loop
        )


def moves_of(step: ir.Step) -> Iterator[tuple[str, str]]:
    """The moves of a step: kind and key."""
    if step.axis == "//":
        yield "loop", ""
    match step.test.kind:
        case "self":
            yield "self_below", ""
        case "text":
            yield "texts", ""
        case "element":
            yield "elements", name_key(step.test)
        case _:
            yield "attributes", name_key(step.test)


def name_key(test: ir.Test) -> str:
    if test.namespace is None:
        return test.name or "*"
    return f"{{{test.namespace}}}{test.name or '*'}"


def label_keys(label: str) -> tuple[str, ...]:
    """The keys of moves that a name in Clark notation makes."""
    if label[0] != "{":
        return (label, "*")
    uri, _, local = label.rpartition("}")
    return (label, local, f"{uri}}}*", "*")


class StateSet:
    """A state of the DFA: the NFA states that are active in a node.

    `children`, `attributes` and `texts` are the moves found so far; a tag that is no string is that
    of a comment or processing instruction. `simple` and `general` are the groups that accept here;
    `rows` are the rows of the simple ones. The `wants_` flags are the kinds of nodes at which a
    pattern may continue. `idle`: nothing is to be done at the node itself.
    """

    __slots__ = (
        *("active", "attributes", "children", "general", "idle", "leaf", "other", "rows"),
        *("simple", "texts", "wants_attributes", "wants_below", "wants_leaves"),
        "wants_texts",
    )

    def __init__(self, active: dict[State, None], leaf: bool) -> None:
        self.active = active
        self.leaf = leaf
        self.children: dict[Any, StateSet] = {}
        self.attributes: dict[str, StateSet | None] = {}
        self.texts: StateSet | None = None
        self.other: StateSet | None = None
        self.simple: dict[int, Row] = {}
        self.general: dict[Any, None] = {}
        for state in active:
            for accept in (state.accepts or {}).values():
                accept.enter(self)
        self.refresh()

    def refresh(self) -> None:
        """Recompute the `wants_` flags from the active states."""
        self.wants_attributes = self.wants_texts = self.wants_below = False
        for state in () if self.leaf else self.active:
            loop = state.kind == "loop"
            if loop or state.elements:
                self.wants_below = True
            if state.attributes:
                self.wants_attributes = True
            if state.texts or (loop and state.self_below):
                self.wants_texts = True
        self.rows = tuple(self.simple.values())
        self.wants_leaves = self.wants_attributes or self.wants_texts
        self.idle = not (self.rows or self.general or self.wants_leaves)

    def forget(self, key: str | None = None) -> None:
        """Drop the moves, or those that a move by this key may change."""
        if key is None or key.endswith("*"):
            self.children.clear()
            self.attributes.clear()
        else:
            for moves in (self.children, self.attributes):
                for label in [m for m in moves if isinstance(m, str) and key in label_keys(m)]:
                    del moves[label]
        self.texts = None
        self.other = None
