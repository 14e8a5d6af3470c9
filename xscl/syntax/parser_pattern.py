"""Patterns: blocks, their operators, negation, groups, parentheses, and windows.

In: a cursor at the first token of a pattern. Out: an `ast.Pattern`, the cursor behind it.
Parentheses around patterns of blocks with JOIN and FOLLOWED BY leave only the form of the tree;
around anything else they stay, as they delimit a list.
"""

from __future__ import annotations

from typing import Literal, NoReturn

from xscl import ast
from xscl.errors import Span
from xscl.syntax import stream_names
from xscl.syntax.durations import MOST_DIGITS
from xscl.syntax.foreign import PATTERN
from xscl.syntax.nearest import did_you_mean
from xscl.syntax.parser_braces import (
    CLAUSES,
    FOLD_BRACES,
    NO_HABITS,
    OF_PATTERNS,
    RESERVED,
    BracesParser,
)
from xscl.syntax.parser_expression import BINDING_POWER

_JUDGED = ("WHERE", "WITHIN")

_BRACES = "the predicate and the window of a join stand in braces: {x = y, 2 days}"
_MANY = "one of many values is a filter, S//a[. = 'x' or . = 'y']; or write several queries"
_QUANTIFIERS = "a quantifier is +, *, {3}, {2,5}, {2,} or {0,5}"
#: Hints for a keyword in the place of a block.
_NO_STREAM = {
    **dict.fromkeys(CLAUSES, "clauses follow the whole pattern, without a ; between them"),
    "FROM": "a query is SELECT what FROM pattern",
    "AND": _BRACES,
    **dict.fromkeys(
        ["JOIN", "FOLLOWED", "BY", "NEXT", "FOLD", "OR"],
        "a block stands on either side of JOIN, FOLLOWED BY, NEXT, FOLD and OR",
    ),
}

MAX_JOINS = 64
MOST_ELEMENTS = 1_000
"""The largest number of a quantifier."""


class PatternParser(BracesParser):
    joins = 0

    def query(self) -> ast.Query:
        """A query in parentheses; a subclass parses it, as queries and patterns nest."""
        raise NotImplementedError

    # -- chains ---------------------------------------------------------------------------

    def pattern(self) -> ast.Pattern:
        start = self.start
        branches = [self._chain()]
        while self.keyword() == "OR":
            self._count()
            self.advance()
            branches.append(self._chain())
        if len(branches) == 1:
            return branches[0]
        return ast.Alternatives(tuple(branches), span=self.span(start))

    def _chain(self) -> ast.Pattern:
        start = self.start
        left = self.term()
        while True:
            word = self.keyword()
            kind: Literal["JOIN", "FOLLOWED BY", "NEXT"]
            if word == "FOLLOWED":
                self.advance()
                self.expect_word("BY", "the operator is FOLLOWED BY")
                kind = "FOLLOWED BY"
            elif word == "JOIN" or word == "NEXT":
                self.advance()
                kind = "JOIN" if word == "JOIN" else "NEXT"
            elif word == "FOLD":
                self._count()
                left = self._fold(left, start)
                continue
            else:
                return left
            self._count()
            predicate: ast.Expr | None = None
            window: ast.Duration | None = None
            after = False
            if self.kind == "{":
                predicate, window, after = self.braces(kind)
            right = self.term()
            span = self.span(start)
            left = ast.Join(kind, left, right, predicate, window, after, span=span)

    def _count(self) -> None:
        self.joins += 1
        if self.joins > MAX_JOINS:
            message = (
                f"more than {MAX_JOINS} operators (JOIN, FOLLOWED BY, NEXT, FOLD, OR) in a query"
            )
            self.fail("too-deep", message, hint=_MANY, final=True)

    def _fold(self, left: ast.Pattern, start: int) -> ast.Fold:
        self.advance()
        if self.kind != "{":
            self.unexpected('"{"', f"the braces of FOLD are always written: {FOLD_BRACES}")
        filter, proceed, iterations = self.fold_braces()
        right = self.term()
        span = self.span(start)
        return ast.Fold(left, right, filter, proceed, tuple(iterations), span=span)

    # -- terms ----------------------------------------------------------------------------

    def term(self) -> ast.Pattern:
        start = self.start
        if self.keyword() != "NOT":
            return self._positive()
        self.advance()
        if self.keyword() == "NOT":
            hint = "leave both out: what must be there is written without NOT"
            self.fail("negation-nesting", "NOT stands inside NOT", hint=hint)
        return ast.Negation(self._positive(), span=self.span(start))

    def _positive(self) -> ast.Pattern:
        if self.kind == "(":
            return self._parenthesis()
        start = self.start
        stream = "S"
        if self.kind == "word":
            upper = self.value.upper()
            if upper == "SELECT":
                self.unexpected("a block", "a query inside a pattern stands in parentheses")
            if self.ahead() == ":":
                self.refuse_address()
            stream = self._stream_of_block()
        if self.kind != "/" and self.kind != "//":
            self._no_path(start, stream)
        steps = self.steps(binding=True)
        return ast.Block(stream, steps, span=self.span(start))

    def _no_path(self, start: int, stream: str) -> NoReturn:
        """Fail where the path of a block is missing, with or without a stream before it."""
        self._refuse_title(start)
        hint = None
        if self.kind not in ("end", ";", ")"):
            hint = "a query begins with SELECT, a block or a label: q1: S//item"
            if self.joins:
                hint = _BRACES
        if start == self.start:
            self.unexpected("a block, such as S//item", hint, PATTERN)
        if self.kind not in BINDING_POWER:
            hint = "a path begins with / or //, as in S//item"
        if self.kind == "word":
            hint = did_you_mean(stream.upper(), ("SELECT", "LET")) or hint
            if self.ahead() in ("/", ":"):
                hint = "a label is one name and a colon, as in q1: S//item"
        elif self.kind == "=" and not self.joins:
            hint = "LET T1 = 2 days defines a window, and q1: S//item labels a query"
        self.unexpected("a path", hint, PATTERN)

    def refuse_address(self) -> None:
        """Fail if there is the address of a feed in the place of its stream."""
        found = stream_names.address(self.text, self.start)
        if found is not None:
            url, end = found
            place = Span(self.source, self.start, end)
            message = "an address is no name of a stream"
            self.fail("syntax", message, place, stream_names.address_hint(url))

    def _refuse_title(self, start: int) -> None:
        """Fail if there is the title or the quoted address of a feed in the place of its stream."""
        if self.kind == "string":
            self.refuse_address()
        if self.kind not in ("word", "string", "number", "bad", ":"):
            return
        found = stream_names.title(self.text, start)
        if found is not None:
            name, end = found
            place = Span(self.source, start, end)
            begins = place.column == 1 and self.kind != "string"
            message = f"the name of a stream has no blanks and no quotation marks: {name}"
            self.fail("syntax", message, place, stream_names.title_hint(name, begins))

    def _parenthesis(self) -> ast.Pattern:
        start = self.start
        self.deeper()
        self.advance()
        inner: ast.Query | ast.Pattern
        habits = None
        where: ast.Expr | None = None
        within: ast.Duration | None = None
        if self.keyword() == "SELECT":
            inner = self.query()
        else:
            inner = self.pattern()
            habits = PATTERN
            where, within = self._judged()
        self.close(")", start, habits=habits)
        self.depth -= 1
        if isinstance(inner, ast.Query):
            steps: tuple[ast.Step, ...] = ()
            if self.kind == "/" or self.kind == "//":
                steps = self.steps(binding=True)
            return ast.Nested(inner, steps, span=self.span(start))
        if self.kind in ("+", "*", "{"):
            if where is not None or within is not None:
                hint = "put parentheses around it: ((S/a FOLLOWED BY S/b WITHIN 2))+"
                self.unexpected("an operator or the end of the pattern", hint, NO_HABITS)
            return self._repeated(bare(inner), start)
        if self.kind in ("/", "//"):
            self.unexpected(
                "an operator or the end of the pattern", "only (SELECT ...) is followed by a path"
            )
        if where is None and within is None and (_is_plain(inner) or _delimits(inner)):
            return inner
        return ast.Parenthesis(inner, where, within, span=self.span(start))

    def _judged(self) -> tuple[ast.Expr | None, ast.Duration | None]:
        """WHERE and WITHIN inside parentheses."""
        where: ast.Expr | None = None
        within: ast.Duration | None = None
        if self.keyword() == "WHERE":
            self.advance()
            where = self.predicate()
        if self.keyword() == "WITHIN":
            self.advance()
            within = self.duration()
        word = self.keyword()
        if word in _JUDGED:
            self.fail("clause-order", f"{word} comes too late", hint="the order is WHERE, WITHIN")
        if word in CLAUSES:
            self.unexpected('")"', f"{CLAUSES[word]} needs a query: (SELECT * FROM ...)")
        return where, within

    def _repeated(self, inner: ast.Pattern, start: int) -> ast.Group:
        """A group, the cursor at its quantifier."""
        begins = self.start
        if self.accept("+"):
            least, most = 1, None
        elif self.accept("*"):
            least, most = 0, None
        else:
            least, most = self._range()
        place = self.span(begins)
        if most is not None and most < max(least, 1):
            reason = "nothing could be taken" if most == 0 else f"{most} is less than {least}"
            hint = f"the smaller number first: {{{most},{least}}}" if most else _QUANTIFIERS
            message = f"this quantifier allows no group: {reason}"
            self.report("bad-quantifier", message, place, hint)
            most = max(least, 1)
        return ast.Group(inner, least, most, span=self.span(start))

    def _range(self) -> tuple[int, int | None]:
        """`{n}`, `{n,}` or `{n,m}`."""
        self.advance()
        least = self._number_of_elements()
        most: int | None = least
        if self.accept(","):
            most = None if self.kind == "}" else self._number_of_elements()
        if self.kind != "}":
            self.unexpected(
                '"}"', "a quantifier is {3}, {2,5} or {2,}; braces of an operator follow it"
            )
        self.advance()
        return least, most

    def _number_of_elements(self) -> int:
        if self.kind != "number":
            self.unexpected("a number", _QUANTIFIERS, NO_HABITS)
        value = self.value
        if not value.isdigit() or len(value) > MOST_DIGITS or int(value) > MOST_ELEMENTS:
            message = f"a quantifier is a whole number up to {MOST_ELEMENTS}"
            self.fail("bad-quantifier", message, hint=_QUANTIFIERS)
        self.advance()
        return int(value)

    # -- streams --------------------------------------------------------------------------

    def stream_name(self, what: str) -> str:
        self.not_reserved("a stream")
        return self.expect_name(what)

    def _stream_of_block(self) -> str:
        if self.ahead() == "/":
            self.not_reserved("a stream")
        else:
            self.not_reserved("a stream", RESERVED | OF_PATTERNS, _NO_STREAM)
        return self.expect_name("a block, such as S//item", _NO_STREAM.get(self.kind), PATTERN)


def bare(pattern: ast.Pattern) -> ast.Pattern:
    """A pattern without parentheses around all of it that hold no clause."""
    if isinstance(pattern, ast.Parenthesis) and pattern.where is None and pattern.within is None:
        return pattern.pattern
    return pattern


def _is_plain(pattern: ast.Pattern) -> bool:
    """Whether parentheses around a pattern change nothing but the form of the tree."""
    if isinstance(pattern, ast.Join):
        joins = pattern.kind != "NEXT" and not pattern.after
        return joins and _is_plain(pattern.left) and _is_plain(pattern.right)
    return isinstance(pattern, ast.Block | ast.Nested)


def _delimits(pattern: ast.Pattern) -> bool:
    """Whether a pattern is in parentheses already."""
    return isinstance(pattern, ast.Parenthesis | ast.Group)
