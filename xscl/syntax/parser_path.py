"""Location steps and the filters on them: the part of the grammar that walks down a document.

Goes in: a cursor at the first token of a path. Comes out: `ast.Step`s, the cursor behind them.
What XPath has and this language has not (other axes, node tests) is recognised and refused by name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from xscl import ast
from xscl.errors import Span
from xscl.syntax.foreign import AXES, VARIABLE
from xscl.syntax.lexer import BINDING_STEP, STEP, Cursor, Failure

MAX_DEPTH = 32
MAX_STEPS = 64

_BEHIND_FILTER = {
    **dict.fromkeys(["word", ",", ".", "@", "/", "//", "("], "filters are joined by and, or"),
    **dict.fromkeys(["string", "number"], "a comparison has an operator: [./a = 'x']"),
}
NODE_TESTS = frozenset(["node", "comment", "processing-instruction"])
_STEPS = "the steps are a name, prefix:name, *, @name, @*, . and text()"
_NO_STEP = {
    "(": "there are no parentheses in a path: write a query for each alternative",
    "number": "a name begins with a letter or _, and division is written x div 2",
}


@lru_cache(maxsize=1 << 14)
def _element(name: str, prefix: str | None) -> ast.Test:
    return ast.Test("element", None if name == "*" else name, prefix)


@lru_cache(maxsize=1 << 14)
def _attribute(name: str, prefix: str | None) -> ast.Test:
    return ast.Test("attribute", None if name == "*" else name, prefix)


TEXT = ast.Test("text")
SELF = ast.Test("self")


class PathParser(Cursor):
    """Reads steps."""

    depth = 0

    def expression(self, power: int = 0) -> ast.Expr:
        """What stands in a filter; paths and expressions nest in each other."""
        raise NotImplementedError

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("too-deep", f"nested more than {MAX_DEPTH} levels deep", final=True)

    # -- paths ------------------------------------------------------------------------------

    def steps(self, binding: bool) -> tuple[ast.Step, ...]:
        """One or more steps, the cursor at the first `/` or `//`."""
        steps = [self.step(binding)]
        while self.kind == "/" or self.kind == "//":
            steps.append(self.step(binding))
            if len(steps) > MAX_STEPS:
                self.fail("too-deep", f"a path of more than {MAX_STEPS} steps", final=True)
        return tuple(steps)

    def step(self, binding: bool) -> ast.Step:
        """One step with its filters, the cursor at its axis or, in a filter, at its node test."""
        start = self.start
        pattern = BINDING_STEP if binding else STEP
        found = pattern.match(self.text, start)
        if found is None:
            self._bad_step()
        name = found[4]
        if name is None:
            test = SELF if found[5] else TEXT
        elif found[2]:
            test = _attribute(name, found[3])
        else:
            test = _element(name, found[3])
        if name == "*" and found[3] is not None:
            self._prefix_star(found.start(3), found.end(4))
        variable = found[7] if binding else None
        self.resume(found.end())
        if self.kind == "->" or (binding and self.kind == "word" and self.value.upper() == "AS"):
            self._bad_binding(binding, variable)
        filters: list[ast.Expr] = []
        while self.kind == "[":
            self.filter(filters)
        return ast.Step(
            "//" if found[1] == "//" else "/",
            test,
            variable,
            tuple(filters),
            span=self.span(start),
            variable_span=None if variable is None else Span(self.source, *found.span(7)),
        )

    def filter(self, filters: list[ast.Expr]) -> None:
        """`[filter]`, added to `filters`; where something is wrong inside, it is noted instead."""
        start = self.start
        outer, depth = self.in_filter, self.depth
        self.in_filter = True
        self.deeper()
        self.advance()
        try:
            part = self.expression()
            self.close("]", start, self._filter_hint())
            filters.append(part)
        except Failure as failure:
            self.recover(failure, start, "[", "]")
        finally:
            self.in_filter, self.depth = outer, depth

    def recover(self, failure: Failure, start: int, opening: str, closing: str) -> None:
        """Note the failure and go behind the bracket that closes the one at `start`."""
        if failure.final:
            raise failure
        failed = self.start
        self.resume(start)
        level = 0
        while self.kind != "end" and self.kind != ";":
            if self.kind == opening:
                level += 1
            elif self.kind == closing:
                level -= 1
                if level == 0 and self.start >= failed:
                    self.note(failure.diagnostic)
                    self.advance()
                    return
            self.advance()
        self.resume(failed)
        raise failure

    def _filter_hint(self) -> str | None:
        if self.start == self.last:
            if self.kind == ".":
                return VARIABLE
            if self.kind == "word" and self.text[self.last - 1] == ".":
                return f"a child is written ./{self.value}"
        return _BEHIND_FILTER.get(self.kind)

    # -- what is refused --------------------------------------------------------------------

    def _prefix_star(self, start: int, end: int) -> None:
        self.report(
            "node-test",
            f"{self.text[start:end]} is not supported: a prefix goes with a name",
            Span(self.source, start, end),
            "name the element, or write * for all and filter them",
        )

    def _bad_binding(self, binding: bool, variable: str | None) -> NoReturn:
        if variable is not None:
            self.unexpected("[ or the end of the step", "a step binds one variable")
        if binding:
            self.advance()
            self.unexpected("a variable", VARIABLE)
        self.fail(
            "binding-place",
            "a variable cannot be bound here",
            hint="variables are bound in blocks, S//book->x1[./author->x2]; a child is x1/author",
        )

    def _bad_axis(self, name: str, start: int, end: int) -> NoReturn:
        self.fail(
            "axis",
            f"the axis {name} is not supported",
            Span(self.source, start, end),
            AXES.get(name, "/ goes to children, // to descendants, @ to attributes"),
        )

    def _bad_step(self) -> NoReturn:
        """The current token begins no step: say what is wrong with it."""
        if self.kind in ("/", "//"):
            self.advance()
        if self.kind == "@":
            self.advance()
        if self.kind == "..":
            self._bad_axis("..", self.start, self.end)
        if self.kind == "word":
            start, word = self.start, self.value
            self.advance()
            if self.kind == "::":
                self._bad_axis(word, start, self.end)
            if self.accept(":") and self.kind == "word":
                word = f"{word}:{self.value}"
                self.advance()
            if self.kind == "(":
                span = Span(self.source, start, self.end)
                if word in NODE_TESTS:
                    hint = "the node tests are a name, * for every element, and text()"
                    self.fail("node-test", f"the node test {word}() is not supported", span, hint)
                hint = "a function stands around its path: contains(./title, 'x')"
                if ":" in word:
                    hint = "functions have no prefix"
                message = f"a function cannot be a step: {word}("
                self.fail("syntax", message, span, self.habit() or hint)
        self.unexpected("a step", _NO_STEP.get(self.kind, _STEPS))
