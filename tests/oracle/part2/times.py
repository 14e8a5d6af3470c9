"""The times of a choice: order, windows, deadlines, and when it is decided.

In: the tree of a unit with one branch of each OR, and the intervals of what was chosen. An interval is
the hull of documents and deadlines; windows around an absence count documents only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.oracle.part2 import shape

if TYPE_CHECKING:
    from tests.oracle.part2.instances import Instance


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in microseconds, its ends included."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def hull(spans: Iterable[Span | None]) -> Span | None:
    found = [span for span in spans if span is not None]
    if not found:
        return None
    return Span(min(s.start for s in found), max(s.end for s in found))


@dataclass(frozen=True, slots=True)
class Wait:
    """Decided when the watermark is at `at` or beyond, or with `strictly` beyond it; None: at once."""

    at: int | None = None
    strictly: bool = False

    def over(self, watermark: int | None) -> bool:
        if self.at is None:
            return True
        if watermark is None:
            return False
        return watermark > self.at if self.strictly else watermark >= self.at


AT_ONCE = Wait()


def later(waits: Iterable[Wait]) -> Wait:
    known = [wait for wait in waits if wait.at is not None]
    return max(known, key=lambda wait: (wait.at, wait.strictly), default=Wait())


class Violated(Exception):
    """An order or a window does not hold."""


@dataclass(frozen=True, slots=True)
class Part:
    """The interval of a part of the tree, and the hull of its documents."""

    full: Span
    inner: Span


Chosen = Mapping[shape.Tree, "tuple[Span, Span] | Sequence[Instance] | None"]


class Timing:
    """Order and windows of one choice. `inserted` is an absence with the match that is tried in its
    place; `filling` is a group that is not complete. `runs`: groups are not the longest ones, so that
    they neither wait nor have a deadline."""

    def __init__(
        self,
        unit: shape.Unit,
        chosen: Chosen,
        tree: shape.Tree,
        inserted: tuple[shape.Absence, Span] | None = None,
        filling: shape.Group | None = None,
        runs: bool = False,
    ) -> None:
        self.unit = unit
        self.chosen = chosen
        self.tree = tree
        self.inserted = inserted
        self.filling = filling
        self.runs = runs
        self.found_waits: list[Wait] = []

    def whole(self) -> Span | None:
        """The interval of the match, None where an order or a window does not hold."""
        part = self.checked()
        return None if part is None else part.full

    def checked(self) -> Part | None:
        self.found_waits = []
        try:
            part = self._part(self.tree, self.unit.within)
        except Violated:
            return None
        if part is None:
            return None
        within = self.unit.within
        measured = part.inner if self.inserted is not None else part.full
        return None if within is not None and measured.length > within else part

    def waits(self) -> list[Wait]:
        """When each absence and each longest group is decided, after `whole`."""
        return self.found_waits

    # -- parts ---------------------------------------------------------------------------------

    def _part(self, tree: shape.Tree, within: int | None) -> Part | None:
        """`within` is the WITHIN of the unit where this is all of it."""
        match tree:
            case shape.List():
                return self._list(tree.items, tree.windows, within)
            case shape.Both():
                return self._join(tree, within)
            case shape.Group() | shape.Absence():
                return self._list([tree], [(None, False)], within)
        found = self.chosen.get(tree)
        assert found is None or isinstance(found, tuple)
        return None if found is None else Part(*found)

    def _item(self, item: shape.Tree) -> Part | None:
        if isinstance(item, shape.Absence):
            if self.inserted is None or self.inserted[0] is not item:
                return None
            return Part(self.inserted[1], self.inserted[1])
        if isinstance(item, shape.Group):
            elements = self._elements(item)
            if not elements:
                return None
            full, inner = hull(e.span for e in elements), hull(e.inner for e in elements)
            assert full is not None
            assert inner is not None
            return Part(full, inner)
        return self._part(item, None)

    def _elements(self, group: shape.Group) -> Sequence[Instance]:
        return self.chosen.get(group) or ()  # type: ignore[return-value]

    def _measure(self, full: Span | None, inner: Span | None) -> int:
        span = inner if self.inserted is not None else full
        return 0 if span is None else span.length

    def _list(
        self,
        items: Sequence[shape.Tree],
        windows: Sequence[tuple[int | None, bool]],
        within: int | None,
    ) -> Part | None:
        parts = [self._item(item) for item in items]
        full: Span | None = None
        inner: Span | None = None
        behind = False  # whether the group that is filled stands before
        ends: list[int | None] = []  # by item the end of what stands before it
        for item, part, (window, after) in zip(items, parts, windows, strict=True):
            before = full
            ends.append(None if before is None else before.end)
            if part is not None:
                if before is not None and not before.end < part.full.start:
                    raise Violated
                full, inner = hull([full, part.full]), hull([inner, part.inner])
                assert full is not None
                assert inner is not None
                if (
                    window is not None
                    and after
                    and (before is not None and not behind and part.full.end > before.end + window)
                ):
                    raise Violated
            # Also where nothing is in this place.
            if window is not None and not after and self._measure(full, inner) > window:
                raise Violated
            behind = behind or (self.filling is not None and self._holds(item, self.filling))
        if full is None or inner is None:
            return None
        return self._ended(items, windows, parts, ends, Part(full, inner), within)

    def _holds(self, tree: shape.Tree, sought: shape.Tree) -> bool:
        match tree:
            case shape.List():
                return any(self._holds(item, sought) for item in tree.items)
            case shape.Both():
                return self._holds(tree.left, sought) or self._holds(tree.right, sought)
        return tree is sought

    def _ended(
        self,
        items: Sequence[shape.Tree],
        windows: Sequence[tuple[int | None, bool]],
        parts: Sequence[Part | None],
        ends: Sequence[int | None],
        part: Part,
        within: int | None,
    ) -> Part:
        """The list with the deadlines of what stands at its end, and what its items wait for."""
        present = [n for n, each in enumerate(parts) if each is not None]
        last = max(present)
        full = part.full
        start, end = full.start, full.end
        for number, item in enumerate(items):
            group = isinstance(item, shape.Group)
            if not isinstance(item, shape.Absence) and (not group or self.runs):
                continue
            if self.inserted is not None and (item is self.inserted[0] or last == number):
                continue
            following = [n for n in present if n > number]
            if following:
                first = parts[following[0]]
                assert first is not None
                self.found_waits.append(Wait(first.full.start))
                continue
            if item is self.filling:
                continue
            if isinstance(item, shape.Group) and self._is_run(item):
                self.found_waits.append(Wait(self._elements(item)[-1].span.end, True))
                continue
            deadline = _deadline(start, windows, ends, number, last, part, within, group=group)
            if deadline is not None:
                end = max(end, deadline)
                self.found_waits.append(Wait(deadline, True))
        return Part(Span(start, end), part.inner)

    def _is_run(self, group: shape.Group) -> bool:
        return group.most is not None and len(self._elements(group)) == group.most

    # -- JOIN ----------------------------------------------------------------------------------

    def _join(self, tree: shape.Both, within: int | None) -> Part | None:
        operands, windows = _chain(tree)
        full: Span | None = None
        inner: Span | None = None
        starts: list[int | None] = []  # by operand the start of the hull up to it
        for operand, window in zip(operands, windows, strict=True):
            part = self._item(operand)
            if part is not None:
                full, inner = hull([full, part.full]), hull([inner, part.inner])
            if window is not None and self._measure(full, inner) > window:
                raise Violated
            starts.append(None if full is None else full.start)
        if full is None or inner is None:
            return None
        end = full.end
        for number, operand in enumerate(operands):
            if not isinstance(operand, shape.Group | shape.Absence) or operand is self.filling:
                continue
            if isinstance(operand, shape.Group) and self.runs:
                continue
            if self.inserted is not None and operand is self.inserted[0]:
                continue
            if isinstance(operand, shape.Group) and self._is_run(operand):
                self.found_waits.append(Wait(self._elements(operand)[-1].span.end, True))
                continue
            deadlines = [
                start + window
                for start, window in list(zip(starts, windows, strict=True))[number:]
                if window is not None and start is not None
            ]
            if within is not None:
                deadlines.append(full.start + within)
            if deadlines:
                end = max(end, min(deadlines))
                self.found_waits.append(Wait(min(deadlines), True))
        return Part(Span(full.start, end), inner)


def _deadline(
    start: int,
    windows: Sequence[tuple[int | None, bool]],
    ends: Sequence[int | None],
    number: int,
    last: int,
    part: Part,
    within: int | None,
    *,
    group: bool,
) -> int | None:
    """The least of the deadlines that the windows at or after an item at the end of a list give. An
    AFTER behind a `group` is none of them, as it does not bound what the group takes."""
    found = []
    for at in range(number, len(windows)):
        window, after = windows[at]
        if window is None:
            continue
        if not after:
            found.append(start + window)
        elif not (group and at > number):
            before = ends[min(at, number)] if number <= last else part.full.end
            if before is not None:
                found.append(before + window)
    if within is not None:
        found.append(start + within)
    return min(found, default=None)


def _chain(tree: shape.Both) -> tuple[list[shape.Tree], list[int | None]]:
    operands: list[shape.Tree] = []
    windows: list[int | None] = []
    rest: shape.Tree = tree
    while isinstance(rest, shape.Both):
        operands.append(rest.right)
        windows.append(rest.window)
        rest = rest.left
    operands.append(rest)
    windows.append(None)
    return operands[::-1], windows[::-1]
