"""Text to syntax tree.

In: a text and its name. Out: an `ast.File`, or an `XsclError` with all errors found: after an error
parsing continues behind the statement's `;`. The full grammar is in the language reference; its
layers are `lexer` (tokens), `parser_path` (steps), `parser_expression` (filters, predicates),
`parser_constructor` (XML constructors), `parser_pattern` (patterns), `parser_query` (queries) and,
here, statements.
"""

from __future__ import annotations

from collections.abc import Callable

from xscl import ast
from xscl.errors import Source, Span, XsclError
from xscl.growth import growing
from xscl.syntax import fingerprints
from xscl.syntax.foreign import CLAUSE, COMMENT, PATTERN, Habits
from xscl.syntax.lexer import Failure, not_xml
from xscl.syntax.nearest import did_you_mean
from xscl.syntax.parser_braces import CLAUSES
from xscl.syntax.parser_query import QueryParser

_STRATEGIES = ("NON", "ONE", "SKIP", "STRICT")
"""First words of selection strategies. (PARTITION may begin another clause.)"""

_TRAILING = {
    "]": "there is no [ that it closes",
    ")": "there is no ( that it closes",
    "}": "there is no { that it closes",
    "{": "braces follow an operator, and a quantifier a group: (S//a){2,5}",
    "[": "filters follow a step of a block directly",
    "->": "a variable follows its step directly, before the filters",
    "number": "statements are separated by ;",
    **dict.fromkeys(
        ["=", "!=", "<", "<=", ">", ">="],
        "a comparison stands in a filter, S//a[. = 'x'], or in WHERE",
    ),
}
_OPERATORS = ("JOIN", "FOLLOWED", "NEXT", "FOLD", "OR")
_AFTER_BLOCK = (*_OPERATORS, *CLAUSES)
_BEHIND_CLAUSES = (
    "clauses stand behind the whole pattern; a window for what comes next stands in the braces of"
    " its operator: S//a FOLLOWED BY {1 h} S//b"
)


def parse(
    text: str,
    name: str = "<query>",
    on_statement: Callable[[ast.Statement], object] = lambda statement: None,
) -> ast.File:
    """Parse the statements of `text`; `name` is its name in diagnostics. `on_statement` is called
    with each statement as it is parsed.

    Raises `XsclError` with all errors found, twenty at most.
    """
    source = Source(name, text)
    if wrong := not_xml(source):
        raise XsclError(wrong)
    with growing(text.count(";")):
        return _Parser(source).file(on_statement)


class _Parser(QueryParser):
    def file(self, on_statement: Callable[[ast.Statement], object]) -> ast.File:
        statements: list[ast.Statement] = []
        self.advance()
        while self.kind != "end":
            if self.accept(";"):
                continue
            self.depth = self.joins = self.arithmetic = 0
            self.in_filter = False
            try:
                statements.append(self._recalled())
                on_statement(statements[-1])
            except Failure as failure:
                self.note(failure.diagnostic)
                self.skip_statement()
        if self.errors:
            raise XsclError(sorted(self.errors, key=lambda error: error.span.start))
        return ast.File(tuple(statements), span=Span(self.source, 0, len(self.text)))

    def _recalled(self) -> ast.Statement:
        """The statement at the cursor, which is behind it then; not read where one like it was."""
        text = None if self.kind != "word" else fingerprints.take_apart(self.text, self.start)
        if text is None:
            return self._whole_statement()
        known = fingerprints.recall(text, self.source)
        if known is not None:
            self.resume(text.end)
            return known
        errors = len(self.errors)
        found = self._whole_statement()
        right = len(self.errors) == errors and self.start == text.end
        if right and isinstance(found, ast.Query):
            return fingerprints.remember(text, found, _read_again)
        return found

    def _whole_statement(self) -> ast.Statement:
        found = self._statement()
        if self.kind != ";" and self.kind != "end":
            self._trailing(found)
        return found

    def _statement(self) -> ast.Statement:
        if self.kind == "word":
            ahead = self.ahead()
            if ahead == ":":
                self.refuse_address()
                return self._labelled()
            if self.value.upper() == "LET" and ahead != "/":
                return self._let()
        return self.query()

    def _labelled(self) -> ast.Query:
        place = self.here()
        label = self.expect_name("a label")
        if self.kind == "::":
            self.unexpected('":" after the label', habits=CLAUSE)
        self.advance()
        if self.kind in ("end", ";", "="):
            self.unexpected("a query after its label", "as in q1: S//item", CLAUSE)
        return self.query(label, place)

    def _let(self) -> ast.LetDuration | ast.LetNamespace:
        start = self.start
        self.advance()
        if self.keyword() == "NAMESPACE" and self.ahead() != "=":
            self.advance()
            prefix = self.expect_name("a prefix")
            form = "write LET NAMESPACE dc = 'http://...'"
            self.expect("=", form, CLAUSE)
            if self.kind != "string":
                self.unexpected("the namespace name, a string", form, CLAUSE)
            uri = self.value[1:-1]
            self.advance()
            return ast.LetNamespace(prefix, uri, span=self.span(start))
        self.not_reserved("a window")
        name = self.expect_name("the name of a window, or NAMESPACE")
        self.expect("=", f"write LET {name} = 2 days", CLAUSE)
        return ast.LetDuration(name, self.duration(), span=self.span(start))

    def _trailing(self, statement: ast.Statement) -> None:
        """Fail at a token where the statement should end."""
        habits: Habits | None = CLAUSE
        words = f"statements are separated by ; and {COMMENT}"
        hints = dict(_TRAILING)
        if isinstance(statement, ast.Query) and not (statement.within or statement.publish):
            habits = PATTERN
            if statement.where is not None:
                habits = None
                words = "predicates are joined by AND or OR, statements are separated by ;"
                hints[","] = "predicates are joined by AND"
            elif self.ahead() in ("/", ":"):
                words = "statements are separated by ;"
            else:
                operators = "the operators are JOIN, FOLLOWED BY, NEXT, FOLD and OR"
                words = f"{operators}, a variable is bound by ->, {COMMENT}"
        hint = hints.get(self.kind)
        if self.kind == "word":
            hint = did_you_mean(self.keyword(), _AFTER_BLOCK) or words
            if self.keyword() == "AS":
                hint = hints["->"]
            elif self.keyword() in ("LET", "SELECT"):
                hint = "statements are separated by ;"
            elif self.keyword() in _OPERATORS:
                hint = _BEHIND_CLAUSES
            elif self.keyword() in _STRATEGIES:
                hint = f"a selection strategy follows USING: write USING {self.keyword()} ..."
        self.unexpected('an operator, a clause or ";"', hint, habits)


def _read_again(source: Source, start: int) -> ast.Query:
    """The query at a place, which is right, as was found before."""
    parser = _Parser(source)
    parser.resume(start)
    found = parser._statement()
    assert isinstance(found, ast.Query)
    return found
