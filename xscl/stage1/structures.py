"""What documents that are built alike have in common: their outline, and where the automaton stops.

The structure of a document is the tags of its elements and their numbers of children, in document
order. Feeds have few: an item differs from others in its texts, and in how many authors and
categories it has. One hash of the structure finds both, and only a structure that was not met
before is taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from xscl.stage1.course import Course, Stop, with_children
from xscl.stage1.nfa import Automaton
from xscl.stage1.outlines import Outline
from xscl.stage1.paths import LabelPaths
from xscl.stage1.states import StateSet

_KNOWN = 20_000
"""Structures in memory."""
_HELD = 500_000
"""Structures, tags and numbers of those that were met twice, and integers of their stops, as they
were made since all were dropped."""
_LARGEST = 10_000
"""Elements of a document whose tags are kept. Larger ones are walked through each time."""


class Structure:
    """An outline, and the stops of the automaton's `version`, by the state in which it starts.

    `tags`, and all that belongs to them, are None until the structure is met for the second time,
    as most that are met once are never met again."""

    __slots__ = ("children", "outline", "stops", "tags", "version")

    def __init__(self) -> None:
        self.tags: Sequence[object] | None = None
        self.children: Sequence[int] = ()
        self.outline: Outline | None = None
        self.stops: dict[StateSet | None, list[Stop]] = {}
        self.version = 0


class Structures:
    """The structures of the documents that a process has met."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self.paths = LabelPaths(automaton)
        self._known: dict[int, Structure] = {}
        """By the hash of tags and numbers, which Python seeds anew in each process."""
        self._held = 0

    def find(
        self, tags: Sequence[object], children: Sequence[int], start: StateSet | None
    ) -> tuple[Outline, Sequence[Stop]]:
        """The outline of a document with these tags and numbers of children, and where the
        automaton stops in it, which starts here."""
        key = hash((*tags, *children))
        found = self._known.get(key)
        if (
            found is not None
            and found.outline is not None
            and found.tags == tags
            and found.children == children
        ):
            return found.outline, self._stops(found, start)
        version = self._automaton.version  # it may forget states on the way
        course = Course(self.paths, start)
        stops = course.follow(tags, children)
        outline = course.outline()
        if found is None:
            self._hold(1)
            self._known[key] = Structure()
        elif found.tags is None and len(tags) <= _LARGEST:
            self._hold(2 * len(tags) + _size(stops))
            found.tags, found.children, found.outline = tags, children, outline
            found.version, found.stops[start] = version, with_children(stops, tags, children)
            self._known[key] = found
        return outline, stops

    def _stops(self, found: Structure, start: StateSet | None) -> list[Stop]:
        """Where the automaton stops in documents of a structure that was met before."""
        assert found.tags is not None
        if found.version != self._automaton.version:
            found.stops.clear()
            found.version = self._automaton.version
        stops = found.stops.get(start)
        if stops is None:
            followed = Course(self.paths, start).follow(found.tags, found.children)
            stops = with_children(followed, found.tags, found.children)
            self._hold(_size(stops))
            found.stops[start] = stops
        return stops

    def _hold(self, more: int) -> None:
        """Make room for so many more."""
        self._held += more
        if len(self._known) >= _KNOWN or self._held > _HELD:
            self._known.clear()
            self._held = more


def _size(stops: Sequence[Stop]) -> int:
    """The integers of stops, about."""
    return sum(len(rows) + 8 + 4 * len((visit and visit[3]) or ()) for rows, _, _, visit in stops)
