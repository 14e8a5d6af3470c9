"""Queries: SELECT, a pattern, and clauses.

In: a cursor at the first token of a query. Out: an `ast.Query`, the cursor behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xscl import ast
from xscl.errors import Span
from xscl.syntax import foreign_patterns
from xscl.syntax.foreign import SELECT
from xscl.syntax.lexer import Failure
from xscl.syntax.parser_braces import CLAUSES
from xscl.syntax.parser_pattern import PatternParser, bare

_ORDER = [*CLAUSES]
_STRATEGIES = (
    "the strategies are SKIP TILL ANY MATCH, SKIP TILL NEXT MATCH, STRICT CONTIGUITY, "
    "PARTITION CONTIGUITY, NON OVERLAPPING and ONE PER START"
)


class QueryParser(PatternParser):
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
            self.expect_word("FROM", hint)
        pattern = bare(self.pattern())
        clauses = _Clauses()
        seen: list[str] = []
        while (clause := self.keyword()) in CLAUSES:
            if clause == "USING" and self.ahead() == "(":
                break  # a join of SQL
            self._check_order(clause, seen)
            self._clause(clause, clauses, seen)
        over = None
        if clauses.window is not None:
            place = clauses.over_span or self.span(start)
            over = ast.Over(clauses.keys, clauses.window, clauses.having, span=place)
        return ast.Query(
            pattern,
            select,
            clauses.where,
            clauses.within,
            clauses.publish,
            label,
            clauses.partition,
            clauses.strategy,
            clauses.wait,
            over,
            clauses.at_end,
            span=self.span(start),
            label_span=label_span,
            publish_span=clauses.publish_span,
        )

    # -- clauses --------------------------------------------------------------------------

    def _clause(self, clause: str, into: _Clauses, seen: list[str]) -> None:
        start = self.start
        self.advance()
        match clause:
            case "PARTITION":
                self.expect_word("BY", "the clause is PARTITION BY ./path, ./path")
                into.partition = self._partition()
            case "USING":
                into.strategy = self._strategy(start)
            case "WHERE":
                into.where = self.predicate()
            case "WITHIN":
                into.within = self.duration()
            case "WAIT":
                into.wait = self.duration()
            case "GROUP":
                self.expect_word("BY", "the clause is GROUP BY x, y OVER 5 min")
                into.keys = self._keys()
                if self.keyword() != "OVER":
                    hint = (
                        "groups are of what lies in a moving window: GROUP BY x OVER 5 min; that"
                        " documents agree is written PARTITION BY ./x"
                    )
                    self.unexpected("OVER", hint)
            case "OVER":
                into.window = self.duration()
                into.over_span = self.span(start)
            case "HAVING":
                if "OVER" not in seen:
                    place = self.span(start)
                    hint = "HAVING judges aggregates over a window: OVER 5 min HAVING count(x) > 2"
                    self.fail("clause-order", "HAVING follows OVER", place, hint)
                into.having = self.predicate()
            case _:
                into.publish_span = self.here()
                into.publish = self.stream_name("the name of a stream")
                into.at_end = self._at_end()

    def _check_order(self, clause: str, seen: list[str]) -> None:
        place = _ORDER.index(clause)
        later = [other for other in seen if _ORDER.index(other) > place]
        name = CLAUSES[clause]
        if clause in seen:
            joined = "join the predicates by AND" if clause == "WHERE" else None
            self.report("clause-order", f"{name} is given twice", self.here(), joined)
        elif later:
            hint = f"the order is {', '.join(CLAUSES.values())}"
            message = f"{name} comes before {CLAUSES[later[0]]}"
            self.report("clause-order", message, self.here(), hint)
        seen.append(clause)

    def _partition(self) -> tuple[ast.Path, ...]:
        outer, self.in_filter = self.in_filter, True
        paths = [self._from_node()]
        while self.accept(","):
            paths.append(self._from_node())
        self.in_filter = outer
        return tuple(paths)

    def _from_node(self) -> ast.Path:
        """A path from the node that each block selects."""
        if self.kind not in (".", "@", "*", "word"):
            hint = "its paths start at the node of each block: PARTITION BY ./symbol, ./@id"
            self.unexpected("a path", hint)
        return cast(ast.Path, self.relative_path())

    def _strategy(self, start: int) -> ast.Strategy:
        selection: ast.Selection | None = None
        choosing: ast.Choosing | None = None
        word = self.keyword()
        if word == "SKIP":
            self._words("SKIP", "TILL")
            which = self.keyword()
            if which not in ("ANY", "NEXT"):
                self.unexpected("ANY or NEXT", _STRATEGIES)
            self._words(which, "MATCH")
            selection = "SKIP TILL ANY MATCH" if which == "ANY" else "SKIP TILL NEXT MATCH"
        elif word in ("STRICT", "PARTITION"):
            self._words(word, "CONTIGUITY")
            selection = "STRICT CONTIGUITY" if word == "STRICT" else "PARTITION CONTIGUITY"
        word = self.keyword()
        if word == "NON":
            self._words("NON", "OVERLAPPING")
            choosing = "NON OVERLAPPING"
        elif word == "ONE":
            self._words("ONE", "PER", "START")
            choosing = "ONE PER START"
        if selection is None and choosing is None:
            self.unexpected("a strategy", foreign_patterns.strategy(word) or _STRATEGIES)
        return ast.Strategy(selection, choosing, span=self.span(start))

    def _words(self, *words: str) -> None:
        for word in words:
            self.expect_word(word, _STRATEGIES)

    def _keys(self) -> tuple[ast.Expr, ...]:
        keys = [self.predicate()]
        while self.accept(","):
            keys.append(self.predicate())
        return tuple(keys)

    def _at_end(self) -> bool:
        if self.keyword() != "AT":
            return False
        self.advance()
        self.expect_word("END", "PUBLISH name AT END makes each result a point at its end")
        return True

    # -- SELECT ---------------------------------------------------------------------------

    def _select(self) -> tuple[ast.SelectItem, ...] | ast.Element | None:
        if self.kind == "<":
            return self.constructor()
        if self.accept("*"):
            return None
        items = [self._item()]
        while self.accept(","):
            items.append(self._from() if self.keyword() == "FROM" else self._item())
        return tuple(items)

    def _from(self) -> ast.SelectItem:
        """An item behind a comma that begins with this name: mostly that is a comma too many."""
        place, wrong = self.here(), f"expected an item, found {self.found()}"
        group = self.ahead() == "("  # or the arguments of a function, which there is none of
        item = None
        try:
            item = self._item()
        except Failure:
            if not group:
                raise
        if item is None or (self.kind != "," and self.keyword() != "FROM"):
            self.fail("syntax", wrong, place, "FROM follows the last item without a comma")
        return item

    def _item(self) -> ast.SelectItem:
        start = self.start
        expression = self.predicate()
        name = None
        if self.keyword() == "AS":
            self.advance()
            name = self.expect_name("an element name after AS")
        return ast.SelectItem(expression, name, span=self.span(start))


@dataclass(slots=True)
class _Clauses:
    """The clauses of a query as they are read."""

    partition: tuple[ast.Path, ...] = ()
    strategy: ast.Strategy | None = None
    where: ast.Expr | None = None
    within: ast.Duration | None = None
    wait: ast.Duration | None = None
    keys: tuple[ast.Expr, ...] = ()
    window: ast.Duration | None = None
    over_span: Span | None = None
    having: ast.Expr | None = None
    publish: str | None = None
    publish_span: Span | None = None
    at_end: bool = False
