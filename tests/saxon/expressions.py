"""Paths, conditions and values of XSCL as XQuery expressions over the functions of `functions.xq`.

Of the project nothing but the syntax tree is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from xscl import ast


class Unsupported(Exception):
    """XQuery has no equivalent, or one with another meaning."""


STRING_FUNCTIONS = frozenset(
    ["normalize-space", "lower-case", "upper-case", "concat", "substring", "url", "words"]
)
NUMBER_FUNCTIONS = frozenset(["string-length", "number", "date"])
#: Those of XQuery that compute, from strings, what XSCL's of the same name do.
SAME = frozenset([
    "contains", "starts-with", "ends-with", "string-length", "normalize-space", "lower-case",
    "upper-case", "concat",
])  # fmt: skip
OWN = frozenset(["number", "date", "url", "words"])
VALUE_COMPARISON = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
#: Regular expressions that mean the same in RE2 and in XPath.
PLAIN_REGEX = re.compile(r"(\(\?i\))?((?:[A-Za-z0-9 ^$.|+*?]|\[[A-Za-z0-9-]+\])*)")


@dataclass(slots=True)
class Expressions:
    """Translates the expressions of one query; `variables` grows as its blocks bind them."""

    namespaces: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)  # of XQuery, by their name in XSCL
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def fresh(self, letter: str) -> str:
        return f"${letter}{next(self.numbers)}"

    # -- paths -------------------------------------------------------------------------------

    def step(self, step: ast.Step, filters: Iterable[ast.Expr]) -> str:
        """A location step with its slashes, and those of its filters that bind nothing."""
        test = step.test
        axis = {"element": "child::", "attribute": "attribute::"}.get(test.kind, "")
        if test.kind == "text":
            name = "child::text()"
        elif test.kind == "self":
            name = "self::node()"
        elif test.prefix is not None:
            name = f"{axis}Q{{{self.namespaces[test.prefix]}}}{test.name or '*'}"
        else:
            name = axis + ("*" if test.name is None else f"*:{test.name}")
        slashes = "/descendant-or-self::node()/" if step.axis == "//" else "/"
        return slashes + name + "".join(f"[{self.filter(part)}]" for part in filters)

    def path(self, path: ast.Path) -> str:
        """A path from the context item or from a variable."""
        start = "." if path.variable is None else self.variables[path.variable]
        return start + "".join(self.step(s, conjuncts(s.filters)) for s in path.steps)

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
                return self._some([p for p in (left, right) if isinstance(p, ast.Path)], expr)
        return self._some([], expr)

    def predicate(self, expr: ast.Expr) -> str:
        """A condition over variables. A path is some such node, inside functions too."""
        match expr:
            case ast.And(parts=parts):
                return "(" + " and ".join(map(self.predicate, parts)) + ")"
            case ast.Or(parts=parts):
                return "(" + " or ".join(map(self.predicate, parts)) + ")"
            case ast.Not(part=part):
                return f"not({self.predicate(part)})"
        return self._some([path for path in paths(expr) if path.steps], expr)

    def _some(self, of: Iterable[ast.Path], expr: ast.Expr) -> str:
        """`expr` for some node of each of these paths, which are occurrences in it."""
        each, bound = [], {}
        for path in of:
            bound[id(path)] = variable = self.fresh("p")
            each.append(f"{variable} in {self.path(path)}")
        holds = self._holds(expr, bound)
        return f"(some {', '.join(each)} satisfies {holds})" if each else holds

    def _holds(self, expr: ast.Expr, bound: Mapping[int, str]) -> str:
        if isinstance(expr, ast.Comparison):
            numeric = expr.op not in ("=", "!=") or is_number(expr.left) or is_number(expr.right)
            kind = "number" if numeric else "string"
            left, right = (f"xscl:{kind}({self.value(e, bound)})" for e in (expr.left, expr.right))
            return f"({left} {VALUE_COMPARISON[expr.op]} {right})"
        if isinstance(expr, ast.Path):
            return "true()"  # some such node is there
        assert isinstance(expr, ast.Call), expr
        return self._call(expr, bound)

    # -- values ------------------------------------------------------------------------------

    def value(self, expr: ast.Expr, bound: Mapping[int, str]) -> str:
        """Nodes, a string or a number; `bound` has a variable for some paths, by identity."""
        match expr:
            case ast.String(value=text):
                return literal(text)
            case ast.Number(value=number):
                return f"xs:double('{'INF' if math.isinf(number) else repr(number)}')"
            case ast.Path():
                return bound.get(id(expr)) or self.path(expr)
            case ast.Arithmetic(op=op, left=left, right=right):
                a, b = (f"xscl:number({self.value(e, bound)})" for e in (left, right))
                return f"({a} {op} {b})"
            case ast.Call():
                return self._call(expr, bound)
        raise AssertionError(f"not a value: {expr}")

    def _call(self, call: ast.Call, bound: Mapping[int, str]) -> str:
        values = [self.value(arg, bound) for arg in call.args]
        strings = [f"xscl:string({value})" for value in values]
        if call.name in SAME:
            made = f"{call.name}({', '.join(strings)})"
            return f"xs:double({made})" if call.name == "string-length" else made
        if call.name in OWN:
            return f"xscl:{call.name}({values[0]})"
        if call.name == "substring":
            numbers = [f"xscl:number({value})" for value in values[1:]]
            return f"xscl:substring({', '.join([values[0], *numbers])})"
        if call.name == "matches":
            pattern = call.args[1]
            plain = (
                PLAIN_REGEX.fullmatch(pattern.value) if isinstance(pattern, ast.String) else None
            )
            if plain is None:
                raise Unsupported(f"the regular expression {pattern}")
            return f"matches({strings[0]}, {literal(plain[2])}, '{'i' if plain[1] else ''}')"
        raise Unsupported(call.name)


def literal(text: str) -> str:
    """A string literal of XQuery."""
    escaped = text.replace("&", "&amp;").replace('"', '""').replace("\r", "&#13;")
    return f'"{escaped}"'


def is_number(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.Call):
        assert expr.name in STRING_FUNCTIONS | NUMBER_FUNCTIONS, expr.name
        return expr.name in NUMBER_FUNCTIONS
    return isinstance(expr, ast.Number | ast.Arithmetic)


def conjuncts(exprs: Iterable[ast.Expr]) -> Iterator[ast.Expr]:
    for expr in exprs:
        if isinstance(expr, ast.And):
            yield from conjuncts(expr.parts)
        else:
            yield expr


def paths(expr: ast.Expr) -> Iterator[ast.Path]:
    """The paths in an expression, without those in the filters of paths."""
    match expr:
        case ast.Path():
            yield expr
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for part in parts:
                yield from paths(part)
        case ast.Not(part=part):
            yield from paths(part)
        case ast.Arithmetic(left=left, right=right) | ast.Comparison(left=left, right=right):
            yield from paths(left)
            yield from paths(right)


def variables(expr: ast.Expr) -> list[str]:
    """The variables that an expression reads, in order of first appearance."""
    return list(dict.fromkeys(p.variable for p in paths(expr) if p.variable is not None))
