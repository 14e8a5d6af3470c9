"""Strategies that fit their pattern, choices that are not too many, and windows that end a wait."""

from __future__ import annotations

from collections.abc import Iterator

from xscl import ast
from xscl.check.findings import Findings
from xscl.check.shapes import finite, is_document, items, parts_of
from xscl.check.sites import chooses, conjuncts

MAX_CHOICES = 256
"""The choices among the branches of ORs that one pattern may have: each is matched by itself."""


class Strategies:
    """The errors and warnings of one query."""

    def __init__(self, query: ast.Query, found: Findings) -> None:
        self.found = found
        self.query = query
        strategy = query.strategy
        self.selection = None if strategy is None else strategy.selection
        self.choices()
        self.strategy()
        self.unbounded()

    def choices(self) -> None:
        """An error where the choices among the branches of several ORs multiply too far."""
        apart: list[int] = []
        most = max(_choices(self.query.pattern, apart), *apart, 0)
        if most > MAX_CHOICES:
            self.found.error(
                "too-many-choices",
                f"these ORs are {most:,} patterns, one for each choice of their branches; at most"
                f" {MAX_CHOICES} are accepted",
                self.query.pattern.span,
                "publish each OR as a stream of its own, and read that: S/a OR S/b PUBLISH either",
            )

    def strategy(self) -> None:
        query, selection = self.query, self.selection
        if selection is None or query.strategy is None:
            return
        place = query.strategy.span
        parts = list(_outside_negation(query.pattern))
        if selection == "PARTITION CONTIGUITY" and not query.partition:
            hint = "as in PARTITION BY ./symbol USING PARTITION CONTIGUITY"
            self.found.error("partition-missing", "there is no PARTITION BY", place, hint)
        wrong = next((p for p in parts if chooses(p)), None)
        if wrong is not None:
            word = "FOLD" if isinstance(wrong, ast.Fold) else "NEXT"
            message = f"{word} chooses its documents itself, so {selection} has nothing to choose"
            hint = "leave USING out, or write FOLLOWED BY"
            self.found.error("strategy-pattern", message, wrong.span, hint)
        elif selection in ast.RUNS:
            odd = _not_a_run(query.pattern)
            if odd is not None:
                message = (
                    f"{selection} takes one document after the other: a list of blocks, of ORs of "
                    "blocks, and of groups of these"
                )
                self.found.error(
                    "strategy-pattern", message, odd.span, "PUBLISH this part as a stream"
                )
        elif any(isinstance(p, ast.Group) for p in parts):
            if not finite(query.within):
                message = "all combinations of this group need a window over the whole pattern"
                group = next(p for p in parts if isinstance(p, ast.Group))
                self.found.error("unbounded-group", message, group.span, "as in WITHIN 1 h")
            else:
                message = "a group has a match for each combination of its documents"
                hint = "without SKIP TILL ANY MATCH it has one, of all of them"
                self.found.warn("exponential", message, place, hint)

    def unbounded(self) -> None:
        """A warning where something waits, and no window says for how long."""
        query = self.query
        if query.over is not None and not finite(query.over.window):
            message = "a window without end keeps every match there ever was"
            self.found.warn("unbounded", message, query.over.span, "as in OVER 1 week")
        if finite(query.within) or _bounded(query.pattern) or _limited(query.where):
            return
        waiting = self.selection in ast.RUNS or any(map(_waits, _outside_negation(query.pattern)))
        if waiting:
            message = "without a window, what has begun waits for its end for ever"
            self.found.warn("unbounded", message, query.pattern.span, "as in WITHIN 1 week")


def _choices(pattern: ast.Pattern, apart: list[int]) -> int:
    """In how many ways one branch of each OR can be chosen; `apart` gets those of parts that are
    judged by themselves."""
    match pattern:
        case ast.Alternatives():
            return sum([_choices(branch, apart) for branch in pattern.branches])
        case ast.Join(kind="JOIN" | "FOLLOWED BY"):
            return _choices(pattern.left, apart) * _choices(pattern.right, apart)
        case ast.Parenthesis(where=None, within=None):
            return _choices(pattern.pattern, apart)
    for part in parts_of(pattern):
        apart.append(_choices(part, apart))
    return 1


def _outside_negation(pattern: ast.Pattern) -> Iterator[ast.Pattern]:
    """The pattern and its parts at any depth, down to NOT."""
    yield pattern
    if not isinstance(pattern, ast.Negation):
        for part in parts_of(pattern):
            yield from _outside_negation(part)


def _waits(pattern: ast.Pattern) -> bool:
    return chooses(pattern) or isinstance(pattern, ast.Group)


def _not_a_run(pattern: ast.Pattern) -> ast.Pattern | None:
    """The first part of a pattern that a run cannot take, if any."""
    for item in items(pattern):
        part = item.pattern
        if isinstance(part, ast.Negation):
            continue
        if isinstance(part, ast.Group):
            inner = part.pattern
            if isinstance(inner, ast.Alternatives):
                inner = ast.Parenthesis(inner, span=inner.span)
            elements = [each.pattern for each in items(inner)]
        else:
            elements = [part]
        for element in elements:
            if not is_document(element):
                return element
    return None


def _bounded(pattern: ast.Pattern) -> bool:
    """Whether windows bound how long a match lasts."""
    match pattern:
        case ast.Block() | ast.Nested() | ast.Negation():
            return True
        case ast.Join():
            if finite(pattern.window) and not pattern.after:
                return True
            if _limited(pattern.predicate) and pattern.kind == "NEXT":
                return True
            return pattern.after and finite(pattern.window) and _bounded(pattern.left)
        case ast.Fold():
            return _limited(pattern.filter)
        case ast.Alternatives():
            return all(map(_bounded, pattern.branches))
        case ast.Group():
            return False
        case ast.Parenthesis():
            within = finite(pattern.within) or _limited(pattern.where)
            return within or _bounded(pattern.pattern)


def _limited(predicate: ast.Expr | None) -> bool:
    """Whether a predicate says `duration() <= 600` or the like."""
    if predicate is None:
        return False
    for part in conjuncts(predicate):
        match part:
            case ast.Comparison(op="<" | "<=" | "=", left=ast.Call(name="duration", args=())):
                return True
            case ast.Comparison(op=">" | ">=" | "=", right=ast.Call(name="duration", args=())):
                return True
    return False
