"""What documents that are built alike have in common: their outline, and where the automaton stops.

The structure of a document is the tags of its elements and their numbers of children, in document
order. Feeds have few: an item differs from others in its texts, and in how many authors and
categories it has. One hash of the structure finds both, and only a structure that was not met
before is taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from xscl.stage1.course import Course, Stop
from xscl.stage1.nfa import Automaton
from xscl.stage1.outlines import LabelPaths, Outline
from xscl.stage1.states import StateSet

_KNOWN = 20_000
"""Structures in memory."""
_HELD = 500_000
"""Label paths of their outlines, tags and numbers of those that were met twice, and integers of
their stops, as they were made since all were dropped."""
_LARGEST = 10_000
"""Elements of a document whose tags are kept. For larger ones only the outline is found again."""


class Structure:
    """An outline, and the stops of the automaton's `version`, by the state in which it starts.

    `tags` and `children` are None until the structure is met for the second time, as most that are
    met once are never met again."""

    __slots__ = ("children", "outline", "stops", "tags", "version")

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.tags: Sequence[object] | None = None
        self.children: Sequence[int] = ()
        self.stops: dict[StateSet, list[Stop]] = {}
        self.version = 0


class Structures:
    """The structures of the documents that a process has met."""

    def __init__(self) -> None:
        self._known: dict[int, Structure] = {}
        """By the hash of tags and numbers, which Python seeds anew in each process."""
        self._held = 0
        self._paths = LabelPaths()

    def find(self, tags: Sequence[object], children: Sequence[int]) -> Structure:
        """The structure of a document with these tags and numbers of children."""
        key = hash((*tags, *children))
        found = self._known.get(key)
        if found is None:
            found = Structure(self._paths.outline(tags, children))
            self._hold(len(found.outline.paths))
            self._known[key] = found
        elif found.tags is None:
            if len(tags) > _LARGEST:
                return found
            self._hold(2 * len(tags))
            found.tags, found.children = tags, children
            self._known[key] = found
        elif found.tags != tags or found.children != children:
            return Structure(self._paths.outline(tags, children))
        return found

    def stops(
        self,
        structure: Structure,
        tags: Sequence[object],
        children: Sequence[int],
        automaton: Automaton,
        start: StateSet,
    ) -> Sequence[Stop]:
        """Where the automaton stops in a document of this structure, with these tags and numbers
        of children."""
        if structure.version != automaton.version:
            structure.stops.clear()
            structure.version = automaton.version
        stops = structure.stops.get(start)
        if stops is None:
            stops = Course(automaton, start).follow(tags, children)
            if structure.tags is not None:
                self._hold(sum(len(rows) + 8 for rows, _, _, _ in stops))
                structure.stops[start] = stops
        return stops

    def _hold(self, more: int) -> None:
        """Make room for so many more."""
        self._held += more
        if len(self._known) >= _KNOWN or self._held > _HELD:
            self._known.clear()
            self._held = more
