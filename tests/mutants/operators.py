"""The mutation operators: small mistakes that could be made in a file.

Each is one change of one expression or statement, found in the syntax tree and made in the text, so
that lines keep their numbers. Left out is what no test should depend on: texts, annotations, and what
is only imported for types.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

PACKAGES = ("broker/join", "broker/state", "broker/documents", "broker/delivery", "feeds")
"""What is mutated."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_OTHER_FUNCTION = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ORDER_IS_NOTHING = ("min", "max", "isinstance")
"""Functions whose first two arguments are not swapped: it changes nothing, or is an error at once."""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of a file. `start` and `end` are places in its UTF-8 bytes."""

    path: str
    start: int
    end: int
    kind: str
    replacement: str
    line: int
    last_line: int
    before: str
    after: str

    def text(self, source: bytes) -> bytes:
        """The file with the mistake, with as many lines as before."""
        lost = source[self.start : self.end].count(b"\n")
        return (
            source[: self.start]
            + self.replacement.encode()
            + source[self.end :].replace(b"\n", b"\n" * (lost + 1), 1)
        )


def draw(root: Path, seed: int, count: int) -> list[Mutant]:
    """That many of all mutants of `PACKAGES`, each as likely as the others, in order of their place."""
    sources = {
        file.relative_to(root).as_posix(): file.read_bytes()
        for package in PACKAGES
        for file in sorted((root / package).rglob("*.py"))
    }
    every = [mutant for path, source in sources.items() for mutant in mutants(path, source)]
    random.Random(seed).shuffle(every)
    compiling = (mutant for mutant in every if _compiles(mutant.text(sources[mutant.path])))
    return sorted(islice(compiling, count))


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All of a file, in the order of their place. Very few of them may not compile."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    for changed in _running(tree):
        for kind, node, after in _changes(changed):
            written = f"({after})" if isinstance(node, ast.expr) else after
            last = node.end_lineno or node.lineno
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[last - 1] + (node.end_col_offset or 0)
            texts = (_short(ast.unparse(node)), _short(after))
            found.add(Mutant(path, start, end, kind, written, node.lineno, last, *texts))
    return sorted(found)


Change = tuple[str, ast.expr | ast.stmt, str]
"""Its kind, the node that is replaced, and by what."""


def _running(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes that do something when the program runs."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(
        node, ast.JoinedStr
    ):  # the places of what is in it are not known before Python 3.12
        return
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__"):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _running(child)


def _changes(node: ast.expr | ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
        return
    for change in _EXPRESSIONS:
        for kind, changed in change(node):
            yield kind, node, ast.unparse(changed)


def _of_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.Break():
            yield "loop", node, "continue"
        case ast.Continue():
            yield "loop", node, "break"
        case ast.For(iter=values) | ast.AsyncFor(iter=values):
            yield "loop", values, "()"
        case ast.If(test) | ast.While(test):
            yield "condition", test, ast.unparse(ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.Assert() | ast.Delete():
            yield "removed", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed", node, "pass"
        case ast.AugAssign(op=op):
            yield "removed", node, "pass"
            if type(op) in _CALCULATED:
                changed = copy.deepcopy(node)
                changed.op = _CALCULATED[type(op)]()
                yield "arithmetic", node, ast.unparse(changed)


def _comparison(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for number, op in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[number] = _COMPARED[type(op)]()
            yield "comparison", changed


def _boolean(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "boolean", ast.BoolOp(other, values)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield "boolean" if isinstance(node.op, ast.Not) else "arithmetic", operand


def _arithmetic(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.BinOp) and type(node.op) in _CALCULATED:
        yield "arithmetic", ast.BinOp(node.left, _CALCULATED[type(node.op)](), node.right)


def _constant(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Constant(bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield "constant", ast.Constant(value + 1)


def _condition(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.IfExp(test, body, orelse):
            yield "condition", ast.IfExp(test, orelse, body)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for number, loop in enumerate(node.generators):
                for place, test in enumerate(loop.ifs):
                    changed = copy.deepcopy(node)
                    changed.generators[number].ifs[place] = ast.UnaryOp(ast.Not(), test)
                    yield "condition", changed


def _call(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Call(func, [ast.expr() as one, ast.expr() as two, *rest], keywords):
            starred = isinstance(one, ast.Starred) or isinstance(two, ast.Starred)
            same = ast.unparse(one) == ast.unparse(two)
            if not starred and not same and ast.unparse(func) not in _ORDER_IS_NOTHING:
                yield "arguments", ast.Call(func, [two, one, *rest], keywords)
    match node:
        case ast.Call(ast.Name(name), arguments, keywords) if name in _OTHER_FUNCTION:
            yield "function", ast.Call(ast.Name(_OTHER_FUNCTION[name]), arguments, keywords)


_EXPRESSIONS: Sequence[Callable[[ast.expr], Iterator[tuple[str, ast.expr]]]] = (
    *(_comparison, _boolean, _arithmetic, _constant, _condition, _call),
)


def _compiles(text: bytes) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _short(text: str) -> str:
    """In one line, with the middle left out where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= 140 else f"{line[:90]} … {line[-45:]}"
