"""The label paths of the documents that a process has met: what the automaton does there, and the
outlines of documents.

In: tags from the root down. Out: for each label path its name and the state set of the automaton,
which is found once, so that a document is walked through once for its outline and its stops.

Everything here is bounded. A path that outlines do not name has no entry of its own, so hostile
names cost nothing but the look at them.
"""

from __future__ import annotations

from typing import Any

from xscl.stage1.nfa import Automaton
from xscl.stage1.outlines import DEEPEST, LONGEST, MOST, REST, Outline, make
from xscl.stage1.states import StateSet

_KNOWN = 20_000
"""Label paths in memory."""


class LabelPath:
    """A label path and those below it, by tag. `name` is None where there is no element, and REST
    where outlines do not name it. `state` is that of the automaton, None without a pattern that
    reads the document; `acts` is the same where something is witnessed, else None."""

    __slots__ = ("acts", "below", "depth", "name", "state")

    def __init__(self, name: str | None, depth: int, state: StateSet | None) -> None:
        self.name = name
        self.depth = depth
        self.state = state
        self.acts = None if state is None or state.idle else state
        self.below: dict[Any, LabelPath] = {}


class LabelPaths:
    """The label paths that were met, for one version of an automaton at a time."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._version = automaton.version
        self._tops: dict[StateSet | None, LabelPath] = {}
        self._others: dict[StateSet | None, LabelPath] = {}
        """Those that are not named, by their states."""
        self._outlines: dict[tuple[LabelPath, ...], Outline] = {}
        """By the label paths in the order in which a document has them."""
        self._known = 0

    def top(self, start: StateSet | None) -> LabelPath:
        """The path of a document in which the automaton starts here."""
        if self._known > _KNOWN or self._version != self._automaton.version:
            self._version, self._known = self._automaton.version, 0
            self._tops.clear()
            self._others.clear()
            self._outlines.clear()
        found = self._tops.get(start)
        if found is None:
            found = self._tops[start] = LabelPath("", 0, start)
            self._known += 1
        return found

    def child(self, above: LabelPath, tag: object, seen: int) -> LabelPath:
        """The path of a child that `above.below` does not have, in a document of which so many
        paths were seen."""
        state = None
        if above.state is not None:
            state = above.state.children.get(tag) or self._automaton.child(above.state, tag)
        if not isinstance(tag, str):
            made = LabelPath(None, 0, state)
        elif seen >= MOST or above.depth >= DEEPEST:  # so deep are those that are not named, too
            return self._other(state)
        else:
            name = f"{above.name}/{tag.rpartition('}')[2]}"
            if len(name) > LONGEST:
                return self._other(state)
            made = LabelPath(name, above.depth + 1, state)
        self._known += 1
        above.below[tag] = made
        return made

    def _other(self, state: StateSet | None) -> LabelPath:
        found = self._others.get(state)
        if found is None:
            found = self._others[state] = LabelPath(REST, DEEPEST, state)
        return found

    def outline(self, seen: tuple[LabelPath, ...]) -> Outline:
        """The outline of a document that has these label paths."""
        found = self._outlines.get(seen)
        if found is None:
            names = [path.name for path in seen if path.name]
            if len(names) > MOST or any(path.name == REST for path in seen):
                names = [*names[:MOST], REST]
            found = self._outlines[seen] = make(names)
            self._known += len(seen)
        return found
