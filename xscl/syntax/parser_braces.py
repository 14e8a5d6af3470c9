"""What stands in the braces of an operator: a predicate, a window, the parts of a FOLD; and the
words that no name may be.

In: a cursor at "{" or at a window. Out: the parts, the cursor behind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from xscl import ast
from xscl.syntax import foreign_patterns
from xscl.syntax.durations import LONGEST, MOST_DIGITS, UNITS, microseconds
from xscl.syntax.foreign import CLAUSE, Habits
from xscl.syntax.lexer import VARIABLE_WORD, Failure
from xscl.syntax.nearest import did_you_mean
from xscl.syntax.parser_constructor import ConstructorParser
from xscl.syntax.parser_expression import BINDING_POWER

#: Words that begin a clause or an operator. No stream and no window can have such a name.
RESERVED = frozenset(
    [
        *("AND", "BY", "FOLLOWED", "FROM", "INFINITY", "JOIN", "LET", "NOT", "OR"),
        *("PUBLISH", "SELECT", "WHERE", "WITHIN"),
    ]
)
#: Words of event patterns, which are names of streams too: a path follows those.
OF_PATTERNS = frozenset(["FOLD", "GROUP", "NEXT", "OVER", "PARTITION", "USING"])

#: The clauses of a query by their first words, in order.
CLAUSES = {
    "PARTITION": "PARTITION BY",
    "USING": "USING",
    "WHERE": "WHERE",
    "WITHIN": "WITHIN",
    "WAIT": "WAIT",
    "GROUP": "GROUP BY",
    "OVER": "OVER",
    "HAVING": "HAVING",
    "PUBLISH": "PUBLISH",
}
_NO_UNITS = {*RESERVED, *OF_PATTERNS, *CLAUSES, "AFTER"}
FOLD_BRACES = "FOLD {filter, condition, n + 1 AS n FROM 0}: both parts may be empty, FOLD {, }"
NO_HINTS: Mapping[str, str] = {}
_AFTER_NAME = re.compile(r"[ \t\r\n]+AFTER[ \t\r\n]*\}", re.IGNORECASE)
NO_HABITS = Habits({}, {})


class BracesParser(ConstructorParser):
    # -- braces ---------------------------------------------------------------------------

    def braces(self, kind: str) -> tuple[ast.Expr | None, ast.Duration | None, bool]:
        """`{predicate, window AFTER}`: all parts and the comma are optional."""
        start, depth = self.start, self.depth
        predicate: ast.Expr | None = None
        window: ast.Duration | None = None
        after = False
        self.advance()
        try:
            if self.keyword() in ("WITHIN", "AFTER") and self.ahead().isdigit():
                hint = "a window stands alone, or behind a comma: {5 min}, {x = y, 5 min AFTER}"
                self.unexpected("a predicate or a window", hint, NO_HABITS)
            if self.kind not in (",", "}") and not self._at_window():
                predicate = self.predicate()
            comma = self.accept(",")
            if self.kind != "}":
                if not comma and self.kind not in ("word", "number"):
                    self.unexpected('an operator, ",", a window or "}"')
                window = self.duration()
                after = self._after(kind)
            if self.kind != "}":
                hint = "the braces hold a predicate, then a window: {x = y, 2 days}"
                if self.kind == "number" and window is not None:
                    hint = "a window is one number of one unit: 1.5 h, or 90 min"
                self.unexpected('"}"', hint)
            self.advance()
        except Failure as failure:
            self.recover(failure, start, "{", "}")
            self.depth = depth
        return predicate, window, after

    def _after(self, kind: str) -> bool:
        """AFTER behind a window."""
        if self.keyword() != "AFTER":
            return False
        if kind == "JOIN":
            message = "a JOIN has no order, so nothing comes after anything"
            hint = "leave AFTER out: the window bounds the whole duration"
            self.report("after-join", message, self.here(), hint)
        self.advance()
        return True

    def _at_window(self) -> bool:
        """Whether the braces hold a window only: a lone name, or a number that is no operand."""
        if self.kind == "word":
            return self.ahead() in ("}", ",") or bool(_AFTER_NAME.match(self.text, self.end))
        if self.kind != "number":
            return False
        here = self.end
        start, value = self.start, self.value
        self.advance()
        operand = BINDING_POWER.get(self.keyword() or self.kind) is not None
        self.kind, self.value, self.start, self.end = "number", value, start, here
        return not operand

    def fold_braces(self) -> tuple[ast.Expr | None, ast.Expr | None, list[ast.Iteration]]:
        """`{filter, condition, expr AS variable FROM expr, ...}`, the first comma always."""
        start, depth = self.start, self.depth
        filter: ast.Expr | None = None
        proceed: ast.Expr | None = None
        iterations: list[ast.Iteration] = []
        self.advance()
        try:
            if self.kind not in (",", "}"):
                filter = self.predicate()
            self.expect(",", FOLD_BRACES)
            if self.kind not in (",", "}"):
                proceed = self.predicate()
            while self.accept(","):
                iterations.append(self._iteration())
            if self.kind != "}":
                self.unexpected('"," or "}"', FOLD_BRACES)
            self.advance()
        except Failure as failure:
            self.recover(failure, start, "{", "}")
            self.depth = depth
        return filter, proceed, iterations

    def _iteration(self) -> ast.Iteration:
        start = self.start
        expr = self.predicate()
        self.expect_word("AS", FOLD_BRACES)
        place = self.here()
        found = VARIABLE_WORD.of(self.text).match(self.text, self.start)
        if self.kind != "word" or found is None or found.end() != self.end:
            self.unexpected("a variable", FOLD_BRACES)
        variable = self.value
        self.advance()
        self.expect_word("FROM", f"what it begins with is written FROM: {FOLD_BRACES}")
        initial = self.predicate()
        return ast.Iteration(expr, variable, initial, span=self.span(start), variable_span=place)

    # -- windows --------------------------------------------------------------------------

    def duration(self) -> ast.Duration:
        start = self.start
        if self.kind == "word":
            name = self.value
            if name.upper() == "INFINITY":
                self.advance()
                return ast.Duration(None, span=self.span(start))
            self.expect_name("a window", habits=CLAUSE)
            return ast.Duration(None, name, span=self.span(start))
        if self.kind != "number":
            self.unexpected(
                "a window", "a window is written 2 days, 1.5 h, 500 ms, INFINITY or NAME", CLAUSE
            )
        digits = self.value
        self.advance()
        unit = "s"
        if self.kind == "word" and self.value.upper() not in _NO_UNITS:
            unit = self._unit()
        value = microseconds(digits, unit) if len(digits) <= MOST_DIGITS else LONGEST + 1
        span = self.span(start)
        if value is None:
            self.report("bad-duration", "a window is a whole number of microseconds", span)
        elif value > LONGEST:
            self.report("bad-duration", "this window is too long", span, "write INFINITY")
        return ast.Duration(value or 0, span=span)

    def _unit(self) -> str:
        unit = self.value.lower()
        if unit not in UNITS:
            known = foreign_patterns.UNITS.get(unit) or did_you_mean(unit, UNITS)
            known = known or "the units are ms, s, min, h, day and week"
            self.report("bad-duration", f"{self.found()} is no unit of time", self.here(), known)
            unit = "s"
        self.advance()
        return unit

    # -- words ----------------------------------------------------------------------------

    def expect_word(self, word: str, hint: str | None = None) -> None:
        if self.keyword() != word:
            self.unexpected(word, hint)
        self.advance()

    def not_reserved(
        self,
        what: str,
        reserved: AbstractSet[str] = RESERVED,
        hints: Mapping[str, str] = NO_HINTS,
    ) -> None:
        word = self.keyword()
        if word in reserved:
            message = f"{self.value} is a keyword and cannot be the name of {what}"
            self.fail("reserved-word", message, hint=hints.get(word))
