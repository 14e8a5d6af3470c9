"""The syntax tree of XSCL: frozen dataclasses, equal if their texts are equal token by token.

Spans are excluded from equality, so that a tree that is printed and parsed again is equal to the
first. Filters of blocks and predicates of joins share one family of expressions (`Expr`): in a
filter a `Path` starts at the filtered step (`variable` is None) or at the document, in a predicate
at a variable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from typing import Literal as Choice

from xscl.errors import Span


def _span() -> Any:
    return field(compare=False, repr=False, kw_only=True)


# -- tree patterns ---------------------------------------------------------------------------


Axis = Choice[
    "ancestor",
    "ancestor-or-self",
    "attribute",
    "child",
    "descendant",
    "descendant-or-self",
    "following",
    "following-sibling",
    "parent",
    "preceding",
    "preceding-sibling",
    "self",
]


@dataclass(frozen=True, slots=True)
class Test:
    """The node test of a step.

    `kind` is "element" (of this `name`; None: of any), "attribute" (likewise), "text" or "self"
    (the step `.`). `prefix` is the namespace prefix as written, None for any namespace.

    Filters also have the kinds "node", "comment", "processing-instruction" (of that `name`) and
    "root" (the document, at which an absolute path begins), and all axes of XPath: `axis` is None
    if the slash before the step determines the axis.
    """

    kind: Choice[
        "element", "attribute", "text", "self", "node", "comment", "processing-instruction", "root"
    ]
    name: str | None = None
    prefix: str | None = None
    axis: Axis | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One location step: `axis` is "/" (child, attribute, self) or "//"
    (descendant-or-self::node()/...)."""

    axis: Choice["/", "//"]
    test: Test
    variable: str | None = None
    filters: tuple[Expr, ...] = ()
    span: Span = _span()
    variable_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


# -- expressions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class String:
    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number. -0 and 0 are not equal, since division by them gives different results."""

    value: float
    span: Span = _span()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class Path:
    """`variable` and then `steps`. `x1` has no steps; `.` has neither; `./a//b` has no variable.

    As a whole filter it tests for existence, and its steps may bind variables.
    """

    variable: str | None
    steps: tuple[Step, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: Choice["+", "-", "*", "div", "mod"]
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Comparison:
    op: Choice["=", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class And:
    """A flat conjunction of two or more parts; none of the parts is itself an `And`."""

    parts: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Or:
    """A flat disjunction of two or more parts; none of the parts is itself an `Or`."""

    parts: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Not:
    part: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Union:
    """`a | b`: the nodes of two or more parts; no part is itself a `Union`. In filters only."""

    parts: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Filtered:
    """`(nodes)[filter]/steps`: the nodes of `part` that pass all filters, and a path from them. In
    filters only."""

    part: Expr
    filters: tuple[Expr, ...]
    steps: tuple[Step, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Selected:
    """The condition that a node is one of those that `step` selects from its parent. It occurs in
    normal form only, where it replaces a positional filter and the filters before it."""

    step: Step
    span: Span = _span()


Expr = (
    String
    | Number
    | Path
    | Call
    | Arithmetic
    | Comparison
    | And
    | Or
    | Not
    | Union
    | Filtered
    | Selected
)


# -- patterns --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Duration:
    """A window: `microseconds` (None: INFINITY) if written as a number, or the `name` of a LET."""

    microseconds: int | None
    name: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Block:
    """The tree pattern of one document. `stream` is "S" if none was written."""

    stream: str
    steps: tuple[Step, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Join:
    """Two operands and the operator between them. `after`: the window counts from the end of the
    left operand."""

    kind: Choice["JOIN", "FOLLOWED BY", "NEXT"]
    left: Pattern
    right: Pattern
    predicate: Expr | None = None
    window: Duration | None = None
    after: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Iteration:
    """`expr AS variable FROM initial`: what an iteration of FOLD computes at each step."""

    expr: Expr
    variable: str
    initial: Expr
    span: Span = _span()
    variable_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Fold:
    """`left FOLD {filter, proceed, iterations} right`: the filter chooses the documents of a step,
    `proceed` decides whether they are taken."""

    left: Pattern
    right: Pattern
    filter: Expr | None = None
    proceed: Expr | None = None
    iterations: tuple[Iteration, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Two or more patterns joined by OR; none is itself `Alternatives`."""

    branches: tuple[Pattern, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT` before a block, a query or a parenthesis."""

    pattern: Pattern
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Group:
    """`(pattern)+`, `(pattern)*`, `(pattern){least,most}`; `most` is None for no bound."""

    pattern: Pattern
    least: int
    most: int | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Parenthesis:
    """`(pattern WHERE predicate WITHIN window)`. With a predicate or a window the pattern is judged
    by itself; without them, it holds a construct of Part 2, and the parentheses delimit a list.
    Other parentheses leave no trace in the tree but its form."""

    pattern: Pattern
    where: Expr | None = None
    within: Duration | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Nested:
    """`(SELECT ...) path`: an anonymous stream of result documents, of which `steps` is the
    block; without a path, the whole documents."""

    query: Query
    steps: tuple[Step, ...]
    span: Span = _span()


Pattern = Block | Join | Fold | Alternatives | Negation | Group | Parenthesis | Nested


# -- queries ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Element:
    """An XML element of a constructor. Attribute values and content are text and expressions."""

    name: str
    attributes: tuple[tuple[str, tuple[str | Expr, ...]], ...]
    content: tuple[str | Expr | Element, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SelectItem:
    expr: Expr
    name: str | None = None
    span: Span = _span()


Selection = Choice[
    "SKIP TILL ANY MATCH", "SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY"
]
RUNS: tuple[Selection, ...] = ("SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY")
"""The selections that make runs."""

Choosing = Choice["NON OVERLAPPING", "ONE PER START"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """`USING selection choosing`: how a pattern selects documents, and which of its matches are
    kept. At least one of them is given."""

    selection: Selection | None = None
    choosing: Choosing | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Over:
    """`GROUP BY keys OVER window HAVING having`: aggregates over a moving window of matches."""

    keys: tuple[Expr, ...]
    window: Duration
    having: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    """`select` is None for `*`, a tuple of items, or a constructor. `partition` are paths from the
    selected node of each block; `at_end`: published results are points at their ends."""

    pattern: Pattern
    select: tuple[SelectItem, ...] | Element | None = None
    where: Expr | None = None
    within: Duration | None = None
    publish: str | None = None
    label: str | None = None
    partition: tuple[Path, ...] = ()
    strategy: Strategy | None = None
    wait: Duration | None = None
    over: Over | None = None
    at_end: bool = False
    span: Span = _span()
    label_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
    publish_span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class LetDuration:
    name: str
    duration: Duration
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LetNamespace:
    prefix: str
    uri: str
    span: Span = _span()


Statement = LetDuration | LetNamespace | Query


@dataclass(frozen=True, slots=True)
class File:
    statements: tuple[Statement, ...]
    span: Span = _span()
