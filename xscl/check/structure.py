"""Absences and groups that have a meaning and an end: a walk through the pattern of a query with
what is around the current place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from xscl import ast
from xscl.check.findings import Findings
from xscl.check.shapes import absences, finite, holds, is_positive, items, may_be_empty


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around a pattern: a finite window over all of it and what stands before (`window`),
    one that is the deadline of its end (`deadline`), and whether it is inside NOT or a group."""

    window: bool = False
    deadline: bool = False
    negated: bool = False
    grouped: bool = False


class Structure:
    """The walk through the pattern of one query."""

    def __init__(self, query: ast.Query, found: Findings) -> None:
        self.found = found
        self.query = query
        strategy = query.strategy
        self.selection = None if strategy is None else strategy.selection
        within = finite(query.within)
        self.whole(query.pattern, _Around(window=within, deadline=within))

    # -- the places of a pattern ---------------------------------------------------------------

    def whole(self, pattern: ast.Pattern, around: _Around) -> None:
        """The pattern of a query, of parentheses or of a branch, which needs something positive."""
        if isinstance(pattern, ast.Alternatives):
            self.alternatives(pattern, around)
            return
        if not is_positive(pattern):
            self.found.error(
                "negation-alone",
                "this only says what is absent: there is no document to publish a match for",
                pattern.span,
                "say after or before what it is absent: S/a FOLLOWED BY {1 h} NOT S/b",
            )
        elif may_be_empty(pattern):
            self.found.error(
                "empty-pattern",
                "this may be empty, and a match of nothing is none",
                pattern.span,
                "write + for * where at least one is needed",
            )
        else:
            self.pattern(pattern, around)

    def pattern(self, pattern: ast.Pattern, around: _Around) -> None:
        match pattern:
            case ast.Join(kind="JOIN"):
                self.join(pattern, around)
            case ast.Join(kind="NEXT") | ast.Fold():
                self.chosen(pattern, around)
            case ast.Join():
                self.sequence(pattern, around)
            case ast.Alternatives():
                self.alternatives(pattern, around)
            case ast.Parenthesis():
                self.parenthesis(pattern, around)
            case ast.Negation():
                self.negation(pattern, around)
            case ast.Group():
                self.group(pattern, around)
                if self.selection not in ast.RUNS and not around.deadline and not around.negated:
                    self.endless(pattern)

    def alternatives(self, pattern: ast.Alternatives, around: _Around) -> None:
        for branch in pattern.branches:
            self.whole(branch, around)
        chains = [b for b in pattern.branches if isinstance(b, ast.Join | ast.Fold)]
        if chains and len(chains) < len(pattern.branches):
            self.found.warn(
                "or-without-parentheses",
                "OR binds least: this is one pattern or the other, as a whole",
                pattern.span,
                "parentheses say what is meant: (S/a OR S/b) FOLLOWED BY S/c",
            )

    def parenthesis(self, pattern: ast.Parenthesis, around: _Around) -> None:
        own = finite(pattern.within)
        judged = pattern.where is not None or pattern.within is not None
        inner = pattern.pattern
        inside = _Around(around.window or own, own, around.negated, around.grouped)
        if not judged and not is_positive(inner):
            # Absences side by side stand where the parentheses stand.
            for each in absences(inner):
                self.negation(each, around)
            return
        self.whole(inner, inside)

    def negation(self, pattern: ast.Negation, around: _Around) -> None:
        inner = pattern.pattern
        if around.negated or holds(inner, ast.Negation):
            self.found.error(
                "negation-nesting",
                "NOT stands inside NOT",
                pattern.span,
                "what is forbidden holds no NOT of its own: PUBLISH it, and forbid that stream",
            )
        elif may_be_empty(inner):
            self.found.error(
                "negation-empty",
                "this may be empty, and what may be empty is always there",
                pattern.span,
                "NOT (S/b)+ forbids any S/b",
            )
        elif isinstance(inner, ast.Group):
            self.group(inner, _Around(True, True, True))
        else:
            self.pattern(inner, _Around(around.window, False, True))

    def group(self, pattern: ast.Group, around: _Around) -> None:
        inner = pattern.pattern
        if around.grouped or holds(inner, ast.Group, ast.Fold):
            self.found.error(
                "group-nesting",
                "a group holds no group and no FOLD",
                pattern.span,
                "PUBLISH the inner one, and group that stream",
            )
        elif may_be_empty(inner):
            self.whole(inner, around)
        else:
            self.whole(inner, _Around(around.window, False, around.negated, True))

    # -- lists ---------------------------------------------------------------------------------

    def sequence(self, pattern: ast.Join, around: _Around) -> None:
        """A list: absences and groups at its start and at its end need a window."""
        listed = items(pattern)
        positive = [is_positive(each.pattern) for each in listed]
        first = positive.index(True) if True in positive else len(listed)
        last = len(listed) - 1 - positive[::-1].index(True) if True in positive else -1
        # A group that is empty in a match is not there: what stands before it ends its list.
        there = [n for n, each in enumerate(listed) if not may_be_empty(each.pattern)]
        sure = max(there, default=-1)
        for number, item in enumerate(listed):
            later = listed[max(number, 1) :]
            window = around.window or any(finite(x.window) and not x.after for x in later)
            grouped = isinstance(item.pattern, ast.Group)
            # An AFTER behind a group does not bound what the group takes.
            deadline = around.deadline or any(
                finite(x.window) and not (grouped and x.after and x is not item) for x in later
            )
            if number < first:
                behind = listed[number + 1 : first + 1]
                if not window and not any(x.after and finite(x.window) for x in behind[-1:]):
                    self.open_start(item.pattern)
            elif number > sure and not positive[number] and not deadline:
                self.open_end(item.pattern)
            last_one = number == last and grouped
            if last_one and not deadline and self.selection not in ast.RUNS and not around.negated:
                self.endless(item.pattern)
            inside = _Around(window, False, around.negated, around.grouped)
            if isinstance(item.pattern, ast.Group):
                self.group(item.pattern, inside)
            else:
                self.pattern(item.pattern, inside)
        self.separated([each.pattern for each in listed])

    def open_start(self, pattern: ast.Pattern) -> None:
        self.found.error(
            "negation-window",
            "nothing says how far to look back for what must not have been",
            pattern.span,
            "a window bounds it: NOT S/b FOLLOWED BY {1 h} S/a, or WITHIN 1 h",
        )

    def open_end(self, pattern: ast.Pattern) -> None:
        self.found.error(
            "negation-window",
            "nothing says until when it must not come, so no match would ever be certain",
            pattern.span,
            "a window ends the wait: S/a FOLLOWED BY {1 h} NOT S/b, or WITHIN 1 h",
        )

    def endless(self, pattern: ast.Pattern) -> None:
        if self.selection == "SKIP TILL ANY MATCH":
            return  # it needs WITHIN, which is another rule
        self.found.error(
            "group-window",
            "nothing says when this group is complete",
            pattern.span,
            "a window ends it: S/a FOLLOWED BY {1 h} (S/b)+, or WITHIN 1 h",
        )

    def separated(self, items: list[ast.Pattern]) -> None:
        """Longest groups need something between them that is neither a group nor a NOT."""
        if self.selection is not None:
            return
        positive = [each for each in items if is_positive(each)]
        for one, other in pairwise(positive):
            if isinstance(one, ast.Group) and isinstance(other, ast.Group):
                self.adjacent(
                    other, "these groups have nothing between them that says where one ends"
                )
                return
        groups = [each for each in positive if isinstance(each, ast.Group)]
        if groups and len(groups) == len(positive) and len(items) > len(groups):
            self.adjacent(groups[0], "beside this group there is no block or parenthesis")

    def adjacent(self, pattern: ast.Pattern, message: str) -> None:
        hint = (
            "put the group and what belongs to it into parentheses, or say a strategy: "
            "USING SKIP TILL NEXT MATCH"
        )
        self.found.error("adjacent-groups", message, pattern.span, hint)

    # -- other operators -----------------------------------------------------------------------

    def join(self, pattern: ast.Join, around: _Around) -> None:
        """A chain of JOINs, each operand with the windows at or after it."""
        operands: list[tuple[ast.Pattern, bool]] = []
        within = False
        rest: ast.Pattern = pattern
        while isinstance(rest, ast.Join) and rest.kind == "JOIN":
            within = within or finite(rest.window)
            operands.append((rest.right, within))
            rest = rest.left
        operands.append((rest, within))
        operands.reverse()
        for operand, bounded in operands:
            window = around.window or bounded
            deadline = around.deadline or bounded
            inside = _Around(window, False, around.negated, around.grouped)
            if not is_positive(operand) and not deadline:
                self.open_end(operand)
            elif isinstance(operand, ast.Group):
                if not deadline and self.selection not in ast.RUNS:
                    self.endless(operand)
                self.group(operand, inside)
            else:
                self.pattern(operand, inside)
        parts = [operand for operand, _ in operands]
        if self.selection is None:
            positive = [each for each in parts if is_positive(each)]
            if positive and all(isinstance(each, ast.Group) for each in positive):
                self.adjacent(positive[0], "a JOIN of groups has no document that they belong to")

    def chosen(self, pattern: ast.Join | ast.Fold, around: _Around) -> None:
        """NEXT and FOLD: their operands are matches, which absences and groups alone are not."""
        word = "FOLD" if isinstance(pattern, ast.Fold) else "NEXT"
        for operand in (pattern.left, pattern.right):
            if not is_positive(operand):
                self.found.error(
                    "negation-operand",
                    f"{word} needs a document on either side, and this says that there is none",
                    operand.span,
                    "an absence belongs to a list: S/a FOLLOWED BY NOT S/b FOLLOWED BY S/c",
                )
                return
            if isinstance(operand, ast.Group):
                self.found.error(
                    "group-operand",
                    f"{word} takes one document or match after the other, not a group",
                    operand.span,
                    "FOLD takes one after the other; a group stands in a list: "
                    "S/a FOLLOWED BY (S/b)+ FOLLOWED BY S/c",
                )
                return
        if around.grouped and isinstance(pattern, ast.Fold):
            return  # reported with the group
        inside = _Around(around.window, False, around.negated, around.grouped)
        self.pattern(pattern.left, inside)
        self.pattern(pattern.right, inside)
