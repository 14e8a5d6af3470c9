"""The shared NFA over all tree patterns (YFilter), determinised lazily along label paths.

Every root-to-node path of every registered pattern is one path in the automaton; paths with a
common beginning share its states, `//` is a state that loops on any element, and `*` a move that
any element makes. The automaton does not read documents: it reads *label paths*, the distinct
root-to-node sequences of tags, kept in a trie. A label path that was seen before costs one
dictionary look-up, however many patterns are registered; a new one runs the NFA for one move.

The trie is bounded. A document that invents label paths beyond the bound is matched with nodes
that are forgotten with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from xscl import ast

Accept = TypeVar("Accept")


class State(Generic[Accept]):
    """An NFA state. `accepts` are the patterns whose path ends here.

    `elements`, `attributes` and `texts` are the moves on a child of that kind, by name test: a
    local name (any namespace), a name in Clark notation, or `*`. `loop` is the state that stays
    active on every element below, for `//`.
    """

    __slots__ = ("accepts", "attributes", "elements", "loop", "looping", "self_below", "texts")

    def __init__(self, looping: bool = False) -> None:
        self.looping = looping
        self.elements: dict[str, State[Accept]] = {}
        self.attributes: dict[str, State[Accept]] = {}
        self.texts: State[Accept] | None = None
        self.self_below: State[Accept] | None = None
        self.loop: State[Accept] | None = None
        self.accepts: list[Accept] = []

    def step(self, step: ast.Step) -> State[Accept]:
        """The state after a step, made where it is new."""
        origin = self
        if step.axis == "//":
            if self.loop is None:
                self.loop = State(looping=True)
            origin = self.loop
        match step.test.kind:
            case "self":
                if origin.self_below is None:
                    origin.self_below = State()
                return origin.self_below
            case "text":
                if origin.texts is None:
                    origin.texts = State()
                return origin.texts
            case "element":
                moves = origin.elements
            case _:
                moves = origin.attributes
        key = name_key(step.test)
        if key not in moves:
            moves[key] = State()
        return moves[key]

    def discard(self, below: State[Accept]) -> None:
        """Forget a state that one move or loop of this state leads to."""
        for moves in (self.elements, self.attributes):
            for key in [key for key, state in moves.items() if state is below]:
                del moves[key]
        for name in ("texts", "self_below", "loop"):
            if getattr(self, name) is below:
                setattr(self, name, None)

    def empty(self) -> bool:
        return not (
            self.accepts
            or self.elements
            or self.attributes
            or self.texts
            or self.self_below
            or self.loop
        )


def name_key(test: ast.Test) -> str:
    if test.prefix is None:
        return test.name or "*"
    return f"{{{test.prefix}}}{test.name or '*'}"


def label_keys(label: str) -> tuple[str, ...]:
    """The keys under which a name in Clark notation may be found."""
    if label[0] != "{":
        return (label, "*")
    uri, _, local = label.rpartition("}")
    return (label, local, f"{uri}}}*", "*")


class LabelPath(Generic[Accept]):
    """A node of the trie: one label path and the set of NFA states after it.

    `accepts` lists the patterns whose path ends in an element of this label path. `wants_below`
    is False where no pattern can match further down, so that the subtree need not be visited.
    """

    __slots__ = (
        "accepts",
        "active",
        "attributes",
        "children",
        "label",
        "parent",
        "plans",
        "texts",
        "wants_attributes",
        "wants_below",
        "wants_texts",
    )

    def __init__(
        self,
        parent: LabelPath[Accept] | None,
        label: str,
        states: Iterable[State[Accept]],
        looping: set[State[Accept]],
    ) -> None:
        self.parent = parent
        self.label = label
        self.active = _closure(states, looping)
        self.accepts = [accept for state in self.active for accept in state.accepts]
        self.children: dict[str, LabelPath[Accept]] = {}
        self.attributes: dict[str, LabelPath[Accept] | None] = {}
        self.texts: LabelPath[Accept] | None = None
        self.plans: Any = None
        self.wants_attributes = any(state.attributes for state in self.active)
        self.wants_texts = any(
            state.texts or (state.looping and state.self_below) for state in self.active
        )
        self.wants_below = self.wants_texts or any(
            state.looping or state.elements for state in self.active
        )

    def element(self, label: str) -> LabelPath[Accept]:
        """The label path of a child element, not yet remembered."""
        keys = label_keys(label)
        moved: set[State[Accept]] = set()
        looping: set[State[Accept]] = set()
        for state in self.active:
            if state.looping:
                looping.add(state)
                if state.self_below is not None:
                    moved.add(state.self_below)
            if state.elements:
                moved.update(state.elements[key] for key in keys if key in state.elements)
        return LabelPath(self, label, moved, looping)

    def attribute(self, label: str) -> LabelPath[Accept] | None:
        """The label path of an attribute, remembered; None where no pattern ends in it."""
        keys = label_keys(label)
        moved = {
            state.attributes[key]
            for state in self.active
            for key in keys
            if key in state.attributes
        }
        return LabelPath(self, f"@{label}", moved, set()) if moved else None

    def text(self) -> LabelPath[Accept]:
        """The label path of the text children."""
        moved = {state.texts for state in self.active if state.texts is not None}
        moved |= {state.self_below for state in self.active if state.looping and state.self_below}
        return LabelPath(self, "#text", moved, set())

    def other(self, label: str) -> LabelPath[Accept]:
        """The label path of a comment or processing instruction, which only `//.` selects."""
        moved = {state.self_below for state in self.active if state.looping and state.self_below}
        return LabelPath(self, label, moved, set())

    def labels(self) -> list[str]:
        """The labels from the root element down to this node."""
        path: list[str] = []
        node: LabelPath[Accept] | None = self
        while node is not None and node.parent is not None:
            path.append(node.label)
            node = node.parent
        return path[::-1]


def _closure(
    states: Iterable[State[Accept]], looping: set[State[Accept]]
) -> tuple[State[Accept], ...]:
    """The states and all that are active with them: their loops, and `//.` on the node itself."""
    active: dict[State[Accept], None] = {}
    waiting = [*states, *looping]
    while waiting:
        state = waiting.pop()
        if state in active:
            continue
        active[state] = None
        if state.loop is not None:
            waiting.append(state.loop)
            if state.loop.self_below is not None:
                waiting.append(state.loop.self_below)
    return tuple(active)


class Automaton(Generic[Accept]):
    """The NFA of all registered paths, one start state per stream, and its label paths.

    `limit` bounds the number of label paths remembered.
    """

    def __init__(self, limit: int = 50_000) -> None:
        self.starts: dict[str, State[Accept]] = {}
        self.limit = limit
        self.remembered = 0
        self._roots: dict[tuple[str, ...], LabelPath[Accept]] = {}

    def add(self, stream: str, steps: tuple[ast.Step, ...], accept: Accept) -> None:
        self._end(stream, steps).accepts.append(accept)
        self.forget()

    def remove(self, stream: str, steps: tuple[ast.Step, ...], accept: Accept) -> None:
        """Take a pattern out, with the states that only it used."""
        visited = [self.starts[stream]]
        for step in steps:
            if step.axis == "//":
                loop = visited[-1].loop
                assert loop is not None
                visited.append(loop)
                visited.append(loop.step(replace(step, axis="/")))
            else:
                visited.append(visited[-1].step(step))
        visited[-1].accepts.remove(accept)
        for state, above in zip(visited[:0:-1], visited[-2::-1], strict=True):
            if not state.empty():
                break
            above.discard(state)
        if self.starts[stream].empty():
            del self.starts[stream]
        self.forget()

    def _end(self, stream: str, steps: tuple[ast.Step, ...]) -> State[Accept]:
        state = self.starts.setdefault(stream, State())
        for step in steps:
            state = state.step(step)
        return state

    def forget(self) -> None:
        """Drop the label paths: they are found again, against the automaton as it now is."""
        self._roots.clear()
        self.remembered = 0

    def root(self, streams: tuple[str, ...]) -> LabelPath[Accept] | None:
        """The empty label path for documents of these streams; None where no pattern reads them."""
        known = tuple(stream for stream in streams if stream in self.starts)
        if not known:
            return None
        root = self._roots.get(known)
        if root is None:
            root = LabelPath(None, "", [self.starts[s] for s in known], set())
            self._roots[known] = root
        return root

    def child(self, path: LabelPath[Accept], label: str) -> LabelPath[Accept]:
        """The label path of a child element that `path.children` does not know."""
        below = path.element(label)
        if self.remembered < self.limit:
            self.remembered += 1
            path.children[label] = below
        return below

    def states(self) -> Iterator[State[Accept]]:
        waiting = list(self.starts.values())
        while waiting:
            state = waiting.pop()
            yield state
            waiting += [*state.elements.values(), *state.attributes.values()]
            waiting += [s for s in (state.texts, state.self_below, state.loop) if s is not None]
