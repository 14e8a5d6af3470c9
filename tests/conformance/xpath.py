"""XPath 1.0 as a tree: a parser for the expressions of the conformance suites.

In comes an expression; out comes its tree, in which abbreviations are spelt out (`//` is a step of
its own, `@x` an attribute step), so that what is written two ways is one thing. It is independent
of the language's own parser, which it is a witness against. Section numbers are XPath 1.0's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace


class NotXPath(Exception):
    """The text is no XPath 1.0 expression."""


@dataclass(frozen=True)
class Literal:
    value: str


@dataclass(frozen=True)
class Number:
    text: str


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Call:
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Binary:
    """`op` is or, and, a comparison, an arithmetic operator or `|`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Negative:
    part: Expr


@dataclass(frozen=True)
class Step:
    """`test` is as written: a name, `*`, `p:*` or a node type with parentheses."""

    axis: str
    test: str
    predicates: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Path:
    """A location path; `origin` is an expression where the path starts at its value."""

    absolute: bool
    steps: tuple[Step, ...]
    origin: Expr | None = None


@dataclass(frozen=True)
class Filtered:
    """An expression with predicates (section 3.3)."""

    part: Expr
    predicates: tuple[Expr, ...]


Expr = Literal | Number | Variable | Call | Binary | Negative | Path | Filtered

ANYWHERE = Step("descendant-or-self", "node()")
"""What `//` puts between two steps (section 2.5)."""

AXES = frozenset(
    [
        *("ancestor", "ancestor-or-self", "attribute", "child", "descendant"),
        *("descendant-or-self", "following", "following-sibling", "namespace", "parent"),
        *("preceding", "preceding-sibling", "self"),
    ]
)
NODE_TYPES = frozenset(["comment", "text", "processing-instruction", "node"])

_NAME = r"[^\W\d][\w.\-]*"
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<number>\d+(?:\.\d*)?|\.\d+)
  | (?P<literal>"[^"]*"|'[^']*')
  | (?P<variable>\$(?:{_NAME}:)?{_NAME})
  | (?P<name>(?:{_NAME}:(?!:))?(?:{_NAME}|(?<=:)\*))
  | (?P<symbol>//|::|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*])
  | (?P<end>\Z)
)""",
    re.VERBOSE,
)
_POWER = {
    **dict.fromkeys(["or"], 1),
    **dict.fromkeys(["and"], 2),
    **dict.fromkeys(["=", "!=", "<", "<=", ">", ">="], 3),
    **dict.fromkeys(["+", "-"], 5),
    **dict.fromkeys(["*", "div", "mod"], 6),
    **dict.fromkeys(["|"], 8),
}
_NEGATIVE = 7


def parse(text: str) -> Expr:
    """The tree of an expression. Raises `NotXPath`."""
    reader = _Reader(list(_tokens(text)))
    expr = reader.expression(0)
    if reader.kind != "end":
        raise NotXPath(f"{reader.value!r} in {text!r}")
    return expr


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kinds and texts, with section 3.7's rule for what is an operator."""
    at, operand = 0, True
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotXPath(f"{text[at:]!r} in {text!r}")
        kind = found.lastgroup
        assert kind is not None
        value = found[kind]
        if kind == "end":
            yield "end", ""
            return
        if not operand and (value == "*" or (kind == "name" and value in _POWER)):
            kind = "operator"
        elif value == "*":
            kind = "name"
        elif kind == "symbol" and value in _POWER:
            kind = "operator"
        operand = kind == "operator" or value in ("@", "::", "(", "[", ",", "/", "//")
        yield kind, value
        at = found.end()


@dataclass
class _Reader:
    tokens: list[tuple[str, str]]
    at: int = field(default=0)

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def value(self) -> str:
        return self.tokens[self.at][1]

    def next_is(self, value: str) -> bool:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)][1] == value

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, value: str) -> bool:
        if self.value != value or self.kind not in ("symbol", "operator"):
            return False
        self.at += 1
        return True

    def expect(self, value: str) -> None:
        if not self.accept(value):
            raise NotXPath(f"expected {value}, found {self.value!r}")

    def expression(self, power: int) -> Expr:
        if self.accept("-"):
            left: Expr = Negative(self.expression(_NEGATIVE))
        else:
            left = self.path()
        while self.kind == "operator" and _POWER[self.value] > power:
            op = self.take()
            left = Binary(op, left, self.expression(_POWER[op]))
        return left

    # -- paths -----------------------------------------------------------------------------

    def path(self) -> Expr:
        if self.accept("/"):
            return Path(True, self.steps() if self.at_step() else ())
        if self.accept("//"):
            return Path(True, (ANYWHERE, *self.steps()))
        if self.at_step():
            return Path(False, self.steps())
        origin = self.primary()
        if predicates := self.predicates():
            origin = Filtered(origin, predicates)
        if self.accept("/"):
            return Path(False, self.steps(), origin)
        if self.accept("//"):
            return Path(False, (ANYWHERE, *self.steps()), origin)
        return origin

    def at_step(self) -> bool:
        if self.kind == "name":
            return not self.next_is("(") or self.value in NODE_TYPES
        return self.value in (".", "..", "@") and self.kind == "symbol"

    def steps(self) -> tuple[Step, ...]:
        steps = [self.step()]
        while True:
            if self.accept("//"):
                steps.append(ANYWHERE)
            elif not self.accept("/"):
                return tuple(steps)
            steps.append(self.step())

    def step(self) -> Step:
        if self.accept("."):
            return Step("self", "node()")
        if self.accept(".."):
            return Step("parent", "node()")
        axis = "child"
        if self.accept("@"):
            axis = "attribute"
        elif self.kind == "name" and self.next_is("::"):
            axis = self.take()
            if axis not in AXES:
                raise NotXPath(f"no axis {axis}")
            self.expect("::")
        return Step(axis, self.node_test(), self.predicates())

    def node_test(self) -> str:
        if self.kind != "name":
            raise NotXPath(f"no node test: {self.value!r}")
        name = self.take()
        if name not in NODE_TYPES or not self.accept("("):
            return name
        argument = self.take() if self.kind == "literal" else ""
        self.expect(")")
        return f"{name}({argument})"

    def predicates(self) -> tuple[Expr, ...]:
        found = []
        while self.accept("["):
            found.append(self.expression(0))
            self.expect("]")
        return tuple(found)

    # -- primary expressions (section 3.1) ---------------------------------------------------

    def primary(self) -> Expr:
        kind = self.kind
        if kind == "number":
            return Number(self.take())
        if kind == "literal":
            return Literal(self.take()[1:-1])
        if kind == "variable":
            return Variable(self.take()[1:])
        if kind == "name":
            return self.call()
        self.expect("(")
        inner = self.expression(0)
        self.expect(")")
        return inner

    def call(self) -> Expr:
        name = self.take()
        self.expect("(")
        args = []
        if not self.accept(")"):
            args.append(self.expression(0))
            while self.accept(","):
                args.append(self.expression(0))
            self.expect(")")
        return Call(name, tuple(args))


# -- looking at trees ------------------------------------------------------------------------


def parts(expr: Expr) -> Iterator[Expr]:
    """The expressions directly inside one, those in predicates of its steps among them."""
    match expr:
        case Call(args=args):
            yield from args
        case Binary(left=left, right=right):
            yield left
            yield right
        case Negative(part=part):
            yield part
        case Filtered(part=part, predicates=predicates):
            yield part
            yield from predicates
        case Path(steps=steps, origin=origin):
            if origin is not None:
                yield origin
            for step in steps:
                yield from step.predicates


def paths(expr: Expr) -> Iterator[Path]:
    """The outermost paths of an expression, not those in predicates."""
    if isinstance(expr, Path):
        yield expr
    else:
        for part in parts(expr):
            yield from paths(part)


def spelt(expr: Expr, any_namespace: bool = False) -> str:
    """The tree as XPath without abbreviations.

    With `any_namespace` a name without prefix is a test of the local name, as in the language.
    """

    def write(part: Expr) -> str:
        match part:
            case Literal(value=value):
                return f'"{value}"' if "'" in value else f"'{value}'"
            case Number(text=text):
                return text
            case Variable(name=name):
                return f"${name}"
            case Call(name=name, args=args):
                return f"{name}({', '.join(map(write, args))})"
            case Binary(op=op, left=left, right=right):
                return f"({write(left)} {op} {write(right)})"
            case Negative(part=inner):
                return f"(-{write(inner)})"
            case Filtered(part=inner, predicates=predicates):
                return f"({write(inner)}){''.join(f'[{write(p)}]' for p in predicates)}"
        start = "/" if part.absolute else f"({write(part.origin)})/" if part.origin else ""
        return start + "/".join(map(step, part.steps))

    def step(part: Step) -> str:
        test = part.test
        named = part.axis != "namespace" and not re.search(r"[*:(]", test)
        if any_namespace and named:
            test = f"*[local-name() = '{test}']"
        return f"{part.axis}::{test}{''.join(f'[{write(p)}]' for p in part.predicates)}"

    return write(expr)


def of_the_node(expr: Expr) -> Expr:
    """The expression with an argument where a function takes the context node without one; what
    stands in predicates has a context of its own."""
    match expr:
        case Call(name=name, args=()) if name not in ("position", "last", "true", "false"):
            return Call(name, (Path(False, (Step("self", "node()"),)),))
        case Call(args=args):
            return replace(expr, args=tuple(map(of_the_node, args)))
        case Binary(left=left, right=right):
            return replace(expr, left=of_the_node(left), right=of_the_node(right))
        case Negative(part=part) | Filtered(part=part):
            return replace(expr, part=of_the_node(part))
    return expr


def below(context: Path, expr: Expr) -> Expr:
    """The expression with its relative paths made to start at the absolute path `context`.

    What stands in predicates is relative to its own step and stays.
    """
    match expr:
        case Path(absolute=False, origin=None):
            return replace(expr, absolute=True, steps=context.steps + expr.steps)
        case Path(origin=Call() | Filtered() | Variable() as origin):
            return replace(expr, origin=below(context, origin))
        case Call(args=args):
            return replace(expr, args=tuple(below(context, a) for a in args))
        case Binary(left=left, right=right):
            return replace(expr, left=below(context, left), right=below(context, right))
        case Negative(part=part) | Filtered(part=part):
            return replace(expr, part=below(context, part))
    return expr
