"""Order, windows and deadlines of a match, and when it is decided.

In: a variant of a unit, and what was chosen for its items. An interval is the hull of documents and
deadlines; a window around an absence counts documents only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.pattern.instances import AT_ONCE, NEVER, Instance, due_beyond, due_from
from broker.pattern.plan import Absence, Group, Item, Ordered, Together, Tree, Variant, Window


class Span(NamedTuple):
    """[start, end] is the hull of documents and deadlines, [first, last] that of documents."""

    start: int
    end: int
    first: int
    last: int


Chosen = Mapping[Item, Instance]
Filled = Mapping[Group, Sequence[Instance]]


class Violated(Exception):
    """An order or a window does not hold."""


@dataclass(slots=True)
class Timing:
    """The times of one choice. `inserted` is a match that is tried in the place of an absence;
    `filling` is a group that is not complete. `free`: groups are not the longest ones, so that they
    have no deadline and wait for nothing; `whole`: a group that has all the elements that it may
    have waits like any other; `hull` is that of the one that is filled, where it is known. After
    `span`, `due` is when the choice is decided, and `soonest` when the first of its items is."""

    variant: Variant
    within: Window
    chosen: Chosen
    filled: Filled
    inserted: tuple[Absence, Span] | None = None
    filling: Group | None = None
    free: bool = False
    whole: bool = False
    hull: Span | None = None
    due: int = field(default=AT_ONCE, init=False)
    soonest: int = field(default=NEVER, init=False)

    def span(self) -> Span | None:
        """The interval of the choice; None where an order or a window does not hold."""
        self.due, self.soonest = AT_ONCE, NEVER
        try:
            span = self._tree(self.variant.tree, self.within)
        except Violated:
            return None
        return None if span is None or self._exceeds(span, self.within) else span

    def _exceeds(self, span: Span, window: Window) -> bool:
        return window is not None and self._length(span) > window

    def _length(self, span: Span) -> int:
        if self.inserted is not None:
            return span.last - span.first
        return span.end - span.start

    def _tree(self, tree: Tree, within: Window) -> Span | None:
        """`within` is that of the unit where the tree is all of it."""
        match tree:
            case Ordered():
                return self._sequence(tree.items, tree.windows, within)
            case Together():
                return self._together(tree, within)
            case Group() | Absence():
                return self._sequence([tree], [(None, False)], within)
        return self._item(tree)

    def _item(self, item: Tree) -> Span | None:
        match item:
            case Ordered() | Together():
                return self._tree(item, None)
            case Absence():
                if self.inserted is None or self.inserted[0] is not item:
                    return None
                return self.inserted[1]
            case Group() if item is self.filling and self.hull is not None:
                return self.hull
            case Group():
                elements = self.filled.get(item, ())
                if not elements:
                    return None
                return Span(
                    min([e.start for e in elements]),
                    max([e.end for e in elements]),
                    min([e.first for e in elements]),
                    max([e.last for e in elements]),
                )
        found = self.chosen.get(item)  # type: ignore[arg-type]
        return None if found is None else Span(found.start, found.end, found.first, found.last)

    # -- lists ---------------------------------------------------------------------------------

    def _sequence(
        self, items: Sequence[Tree], windows: Sequence[tuple[Window, bool]], within: Window
    ) -> Span | None:
        spans = [self._item(item) for item in items]
        whole: Span | None = None
        growing = self.variant.groups if self.whole else [self.filling] if self.filling else []
        behind = False  # whether a group that may still grow stands before, and so ends later
        ends: list[int | None] = []  # by item the end of what stands before it
        for item, span, (window, after) in zip(items, spans, windows, strict=True):
            before = whole
            ends.append(None if before is None else before.end)
            if span is not None:
                if before is not None and before.end >= span.start:
                    raise Violated
                far = before is not None and window is not None and span.end > before.end + window
                if far and after and not behind:
                    raise Violated
                whole = span if before is None else hull_of(before, span)
            # Also where nothing is in this place.
            if whole is not None and not after and self._exceeds(whole, window):
                raise Violated
            behind = behind or any(_holds(item, group) for group in growing)
        if whole is None:
            return None
        return self._ended(items, windows, spans, ends, whole, within)

    def _ended(
        self,
        items: Sequence[Tree],
        windows: Sequence[tuple[Window, bool]],
        spans: Sequence[Span | None],
        ends: Sequence[int | None],
        whole: Span,
        within: Window,
    ) -> Span:
        """A list with the deadlines of what stands at its end; notes what its items wait for."""
        present = [place for place, span in enumerate(spans) if span is not None]
        last, end = present[-1], whole.end
        for place, item in enumerate(items):
            if not isinstance(item, Absence) and (not isinstance(item, Group) or self.free):
                continue
            if self.inserted is not None and (item is self.inserted[0] or last == place):
                continue
            following = next((spans[p] for p in present if p > place), None)
            if following is not None:
                self._wait(due_from(following.start))
                continue
            if item is self.filling:
                continue
            if self._is_run(item):
                self._wait(due_beyond(self.filled[item][-1].end))  # type: ignore[index]
                continue
            before = ends[place] if place <= last else whole.end
            found = [] if within is None else [whole.start + within]
            found += _deadlines(item, windows[place:], whole.start, before)
            if found:
                end = max(end, min(found))
                self._wait(due_beyond(min(found)))
        return Span(whole.start, end, whole.first, whole.last)

    def _wait(self, due: int) -> None:
        self.due = max(self.due, due)
        self.soonest = min(self.soonest, due)

    def _is_run(self, item: Tree) -> bool:
        """Whether a group has as many elements as it may have."""
        if not isinstance(item, Group) or item.most is None or self.whole:
            return False
        return len(self.filled.get(item, ())) == item.most

    # -- JOIN ----------------------------------------------------------------------------------

    def _together(self, tree: Together, within: Window) -> Span | None:
        whole: Span | None = None
        starts: list[int | None] = []  # by operand the start of the hull up to it
        for item, window in zip(tree.items, tree.windows, strict=True):
            span = self._item(item)
            if span is not None:
                whole = span if whole is None else hull_of(whole, span)
            if whole is not None and self._exceeds(whole, window):
                raise Violated
            starts.append(None if whole is None else whole.start)
        if whole is None:
            return None
        return self._ended_together(tree, whole, starts, within)

    def _ended_together(
        self, tree: Together, whole: Span, starts: Sequence[int | None], within: Window
    ) -> Span:
        """A JOIN with its deadlines."""
        end = whole.end
        for place, item in enumerate(tree.items):
            if not isinstance(item, Group | Absence) or item is self.filling:
                continue
            if isinstance(item, Group) and self.free:
                continue
            if self.inserted is not None and item is self.inserted[0]:
                continue
            if self._is_run(item):
                self._wait(due_beyond(self.filled[item][-1].end))  # type: ignore[index]
                continue
            found = [] if within is None else [whole.start + within]
            for start, window in zip(starts[place:], tree.windows[place:], strict=True):
                if window is not None and start is not None:
                    found.append(start + window)
            if found:
                end = max(end, min(found))
                self._wait(due_beyond(min(found)))
        return Span(whole.start, end, whole.first, whole.last)


def _deadlines(
    item: Tree, windows: Sequence[tuple[Window, bool]], start: int, before: int | None
) -> list[int]:
    """When the windows end in which an absence or a group at the end of a list stands, its own one
    first: they count from the start of the list, or from the end of what stands before the item."""
    found: list[int] = []
    for place, (window, after) in enumerate(windows):
        if window is None or (after and place and isinstance(item, Group)):
            continue  # an AFTER behind a group bounds nothing that it may take
        since = before if after else start
        if since is not None:
            found.append(since + window)
    return found


def hull_of(one: Span, other: Span) -> Span:
    return Span(
        min(one.start, other.start),
        max(one.end, other.end),
        min(one.first, other.first),
        max(one.last, other.last),
    )


def _holds(tree: Tree, group: Group) -> bool:
    if isinstance(tree, Ordered | Together):
        return any(_holds(item, group) for item in tree.items)
    return tree is group
