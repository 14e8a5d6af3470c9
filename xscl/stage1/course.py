"""The course of the automaton through a document: where it stops, and what is witnessed there.

In: the tags of a document's elements and their numbers of children, in document order. Out: stops.
Documents that are built alike have the same stops, whatever their texts are, so that they are found
once for all of them (`xscl/stage1/structures.py`), as the moves of the automaton are found once for
equal label paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import count

from xscl.stage1.constants import Asked
from xscl.stage1.document import DOCUMENT_NODE
from xscl.stage1.groups import Group
from xscl.stage1.outlines import Outline
from xscl.stage1.paths import LabelPath, LabelPaths
from xscl.stage1.states import StateSet, label_keys

Children = tuple[tuple[int, bool], ...]
"""The numbers of elements, and whether they have children."""

Plainly = tuple[Group, int]
"""Edges that nothing but a constant decides, mostly, and the number of their var1's node."""

Ask = tuple[Asked, Children | None, Plainly | None]
"""What is asked of an element, and for which edges. Mostly the text of a child is asked: of a
structure that is met again it is known which elements that are (`with_children`)."""

Visit = tuple[StateSet, int, tuple[int, ...], tuple[Ask, ...] | None]
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
        asked: list[Ask] | None = None if here.wants_leaves else []
        open_nodes = (DOCUMENT, *way, number)
        for group in here.general:
            if group.trigger is None or not group.fixed:
                asked = None
            elif asked is not None:
                plainly = (group, open_nodes[group.back[0]]) if group.evaluate is None else None
                asked.append(((group.trigger[1], open_nodes[group.place]), None, plainly))
        return (here, number, way, None if asked is None else (*asked,))


def with_children(
    stops: Sequence[Stop], tags: Sequence[object], children: Sequence[int]
) -> list[Stop]:
    """The stops of a whole document with these tags and numbers of children, where it is known
    which elements are the children that are asked about."""
    asked = {each for *_, visit in stops for each, _, _ in (visit and visit[3]) or ()}
    inner = _children_of({number for _, number in asked}, children)
    found: dict[Asked, Children | None] = {}
    for each in asked:
        index, number = each
        key = index.child
        own = inner[number] if key is not None else ()
        found[each] = (
            None
            if key is None
            else tuple([(n, children[n] > 0) for n in own if _has_name(tags[n], key)])
        )
    answer: list[Stop] = []
    for rows, coded, plain, visit in stops:
        if visit is not None and visit[3] is not None:
            visit = (*visit[:3], tuple([(each, found[each], to) for each, _, to in visit[3]]))
        answer.append((rows, coded, plain, visit))
    return answer


def _children_of(parents: AbstractSet[int], children: Sequence[int]) -> dict[int, list[int]]:
    """The numbers of the children of some elements of a document."""
    found: dict[int, list[int]] = {number: [] for number in parents}
    if not found:
        return found
    opened: list[tuple[list[int] | None, int]] = []
    own, left = None, 1
    for number, inner in enumerate(children):
        while not left:
            own, left = opened.pop()
        left -= 1
        if own is not None:
            own.append(number)
        if inner:
            opened.append((own, left))
            own, left = found.get(number), inner
    return found


def _has_name(tag: object, key: str) -> bool:
    return tag == key or (isinstance(tag, str) and tag[0] == "{" and key in label_keys(tag))
