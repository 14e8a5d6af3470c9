"""The shared NFA over all tree patterns (YFilter), determinised lazily (Green et al., TODS 2004).

Every root-to-node path of every registered pattern is one path in the automaton; paths with a
common beginning share its states, `//` is a state that loops on any element, and `*` a move that
any element makes. Documents are read by the DFA of this NFA: a `StateSet` is the set of NFA states
after a label path, and its moves are found when they are first needed. A move that was made before
costs one dictionary look-up, however many patterns are registered.

Adding or removing a pattern changes only the state sets that hold the state where its path leaves
those of the others. The cached DFA is bounded: when it is full, all of it is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from xscl.normal import ir
from xscl.stage1.states import Accept, State, StateSet, label_keys, moves_of

_PATCHED = 1_000
"""With more state sets than this, a change drops them all instead of patching each."""

_FEW = 4
"""With fewer active states than this, trying each is faster than looking the name up first."""


class Automaton:
    """The NFA of all registered paths, one start state per stream, and its DFA.

    `limit` bounds the cached DFA: its moves, and the states in its state sets.
    """

    def __init__(self, limit: int = 50_000) -> None:
        self.starts: dict[str, State] = {}
        self.limit = limit
        self.remembered = 0
        self.version = 0
        """Counts the changes of the DFA: what it found before may be found no longer."""
        self._roots: dict[tuple[str, ...], StateSet | None] = {}
        self._sets: dict[tuple[frozenset[State], bool], StateSet] = {}
        self._names: Counter[str] = Counter()
        """The keys of all moves, each with the number of its states."""

    def __getstate__(self) -> tuple[object, ...]:
        """The NFA, one state behind the other: nested as they are, a long path would be too deep.
        The DFA is found again."""
        numbers = {state: number for number, state in enumerate(self.states())}
        starts = {stream: numbers[state] for stream, state in self.starts.items()}
        flat = [
            (state.origin and numbers[state.origin], state.kind, state.key, state.accepts)
            for state in numbers
        ]
        return self.limit, starts, flat

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        limit, starts, flat = state
        self.__init__(limit)  # type: ignore[misc]
        states: list[State] = []
        for origin, kind, key, accepts in flat:
            made = State() if origin is None else states[origin].grow(kind, key)
            made.accepts = accepts
            if origin is not None and key:
                self._names[key] += 1
            states.append(made)
        self.starts = {stream: states[number] for stream, number in starts.items()}

    # -- patterns ----------------------------------------------------------------------------

    def reach(self, stream: str, steps: Iterable[ir.Step]) -> State:
        """The state after a path, created if it is new."""
        state = self.starts.get(stream)
        if state is None:
            state = self.starts[stream] = State()
            self._roots.clear()
        changed: State | None = None
        for step in steps:
            for kind, key in moves_of(step):
                below = state.move(kind, key)
                if below is None:
                    below = state.grow(kind, key)
                    if key:
                        self._names[key] += 1
                    changed = changed or below
                state = below
        if changed is not None:
            self._change(changed)
        return state

    def accept(self, state: State, key: Hashable, accept: Accept) -> None:
        """Add an action at the nodes of a state."""
        if state.accepts is None:
            state.accepts = {}
        state.accepts[key] = accept
        self.change_actions(state, accept.enter)

    def refuse(self, state: State, key: Hashable) -> None:
        """Undo `accept`, and remove states that nothing else needs."""
        assert state.accepts is not None
        accept = state.accepts.pop(key)
        self.change_actions(state, accept.leave)
        while state.empty():
            origin = state.origin
            if origin is None:
                self.starts = {s: start for s, start in self.starts.items() if start is not state}
                self._roots.clear()
                return
            origin.discard(state)
            if state.key:
                self._names[state.key] -= 1
                if not self._names[state.key]:
                    del self._names[state.key]
            self._change(state)
            state = origin

    def change_actions(self, state: State, change: Callable[[StateSet], object]) -> None:
        """Change the actions of a state, in all state sets that hold it."""
        if len(self._sets) > _PATCHED:
            self.forget()
            return
        for held in self._sets.values():
            if state in held.active:
                change(held)
                held.refresh()
                self.version += 1

    def _change(self, state: State) -> None:
        """Update the DFA after a state was added below its origin, or removed."""
        if len(self._sets) > _PATCHED:
            self.forget()
            return
        # These states are active together with their origin, not after a move of their own.
        closed = state.kind in ("loop", "self_below")
        sets = self._sets
        self._sets = {
            key: held
            for key, held in sets.items()
            if state not in held.active and not (closed and state.origin in held.active)
        }
        if len(self._sets) < len(sets):
            self._roots.clear()
            self.version += 1
            for held in sets.values():
                held.forget()
        for held in self._sets.values():
            if state.origin in held.active:
                held.forget(state.key)
                held.refresh()
                self.version += 1

    # -- documents ---------------------------------------------------------------------------

    def root(self, streams: tuple[str, ...]) -> StateSet | None:
        """The state set of the document itself; None if no pattern reads these streams."""
        if streams in self._roots:
            return self._roots[streams]
        starts = [self.starts[stream] for stream in streams if stream in self.starts]
        root = self._roots[streams] = self._set(starts, (), False) if starts else None
        self._remember(1)
        return root

    def child(self, here: StateSet, label: object) -> StateSet:
        """The state set of a child that `here.children` does not know, by its tag."""
        below: StateSet | None = None
        if not isinstance(label, str):  # a comment or processing instruction: only `//.` selects it
            below = self._set(_selves(here), (), True)
        elif label[0] == "{":
            keys = label_keys(label)
            if any(key in (state.elements or ()) for state in here.active for key in keys[:-1]):
                below = self._moved(here, keys)
        # A document may have thousands of names that no pattern has, so these must be cheap.
        elif len(here.active) < _FEW or label in self._names:
            for state in here.active:
                if state.elements and label in state.elements:
                    below = self._moved(here, (label, "*"))
                    break
        if below is None:
            below = here.other = here.other or self._moved(here, ("*",))
        self.remembered += 1
        if self.remembered > self.limit:
            self.forget()
        here.children[label] = below
        return below

    def attribute(self, here: StateSet, label: str) -> StateSet | None:
        """The state set of an attribute, by its name; None if no pattern ends there."""
        keys = [key for key in label_keys(label) if key in self._names]
        moved = [
            state.attributes[key]
            for state in here.active
            if state.attributes
            for key in keys
            if key in state.attributes
        ]
        found = here.attributes[label] = self._set(moved, (), True) if moved else None
        self._remember(1)
        return found

    def text(self, here: StateSet) -> StateSet:
        """The state set of the text children."""
        moved = [state.texts for state in here.active if state.texts is not None]
        here.texts = self._set([*moved, *_selves(here)], (), True)
        return here.texts

    def _moved(self, here: StateSet, keys: Sequence[str]) -> StateSet:
        moved: list[State] = []
        looping: list[State] = []
        for state in here.active:
            if state.kind == "loop":
                looping.append(state)
                if state.self_below is not None:
                    moved.append(state.self_below)
            if state.elements:
                for key in keys:
                    found = state.elements.get(key)
                    if found is not None:
                        moved.append(found)
        return self._set(moved, looping, False)

    def _set(self, states: Sequence[State], looping: Sequence[State], leaf: bool) -> StateSet:
        active = _closure(states, looping)
        key = (frozenset(active), leaf)
        found = self._sets.get(key)
        if found is None:
            self._remember(1 + len(active))
            found = self._sets[key] = StateSet(active, leaf)
        return found

    def _remember(self, more: int) -> None:
        if self.remembered + more > self.limit:
            self.forget()
        self.remembered += more

    def forget(self) -> None:
        """Drop the DFA, which is then determinised again from the current NFA. Walks under way may
        go on."""
        for held in self._sets.values():
            held.forget()
        self._sets.clear()
        self._roots.clear()
        self.remembered = 0
        self.version += 1

    def states(self) -> Iterator[State]:
        waiting = list(self.starts.values())
        while waiting:
            state = waiting.pop()
            yield state
            waiting += [*(state.elements or {}).values(), *(state.attributes or {}).values()]
            waiting += [s for s in (state.texts, state.self_below, state.loop) if s is not None]


def _selves(here: StateSet) -> list[State]:
    """The states after `//.`, to which any descendant moves."""
    return [s.self_below for s in here.active if s.kind == "loop" and s.self_below is not None]


def _closure(states: Sequence[State], looping: Sequence[State]) -> dict[State, None]:
    """The states and all that are active with them: their loops, and `//.` on the node itself."""
    active: dict[State, None] = {}
    waiting = [*looping, *states]
    while waiting:
        state = waiting.pop()
        if state in active:
            continue
        active[state] = None
        if state.loop is not None:
            waiting.append(state.loop)
            if state.loop.self_below is not None:
                waiting.append(state.loop.self_below)
    return active
