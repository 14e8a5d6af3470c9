"""Static checks of Part 2: absences, groups and strategies that have a meaning and an end.

In: a query whose variables are all bound. Out: errors and warnings. `_Structure` walks through the
pattern with what is around the current place; the rules about variables are in `scopes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from xscl import ast
from xscl.check.scopes import check_scopes, conjuncts
from xscl.errors import Diagnostic, Span
from xscl.functions.elements import DURATION, ELEMENT_FUNCTIONS

MAX_CHOICES = 256
"""The choices among the branches of ORs that one pattern may have: each is matched by itself."""

_RUNS = ("SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY")


def is_pattern(query: ast.Query) -> bool:
    """Whether a query uses anything of Part 2; those nested in FROM do not count."""
    clauses = (query.partition, query.strategy, query.wait, query.over, query.at_end)
    return any(clauses) or _extends(query.pattern) or _calls(query)


def holds_pattern(query: ast.Query) -> bool:
    """Whether a query, or one in its FROM, uses anything of Part 2."""
    if is_pattern(query):
        return True
    stack = [query.pattern]
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, ast.Nested) and holds_pattern(pattern.query):
            return True
        stack += _parts(pattern)
    return False


def _extends(pattern: ast.Pattern) -> bool:
    match pattern:
        case ast.Block() | ast.Nested():
            return False
        case ast.Join():
            if pattern.kind == "NEXT" or pattern.after:
                return True
            return _extends(pattern.left) or _extends(pattern.right)
    return True


def _calls(query: ast.Query) -> bool:
    """Whether predicates or SELECT call functions of Part 2."""
    exprs: list[ast.Expr | None] = [query.where]
    stack = [query.pattern]
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, ast.Join):
            exprs.append(pattern.predicate)
            stack += [pattern.left, pattern.right]
    selected: list[ast.SelectItem | ast.Element | str | ast.Expr] = []
    if isinstance(query.select, ast.Element):
        selected.append(query.select)
    else:
        exprs += [item.expr for item in query.select or ()]
    while selected:
        part = selected.pop()
        if isinstance(part, ast.Element):
            selected += [*(p for _, parts in part.attributes for p in parts), *part.content]
        elif not isinstance(part, str | ast.SelectItem):
            exprs.append(part)
    return any(expr is not None and _calls_one(expr) for expr in exprs)


def _calls_one(expr: ast.Expr) -> bool:
    match expr:
        case ast.Call(name=name, args=args):
            own = name in ELEMENT_FUNCTIONS or name == DURATION
            return own or any(map(_calls_one, args))
        case ast.And(parts=parts) | ast.Or(parts=parts):
            return any(map(_calls_one, parts))
        case ast.Not(part=part):
            return _calls_one(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            return _calls_one(left) or _calls_one(right)
    return False


def check_pattern(query: ast.Query) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The errors and the warnings of a query for which `is_pattern` holds."""
    structure = _Structure(query)
    errors = structure.errors or check_scopes(query)
    return errors, [] if errors else structure.warnings


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around a pattern: a finite window over all of it and what stands before (`window`),
    one that is the deadline of its end (`deadline`), and whether it is inside NOT or a group."""

    window: bool = False
    deadline: bool = False
    negated: bool = False
    grouped: bool = False


class _Structure:
    """The walk through the pattern of one query."""

    def __init__(self, query: ast.Query) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.query = query
        strategy = query.strategy
        self.selection = None if strategy is None else strategy.selection
        finite = _finite(query.within)
        self.whole(query.pattern, _Around(window=finite, deadline=finite))
        self.choices()
        self.strategy()
        self.unbounded()

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.errors.append(Diagnostic(code, message, span, hint))

    def warn(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.warnings.append(Diagnostic(code, message, span, hint, "warning"))

    # -- the places of a pattern ---------------------------------------------------------------

    def whole(self, pattern: ast.Pattern, around: _Around) -> None:
        """The pattern of a query, of parentheses or of a branch, which needs something positive."""
        if isinstance(pattern, ast.Alternatives):
            self.alternatives(pattern, around)
            return
        if not _positive(pattern):
            self.error(
                "negation-alone",
                "this only says what is absent: there is no document to publish a match for",
                pattern.span,
                "say after or before what it is absent: S/a FOLLOWED BY {1 h} NOT S/b",
            )
        elif _may_be_empty(pattern):
            self.error(
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
                if self.selection not in _RUNS and not around.deadline and not around.negated:
                    self.endless(pattern)

    def alternatives(self, pattern: ast.Alternatives, around: _Around) -> None:
        for branch in pattern.branches:
            self.whole(branch, around)
        chains = [b for b in pattern.branches if isinstance(b, ast.Join | ast.Fold)]
        if chains and len(chains) < len(pattern.branches):
            self.warn(
                "or-without-parentheses",
                "OR binds least: this is one pattern or the other, as a whole",
                pattern.span,
                "parentheses say what is meant: (S/a OR S/b) FOLLOWED BY S/c",
            )

    def parenthesis(self, pattern: ast.Parenthesis, around: _Around) -> None:
        own = _finite(pattern.within)
        judged = pattern.where is not None or pattern.within is not None
        inner = pattern.pattern
        inside = _Around(around.window or own, own, around.negated, around.grouped)
        if not judged and not _positive(inner):
            # Absences side by side stand where the parentheses stand.
            for each in _absences(inner):
                self.negation(each, around)
            return
        self.whole(inner, inside)

    def negation(self, pattern: ast.Negation, around: _Around) -> None:
        inner = pattern.pattern
        if around.negated or _holds(inner, ast.Negation):
            self.error(
                "negation-nesting",
                "NOT stands inside NOT",
                pattern.span,
                "what is forbidden holds no NOT of its own: PUBLISH it, and forbid that stream",
            )
        elif _may_be_empty(inner):
            self.error(
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
        if around.grouped or _holds(inner, ast.Group, ast.Fold):
            self.error(
                "group-nesting",
                "a group holds no group and no FOLD",
                pattern.span,
                "PUBLISH the inner one, and group that stream",
            )
        elif _may_be_empty(inner):
            self.whole(inner, around)
        else:
            self.whole(inner, _Around(around.window, False, around.negated, True))

    # -- lists ---------------------------------------------------------------------------------

    def sequence(self, pattern: ast.Join, around: _Around) -> None:
        """A list: absences and groups at its start and at its end need a window."""
        items = _items(pattern)
        positive = [_positive(each.pattern) for each in items]
        first = positive.index(True) if True in positive else len(items)
        last = len(items) - 1 - positive[::-1].index(True) if True in positive else -1
        for number, item in enumerate(items):
            later = items[max(number, 1) :]
            window = around.window or any(_finite(x.window) and not x.after for x in later)
            deadline = around.deadline or any(_finite(each.window) for each in later)
            if number < first:
                behind = items[number + 1 : first + 1]
                if not window and not any(x.after and _finite(x.window) for x in behind[-1:]):
                    self.open_start(item.pattern)
            elif number > last and not deadline:
                self.open_end(item.pattern)
            last_one = number == last and isinstance(item.pattern, ast.Group)
            if last_one and not deadline and self.selection not in _RUNS and not around.negated:
                self.endless(item.pattern)
            inside = _Around(window, around.deadline and False, around.negated, around.grouped)
            if isinstance(item.pattern, ast.Group):
                self.group(item.pattern, inside)
            else:
                self.pattern(item.pattern, inside)
        self.separated([each.pattern for each in items])

    def open_start(self, pattern: ast.Pattern) -> None:
        self.error(
            "negation-window",
            "nothing says how far to look back for what must not have been",
            pattern.span,
            "a window bounds it: NOT S/b FOLLOWED BY {1 h} S/a, or WITHIN 1 h",
        )

    def open_end(self, pattern: ast.Pattern) -> None:
        self.error(
            "negation-window",
            "nothing says until when it must not come, so no match would ever be certain",
            pattern.span,
            "a window ends the wait: S/a FOLLOWED BY {1 h} NOT S/b, or WITHIN 1 h",
        )

    def endless(self, pattern: ast.Pattern) -> None:
        if self.selection == "SKIP TILL ANY MATCH":
            return  # it needs WITHIN, which is another rule
        self.error(
            "group-window",
            "nothing says when this group is complete",
            pattern.span,
            "a window ends it: S/a FOLLOWED BY {1 h} (S/b)+, or WITHIN 1 h",
        )

    def separated(self, items: list[ast.Pattern]) -> None:
        """Longest groups need something between them that is neither a group nor a NOT."""
        if self.selection is not None:
            return
        positive = [each for each in items if _positive(each)]
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
        self.error("adjacent-groups", message, pattern.span, hint)

    # -- other operators -----------------------------------------------------------------------

    def join(self, pattern: ast.Join, around: _Around) -> None:
        """A chain of JOINs, each operand with the windows at or after it."""
        operands: list[tuple[ast.Pattern, bool]] = []
        finite = False
        rest: ast.Pattern = pattern
        while isinstance(rest, ast.Join) and rest.kind == "JOIN":
            finite = finite or _finite(rest.window)
            operands.append((rest.right, finite))
            rest = rest.left
        operands.append((rest, finite))
        operands.reverse()
        for operand, bounded in operands:
            window = around.window or bounded
            deadline = around.deadline or bounded
            inside = _Around(window, False, around.negated, around.grouped)
            if not _positive(operand) and not deadline:
                self.open_end(operand)
            elif isinstance(operand, ast.Group):
                if not deadline and self.selection not in _RUNS:
                    self.endless(operand)
                self.group(operand, inside)
            else:
                self.pattern(operand, inside)
        parts = [operand for operand, _ in operands]
        if self.selection is None:
            positive = [each for each in parts if _positive(each)]
            if positive and all(isinstance(each, ast.Group) for each in positive):
                self.adjacent(positive[0], "a JOIN of groups has no document that they belong to")

    def chosen(self, pattern: ast.Join | ast.Fold, around: _Around) -> None:
        """NEXT and FOLD: their operands are matches, which absences and groups alone are not."""
        word = "FOLD" if isinstance(pattern, ast.Fold) else "NEXT"
        for operand in (pattern.left, pattern.right):
            if not _positive(operand):
                self.error(
                    "negation-operand",
                    f"{word} needs a document on either side, and this says that there is none",
                    operand.span,
                    "an absence belongs to a list: S/a FOLLOWED BY NOT S/b FOLLOWED BY S/c",
                )
                return
            if isinstance(operand, ast.Group):
                self.error(
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

    def choices(self) -> None:
        """An error where the choices among the branches of several ORs multiply too far."""
        apart: list[int] = []
        most = max(_choices(self.query.pattern, apart), *apart, 0)
        if most > MAX_CHOICES:
            self.error(
                "too-many-choices",
                f"these ORs are {most:,} patterns, one for each choice of their branches; at most"
                f" {MAX_CHOICES} are accepted",
                self.query.pattern.span,
                "publish each OR as a stream of its own, and read that: S/a OR S/b PUBLISH either",
            )

    # -- strategies and windows ----------------------------------------------------------------

    def strategy(self) -> None:
        query, selection = self.query, self.selection
        if selection is None or query.strategy is None:
            return
        place = query.strategy.span
        parts = list(_outside_negation(query.pattern))
        if selection == "PARTITION CONTIGUITY" and not query.partition:
            hint = "as in PARTITION BY ./symbol USING PARTITION CONTIGUITY"
            self.error("partition-missing", "there is no PARTITION BY", place, hint)
        wrong = next((p for p in parts if _chooses_itself(p)), None)
        if wrong is not None:
            word = "FOLD" if isinstance(wrong, ast.Fold) else "NEXT"
            message = f"{word} chooses its documents itself, so {selection} has nothing to choose"
            hint = "leave USING out, or write FOLLOWED BY"
            self.error("strategy-pattern", message, wrong.span, hint)
        elif selection in _RUNS:
            odd = _not_a_run(query.pattern)
            if odd is not None:
                message = (
                    f"{selection} takes one document after the other: a list of blocks, of ORs of "
                    "blocks, and of groups of these"
                )
                self.error("strategy-pattern", message, odd.span, "PUBLISH this part as a stream")
        elif any(isinstance(p, ast.Group) for p in parts):
            if not _finite(query.within):
                message = "all combinations of this group need a window over the whole pattern"
                group = next(p for p in parts if isinstance(p, ast.Group))
                self.error("unbounded-group", message, group.span, "as in WITHIN 1 h")
            else:
                message = "a group has a match for each combination of its documents"
                hint = "without SKIP TILL ANY MATCH it has one, of all of them"
                self.warn("exponential", message, place, hint)

    def unbounded(self) -> None:
        """A warning where something waits, and no window says for how long."""
        query = self.query
        if query.over is not None and not _finite(query.over.window):
            message = "a window without end keeps every match there ever was"
            self.warn("unbounded", message, query.over.span, "as in OVER 1 week")
        if _finite(query.within) or _bounded(query.pattern) or _limited(query.where):
            return
        waiting = self.selection in _RUNS or any(map(_waits, _outside_negation(query.pattern)))
        if waiting:
            message = "without a window, what has begun waits for its end for ever"
            self.warn("unbounded", message, query.pattern.span, "as in WITHIN 1 week")


# -- what patterns are made of -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a list, with the window of the operator before it."""

    pattern: ast.Pattern
    window: ast.Duration | None = None
    after: bool = False


def _items(pattern: ast.Pattern) -> list[_Item]:
    """The items of a list, from left to right."""
    items: list[_Item] = []
    while isinstance(pattern, ast.Join) and pattern.kind == "FOLLOWED BY":
        items.append(_Item(pattern.right, pattern.window, pattern.after))
        pattern = pattern.left
    items.append(_Item(pattern))
    return items[::-1]


def _finite(window: ast.Duration | None) -> bool:
    return window is not None and (window.microseconds is not None or window.name is not None)


def _parts(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    match pattern:
        case ast.Join() | ast.Fold():
            return (pattern.left, pattern.right)
        case ast.Alternatives():
            return pattern.branches
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            return (pattern.pattern,)
    return ()


def _outside_negation(pattern: ast.Pattern) -> Iterator[ast.Pattern]:
    """The pattern and its parts at any depth, down to NOT."""
    yield pattern
    if not isinstance(pattern, ast.Negation):
        for part in _parts(pattern):
            yield from _outside_negation(part)


def _holds(pattern: ast.Pattern, *kinds: type[ast.Pattern]) -> bool:
    return isinstance(pattern, kinds) or any(_holds(part, *kinds) for part in _parts(pattern))


def _positive(pattern: ast.Pattern) -> bool:
    """Whether a match of the pattern has a document of its own, or may have one."""
    if isinstance(pattern, ast.Negation):
        return False
    parts = _parts(pattern)
    return not parts or any(map(_positive, parts))


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
    for part in _parts(pattern):
        apart.append(_choices(part, apart))
    return 1


def _absences(pattern: ast.Pattern) -> Iterator[ast.Negation]:
    if isinstance(pattern, ast.Negation):
        yield pattern
        return
    for part in _parts(pattern):
        yield from _absences(part)


def _may_be_empty(pattern: ast.Pattern) -> bool:
    match pattern:
        case ast.Block() | ast.Nested() | ast.Fold():
            return False
        case ast.Negation():
            return True
        case ast.Join():
            if pattern.kind == "NEXT":
                return False
            return _may_be_empty(pattern.left) and _may_be_empty(pattern.right)
        case ast.Alternatives():
            return any(map(_may_be_empty, pattern.branches))
        case ast.Group():
            return pattern.least == 0 or _may_be_empty(pattern.pattern)
        case ast.Parenthesis():
            return _may_be_empty(pattern.pattern)


def _chooses_itself(pattern: ast.Pattern) -> bool:
    return isinstance(pattern, ast.Fold) or (
        isinstance(pattern, ast.Join) and pattern.kind == "NEXT"
    )


def _waits(pattern: ast.Pattern) -> bool:
    return _chooses_itself(pattern) or isinstance(pattern, ast.Group)


def _not_a_run(pattern: ast.Pattern) -> ast.Pattern | None:
    """The first part of a pattern that a run cannot take, if any."""
    for item in _items(pattern):
        part = item.pattern
        if isinstance(part, ast.Negation):
            continue
        if isinstance(part, ast.Group):
            inner = part.pattern
            if isinstance(inner, ast.Alternatives):
                inner = ast.Parenthesis(inner, span=inner.span)
            elements = [each.pattern for each in _items(inner)]
        else:
            elements = [part]
        for element in elements:
            if not _is_single(element):
                return element
    return None


def _is_single(pattern: ast.Pattern) -> bool:
    """Whether it is a block, or an OR of blocks."""
    if isinstance(pattern, ast.Parenthesis) and not (pattern.where or pattern.within):
        pattern = pattern.pattern
    if isinstance(pattern, ast.Alternatives):
        return all(map(_is_single, pattern.branches))
    return isinstance(pattern, ast.Block | ast.Nested)


def _bounded(pattern: ast.Pattern) -> bool:
    """Whether windows bound how long a match lasts."""
    match pattern:
        case ast.Block() | ast.Nested() | ast.Negation():
            return True
        case ast.Join():
            if _finite(pattern.window) and not pattern.after:
                return True
            if _limited(pattern.predicate) and pattern.kind == "NEXT":
                return True
            return pattern.after and _finite(pattern.window) and _bounded(pattern.left)
        case ast.Fold():
            return _limited(pattern.filter)
        case ast.Alternatives():
            return all(map(_bounded, pattern.branches))
        case ast.Group():
            return False
        case ast.Parenthesis():
            within = _finite(pattern.within) or _limited(pattern.where)
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
