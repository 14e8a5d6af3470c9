"""Location steps and their filters.

In: a cursor at the first token of a path. Out: `ast.Step`s, the cursor behind them. Filters have
all axes and node tests of XPath. Paths of blocks and of predicates only lead downwards, since the
node of a variable is a descendant of that of the variable before it; other axes are refused there
by name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NoReturn, cast, get_args

from xscl import ast
from xscl.errors import Span
from xscl.kinds import positional
from xscl.syntax.foreign import AXES, VARIABLE
from xscl.syntax.lexer import (
    BINDING_STEP,
    BINDS,
    BLANK,
    STEP,
    XML_NAME,
    Cursor,
    Failure,
    NamePattern,
)

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

_Kind = Literal["element", "text", "node", "comment", "processing-instruction"]
_AXES = frozenset(get_args(ast.Axis))
_AXIS = NamePattern(rf"{XML_NAME}{BLANK}::", re.VERBOSE)
_NODE = re.compile(rf"node{BLANK}\({BLANK}\)", re.VERBOSE)
# It has the groups of `BINDING_STEP`, of which the variable is the seventh.
_NODE_BINDING = NamePattern(rf"()()()()()(node{BLANK}\({BLANK}\)){BINDS}", re.VERBOSE)


def _test(found: re.Match[str]) -> ast.Test:
    """The node test in a match of `STEP` or `BINDING_STEP`."""
    name = found[4]
    if name is None:
        return SELF if found[5] else TEXT
    return _attribute(name, found[3]) if found[2] else _element(name, found[3])


class PathParser(Cursor):
    """Parses location steps."""

    depth = 0

    def expression(self, power: int = 0) -> ast.Expr:
        """The expression of a filter; a subclass parses it, as paths and expressions nest."""
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
        """One step with its filters, the cursor at its slash or, in a filter, at its node test."""
        start = self.start
        pattern = BINDING_STEP if binding else STEP
        found = pattern.of(self.text).match(self.text, start)
        if found is None:
            return self._unabbreviated(binding)
        test = _test(found)
        axis: Literal["/", "//"] = "//" if found[1] == "//" else "/"
        return self._rest_of_step(start, axis, test, found, binding)

    def _rest_of_step(
        self,
        start: int,
        axis: Literal["/", "//"],
        test: ast.Test,
        found: re.Match[str],
        binding: bool,
    ) -> ast.Step:
        """The step whose node test, and variable if any, is the match `found`, with its filters."""
        variable = found[7] if binding else None
        self.resume(found.end())
        if self.kind == "->" or (binding and self.kind == "word" and self.value.upper() == "AS"):
            self._bad_binding(binding, variable)
        return ast.Step(
            axis,
            test,
            variable,
            self.filters(),
            span=self.span(start),
            variable_span=None if variable is None else Span(self.source, *found.span(7)),
        )

    def filters(self) -> tuple[ast.Expr, ...]:
        filters: list[ast.Expr] = []
        while self.kind == "[":
            self.filter(filters)
        return tuple(filters)

    # -- unabbreviated axes and node tests ----------------------------------------------------

    def _unabbreviated(self, binding: bool) -> ast.Step:
        """A step with an axis, a node test with parentheses, or `..`. If it has an abbreviated
        form, the tree is that of the form: `child::a` is `a`."""
        start = self.start
        slash: Literal["/", "//"] = "//" if self.kind == "//" else "/"
        if self.kind in ("/", "//"):
            self.advance()
        axis = "child"
        if self.kind == "word" and _AXIS.of(self.text).match(self.text, self.start):
            axis = self.value
            self.advance()
            self.advance()
        elif self.kind == "@":
            axis = "attribute"
            self.advance()
        elif self.kind == ".." and self.in_filter:
            self.advance()
            test = ast.Test("node", axis="parent")
            return ast.Step(slash, test, None, self.filters(), span=self.span(start))
        found = (BINDING_STEP if binding else STEP).of(self.text).match(self.text, self.start)
        named = found is not None and bool(found[4]) and not (found[1] or found[2])
        if axis == "child" and found is not None and (named or found[6]) and not found[1]:
            return self._rest_of_step(start, slash, _test(found), found, binding)
        if axis == "attribute" and found is not None and named:
            test = _attribute(found[4], found[3])
            return self._rest_of_step(start, slash, test, found, binding)
        if _NODE.match(self.text, self.start):
            short = {"self": "/", "descendant-or-self": "//"}.get(axis)
            if short is not None and (short == "/" or slash == "/"):
                slash = "//" if "//" in (slash, short) else "/"
                found = _NODE_BINDING.of(self.text).match(self.text, self.start)
                assert found is not None
                return self._rest_of_step(start, slash, SELF, found, binding)
        if axis == "descendant" and found is not None and named:
            return self._descendant(start, slash, found, binding)
        if not self.in_filter or axis not in _AXES:
            self.resume(start)
            self._bad_step()
        return self._other_step(start, slash, axis)

    def _descendant(
        self, start: int, slash: Literal["/", "//"], found: re.Match[str], binding: bool
    ) -> ast.Step:
        """`descendant::a`: the same as `//a`, except that positions count all descendants."""
        step = self._rest_of_step(start, "//", _test(found), found, binding)
        if not any(map(positional, step.filters)):
            return step
        if not self.in_filter:
            self._report_position(step)
        return replace(step, axis=slash, test=replace(step.test, axis="descendant"))

    def _other_step(self, start: int, slash: Literal["/", "//"], axis: str) -> ast.Step:
        """A step of a filter without an abbreviated form, the cursor at its node test."""
        place = self.start
        kind, name, prefix = self._node_test()
        if axis == "attribute":
            if kind not in ("element", "node"):
                where = Span(self.source, place, self.last)
                self.fail("node-test", f"no attribute is a {kind}", where, _STEPS)
            test = _attribute(name or "*", prefix)
        else:
            toward = None if axis == "child" else cast(ast.Axis, axis)
            test = ast.Test(kind, name, prefix, toward)
        return ast.Step(slash, test, None, self.filters(), span=self.span(start))

    def _node_test(self) -> tuple[_Kind, str | None, str | None]:
        """Kind, name and prefix of a node test, the cursor behind it."""
        if self.accept("*"):
            return "element", None, None
        word, place = self.value, self.start
        if self.kind != "word" or word.endswith("'"):
            self.unexpected("a step", _NO_STEP.get(self.kind, _STEPS))
        calling = self.ahead() == "("
        if calling and word not in NODE_TESTS and word != "text":
            self._bad_step()
        self.advance()
        if not calling:
            if not self.accept(":"):
                return "element", word, None
            if self.accept("*"):
                return "element", None, word
            name = self.expect_name("a name")
            if self.kind == "(":
                self.resume(place)
                self._bad_step()
            return "element", name, word
        opened = self.start
        self.advance()
        target = None
        if word == "processing-instruction" and self.kind == "string":
            target = self.value[1:-1]
            self.advance()
        self.close(")", opened)
        return cast("_Kind", word), target, None

    def filter(self, filters: list[ast.Expr]) -> None:
        """Parse `[filter]` and add it to `filters`; an error inside it is reported instead."""
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
        """Report the failure and go behind the bracket that closes the one at `start`."""
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

    # -- errors -----------------------------------------------------------------------------

    def _report_position(self, step: ast.Step) -> None:
        part = next(filter(positional, step.filters))
        self.report(
            "position",
            "a position among all descendants cannot be asked for here",
            part.span,
            "of each parent the first is S//a[1], of the whole document S//a[not(preceding::a)]",
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
        message = f"the axis {name} stands in filters only"
        if name == "namespace":
            message = "the axis namespace is not supported"
        elif name not in _AXES and name != "..":
            message = f"there is no axis {name}"
        self.fail(
            "axis",
            message,
            Span(self.source, start, end),
            AXES.get(name, "/ goes to children, // to descendants, @ to attributes"),
        )

    def _bad_step(self) -> NoReturn:
        """Fail at the current token, which begins no step, with the most specific message."""
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
                    hint = (
                        "a block selects elements, attributes and texts; a filter asks: [comment()]"
                    )
                    self.fail("node-test", f"the node test {word}() is not supported", span, hint)
                hint = "a function stands around its path: contains(./title, 'x')"
                if ":" in word:
                    hint = "functions have no prefix"
                message = f"a function cannot be a step: {word}("
                self.fail("syntax", message, span, self.habit() or hint)
        self.unexpected("a step", _NO_STEP.get(self.kind, _STEPS))
