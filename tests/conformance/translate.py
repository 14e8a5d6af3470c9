"""XPath expressions as text of the language, and the reasons why one has no such form.

Where the language has a form for something, it is written so: the axes child, attribute, self and
descendant become `/`, `@`, `.` and `//`. Everything else is written as XPath has it, for the
language to refuse, and noted as a `Reason`: which diagnostics name what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal as Choice

from tests.conformance import xpath
from tests.conformance.xpath import ANYWHERE, Expr, Path, Step
from xscl.functions.table import FUNCTIONS
from xscl.syntax.printer import quoted

COMPARISONS = frozenset(["=", "!=", "<", "<=", ">", ">="])
ARITHMETIC = frozenset(["+", "-", "*", "div", "mod"])
SELF = Step("self", "node()")

Kind = Choice["nodes", "string", "number", "boolean"]
_NUMBERS = frozenset(["ceiling", "count", "floor", "last", "position", "round", "sum"])
_BOOLEANS = frozenset(["true", "false", "not", "lang"])
_NODES = frozenset(["id", "document", "evaluate"])


@dataclass(frozen=True, order=True)
class Reason:
    """Why an expression is outside the language: a diagnostic with one of the codes, whose text
    holds `named`, says so."""

    text: str
    codes: frozenset[str] = field(compare=False)
    named: str = ""


def kind_of(expr: Expr) -> Kind:
    """The type of an expression's value (section 1)."""
    match expr:
        case xpath.Literal() | xpath.Variable():
            return "string"
        case xpath.Number() | xpath.Negative():
            return "number"
        case xpath.Call(name=name):
            if name in FUNCTIONS:
                return FUNCTIONS[name].result
            if name in _BOOLEANS:
                return "boolean"
            return "number" if name in _NUMBERS else "nodes" if name in _NODES else "string"
        case xpath.Binary(op=op):
            return "number" if op in ARITHMETIC else "nodes" if op == "|" else "boolean"
    return "nodes"


class Writer:
    """Writes expressions for one place: a filter, where a relative path starts at the filtered
    step, or with `variable` a predicate, where it starts at the variable."""

    def __init__(self, variable: str | None = None) -> None:
        self.variable = variable
        self.reasons: set[Reason] = set()

    def lacks(self, text: str, codes: str, named: str = "") -> None:
        self.reasons.add(Reason(text, frozenset(codes.split()), named))

    # -- blocks ------------------------------------------------------------------------------

    def block(self, expr: Expr) -> str:
        """An expression over the document as a block."""
        if isinstance(expr, Path) and expr.origin is None:
            return "S" + self.steps(_from_document(expr.steps), document=True)
        match expr:
            case Path(origin=xpath.Call() as call):
                self.lacks("a function as a step", "syntax", f"cannot be a step: {call.name}(")
                return f"S/{self.value(call)}{self.steps(expr.steps)}"
            case xpath.Binary(op="|"):
                self.union()
                return f"{self.block(expr.left)} | {self.block(expr.right)}"
            case xpath.Filtered(part=part, predicates=predicates):
                self.lacks("a path in parentheses", "syntax", 'found "("')
                return f"S({self.block(part)}){''.join(map(self.predicate, predicates))}"
        self.lacks("a function as a step", "syntax", "a function cannot be a step")
        return f"S/{self.value(expr)}"

    def union(self) -> None:
        self.lacks("the union |", "bad-character", "|")

    # -- paths -------------------------------------------------------------------------------

    def steps(self, steps: tuple[Step, ...], document: bool = False) -> str:
        """Steps as they follow a node, or with `document` the document node."""
        if document and (not steps or all(s in (SELF, ANYWHERE) for s in steps)):
            if not steps:
                self.lacks("the document node", "syntax", "expected a step")
                return "/"
            self.lacks("the document node", "document-node", "the document itself")
            return "//." if ANYWHERE in steps else "/."
        text, deep = "", False
        for number, step in enumerate(steps):
            if step == ANYWHERE and step is not steps[-1]:
                deep = True
                continue
            text += self.step(step, deep, document and number == 0)
            deep = False
        return text

    def step(self, step: Step, deep: bool, first: bool) -> str:
        axis, test = step.axis, step.test
        slash = "//" if deep else "/"
        if step == ANYWHERE:
            return "//."
        written = f"{axis}::{test}"
        if axis == "child" or axis == "descendant" or (axis == "descendant-or-self" and first):
            slash = slash if axis == "child" else "//"
            written = test
            self.node_test(test)
        elif axis == "attribute":
            written = "@" + test
            self.node_test(test)
        elif axis == "self" and test == "node()":
            written = "."
        elif axis == "parent" and test == "node()":
            written = ".."
            self.lacks("the axis parent", "axis", "..")
        else:
            self.lacks(f"the axis {axis}", "axis", f"the axis {axis} ")
        return slash + written + "".join(map(self.predicate, step.predicates))

    def node_test(self, test: str) -> None:
        if "(" in test and test != "text()":
            name = test.partition("(")[0]
            self.lacks(f"the node test {name}()", "node-test", f"{name}()")
        elif test.endswith(":*"):
            self.lacks("the node test prefix:*", "node-test", test)

    def predicate(self, expr: Expr) -> str:
        inner = Writer()
        if kind_of(expr) == "number" and not isinstance(expr, xpath.Call):
            # A number asks for a position (section 2.4); arithmetic has a reason of its own.
            if not isinstance(expr, xpath.Binary):
                inner.lacks("positions", "position", "positions")
            text = inner.operand(expr)
        else:
            text = inner.condition(expr)
        self.reasons |= inner.reasons
        return f"[{text}]"

    # -- expressions -------------------------------------------------------------------------

    def condition(self, expr: Expr) -> str:
        match expr:
            case xpath.Binary(op="and" | "or" as op):
                word = op if self.variable is None else op.upper()
                return f"({self.condition(expr.left)} {word} {self.condition(expr.right)})"
            case xpath.Binary(op=op) if op in COMPARISONS:
                return f"{self.operand(expr.left)} {op} {self.operand(expr.right)}"
            case xpath.Call(name="not", args=(part,)):
                return f"not({self.condition(part)})"
            case xpath.Call() if kind_of(expr) == "boolean":
                return self.value(expr)
            case xpath.Path() if self.variable is None:
                return self.value(expr)
        self.lacks("a value as a condition", "not-a-condition", "a condition is needed")
        return self.value(expr)

    def operand(self, expr: Expr) -> str:
        if kind_of(expr) == "boolean" and not isinstance(expr, xpath.Call):
            # `1 < 2 < 3`: XPath compares the truth of `1 < 2` with 3.
            self.lacks("a condition as a value", "not-a-value", "a value is needed")
            self.lacks("a condition as a value", "syntax", "comparisons do not chain")
            return self.condition(expr)
        if isinstance(expr, xpath.Call) and kind_of(expr) == "boolean" and expr.name in FUNCTIONS:
            self.lacks("a condition as a value", "not-a-value", "a value is needed")
        return self.value(expr)

    def value(self, expr: Expr) -> str:
        match expr:
            case xpath.Literal(value=value):
                return quoted(value)
            case xpath.Number(text=text):
                return text
            case xpath.Negative(part=xpath.Number(text=text)):
                return f"-{text}"
            case xpath.Negative(part=part):
                self.lacks("a minus before what is no number", "syntax", "after the sign")
                return f"-{self.operand(part)}"
            case xpath.Variable(name=name):
                self.lacks("a variable $x", "bad-character", "$")
                return f"${name}"
            case xpath.Call():
                return self.call(expr)
            case xpath.Binary(op="|"):
                self.union()
                return f"{self.operand(expr.left)} | {self.operand(expr.right)}"
            case xpath.Binary(op=op):
                if self.variable is None:
                    self.lacks("arithmetic in a filter", "arithmetic-in-filter", f'"{op}"')
                return f"({self.operand(expr.left)} {op} {self.operand(expr.right)})"
            case xpath.Filtered(part=part, predicates=predicates):
                self.lacks("a path in parentheses", "syntax", 'found "["')
                return f"({self.operand(part)}){''.join(map(self.predicate, predicates))}"
        return self.path(expr)

    def call(self, expr: xpath.Call) -> str:
        name, args = expr.name, expr.args
        function = FUNCTIONS.get(name)
        if name in ("position", "last"):
            self.lacks("positions", "position", f"{name}()")
        elif function is None:
            self.lacks(f"the function {name}()", "unknown-function not-supported", f"{name}(")
        elif not function.least <= len(args) <= (function.most or len(args)):
            self.lacks("another number of arguments", "arity", f"{name}()")
        return f"{name}({', '.join(map(self.operand, args))})"

    def path(self, path: Path) -> str:
        if path.absolute:
            self.lacks("an absolute path in a condition", "syntax path-start", "starts at")
            return self.steps(path.steps)
        if path.origin is not None:
            self.lacks("a path that starts at a function", "syntax", '"/"')
            return self.value(path.origin) + self.steps(path.steps)
        steps = self.steps(path.steps)
        if self.variable is not None:
            return self.variable + (steps if path.steps != (SELF,) else "")
        if path.steps == (SELF,):
            return "."
        return "." + steps if steps.startswith("//") else steps.removeprefix("/")


def _from_document(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Without the `.` at the start of a path that goes on from the document: `/./a` is `/a`."""
    while len(steps) > 1 and steps[0] == SELF:
        steps = steps[1:]
    return steps


def at_root(expr: Expr) -> tuple[str, Expr] | None:
    """An expression over the document as one over its root element: the root's name test, and the
    expression with paths relative to it. None where it asks for the document itself, or for two
    different root elements.

    `//a` becomes `.//a` below the root, so the root must not be called `a`.
    """
    tests: set[str] = set()

    def move(path: Path) -> Expr:
        steps = _from_document(path.steps)
        if path.origin is not None:
            return replace(path, origin=_moved(path.origin, move))
        if not path.absolute:
            return path
        first = steps[0] if steps else SELF
        if first.axis == "child" and not first.predicates:
            tests.add(first.test)
            return Path(False, steps[1:] or (SELF,))
        deep = first.axis.startswith("descendant") and (first != ANYWHERE or len(steps) > 1)
        tests.add("*" if deep else "/")
        return Path(False, steps or (SELF,))

    moved = _moved(expr, move)
    if len(tests) > 1 or any("(" in test or test == "/" for test in tests):
        return None
    return tests.pop() if tests else "*", moved


def _moved(expr: Expr, move: Callable[[Path], Expr]) -> Expr:
    match expr:
        case Path():
            return move(expr)
        case xpath.Call(args=args):
            return replace(expr, args=tuple(_moved(a, move) for a in args))
        case xpath.Binary(left=left, right=right):
            return replace(expr, left=_moved(left, move), right=_moved(right, move))
        case xpath.Negative(part=part) | xpath.Filtered(part=part):
            return replace(expr, part=_moved(part, move))
    return expr
