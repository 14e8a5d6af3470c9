"""The course of the automaton through a document: where it stops, and what is witnessed there.

In: the tags of a document's elements and their numbers of children, in document order. Out: stops.
Documents that are built alike have the same stops, whatever their texts are, so that they are found
once for all of them (`xscl/stage1/structures.py`), as the moves of the automaton are found once for
equal label paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from xscl.stage1.constants import Asked
from xscl.stage1.document import DOCUMENT_NODE
from xscl.stage1.outlines import Outline
from xscl.stage1.paths import LabelPath, LabelPaths
from xscl.stage1.states import StateSet

Visit = tuple[StateSet, int, tuple[int, ...], tuple[Asked, ...] | None]
"""An element that has to be looked at: its state set, its number, and the elements above it from
the root down; only if one of those asked satisfies a constant, where it says which."""

Coded = tuple[int, bool, int, tuple[int, ...]]
"""An element whose string value is coded: its number, whether it has children, and at which place
among the integers of its stop the code belongs, and at which others."""

Stop = tuple[list[int], list[Coded], list[int], Visit | None]
"""Rows of a witness, without codes; the elements whose values are coded; the numbers of those
without children whose texts are only read; and the element that has to be looked at behind them."""

DOCUMENT = DOCUMENT_NODE % 2**64


class Course:
    """The way through one document, a part of its elements at a time, from where the automaton
    starts in it; without a start nothing is witnessed."""

    def __init__(self, paths: LabelPaths, start: StateSet | None) -> None:
        self._paths = paths
        self._above, self._left = paths.top(start), 1
        """The label path of the parent, and how many of its children are left."""
        self._opened: list[tuple[int, LabelPath, int]] = [(DOCUMENT, self._above, 0)]
        """The open nodes from the document down: their numbers, and to continue behind them what
        `_above` and `_left` are there."""
        self._seen: dict[LabelPath, None] = {}
        self._number = count()
        self._way: tuple[int, ...] = ()

    def opened(self) -> tuple[int, ...]:
        """The elements that are open, from the root down."""
        return (*[number for number, _, _ in self._opened[1:]],)

    def outline(self) -> Outline:
        """The outline of the elements so far."""
        return self._paths.outline((*self._seen,))

    def follow(self, tags: Sequence[object], children: Sequence[int]) -> list[Stop]:
        """The stops among the next elements of the document."""
        opened, seen = self._opened, self._seen
        above, left = self._above, self._left
        stops: list[Stop] = []
        rows: list[int]
        coded: list[Coded]
        plain: list[int]
        rows, coded, plain = [], [], []
        for tag, inner, number in zip(tags, children, self._number, strict=False):
            while not left:
                _, above, left = opened.pop()
            left -= 1
            path = above.below.get(tag) or self._paths.child(above, tag, len(seen))
            seen[path] = None
            here = path.acts
            if here is not None:
                if here.rows:
                    # What the label path alone decides.
                    places = []
                    for back, var1, var2, valued in here.rows:
                        rows += (var1, var2, opened[back][0], number, 0)
                        if valued:
                            places.append(len(rows) - 1)
                    if places:
                        coded.append((number, inner > 0, places[0], (*places[1:],)))
                    elif not inner:
                        plain.append(number)
                if here.general or here.wants_leaves:
                    stops.append((rows, coded, plain, self._visit(here, number)))
                    rows, coded, plain = [], [], []
            if inner:
                opened.append((number, above, left))
                above, left = path, inner
        if rows:
            stops.append((rows, coded, plain, None))
        self._above, self._left = above, left
        return stops

    def _visit(self, here: StateSet, number: int) -> Visit:
        way = self.opened()
        if way == self._way:
            way = self._way  # one object for all that have the same parent
        self._way = way
        asked: list[Asked] | None = None if here.wants_leaves else []
        open_nodes = (DOCUMENT, *way, number)
        for group in here.general:
            if group.trigger is None or not group.fixed:
                asked = None
            elif asked is not None:
                asked.append((group.trigger[1], open_nodes[group.place]))
        return (here, number, way, None if asked is None else (*asked,))
