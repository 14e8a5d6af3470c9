"""Static checks of steps and expressions: bindings, conditions and values.

`Walk` traverses the tree of one query and collects findings; `check_query` calls it for the parts
of a query that hold steps and expressions, and looks the variables up at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, cast

from xscl import ast
from xscl.check.calls import (
    gives_several,
    is_of_elements,
    unknown_function,
    wrong_call,
    wrong_count_of_elements,
    wrong_elements,
)
from xscl.check.findings import QueryFindings
from xscl.check.order import calculation_warning, order_warning, written_date
from xscl.check.unsatisfiable import contradicting_filters, contradiction, dead_filter
from xscl.errors import Diagnostic, Span
from xscl.functions.nodes import NODE_FUNCTIONS, NodeFunction
from xscl.functions.table import FUNCTIONS, Function
from xscl.kinds import is_costly, kind_of
from xscl.syntax import foreign
from xscl.syntax.nearest import known_names

#: Errors beyond this number are never shown, so they get no hints, which cost a search.
HINTED = 100

#: Why a step may not bind a variable here, None if it may.
Blocked = Literal["or", "not", "operand", "partition", "predicate", "sideways"] | None
_Context = Literal["element", "attribute", "text", "document", "any"]
_DOWN = ("element", "attribute", "text", "self")


class Walk:
    """The walk over one query. `context` is the kind of node that the current filter filters."""

    def __init__(self, prefixes: Collection[str], hints: bool = True) -> None:
        self.known_prefixes = prefixes
        self.hints = hints
        self.found = QueryFindings()
        self.places: dict[str, Span] = {}
        self.kinds: dict[str, _Context] = {}
        """By variable, the kind of its nodes."""
        self.elements: dict[str, str | None] = {}
        """By variable, the name of its nodes."""
        self.unbound: list[tuple[str, str, Span]] = []
        self.missing: set[str] = set()
        self.uses: list[ast.Path] = []
        self.bare: list[tuple[str, Span]] = []
        self.blocks = 0
        self.branch: tuple[tuple[int, int], ...] = ()
        """The branches of OR around the current block: which OR, and which of its branches."""
        self.branches: dict[str, list[tuple[tuple[int, int], ...]]] = {}
        """By variable the branches around each of its bindings."""
        self.context: _Context = "element"
        self.costly = False

    def add(self, error: Diagnostic | None) -> None:
        """Add an error if there is one."""
        if error is not None:
            self.found.errors.append(error)

    def names_hint(self, name: str, known: Iterable[str], what: str, none: str) -> str | None:
        """A hint with the known names, for errors that have a chance to be shown."""
        if not self.hints or len(self.found.errors) >= HINTED:
            return None
        return known_names(name, known, what, none)

    # -- steps -------------------------------------------------------------------------------

    def steps(self, steps: tuple[ast.Step, ...], blocked: Blocked, context: _Context) -> None:
        """A path below a node of kind `context`; `blocked` says why nothing can be bound."""
        if blocked is None and any(map(_sideways, steps)):
            blocked = "sideways"
        for step in steps:
            test = step.test
            kind = test.kind
            if test.prefix is not None:
                self.prefix(test.prefix, step.span, self.known_prefixes)
            if _sideways(step):
                context = "any"
            elif context not in ("element", "any") and kind != "self":
                self.dead(step, context)
            if kind in ("element", "attribute", "text"):
                context = cast(_Context, kind)
            elif context == "document":
                self.found.error(
                    "document-node",
                    "a block selects nodes below the document, not the document itself",
                    step.span,
                    "name the root element, or write //* for every element",
                )
                context = "element"
            if step.variable is not None:
                self.bind(step, step.variable, blocked)
                self.kinds.setdefault(step.variable, context)
            for part in step.filters:
                self.filter(part, blocked, context)
            if never := contradicting_filters(step.filters):
                self.found.warn("contradiction", *never)

    def filter(self, part: ast.Expr, blocked: Blocked, context: _Context) -> None:
        if dead := dead_filter(part):
            self.found.warn("contradiction", *dead)
        elif not self.costly and is_costly(part):
            self.costly = True
            self.found.warn(
                "costly-filter",
                "no index decides this filter: it is worked out for each node that reaches it",
                part.span,
                "a filter with a constant beside it, such as [@lang = 'en'], keeps most nodes away",
            )
        if isinstance(part, ast.Path):
            self.steps(part.steps, blocked, context)
        elif not isinstance(part, ast.Number):  # a number is a position
            outer, self.context = self.context, context
            self.condition(part, True, blocked)
            self.context = outer

    def bind(self, step: ast.Step, name: str, blocked: Blocked) -> None:
        place = step.variable_span or step.span
        if blocked is not None:
            self.unbound.append((name, blocked, place))
        elif name in self.places and not self.other_branch(name):
            self.found.error(
                "duplicate-variable",
                f"the variable {name} is bound twice",
                place,
                "for equal values, use two variables and compare them in WHERE or in braces",
                also=(("it was first bound here:", self.places[name]),),
            )
        else:
            self.places.setdefault(name, place)
            self.branches.setdefault(name, []).append(self.branch)
            self.elements.setdefault(name, step.test.name)
            self.found.owner.setdefault(name, self.blocks)
        if name.upper() == "NOT":
            message = f"{name} is a keyword and cannot be a variable"
            self.found.error(
                "reserved-word", message, place, f"give it another name, such as {name}1"
            )

    def other_branch(self, name: str) -> bool:
        """Whether a variable is bound in other branches of an OR only, one of which holds."""
        here = dict(self.branch)
        return all(
            any(here.get(choice, number) != number for choice, number in other)
            for other in self.branches.get(name, ())
        )

    def dead(self, step: ast.Step, context: _Context) -> None:
        if context == "document":
            if step.axis == "//" or step.test.kind == "element":
                return
            what = "the document itself has only a root element, no attributes and no text"
        else:
            what = (
                f"there is nothing below {'an attribute' if context == 'attribute' else 'a text'}"
            )
        self.found.warn("dead-step", f"this step selects nothing: {what}", step.span)

    def prefix(
        self, prefix: str, span: Span, known: Collection[str], *, made: bool = False
    ) -> None:
        """Check a use of a prefix where `known` are in scope; an undefined one is reported once.
        `made`: in a constructor, where a name without prefix is in no namespace."""
        if prefix in self.known_prefixes:
            self.found.prefixes.add(prefix)
        if prefix not in known and prefix not in self.missing:
            self.missing.add(prefix)
            at = span.source.text.find(prefix + ":", span.start, span.end)
            place = span if at < 0 else Span(span.source, at, at + len(prefix))
            hint = self.prefix_hint(prefix, known, made)
            message = f"the namespace prefix {prefix} is not defined"
            self.found.error("unknown-prefix", message, place, hint)

    def prefix_hint(self, prefix: str, known: Collection[str], made: bool) -> str | None:
        uri = foreign.NAMESPACES.get(prefix)
        none = f'define it above: LET NAMESPACE {prefix} = "{uri or "..."}";'
        if not made:
            none += " or leave it out: a name without prefix matches in any namespace"
        defined = [] if uri else [name for name in known if name != "xml"]
        return self.names_hint(prefix, defined, "the prefixes are", none)

    # -- expressions -------------------------------------------------------------------------

    def condition(self, part: ast.Expr, in_filter: bool, blocked: Blocked) -> None:
        """Check an expression that is used as a condition."""
        if isinstance(part, ast.Comparison):
            self.comparison(part, in_filter)
        elif isinstance(part, ast.And | ast.Or):
            if isinstance(part, ast.Or):
                blocked = blocked or "or"
            elif never := contradiction(part.parts):
                self.found.warn("contradiction", *never)
            for each in part.parts:
                self.condition(each, in_filter, blocked)
        elif isinstance(part, ast.Not):
            self.condition(part.part, in_filter, blocked or "not")
        elif isinstance(part, ast.Path) and in_filter:
            self.steps(part.steps, blocked, self.context)
        elif isinstance(part, ast.Call):
            self.called(part, in_filter)
        elif in_filter and not isinstance(part, ast.String | ast.Number):
            self.value(part, in_filter)
        elif isinstance(part, ast.Path) and part.steps:
            self.value(part, in_filter)  # there is such a node
        else:
            self.value(part, in_filter)
            if isinstance(part, ast.Path):
                self.variable_alone(part)
                return
            what = {ast.String: "a string", ast.Number: "a number"}
            example = ", as in x = 'a' OR x = 'b'" if isinstance(part, ast.String) else ""
            self.no_condition(part, f"{what.get(type(part), 'arithmetic')} is a value", example)

    def called(self, call: ast.Call, in_filter: bool) -> None:
        """Check a call that is used as a condition; in filters strings and numbers count as one."""
        function = self.call(call, in_filter)
        if not in_filter and is_of_elements(call):
            self.no_condition(call, f"{call.name}() gives a value")
        if function is None:
            return
        if gives_several(call):
            self.no_condition(call, f"{function.name}() gives several strings")
        elif not in_filter and function.result != "boolean":
            self.no_condition(call, f"{function.name}() gives a {function.result}")

    def variable_alone(self, part: ast.Path) -> None:
        name = part.variable
        self.found.error(
            "not-a-condition",
            f"{name} stands for a node in every match, so it is no condition",
            part.span,
            f"compare it, {name} = 'a', or ask for what it may have: {name}/title, {name}/@id",
        )

    def comparison(self, part: ast.Comparison, in_filter: bool) -> None:
        self.value(part.left, in_filter)
        self.value(part.right, in_filter)
        if warning := order_warning(part, in_filter, self.named):
            self.found.warn("text-order", warning[0], part.span, warning[1])

    def no_condition(self, part: ast.Expr, message: str, example: str = "") -> None:
        self.found.error(
            "not-a-condition",
            f"{message}, and a condition is needed here",
            part.span,
            f"compare it with =, !=, <, <=, > or >={example}",
        )

    def value(self, part: ast.Expr, in_filter: bool) -> None:
        """Check an expression that is used as a string, a number or a node."""
        if isinstance(part, ast.Path):
            if part.variable is not None:
                self.uses.append(part)
                if part.steps:
                    self.steps(part.steps, "predicate", "element")
            else:
                self.relative(part)
        elif isinstance(part, ast.Call):
            function = self.call(part, in_filter)
            if function is not None and function.result == "boolean" and not in_filter:
                self.no_value(part, f"{function.name}() is a condition")
        elif isinstance(part, ast.Arithmetic):
            self.calculation(part, in_filter)
        elif isinstance(part, ast.Union | ast.Filtered):
            self.set_of_nodes(part)
        elif not isinstance(part, ast.String | ast.Number):
            self.condition(part, in_filter, "operand")
            if in_filter:
                return
            what = {ast.Comparison: "a comparison", ast.And: "AND", ast.Or: "OR", ast.Not: "NOT"}
            self.no_value(part, f"{what[type(part)]} gives a condition")

    def set_of_nodes(self, part: ast.Union | ast.Filtered) -> None:
        if isinstance(part, ast.Union):
            for each in part.parts:
                self.nodes(each, "|")
            return
        self.nodes(part.part, "a filter or a path behind parentheses")
        for each in part.filters:
            self.filter(each, "operand", "any")
        self.steps(part.steps, "operand", "any")

    def selected(self, part: ast.Expr) -> None:
        """Check an item of SELECT. Of an attribute or a text a match has only the value."""
        known = len(self.uses)
        self.value(part, False)
        for path in self.uses[known:]:
            kind = self.kinds.get(path.variable or "")
            filters = [f for step in path.steps for f in step.filters if is_costly(f)]
            if kind in ("attribute", "text") and filters:
                what = "an attribute" if kind == "attribute" else "a text"
                self.found.error(
                    "axis",
                    f"{path.variable} is {what}: SELECT knows its value, not what is around it",
                    filters[0].span,
                    "filter it where it is bound, S//a/@b->x[../c]",
                )

    def nodes(self, part: ast.Expr, what: str) -> None:
        """Check an operand of a filter that must be nodes, for `what`."""
        self.value(part, True)
        if kind_of(part) != "nodes":
            hint = "nodes are what a path selects: ./a, .//b, @c"
            self.found.error(
                "not-nodes", f"{what} needs nodes, not a {kind_of(part)}", part.span, hint
            )

    def calculation(self, part: ast.Arithmetic, in_filter: bool) -> None:
        for side in (part.left, part.right):
            self.value(side, in_filter)
            self.single(side)
        if warning := written_date(part):
            self.found.warn("date-as-subtraction", warning[0], part.span, warning[1])
        if warning := calculation_warning(part, in_filter, self.named):
            self.found.warn("date-arithmetic", warning[0], part.span, warning[1])

    def named(self, path: ast.Path) -> str | None:
        """The name of the nodes that a path selects, None if unknown."""
        if path.steps:
            return path.steps[-1].test.name
        return None if path.variable is None else self.elements.get(path.variable)

    def no_value(self, part: ast.Expr, message: str) -> None:
        hint = "a condition stands alone, in a filter, in WHERE or in the braces of a join"
        self.found.error("not-a-value", f"{message}, and a value is needed here", part.span, hint)

    def single(self, part: ast.Expr) -> None:
        """Check an expression that must give one value, not several."""
        if gives_several(part):
            self.found.error(
                "not-a-value",
                f"{part.name}() gives several strings, and one value is needed here",
                part.span,
                f"put the other function inside, as in {part.name}(lower-case(x), ', | and ')",
            )

    def relative(self, part: ast.Path) -> None:
        """A path from the filtered step, as an operand."""
        self.steps(part.steps, "operand", self.context)
        if part.steps and part.steps[0].test.kind == "element":
            name = part.steps[0].test.name
            if name is not None and part.span.text[:1] != ".":
                self.bare.append((name, part.span))

    def call(self, call: ast.Call, in_filter: bool) -> Function | NodeFunction | None:
        """Check a call, its arguments included; None for functions that are not in both tables."""
        if not in_filter and is_of_elements(call):
            self.of_elements(call)
            return None
        function = FUNCTIONS.get(call.name) or (
            NODE_FUNCTIONS.get(call.name) if in_filter else None
        )
        for argument in call.args:
            if isinstance(function, NodeFunction) and function.nodes:
                self.nodes(argument, f"{call.name}()")
            else:
                self.value(argument, in_filter)
                self.single(argument)
        self.add(unknown_function(call) if function is None else wrong_call(call, function))
        return function

    def of_elements(self, call: ast.Call) -> None:
        """Check a call over the documents of a group, an iteration or a window, and duration()."""
        self.add(wrong_count_of_elements(call))
        for argument in call.args:
            self.value(argument, False)
            self.single(argument)
        self.add(wrong_elements(call))


def _sideways(step: ast.Step) -> bool:
    return step.test.axis is not None or step.test.kind not in _DOWN
