"""Queries: SELECT, patterns of blocks and joins, windows and clauses.

In: a cursor at the first token of a query. Out: an `ast.Query`, the cursor behind it. Constructs of
the pattern extension are recognised and refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NoReturn

from xscl import ast
from xscl.errors import Span
from xscl.syntax import stream_names
from xscl.syntax.durations import LONGEST, MOST_DIGITS, UNITS, microseconds
from xscl.syntax.foreign import CLAUSE, PATTERN, SELECT, Habits
from xscl.syntax.lexer import Failure
from xscl.syntax.nearest import did_you_mean
from xscl.syntax.parser_constructor import ConstructorParser
from xscl.syntax.parser_expression import BINDING_POWER

#: Words that begin a clause or an operator. No stream and no window can have such a name.
RESERVED = frozenset(
    [
        *("AND", "BY", "FOLLOWED", "FROM", "INFINITY", "JOIN", "LET", "NOT", "OR"),
        *("PUBLISH", "SELECT", "WHERE", "WITHIN"),
        *("FOLD", "GROUP", "NEXT", "OVER", "PARTITION", "USING"),
    ]
)

#: Keywords of the extension in the place of an operator or a clause, and their constructs.
_EXTENSION = {
    "NEXT": "NEXT",
    "FOLD": "FOLD",
    "OR": "OR between patterns",
    "PARTITION": "PARTITION BY",
    "USING": "USING, a selection strategy",
    "GROUP": "GROUP BY ... OVER",
    "OVER": "OVER",
    "WAIT": "WAIT",
}
_CLAUSES = ("WHERE", "WITHIN", "PUBLISH")

_BRACES = "the predicate and the window of a join stand in braces: {x = y, 2 days}"
_NO_HINTS: Mapping[str, str] = {}
#: Hints for a keyword in the place of a block.
_NO_STREAM = {
    **dict.fromkeys(_CLAUSES, "clauses follow the whole pattern, without a ; between them"),
    "FROM": "a query is SELECT what FROM pattern",
    **dict.fromkeys(["AND", "OR"], _BRACES),
    **dict.fromkeys(
        ["JOIN", "FOLLOWED", "BY"],
        "a block stands on either side of JOIN and of FOLLOWED BY",
    ),
}
_INSTEAD = {
    "OR between patterns": "write a query for each, or an or in a filter: S//*[./a or ./b]",
}

MAX_JOINS = 64


class QueryParser(ConstructorParser):
    joins = 0

    # -- queries --------------------------------------------------------------------------

    def query(self, label: str | None = None, label_span: Span | None = None) -> ast.Query:
        """A query; its label, if any, is already parsed."""
        start = self.start
        select: tuple[ast.SelectItem, ...] | ast.Element | None = None
        if self.kind == "word" and self.value.upper() == "SELECT":
            self.advance()
            hint = SELECT.get(self.keyword(), "SELECT what FROM pattern")
            select = self._select()
            if self.kind == ",":
                hint = "SELECT * and a constructor stand alone, only items are separated by ,"
            self._expect_word("FROM", hint)
        pattern = self.pattern()
        where: ast.Expr | None = None
        within: ast.Duration | None = None
        publish: str | None = None
        publish_span: Span | None = None
        seen: list[str] = []
        while (clause := self.keyword()) in _CLAUSES:
            self._check_order(clause, seen)
            self.advance()
            if clause == "WHERE":
                where = self.predicate()
            elif clause == "WITHIN":
                within = self.duration()
            else:
                publish_span = self.here()
                publish = self._stream_name("the name of a stream")
        if clause in _EXTENSION and not (clause == "USING" and self.ahead() == "("):
            self._extension(_EXTENSION[clause])
        return ast.Query(
            pattern,
            select,
            where,
            within,
            publish,
            label,
            span=self.span(start),
            label_span=label_span,
            publish_span=publish_span,
        )

    def _check_order(self, clause: str, seen: list[str]) -> None:
        later = [other for other in seen if _CLAUSES.index(other) > _CLAUSES.index(clause)]
        if clause in seen:
            joined = "join the predicates by AND" if clause == "WHERE" else None
            self.report("clause-order", f"{clause} is given twice", self.here(), joined)
        elif later:
            hint = "the order is WHERE, WITHIN, PUBLISH"
            self.report("clause-order", f"{clause} comes before {later[0]}", self.here(), hint)
        seen.append(clause)

    def _select(self) -> tuple[ast.SelectItem, ...] | ast.Element | None:
        if self.kind == "<":
            return self.constructor()
        if self.accept("*"):
            return None
        items = [self._item()]
        while self.accept(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> ast.SelectItem:
        start = self.start
        expression = self.predicate()
        name = None
        if self.keyword() == "AS":
            self.advance()
            name = self.expect_name("an element name after AS")
        return ast.SelectItem(expression, name, span=self.span(start))

    # -- patterns -------------------------------------------------------------------------

    def pattern(self) -> ast.Pattern:
        start = self.start
        left = self.term()
        while True:
            word = self.keyword()
            kind: Literal["JOIN", "FOLLOWED BY"]
            if word == "FOLLOWED":
                self.advance()
                self._expect_word("BY", "the operator is FOLLOWED BY")
                kind = "FOLLOWED BY"
            elif word == "JOIN":
                self.advance()
                kind = "JOIN"
            elif word in ("NEXT", "FOLD", "OR"):
                self._extension(_EXTENSION[word])
            else:
                return left
            self.joins += 1
            if self.joins > MAX_JOINS:
                self.fail("too-deep", f"more than {MAX_JOINS} joins in one query", final=True)
            predicate: ast.Expr | None = None
            window: ast.Duration | None = None
            if self.kind == "{":
                predicate, window = self._braces()
            right = self.term()
            left = ast.Join(kind, left, right, predicate, window, span=self.span(start))

    def term(self) -> ast.Pattern:
        if self.kind == "(":
            return self._parenthesis()
        start = self.start
        stream = "S"
        if self.kind == "word":
            upper = self.value.upper()
            if upper == "NOT":
                self._extension("NOT before a block")
            if upper == "SELECT":
                self.unexpected("a block", "a query inside a pattern stands in parentheses")
            if self.ahead() == ":":
                self.refuse_address()
            stream = self._stream_name("a block, such as S//item", _NO_STREAM, PATTERN)
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
        if self.keyword() == "SELECT":
            inner = self.query()
        else:
            inner = self.pattern()
            habits = PATTERN
            if self.keyword() in _CLAUSES:
                self.unexpected('")"', f"{self.keyword()} needs a query: (SELECT * FROM ...)")
            if self.keyword() in _EXTENSION:
                self._extension(_EXTENSION[self.keyword()])
        self.close(")", start, habits=habits)
        self.depth -= 1
        if isinstance(inner, ast.Query):
            steps: tuple[ast.Step, ...] = ()
            if self.kind == "/" or self.kind == "//":
                steps = self.steps(binding=True)
            return ast.Nested(inner, steps, span=self.span(start))
        if self.kind in ("+", "*", "{"):
            self._extension("a quantifier after )")
        if self.kind in ("/", "//"):
            self.unexpected(
                "an operator or the end of the pattern", "only (SELECT ...) is followed by a path"
            )
        return inner

    def _braces(self) -> tuple[ast.Expr | None, ast.Duration | None]:
        """`{predicate, window}`, both of them and the comma optional."""
        start, depth = self.start, self.depth
        predicate: ast.Expr | None = None
        window: ast.Duration | None = None
        self.advance()
        try:
            if self.kind not in (",", "}") and not self._at_window():
                predicate = self.predicate()
            comma = self.accept(",")
            if self.kind != "}":
                if not comma and self.kind not in ("word", "number"):
                    self.unexpected('an operator, ",", a window or "}"')
                window = self.duration()
            if self.kind != "}":
                self.unexpected(
                    '"}"', "the braces hold a predicate, then a window: {x = y, 2 days}"
                )
            self.advance()
        except Failure as failure:
            self.recover(failure, start, "{", "}")
            self.depth = depth
        return predicate, window

    def _at_window(self) -> bool:
        """Whether the braces hold a window only: a lone name, or a number that is no operand."""
        if self.kind == "word":
            return self.ahead() in ("}", ",")
        if self.kind != "number":
            return False
        here = self.end
        start, value = self.start, self.value
        self.advance()
        operand = BINDING_POWER.get(self.keyword() or self.kind) is not None
        self.kind, self.value, self.start, self.end = "number", value, start, here
        return not operand

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
        if self.kind == "word" and self.value.upper() not in RESERVED:
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
            known = did_you_mean(unit, UNITS) or "the units are ms, s, min, h, day and week"
            self.report("bad-duration", f"{self.found()} is no unit of time", self.here(), known)
            unit = "s"
        self.advance()
        return unit

    # -- words ----------------------------------------------------------------------------

    def _expect_word(self, word: str, hint: str | None = None) -> None:
        if self.keyword() != word:
            self.unexpected(word, hint)
        self.advance()

    def _stream_name(
        self, what: str, hints: Mapping[str, str] = _NO_HINTS, habits: Habits | None = None
    ) -> str:
        self.not_reserved("a stream", hints if self.ahead() != "/" else _NO_HINTS)
        return self.expect_name(what, hints.get(self.kind), habits)

    def not_reserved(self, what: str, hints: Mapping[str, str] = _NO_HINTS) -> None:
        word = self.keyword()
        if word in RESERVED:
            message = f"{self.value} is a keyword and cannot be the name of {what}"
            self.fail("reserved-word", message, hint=hints.get(word))

    def _extension(self, construct: str) -> NoReturn:
        self.fail(
            "not-supported",
            f"{construct} is not yet supported",
            hint=_INSTEAD.get(
                construct,
                "it belongs to the pattern extension; the operators are JOIN and FOLLOWED BY",
            ),
        )
