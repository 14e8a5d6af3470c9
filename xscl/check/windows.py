"""Warnings about windows that are too short for what they hold, or wait too long, so that nothing
can ever match.

In: a query whose windows are numbers. Out: warnings. What comes one after the other is apart by a
microsecond at least, the unit of time, so a list of k documents lasts k - 1 of them.
"""

from __future__ import annotations

from xscl import ast
from xscl.check.findings import Findings
from xscl.check.shapes import (
    Item,
    holds,
    is_document,
    is_positive,
    items,
    may_be_empty,
    parts_of,
)
from xscl.check.sites import chooses
from xscl.errors import Diagnostic
from xscl.syntax.durations import UNITS, format_microseconds

_LONGEST = UNITS["ms"]
"""Microseconds beyond which a match is not measured. So no window of a millisecond or more is too
short, and statements that differ in such windows only need not be checked one by one."""


def window_warnings(query: ast.Query) -> list[Diagnostic]:
    """The warnings about the windows of a query and of those in its FROM."""
    found = Findings()
    _Windows(found).query(query)
    return found.warnings


class _Windows:
    """A walk that gives of each pattern the microseconds that its shortest match lasts."""

    def __init__(self, found: Findings) -> None:
        self.found = found

    def query(self, query: ast.Query) -> int:
        strategy = query.strategy
        runs = strategy is not None and strategy.selection in ast.RUNS
        least = self.bounded(query.pattern, query.within, runs)
        if query.wait is not None and query.wait.microseconds is None and _waits(query):
            self.found.warn(
                "empty-window",
                "what waits for INFINITY is never decided, so no match is ever published",
                query.wait.span,
                "say how late documents may come, as in WAIT 1 h",
            )
        return 0 if query.at_end else least

    def bounded(self, pattern: ast.Pattern, within: ast.Duration | None, runs: bool) -> int:
        """A pattern that a WITHIN is about."""
        if isinstance(pattern, ast.Join) and pattern.kind == "FOLLOWED BY":
            least = self.listed(items(pattern), within, runs)
        else:
            least = self.pattern(pattern, runs)
        self.holds(within, least)
        return least

    def pattern(self, pattern: ast.Pattern, runs: bool) -> int:
        match pattern:
            case ast.Nested():
                return self.query(pattern.query)
            case ast.Join(kind="FOLLOWED BY"):
                return self.listed(items(pattern), None, runs)
            case ast.Join(kind="JOIN"):
                least = max(self.pattern(pattern.left, runs), self.pattern(pattern.right, runs))
                self.holds(pattern.window, least)
                return least
            case ast.Join() | ast.Fold():
                left, right = self.pattern(pattern.left, runs), self.pattern(pattern.right, runs)
                least = min(left + 1 + right, _LONGEST)
                if isinstance(pattern, ast.Join):
                    self.holds(pattern.window, 1 + right if pattern.after else least)
                return least
            case ast.Alternatives():
                return min([self.pattern(branch, runs) for branch in pattern.branches])
            case ast.Negation():
                self.pattern(pattern.pattern, False)
                return 0
            case ast.Group():
                element = self.pattern(pattern.pattern, runs)
                # Where it is no run, a group takes documents of the same time too.
                apart = runs or not is_document(pattern.pattern)
                length = pattern.least * (element + 1) - 1
                return min(max(length, 0), _LONGEST) if apart else 0
            case ast.Parenthesis():
                return self.bounded(pattern.pattern, pattern.within, runs)
        return 0

    def listed(self, listed: list[Item], within: ast.Duration | None, runs: bool) -> int:
        """A list; `within` is a window over all of it."""
        least = -1  # of the items so far that are in every match; with none of them, of nothing
        spare: list[int | None] = []  # how much longer than that the window at each item is
        lengths: list[int] = []
        for item in listed:
            if isinstance(item.pattern, ast.Negation):
                length = self.pattern(item.pattern.pattern, False)
            else:
                length = self.pattern(item.pattern, runs)
            lengths.append(length)
            begun = least >= 0
            sure = is_positive(item.pattern) and not may_be_empty(item.pattern)
            if sure:
                least = min(least + 1 + length, _LONGEST)
                if begun or not item.after:
                    self.holds(item.window, 1 + length if item.after else least)
            window = None if item.window is None else item.window.microseconds
            if window is None or least < 0:
                spare.append(None)
            elif not item.after:
                spare.append(window - least)
            else:
                # Behind NOTs alone, AFTER is measured from the end of what they forbid.
                spare.append(0 if sure and not begun and window <= least else None)
        if within is not None and within.microseconds is not None and least >= 0:
            spare[-1] = _less(spare[-1], within.microseconds - least)
        self.forbidding(listed, lengths, spare)
        return max(least, 0)

    def forbidding(self, listed: list[Item], lengths: list[int], spare: list[int | None]) -> None:
        """Warn of each NOT that forbids nothing, as what it forbids has no place in the windows at
        and behind it."""
        room: int | None = None
        for item, length, here in zip(listed[::-1], lengths[::-1], spare[::-1], strict=True):
            room = _less(room, here)
            if isinstance(item.pattern, ast.Negation):
                own = item.window.microseconds if item.window and item.after else None
                most = _less(room, own)
                if most is not None and 0 <= most <= length:
                    self.found.warn(
                        "empty-window",
                        "this NOT forbids nothing: in its window nothing can come before or after "
                        "the other documents",
                        item.pattern.span,
                        "a longer window gives it a place, as in {1 h}",
                    )

    def holds(self, window: ast.Duration | None, least: int) -> None:
        """Warn of a window that is shorter than all that it could hold."""
        if window is None or window.microseconds is None or window.microseconds >= least:
            return
        self.found.warn(
            "empty-window",
            f"nothing can ever match in {format_microseconds(window.microseconds)}: these documents"
            " come one after the other, never at the same time",
            window.span,
            "write a longer window, as in {1 h}; JOIN also takes documents of the same time",
        )


def _less(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _waits(query: ast.Query) -> bool:
    """Whether matches are published only when nothing more can come that changes them."""
    strategy = query.strategy
    if query.over is not None or (strategy is not None and strategy.selection in ast.RUNS):
        return True
    if strategy is not None and strategy.choosing is not None:
        return True
    if _chosen(query.pattern):
        return True
    # All combinations of a group are published as their documents come.
    free = strategy is not None and strategy.selection is not None
    return not free and holds(query.pattern, ast.Group)


def _chosen(pattern: ast.Pattern) -> bool:
    """Whether NEXT, FOLD or NOT stands in it."""
    if chooses(pattern) or isinstance(pattern, ast.Negation):
        return True
    return any(map(_chosen, parts_of(pattern)))
