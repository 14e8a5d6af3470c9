"""Filters and predicates: a Pratt parser with one table of binding powers.

In: a cursor at the first token of an expression. Out: an `ast.Expr`, the cursor behind it. Filters
and predicates share the table and differ in their operands: in a filter a path starts at the
filtered step, in a predicate at a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NoReturn, cast

from xscl import ast
from xscl.errors import Span
from xscl.functions.nodes import OF_THE_NODE
from xscl.functions.table import FUNCTIONS
from xscl.syntax import foreign, foreign_patterns
from xscl.syntax.durations import UNITS
from xscl.syntax.lexer import VARIABLE_WORD
from xscl.syntax.parser_path import NODE_TESTS, SELF, PathParser
from xscl.syntax.printer import format_number
from xscl.syntax.rewriting import FOREIGN_OPERATORS, rewrite

#: How tightly each infix operator binds; equal powers associate to the left.
BINDING_POWER = {
    "OR": 1,
    "AND": 2,
    "=": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "DIV": 6,
    "MOD": 6,
    "|": 8,
}
NOT_POWER = 3
_COMPARISON = 4
_NEGATIVE = 7
_UNION = 8

MAX_ARITHMETIC = 64
_CALCULATE = "bind the node in a filter of its own, and calculate beside it: [./a->x][./a + 1 > 2]"


def _binds(part: ast.Expr) -> bool:
    """Whether the path ends with a variable, as in `./author->x`."""
    return isinstance(part, ast.Path) and bool(part.steps) and part.steps[-1].variable is not None


def _is_subtraction(word: str) -> bool:
    """Whether the word before a parenthesis is a variable minus a group, `x-(`, or minus a call,
    `x-number(`, rather than the name of one function."""
    return word[-1] == "-" or (
        word not in FUNCTIONS
        and any(word[at + 1 :] in FUNCTIONS for at, c in enumerate(word) if c == "-")
    )


class ExpressionParser(PathParser):
    """Parses expressions; `in_filter` selects the operands of filters or those of predicates."""

    arithmetic = 0

    # -- expressions ------------------------------------------------------------------------

    def predicate(self) -> ast.Expr:
        """An expression whose paths start at variables, as in braces, WHERE and SELECT."""
        outer = self.in_filter
        self.in_filter = False
        expression = self.expression()
        self.in_filter = outer
        return expression

    def expression(self, power: int = 0) -> ast.Expr:
        """An expression whose operators all bind more tightly than `power`."""
        start = self.start
        left = self.operand(power)
        while True:
            kind = self.kind
            operator = self.value.upper() if kind == "word" else kind
            if kind == "bad":
                operator = self.value
            binding = BINDING_POWER.get(operator)
            if binding is None or binding <= power:
                if kind == "word" and operator in FOREIGN_OPERATORS:
                    self._foreign(left)
                return left
            if binding == _UNION:
                if not self.in_filter:
                    return left
                left = self._union(left, start)
            elif binding > _COMPARISON:
                left = self._arithmetic(operator, binding, left, start)
            elif binding == _COMPARISON:
                left = self._comparison(operator, left, start)
            else:
                left = self._logical(operator, binding, left, start)

    def _foreign(self, left: ast.Expr) -> None:
        """Fail at an operator of SQL, if it can be rewritten as a condition of this language."""
        rewriting = rewrite(self.text, self.start, left, self.in_filter)
        if rewriting is not None:
            place = Span(self.source, self.start, rewriting.end)
            message = f"there is no operator {rewriting.operator}"
            self.fail("syntax", message, place, f"write {rewriting.condition}")

    def _comparison(self, operator: str, left: ast.Expr, start: int) -> ast.Expr:
        self.advance()
        if self.kind in ("=", ">"):
            hint = "equality is written = and inequality !="
            if operator in "<>" and self.kind == "=":
                hint = f"write {operator}= without a blank"
            self.unexpected("a value", hint)
        right = self.expression(_COMPARISON)
        if BINDING_POWER.get(self.kind) == _COMPARISON:
            hint = "comparisons do not chain: 1 < x AND x < 3"
            if self.in_filter:
                hint = "comparisons do not chain: [./x > 1 and ./x < 3]"
            self.unexpected("AND, OR or the end of the comparison", hint)
        op = cast(Literal["=", "!=", "<", "<=", ">", ">="], operator)
        return ast.Comparison(op, left, right, span=self.span(start))

    def _arithmetic(self, operator: str, binding: int, left: ast.Expr, start: int) -> ast.Expr:
        if self.in_filter and _binds(left):
            name = operator == "-" and self.start == self.last
            hint = foreign.VARIABLE if name else _CALCULATE
            self.fail("arithmetic-in-filter", f"{self.found()} cannot follow a variable", hint=hint)
        self.arithmetic += 1
        if self.arithmetic > MAX_ARITHMETIC:
            self.fail("too-deep", f"more than {MAX_ARITHMETIC} arithmetic operators", final=True)
        self.advance()
        right = self.expression(binding)
        op = cast(Literal["+", "-", "*", "div", "mod"], operator.lower())
        return ast.Arithmetic(op, left, right, span=self.span(start))

    def _logical(self, operator: str, binding: int, left: ast.Expr, start: int) -> ast.Expr:
        kind: type[ast.And] | type[ast.Or] = ast.And if operator == "AND" else ast.Or
        parts = list(left.parts) if isinstance(left, kind) else [left]
        while self.kind == "word" and self.value.upper() == operator:
            self.advance()
            part = self.expression(binding)
            if isinstance(part, kind):
                parts += part.parts
            else:
                parts.append(part)
        return kind(tuple(parts), span=self.span(start))

    def _union(self, left: ast.Expr, start: int) -> ast.Expr:
        """The union of `left` with what follows, the cursor at `|`."""
        parts = list(left.parts) if isinstance(left, ast.Union) else [left]
        while self.value == "|" and self.kind == "bad":
            self.advance()
            part = self.expression(_UNION)
            parts += [*part.parts] if isinstance(part, ast.Union) else [part]
        return ast.Union(tuple(parts), span=self.span(start))

    # -- operands ---------------------------------------------------------------------------

    def operand(self, power: int = 0) -> ast.Expr:
        """The operand to the right of an operator that binds with `power`."""
        method = _OPERANDS.get(self.kind)
        if method is None:
            if power >= _COMPARISON:
                self.unexpected("a value")
            if self.in_filter:
                self.unexpected("a filter", "such as [./title], [@lang = 'en'], [./price > 10]")
            self.unexpected("a predicate or a value")
        return method(self)

    def _word(self) -> ast.Expr:
        start, word = self.start, self.value
        upper = word.upper()
        calling = self.ahead() == "("
        if self.in_filter:
            if not calling or upper == "TEXT" or word in NODE_TESTS:
                return self.relative_path()
            return self._not() if upper == "NOT" else self._call(word)
        if upper == "NOT":
            return self._not()
        if calling and not ("-" in word and _is_subtraction(word)):
            return self._call(word)
        found = VARIABLE_WORD.of(self.text).match(self.text, start)
        assert found is not None  # a word and a variable begin alike
        if found.end() < self.end:
            self.end = found.end()
            self.value = found[0]
            if self.text[self.end] == ".":
                hint = foreign_patterns.member(word[len(found[0]) + 1 :].partition(".")[0])
                self.fail("syntax", f"{word} is no variable", hint=hint)
        variable = self.value
        self.advance()
        steps: tuple[ast.Step, ...] = ()
        if self.kind == "/" or self.kind == "//":
            steps = self.steps(binding=False)
        elif self.kind == "->":
            self._bad_binding(False, None)
        return ast.Path(variable, steps, span=self.span(start))

    def _not(self) -> ast.Expr:
        start = self.start
        self.deeper()
        self.advance()
        if self.in_filter:
            opened = self.start
            self.expect("(")
            part = self.expression()
            self.close(")", opened)
        else:
            part = self.expression(NOT_POWER)
        self.depth -= 1
        return ast.Not(part, span=self.span(start))

    def _call(self, name: str) -> ast.Expr:
        start = self.start
        if name in NODE_TESTS:
            self._bad_step()
        self.deeper()
        self.advance()
        opened = self.start
        self.advance()
        arguments: list[ast.Expr] = []
        if self.kind != ")":
            arguments.append(self.expression())
            while self.accept(","):
                arguments.append(self.expression())
        hint = foreign.FUNCTIONS.get(name.lower())
        if self.kind not in ("]", "}"):
            hint = hint or "arguments are separated by ,"
        self.close(")", opened, hint)
        self.depth -= 1
        if self.in_filter and not arguments and name in OF_THE_NODE:
            arguments.append(ast.Path(None, (), span=self.span(start)))
        call = ast.Call(name, tuple(arguments), span=self.span(start))
        return self._from_nodes(call, start) if self.in_filter else call

    def relative_path(self) -> ast.Expr:
        """A path from the filtered step: `.`, `./a`, `.//a`, `a`, `@a`, `*`."""
        start = self.start
        if not self.in_filter:
            self._needs_variable()
        first = self.step(binding=True)
        bare = first.test is SELF and first.variable is None and not first.filters
        steps: tuple[ast.Step, ...] = () if bare else (first,)
        if self.kind == "/" or self.kind == "//":
            steps += self.steps(binding=True)
        return ast.Path(None, steps, span=self.span(start))

    def _rooted(self) -> ast.Expr:
        """A path from the document, in a filter: `/`, `/a`, `//a`."""
        start = self.start
        if not self.in_filter:
            self._needs_variable()
        ahead = self.ahead()
        steps: tuple[ast.Step, ...] = ()
        if self.kind == "/" and not (ahead.isalpha() or (ahead and ahead in "_@*.")):
            self.advance()
        else:
            steps = self.steps(binding=True)
        root = ast.Step("/", ast.Test("root"), span=Span(self.source, start, start + 1))
        return ast.Path(None, (root, *steps), span=self.span(start))

    def _group(self) -> ast.Expr:
        opened = self.start
        self.deeper()
        self.advance()
        inner = self.expression()
        lists = "parentheses hold one expression: there are no lists"
        self.close(")", opened, lists if self.kind == "," else None)
        self.depth -= 1
        return self._from_nodes(inner, opened) if self.in_filter else inner

    def _from_nodes(self, part: ast.Expr, start: int) -> ast.Expr:
        """Nodes with the filters and steps that may follow them in a filter: `(./a | ./b)[1]/c`."""
        filters = self.filters() if self.kind == "[" else ()
        steps = self.steps(binding=True) if self.kind in ("/", "//") else ()
        if not (filters or steps):
            return part
        if isinstance(part, ast.Path) and not filters:
            return ast.Path(None, (*part.steps, *steps), span=self.span(start))
        return ast.Filtered(part, filters, steps, span=self.span(start))

    def _string(self) -> ast.Expr:
        start, value = self.start, self.value[1:-1]
        self.advance()
        return ast.String(value, span=self.span(start))

    def _number(self) -> ast.Expr:
        value = float(self.value)
        if value == float("inf"):
            self.fail("bad-number", "this number is too large")
        start = self.start
        self.advance()
        if self.kind == "word" and self.value.lower() in UNITS and self.ahead() != "}":
            self._unit_of_time(start, value)
        return ast.Number(value, span=self.span(start))

    def _unit_of_time(self, start: int, count: float) -> NoReturn:
        """Fail at a duration in the place of a value, as in `x - y < 2 days`."""
        window = self.text[start : self.end]
        seconds = format_number(count * UNITS[self.value.lower()] / 1_000_000)
        self.fail(
            "syntax",
            f"{window} is a window, and no value to calculate with",
            Span(self.source, start, self.end),
            foreign.dates(window, seconds),
        )

    def _minus(self) -> ast.Expr:
        start = self.start
        self.advance()
        if self.kind != "number":
            if self.in_filter:
                self.deeper()
                part = self.expression(_NEGATIVE)
                self.depth -= 1
                minus = ast.Number(-1.0, span=self.span(start))
                return ast.Arithmetic("*", part, minus, span=self.span(start))
            self.unexpected("a number after the sign", "the negative of a value is 0 - value")
        number = self._number()
        assert isinstance(number, ast.Number)
        return ast.Number(-number.value, span=self.span(start))

    def _up(self) -> ast.Expr:
        if not self.in_filter:
            self._bad_axis("..", self.start, self.end)
        return self.relative_path()

    def _needs_variable(self) -> NoReturn:
        self.fail(
            "path-start",
            f"a path in a predicate starts at a variable, not with {self.found()}",
            hint=foreign_patterns.form(self.text, self.start)
            or "* stands alone, as in SELECT *; otherwise name the variables"
            if self.kind == "*"
            else "bind the step it starts from in its block, as in S//book->x, and write x/author",
        )


_OPERANDS: dict[str, Callable[[ExpressionParser], ast.Expr]] = {
    "word": ExpressionParser._word,
    ".": ExpressionParser.relative_path,
    "@": ExpressionParser.relative_path,
    "*": ExpressionParser.relative_path,
    "/": ExpressionParser._rooted,
    "//": ExpressionParser._rooted,
    "..": ExpressionParser._up,
    "(": ExpressionParser._group,
    "string": ExpressionParser._string,
    "number": ExpressionParser._number,
    "-": ExpressionParser._minus,
}
