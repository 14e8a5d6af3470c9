"""Translates XPath expressions to texts of the language, or gives the reason why there is none.

What stands in filters is written as XPath has it. The path of a block leads down: the axes child,
attribute, self and descendant become `/`, `@`, `.` and `//`, and what selects elements in any other
way becomes the question whether an element is one of them, `S//*[count(. | PATH) = count(PATH)]`.
Where the language has no form for something it is written all the same, for the language to refuse,
and noted as a `Reason`: which diagnostics name what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal as Choice

from tests.conformance import xpath
from tests.conformance.xpath import ANYWHERE, Expr, Path, Step
from xscl.functions.nodes import NODE_FUNCTIONS, OF_THE_NODE
from xscl.functions.table import FUNCTIONS
from xscl.syntax.printer import quoted

COMPARISONS = frozenset(["=", "!=", "<", "<=", ">", ">="])
ARITHMETIC = frozenset(["+", "-", "*", "div", "mod"])
SELF = Step("self", "node()")

Kind = Choice["nodes", "string", "number", "boolean"]
_NODES = frozenset(["document", "evaluate"])


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
            function = FUNCTIONS.get(name) or NODE_FUNCTIONS.get(name)
            if function is not None:
                return function.result
            return "boolean" if name == "not" else "nodes" if name in _NODES else "string"
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
            steps = _from_document(expr.steps)
            if not steps or all(s in (SELF, ANYWHERE) for s in steps):
                return "S" + self.document(steps)
            if not any(_elsewhere(step) for step in steps):
                return "S" + self.down(steps)
        inner = Writer()
        path = inner.value(expr)
        self.reasons |= inner.reasons
        test = _last_test(expr)
        if test is None:
            self.lacks("nodes of several kinds", "node-test", "selects elements")
            return f"S//node()[{path}]"
        return f"S//{test}[count(. | {path}) = count({path})]"

    def document(self, steps: tuple[Step, ...]) -> str:
        if not steps:
            self.lacks("the document node", "syntax", "expected a step")
            return "/"
        self.lacks("the document node", "document-node", "the document itself")
        return "//." if ANYWHERE in steps else "/."

    def down(self, steps: tuple[Step, ...]) -> str:
        """Steps of a block, as they follow the document."""
        text, deep = "", False
        for number, step in enumerate(steps):
            if step == ANYWHERE and step is not steps[-1]:
                deep = True
                continue
            text += self.block_step(step, deep, number == 0)
            deep = False
        return text

    def block_step(self, step: Step, deep: bool, first: bool) -> str:
        axis, test = step.axis, step.test
        slash = "//" if deep else "/"
        if step == ANYWHERE:
            return "//."
        if axis == "descendant" or (axis == "descendant-or-self" and first):
            slash = "//"
        elif axis == "attribute":
            test = "@" + test
        elif axis == "self":
            test = "."
        return slash + test + "".join(map(self.predicate, step.predicates))

    # -- paths in filters --------------------------------------------------------------------

    def steps(self, steps: tuple[Step, ...]) -> str:
        """Steps as they follow a node."""
        text, deep = "", False
        for step in steps:
            if step == ANYWHERE and step is not steps[-1]:
                deep = True
                continue
            slash, deep = "//" if deep else "/", False
            text += f"{slash}{self.step(step)}" + "".join(map(self.predicate, step.predicates))
        return text

    def step(self, step: Step) -> str:
        axis, test = step.axis, step.test
        if axis == "namespace":
            self.lacks("the axis namespace", "axis", "the axis namespace ")
        if self.variable is not None:
            if axis == "child":
                self.node_test(test)
                return test
            if (axis, test) == ("self", "node()"):
                return "."
            if axis not in ("attribute", "descendant"):
                self.lacks(f"the axis {axis} in a predicate", "axis", f"the axis {axis} ")
        return f"{axis}::{test}"

    def node_test(self, test: str) -> None:
        if "(" in test and test != "text()":
            name = test.partition("(")[0]
            self.lacks(f"the node test {name}()", "node-test", f"{name}()")

    def predicate(self, expr: Expr) -> str:
        inner = Writer()
        number = kind_of(expr) == "number"
        text = inner.operand(expr) if number else inner.condition(expr)
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
            case xpath.Literal() | xpath.Number():
                self.lacks("a constant as a condition", "not-a-condition", "a condition is needed")
                return self.value(expr)
        if self.variable is not None and not (
            isinstance(expr, xpath.Path) and not expr.absolute and expr.origin is None
        ):
            self.lacks("a value as a condition", "not-a-condition", "a condition is needed")
        return self.value(expr)

    def operand(self, expr: Expr) -> str:
        if kind_of(expr) == "boolean":
            if self.variable is not None:
                self.lacks("a condition as a value", "not-a-value", "a value is needed")
            if not isinstance(expr, xpath.Call):
                return f"({self.condition(expr)})"
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
                if self.variable is not None:
                    self.lacks("a minus before what is no number", "syntax", "after the sign")
                return f"- {self.operand(part)}"
            case xpath.Variable(name=name):
                self.lacks("a variable $x", "bad-character", "$")
                return f"${name}"
            case xpath.Call():
                return self.call(expr)
            case xpath.Binary(op="|"):
                if self.variable is not None:
                    self.lacks("the union | in a predicate", "bad-character", "|")
                return f"({self.operand(expr.left)} | {self.operand(expr.right)})"
            case xpath.Binary(op=op) if op in ARITHMETIC:
                return f"({self.operand(expr.left)} {op} {self.operand(expr.right)})"
            case xpath.Binary():
                return f"({self.condition(expr)})"
            case xpath.Filtered(part=part, predicates=predicates):
                if self.variable is not None:
                    self.lacks("parentheses in a predicate", "syntax", 'found "["')
                return f"({self.operand(part)}){''.join(map(self.predicate, predicates))}"
        return self.path(expr)

    def call(self, expr: xpath.Call) -> str:
        name, args = expr.name, expr.args
        function = FUNCTIONS.get(name) or NODE_FUNCTIONS.get(name)
        if function is None or (self.variable is not None and name in NODE_FUNCTIONS):
            where = "" if function is None else " in a predicate"
            codes = "unknown-function aggregate-scope"
            self.lacks(f"the function {name}(){where}", codes, f"{name}(")
        else:
            least = 0 if name in OF_THE_NODE and self.variable is None else function.least
            if not least <= len(args) <= (function.most or len(args)):
                self.lacks("another number of arguments", "arity", f"{name}()")
        return f"{name}({', '.join(map(self.operand, args))})"

    def path(self, path: Path) -> str:
        if path.absolute:
            if self.variable is not None:
                self.lacks("an absolute path in a predicate", "path-start", "starts at")
            if not path.steps:
                return "/"
            return self.steps(path.steps)
        if path.origin is not None:
            if self.variable is not None:
                self.lacks("a path that starts at a function", "syntax", '"/"')
            return f"({self.value(path.origin)})" + self.steps(path.steps)
        steps = self.steps(path.steps)
        if self.variable is not None:
            return self.variable + (steps if path.steps != (SELF,) else "")
        return "." if path.steps == (SELF,) else "." + steps


def _elsewhere(step: Step) -> bool:
    """Whether the path of a block cannot have the step."""
    plain = step.test == "text()" or "(" not in step.test
    counts = any(_asks_position(part) for part in step.predicates)
    match step.axis:
        case "child" | "attribute":
            return not plain
        case "descendant":
            return not plain or counts
        case "self" | "descendant-or-self":
            return step.test != "node()"
    return True


def _asks_position(expr: Expr) -> bool:
    if kind_of(expr) == "number":
        return True
    if isinstance(expr, xpath.Call) and expr.name in ("position", "last"):
        return True
    return not isinstance(expr, Path) and any(map(_asks_position, xpath.parts(expr)))


def _last_test(expr: Expr) -> str | None:
    """The step of a block that selects nodes of the kind that an expression does: `*`, `@*` or
    `text()`; None where they may be of several kinds."""
    match expr:
        case xpath.Binary(op="|", left=left, right=right):
            tests = {_last_test(left), _last_test(right)}
            return tests.pop() if len(tests) == 1 else None
        case xpath.Filtered(part=part):
            return _last_test(part)
        case xpath.Call(name="id"):
            return "*"
        case Path(steps=(*_, last)):
            if last.axis == "attribute":
                return "@*"
            if last.axis == "parent":
                return "*"
            if "(" not in last.test:
                return "*"
            return "text()" if last.test == "text()" else None
    return None


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
