"""Residual predicates as SQL: inequalities, OR, NOT, arithmetic and functions over several nodes.

A value has two columns in the match relations, its text and, where the text is a number, that
number; NULL stands for NaN. XPath's rules hold, not DuckDB's: a comparison with NaN is false, and
`!=` with NaN is true, under NOT as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xscl.functions.table import FUNCTIONS, to_string
from xscl.functions.texts import LONGEST
from xscl.normal import ir
from xscl.normal.template import Template

if TYPE_CHECKING:
    # To compile a query takes no database.
    import duckdb

_NATIVE: dict[str, Callable[..., str]] = {
    "contains": lambda a, b: f"contains({a}, {b})",
    "starts-with": lambda a, b: f"starts_with({a}, {b})",
    "ends-with": lambda a, b: f"suffix({a}, {b})",
    "string-length": lambda a: f"length({a})::DOUBLE",
    "concat": lambda *parts: (
        f"CASE WHEN {' + '.join(f'strlen({part})' for part in parts)} <= {LONGEST}"
        f" THEN {' || '.join(parts)} ELSE '' END"
    ),
}
"""Functions that DuckDB computes exactly as XPath does; the others are called from it."""

_ARITHMETIC = {
    ir.Calculation.PLUS: "+",
    ir.Calculation.MINUS: "-",
    ir.Calculation.TIMES: "*",
    ir.Calculation.DIVIDED: "/",
    ir.Calculation.MODULO: "%",
}
_COMPARISON = {
    ir.Comparator.EQUAL: "=",
    ir.Comparator.UNEQUAL: "<>",
    ir.Comparator.LESS: "<",
    ir.Comparator.AT_MOST: "<=",
    ir.Comparator.GREATER: ">",
    ir.Comparator.AT_LEAST: ">=",
}


class ResidualSql:
    """Turns residuals into conditions.

    `node(p)` and `column(p)` are the SQL of the node at a position, and the alias that carries its
    value; `document(block)` the alias whose `doc` is the block's document; `stored` is RL or a
    slice.
    """

    def __init__(
        self,
        template: Template,
        node: Callable[[int], str],
        document: Callable[[int], str],
        stored: str = "rl",
    ) -> None:
        self.template = template
        self.node = node
        self.document = document
        self.stored = stored

    def condition(self, part: ir.Expr) -> str:
        match part:
            case ir.And() | ir.Or():
                word = " AND " if isinstance(part, ir.And) else " OR "
                return f"({word.join(self.condition(p) for p in part.parts)})"
            case ir.Not():
                return f"NOT {self.condition(part.part)}"
            case ir.Comparison():
                return self._exists(part, self._comparison(part))
            case ir.SomeNode():
                return self._exists(part, "TRUE")
            case _:
                return self._exists(part, self._text(part))

    def _comparison(self, part: ir.Comparison) -> str:
        symbol = _COMPARISON[part.comparator]
        relational = part.comparator.relational
        numeric = relational or ir.is_number(part.left) or ir.is_number(part.right)
        left, right = (
            self._side(side, name, numeric) for side, name in ((part.left, "l"), (part.right, "r"))
        )
        missing = "TRUE" if part.comparator is ir.Comparator.UNEQUAL else "FALSE"
        condition = f"COALESCE({left} {symbol} {right}, {missing})"
        for side, name in ((part.left, "l"), (part.right, "r")):
            if isinstance(side, ir.Call) and ir.is_several(side):
                found = f"list_filter({self._call(side)}, lambda {name}: {condition})"
                condition = f"(len({found}) > 0)"
        return condition

    def _side(self, expr: ir.Expr, name: str, numeric: bool) -> str:
        """SQL of a side of a comparison; of several strings, of the one that has this name."""
        if ir.is_several(expr):
            return f"not_nan(xscl_number({name}))" if numeric else name
        return self._number(expr) if numeric else self._text(expr)

    def _exists(self, part: ir.Expr, condition: str) -> str:
        """A path under NOT or OR as an EXISTS over the match relations."""
        used = sorted({leaf.path for leaf in ir.leaves(part) if isinstance(leaf, ir.SomeNode)})
        if not used:
            return condition
        conditions = []
        for i in used:
            base = self.template.quantified[i]
            block = self.template.nodes[base][0]
            conditions += [
                f"q{i}.doc = {self.document(block)}.doc",
                f"q{i}.node1 = {self.node(base)}",
                f"q{i}.var1 = t.v{base}",
                f"q{i}.var2 = t.u{i}",
            ]
        sources = ", ".join(f"{self.stored} q{i}" for i in used)
        return f"EXISTS (SELECT 1 FROM {sources} WHERE {' AND '.join([*conditions, condition])})"

    def _text(self, expr: ir.Expr) -> str:
        """SQL of an expression as a string, or of a boolean function."""
        if ir.is_number(expr):
            return f"xscl_string({self._number(expr)})"
        match expr:
            case ir.NodeValue(node=node):
                return f"e{node}.text"
            case ir.SomeNode(path=path):
                return f"q{path}.text"
            case ir.Parameter(index=index):
                return f"t.k{index}"
        assert isinstance(expr, ir.Call)
        return self._call(expr)

    def _number(self, expr: ir.Expr) -> str:
        """SQL of an expression as a number, NULL for NaN."""
        match expr:
            case ir.NodeValue(node=node):
                return f"e{node}.num"
            case ir.SomeNode(path=path):
                return f"q{path}.num"
            case ir.Parameter(index=index, numeric=True):
                return f"t.k{index}"
            case ir.Arithmetic():
                return f"not_nan({self._arithmetic(expr)})"
            case ir.Call(name="number", args=(argument,)):
                return self._number(argument)
        if ir.is_number(expr):
            assert isinstance(expr, ir.Call)
            return f"not_nan({self._call(expr)})"
        return f"not_nan(xscl_number({self._text(expr)}))"

    def _arithmetic(self, expr: ir.Expr) -> str:
        """SQL of a sum or product. NaN passes through, so that one look at the whole is enough."""
        if not isinstance(expr, ir.Arithmetic):
            return self._number(expr)
        left, right = self._arithmetic(expr.left), self._arithmetic(expr.right)
        return f"({left} {_ARITHMETIC[expr.calculation]} {right})"

    def _call(self, expr: ir.Call) -> str:
        function = FUNCTIONS[expr.name]
        args = [
            (self._number if function.parameter(i) == "number" else self._text)(arg)
            for i, arg in enumerate(expr.args)
        ]
        native = _NATIVE.get(expr.name)
        return native(*args) if native else f"{_sql_name(expr.name, len(args))}({', '.join(args)})"


def parameters(template: Template) -> list[tuple[int, bool]]:
    """The parameters of a template's residuals in order, and whether each is a number."""
    found = {
        leaf.index: leaf.numeric
        for part in template.residuals
        for leaf in ir.leaves(part)
        if isinstance(leaf, ir.Parameter)
    }
    return sorted(found.items())


def _sql_name(name: str, arity: int) -> str:
    return f"xscl_{name.replace('-', '_')}_{arity}"


_SQL_TYPES = {"string": "VARCHAR", "number": "DOUBLE", "boolean": "BOOLEAN", "any": "VARCHAR"}


MACROS = "CREATE OR REPLACE TEMP MACRO not_nan(x) AS CASE WHEN isnan(x) THEN NULL ELSE x END"
"""What queries call besides functions."""


def register_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the language's own functions callable from SQL, for those that DuckDB lacks."""
    _register(connection, "xscl_string", lambda x: to_string(x), ["DOUBLE"], "VARCHAR")
    _register(connection, "xscl_number", FUNCTIONS["number"].call, ["VARCHAR"], "DOUBLE")
    for name, function in FUNCTIONS.items():
        if name in _NATIVE or name == "number":
            continue
        for arity in range(function.least, (function.most or function.least) + 1):
            kinds = [_SQL_TYPES[function.parameter(i)] for i in range(arity)]
            result = _SQL_TYPES[function.result] + ("[]" if function.several else "")
            _register(connection, _sql_name(name, arity), function.call, kinds, result)


def _register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    call: Callable[..., Any],
    kinds: list[Any],
    result: Any,
) -> None:
    from duckdb.func import FunctionNullHandling

    # DuckDB reads the number of parameters off the function's signature.
    names = ", ".join(f"a{i}" for i in range(len(kinds)))
    numeric = [kind == "DOUBLE" for kind in kinds]

    def apply(values: tuple[Any, ...]) -> Any:
        given = [
            math.nan if value is None and is_double else value
            for value, is_double in zip(values, numeric, strict=True)
        ]
        return None if any(value is None for value in given) else call(*given)

    wrapper = eval(f"lambda {names}: apply(({names},))", {"apply": apply})
    connection.create_function(
        name, wrapper, kinds, result, null_handling=FunctionNullHandling.SPECIAL
    )
