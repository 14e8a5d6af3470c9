"""XSCL to XQuery 3.1, as literally as the two languages allow.

In goes a resolved query; out comes a FLWOR expression with one `for` per block over the documents
of its stream, nested `for`s over the nodes that its variables bind, and everything else as `where`.
What only filters is a predicate of the path. The values are those of `functions.xq`; of the project
nothing but the syntax tree is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from xscl import ast


class Unsupported(Exception):
    """XQuery has no words for this, or other ones than XSCL."""


class Resolved(Protocol):
    """What is needed of `xscl.ResolvedQuery`: durations resolved, prefixes known."""

    @property
    def id(self) -> str: ...
    @property
    def query(self) -> ast.Query: ...
    @property
    def namespaces(self) -> Mapping[str, str]: ...


STRING_FUNCTIONS = frozenset(
    ["normalize-space", "lower-case", "upper-case", "concat", "substring", "url", "words"]
)
NUMBER_FUNCTIONS = frozenset(["string-length", "number", "date"])
#: Those of XQuery that compute, from strings, what XSCL's of the same name do.
SAME = frozenset(
    ["contains", "starts-with", "ends-with", "string-length", "normalize-space"]
    + ["lower-case", "upper-case", "concat"]
)
OWN = frozenset(["number", "date", "url", "words"])
VALUE_COMPARISON = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
#: A regular expression that means the same in RE2 and in XPath.
PLAIN_REGEX = re.compile(r"(\(\?i\))?((?:[A-Za-z0-9 ^$.|+*?]|\[[A-Za-z0-9-]+\])*)")


def translate(resolved: Resolved) -> str:
    """A FLWOR expression over `$documents`: a string per match, as `rows` of the witness reads it."""
    return _Translation(resolved.namespaces).query(resolved.query)


@dataclass(slots=True)
class _Interval:
    """The documents of a composite, as XQuery variables."""

    documents: list[str]

    @property
    def start(self) -> str:
        return f"min(({', '.join(f'{d}?start' for d in self.documents)}))"

    @property
    def end(self) -> str:
        return f"max(({', '.join(f'{d}?end' for d in self.documents)}))"


@dataclass(slots=True)
class _Translation:
    namespaces: Mapping[str, str]
    clauses: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # by XSCL name
    chosen: list[str] = field(default_factory=list)  # the node that each block selects
    documents: list[str] = field(default_factory=list)
    waiting: list[ast.Expr] = field(default_factory=list)
    used: frozenset[str] = frozenset()
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def query(self, query: ast.Query) -> str:
        conditions = [*_predicates(query.pattern), *([query.where] if query.where else [])]
        self.waiting = list(_conjuncts(conditions))
        named = None if query.select is None else selected(query.select)
        read = {name for condition in self.waiting for name in variables(condition)}
        self.used = frozenset([*read, *(named or ())])
        whole = self.pattern(query.pattern, every_block=named is None)
        if query.within is not None:
            self.window(whole, query.within)
        assert not self.waiting, "every variable is bound by a block"
        nodes = self.chosen if named is None else [self.variables[name] for name in named]
        columns = [
            f"string({whole.start})",
            f"string({whole.end})",
            *(f"{document}?id" for document in self.documents),
            *(f"path({node})" for node in nodes),
        ]
        row = f"return string-join(({', '.join(columns)}), '&#9;')"
        return "distinct-values(\n  " + "\n  ".join([*self.clauses, row]) + "\n)"

    # -- patterns ----------------------------------------------------------------------------

    def pattern(self, pattern: ast.Pattern, every_block: bool) -> _Interval:
        if isinstance(pattern, ast.Block):
            return self.block(pattern, every_block)
        if isinstance(pattern, ast.Nested):
            raise Unsupported("nested SELECT")
        left = self.pattern(pattern.left, every_block)
        right = self.pattern(pattern.right, every_block)
        if pattern.kind == "FOLLOWED BY":
            self.clauses.append(f"where {left.end} lt {right.start}")
        whole = _Interval([*left.documents, *right.documents])
        if pattern.window is not None:
            self.window(whole, pattern.window)
        return whole

    def window(self, composite: _Interval, window: ast.Duration) -> None:
        assert window.name is None, "durations are resolved"
        if window.microseconds is not None:
            self.clauses.append(f"where {composite.end} - {composite.start} le {window.microseconds}")

    def block(self, block: ast.Block, select: bool) -> _Interval:
        document = f"$d{len(self.documents) + 1}"
        self.clauses.append(f"for {document} in $documents[?streams = {literal(block.stream)}]")
        for other in self.documents:
            self.clauses.append(f"where not(xscl:same({other}, {document}))")
        self.documents.append(document)
        self.chosen.append(self.bind(f"{document}?tree", block.steps, select))
        self.due()
        return _Interval([document])

    def due(self) -> None:
        """State the conditions whose variables are all bound."""
        for condition in [*self.waiting]:
            if all(name in self.variables for name in variables(condition)):
                self.waiting.remove(condition)
                self.clauses.append(f"where {self.predicate(condition)}")

    # -- tree patterns -----------------------------------------------------------------------

    def bind(self, start: str, steps: Iterable[ast.Step], select: bool) -> str:
        """Clauses for steps from `start`; the expression of their last node.

        A step becomes a `for` where a variable or a binding filter needs its node; between such
        steps there is one path, and one at the end only has to exist, unless it is to `select`.
        """
        *_, last = steps = tuple(steps)
        at = start
        for step in steps:
            filters = list(_conjuncts(step.filters))
            binding = [part for part in filters if self.binds(part)]
            plain = [part for part in filters if part not in binding]
            at += self.step(step, plain)
            wanted = step.variable in self.used
            if wanted or binding or (select and step is last):
                node = f"$v{next(self.numbers)}"
                self.clauses.append(f"for {node} in {at}")
                at = node
                if step.variable is not None:
                    self.variables[step.variable] = node
                for part in binding:
                    assert isinstance(part, ast.Path)
                    self.bind(node, part.steps, False)
        if "/" in at:
            self.clauses.append(f"where exists({at})")
        return at

    def binds(self, expr: ast.Expr) -> bool:
        """Does this filter bind a variable that somebody reads?"""
        if not isinstance(expr, ast.Path):
            return False
        return any(
            step.variable in self.used or any(map(self.binds, _conjuncts(step.filters)))
            for step in expr.steps
        )

    def step(self, step: ast.Step, filters: Iterable[ast.Expr]) -> str:
        test = step.test
        axis = {"element": "child::", "attribute": "attribute::"}.get(test.kind, "")
        if test.kind == "text":
            name = "child::text()"
        elif test.kind == "self":
            name = "self::node()"
        elif test.prefix is not None:
            uri = self.namespaces[test.prefix]
            name = f"{axis}Q{{{uri}}}{test.name or '*'}"
        else:
            name = axis + ("*" if test.name is None else f"*:{test.name}")
        slashes = "/descendant-or-self::node()/" if step.axis == "//" else "/"
        return slashes + name + "".join(f"[{self.filter(part)}]" for part in filters)

    def path(self, path: ast.Path) -> str:
        """A path as an expression, from the context item or from a variable."""
        start = "." if path.variable is None else self.variables[path.variable]
        return start + "".join(self.step(s, _conjuncts(s.filters)) for s in path.steps)

    # -- conditions --------------------------------------------------------------------------

    def filter(self, expr: ast.Expr) -> str:
        """A condition on the context item. A function takes the first node of a path."""
        match expr:
            case ast.And(parts=parts):
                return "(" + " and ".join(map(self.filter, parts)) + ")"
            case ast.Or(parts=parts):
                return "(" + " or ".join(map(self.filter, parts)) + ")"
            case ast.Not(part=part):
                return f"not({self.filter(part)})"
            case ast.Path():
                return f"exists({self.path(expr)})"
            case ast.Comparison(left=left, right=right):
                return self.some([p for p in (left, right) if isinstance(p, ast.Path)], expr)
        return self.some([], expr)

    def predicate(self, expr: ast.Expr) -> str:
        """A condition over variables. A path is some such node, inside functions too."""
        match expr:
            case ast.And(parts=parts):
                return "(" + " and ".join(map(self.predicate, parts)) + ")"
            case ast.Or(parts=parts):
                return "(" + " or ".join(map(self.predicate, parts)) + ")"
            case ast.Not(part=part):
                return f"not({self.predicate(part)})"
        return self.some([path for path in _paths(expr) if path.steps], expr)

    def some(self, paths: Iterable[ast.Path], expr: ast.Expr) -> str:
        """`expr` for some node of each of the paths, which are occurrences in it."""
        bound = {id(path): f"$p{next(self.numbers)}" for path in paths}
        each = [f"{bound[id(path)]} in {self.path(path)}" for path in _paths(expr) if id(path) in bound]
        holds = self.holds(expr, bound)
        return f"(some {', '.join(each)} satisfies {holds})" if each else holds

    def holds(self, expr: ast.Expr, bound: Mapping[int, str]) -> str:
        if isinstance(expr, ast.Comparison):
            numeric = expr.op not in ("=", "!=") or _is_number(expr.left) or _is_number(expr.right)
            kind = "number" if numeric else "string"
            left, right = (f"xscl:{kind}({self.value(e, bound)})" for e in (expr.left, expr.right))
            return f"({left} {VALUE_COMPARISON[expr.op]} {right})"
        assert isinstance(expr, ast.Call), expr
        return self.call(expr, bound)

    # -- values ------------------------------------------------------------------------------

    def value(self, expr: ast.Expr, bound: Mapping[int, str]) -> str:
        match expr:
            case ast.String(value=text):
                return literal(text)
            case ast.Number(value=number):
                return f"xs:double('{'INF' if math.isinf(number) else number!r}')"
            case ast.Path():
                return bound.get(id(expr)) or self.path(expr)
            case ast.Arithmetic(op=op, left=left, right=right):
                a, b = (f"xscl:number({self.value(e, bound)})" for e in (left, right))
                return f"({a} {op} {b})"
            case ast.Call():
                return self.call(expr, bound)
        raise AssertionError(f"not a value: {expr}")

    def call(self, call: ast.Call, bound: Mapping[int, str]) -> str:
        values = [self.value(arg, bound) for arg in call.args]
        strings = [f"xscl:string({value})" for value in values]
        if call.name in SAME:
            made = f"{call.name}({', '.join(strings)})"
            return f"xs:double({made})" if call.name == "string-length" else made
        if call.name in OWN:
            return f"xscl:{call.name}({values[0]})"
        if call.name == "substring":
            return f"substring({', '.join([strings[0], *(f'xscl:number({v})' for v in values[1:])])})"
        if call.name == "matches":
            pattern = call.args[1]
            plain = PLAIN_REGEX.fullmatch(pattern.value) if isinstance(pattern, ast.String) else None
            if plain is None:
                raise Unsupported(f"the pattern of {call}")
            return f"matches({strings[0]}, {literal(plain[2])}, '{'i' if plain[1] else ''}')"
        raise Unsupported(call.name)


def literal(text: str) -> str:
    """A string literal of XQuery."""
    escaped = text.replace("&", "&amp;").replace('"', '""').replace("\r", "&#13;")
    return f'"{escaped}"'


# -- reading a query -------------------------------------------------------------------------


def _is_number(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.Call):
        assert expr.name in STRING_FUNCTIONS | NUMBER_FUNCTIONS, expr.name
        return expr.name in NUMBER_FUNCTIONS
    return isinstance(expr, ast.Number | ast.Arithmetic)


def _predicates(pattern: ast.Pattern) -> Iterator[ast.Expr]:
    if isinstance(pattern, ast.Join):
        yield from _predicates(pattern.left)
        yield from _predicates(pattern.right)
        if pattern.predicate is not None:
            yield pattern.predicate


def _conjuncts(exprs: Iterable[ast.Expr]) -> Iterator[ast.Expr]:
    for expr in exprs:
        if isinstance(expr, ast.And):
            yield from _conjuncts(expr.parts)
        else:
            yield expr


def _paths(expr: ast.Expr) -> Iterator[ast.Path]:
    """The paths in an expression, without those in the filters of paths."""
    match expr:
        case ast.Path():
            yield expr
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from _paths(part)
        case ast.Not(part=part):
            yield from _paths(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from _paths(left)
            yield from _paths(right)


def variables(expr: ast.Expr) -> list[str]:
    """The variables that an expression reads, in order of first appearance."""
    return list(dict.fromkeys(p.variable for p in _paths(expr) if p.variable is not None))


def selected(select: tuple[ast.SelectItem, ...] | ast.Element) -> list[str]:
    """The variables that SELECT names, in order of first appearance."""
    if isinstance(select, ast.Element):
        attributes = [part for _, parts in select.attributes for part in parts]
        parts = [part for part in (*attributes, *select.content) if not isinstance(part, str)]
    else:
        parts = [item.expr for item in select]
    found: list[str] = []
    for part in parts:
        found += selected(part) if isinstance(part, ast.Element) else variables(part)
    return list(dict.fromkeys(found))
