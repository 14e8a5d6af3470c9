"""What to write instead: from documents that fail at a condition, or rows that do not agree.

A cure is tried before it is told: with it, some of the documents or pairs at hand pass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches

from broker.pattern.conditions import compile_condition
from broker.pattern.instances import Row
from broker.pattern.values import Scope
from broker.text.people import shorten
from broker.why.blocks import BlockReader, Condition, is_plain_path
from broker.why.joins import RESTS, Side, ValueJoin, satisfied, value_join
from broker.why.softer import softened
from feeds.vocabulary import AROUND, INSTEAD, ROOTS
from xscl import ast
from xscl.functions.table import FUNCTIONS, to_number, to_string
from xscl.kinds import positional
from xscl.normal.lower import complete
from xscl.stage1 import xpath
from xscl.stage1.tree import ATTRIBUTE, ELEMENT, Tree
from xscl.syntax.printer import format_expression, quoted

_LISTED = 8
_LONGEST = 40
_PAIRS = 20_000


def of_condition(reader: BlockReader, condition: Condition, samples: Sequence[Tree]) -> str | None:
    """What to write instead of a condition at which these documents fail."""
    at = _nodes(reader, condition, samples)
    if condition.step is not None:
        return _of_step(condition.step, condition.text, at)
    assert condition.filter is not None
    return _of_filter(reader, condition.filter, at)


def helps(hint: str) -> bool:
    """Whether a hint is a cure, and does not only say what there is."""
    return "write " in hint or "would pass with " in hint


def _nodes(
    reader: BlockReader, condition: Condition, samples: Sequence[Tree]
) -> list[tuple[Tree, int]]:
    """The nodes at which a condition is asked."""
    if not condition.origin:
        return [(tree, 0) for tree in samples]
    read = reader.embedder.reader(condition.origin)
    return [(tree, node) for tree in samples for node in read(tree, 0)]


# -- a name that is not there ------------------------------------------------------------------


def _of_step(step: ast.Step, text: str, at: Sequence[tuple[Tree, int]]) -> str | None:
    """What to write instead of the last step of a path."""
    test = step.test
    if test.name is None or not at:
        return None
    here: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for tree, node in at:
        here.update([*dict.fromkeys(_names(tree, _children(tree, node)))])
        below.update([*dict.fromkeys(_names(tree, range(node + 1, tree.ends[node])))])
    there = below if step.axis == "//" else here
    wanted = f"@{test.name}" if test.kind == "attribute" else test.name
    other = test.name if test.kind == "attribute" else f"@{test.name}"
    before = text[: text.rindex(step.axis)]
    if test.prefix is not None and wanted in there:
        return f"it is in another namespace: write {before}{step.axis}{wanted}, without the prefix"
    if other in there:
        what = "an attribute" if other.startswith("@") else "an element"
        return f"it is {what}: write {before}{step.axis}{other}"
    if wanted in below:
        return f"it is further down: write {before}//{wanted}"
    names = [name for name, _ in there.most_common()]
    if test.name in ROOTS and "channel_title" in below and "item" in below:
        return f"write {AROUND}"
    meant = INSTEAD.get(test.name, "") if "channel_title" in there else ""
    if meant.removeprefix("./") in there:
        return f"in feed items it is called so: write {meant}"
    near = nearest(wanted, names)
    if near is not None:
        return f"write {before}{step.axis}{near}"
    if not names:
        return f"there is nothing below it but text: write {before}" if before else None
    return f"there are: {', '.join(names[:_LISTED])}"


def _children(tree: Tree, node: int) -> Iterator[int]:
    yield from tree.attributes(node) if node else ()
    yield from tree.children(node)


def _names(tree: Tree, nodes: Iterable[int]) -> Iterator[str]:
    for node in nodes:
        local = tree.names[node].rpartition("}")[2]
        if tree.kinds[node] == ELEMENT:
            yield local
        elif tree.kinds[node] == ATTRIBUTE:
            yield f"@{local}"


def nearest(wanted: str, names: Sequence[str]) -> str | None:
    """The name that was probably meant: but for case the same, or nearly the same."""
    folded = wanted.casefold()
    same = next((name for name in names if name.casefold() == folded), None)
    if same is not None:
        return same
    near = get_close_matches(wanted, names[:200], 1)
    if near:
        return near[0]
    return next(
        (n for n in names if n.casefold() in (folded + "s", folded.removesuffix("s"))), None
    )


# -- values that differ ------------------------------------------------------------------------


def _of_filter(reader: BlockReader, part: ast.Expr, at: Sequence[tuple[Tree, int]]) -> str | None:
    """What to write instead of a filter that none of these nodes passes."""

    if isinstance(part, ast.Number):
        most = max(Counter([id(tree) for tree, _ in at]).values(), default=0)
        return f"there are no more than {most}: write [last()]" if most < part.value else None
    if positional(part):
        return None

    def passing(other: ast.Expr) -> int:
        truth = xpath.compile_truth(complete(reader.lowering.filter(other)))
        return len({id(tree) for tree, node in at if truth(tree, node, 1, 1)})

    found = _softer(part, passing, "document")
    if found is not None:
        return found
    computed = _computed(reader, part, at)
    if computed is not None:
        return computed
    path = next(filter(is_plain_path, _operands(part)), None)
    if path is None:
        return None
    read = reader.embedder.reader(path.steps)
    texts = [tree.text(n) for tree, node in at for n in read(tree, node)]
    return _nearly(part, texts) or _there_are(
        format_expression(path, True), texts, _asks_numbers(part)
    )


def _computed(reader: BlockReader, part: ast.Expr, at: Sequence[tuple[Tree, int]]) -> str | None:
    """The numbers that a filter computes of these nodes and compares, in words."""
    if not isinstance(part, ast.Comparison) or not isinstance(part.left, ast.Call):
        return None
    function = FUNCTIONS.get(part.left.name)
    if part.left.name != "count" and (function is None or function.result != "number"):
        return None
    value = xpath.compile_value(complete(reader.lowering.filter(part.left)))
    found = [*dict.fromkeys([to_string(value(tree, node, 1, 1)) for tree, node in at])]
    return f"{format_expression(part.left, True)} is {', '.join(found[:_LISTED])}"


def of_predicate(predicate: ast.Expr, rows: Sequence[Row]) -> str | None:
    """What to write instead of a predicate on one block that none of these rows satisfies."""

    def passing(other: ast.Expr) -> int:
        holds = compile_condition(other)
        return len({row.doc for row in rows if holds(Scope(dict.fromkeys(row.nodes, row)))})

    found = _softer(predicate, passing, "document")
    if found is not None:
        return found
    path = next(iter(_operands(predicate)), None)
    if path is None:
        return None
    text = format_expression(path)
    texts = [each for row in rows for each in row.values.get(text, ())]
    return _nearly(predicate, texts) or _there_are(text, texts, _asks_numbers(predicate))


def of_pairs(predicate: ast.Expr, pairs: Sequence[tuple[Row, Row]]) -> str | None:
    """What to write instead of a predicate between two blocks that no pair satisfies."""

    def passing(other: ast.Expr) -> int:
        holds = compile_condition(other)
        return len({(a.doc, b.doc) for a, b in pairs if satisfied(holds, a, b)})

    return _softer(predicate, passing, "pair")


def values_of(predicate: ast.Expr, pairs: Iterable[Sequence[Row]]) -> tuple[str, ...]:
    """What the paths of a predicate are in these pairs or instances, in words."""
    pairs = [*pairs]
    said = []
    for text in dict.fromkeys([format_expression(path) for path in _operands(predicate)]):
        texts = [t for pair in pairs for row in pair for t in row.values.get(text, ())]
        said += [f"{text} is {_some(texts)}"] if texts else []
    return tuple(said)


def of_join(
    join: ValueJoin,
    left: Sequence[Row],
    right: Sequence[Row],
    block: int,
    home: dict[str, int],
    rest: Callable[[], object],
) -> tuple[str | None, tuple[Row, Row] | None]:
    """What to write instead of a value join on which no pair agrees, and a pair that then would;
    `rest` is called after each few hundred rows."""
    example: list[tuple[Row, Row]] = []

    def passing(other: ast.Expr) -> int:
        made = value_join(other, block, home)
        if made is None:
            return 0
        pairs = {(a.doc, b.doc): (a, b) for a, b in _agreeing(made, left, right, rest)}
        example[:] = [*pairs.values()][:1]
        return len(pairs)

    found = _softer(join.predicate, passing, "pair")
    if found is not None:
        return found, example[0]
    one, other = [*_values(join.left, left)], [*_values(join.right, right)]
    if not one or not other:
        return None, None
    values = f"{_such_as(join.left, one)}; {_such_as(join.right, other)}"
    return f"no two documents have a value in common: {values}", None


def _such_as(side: Side, texts: Sequence[str]) -> str:
    return f"{format_expression(side.expr)} is {_some(texts)}"


def _values(side: Side, rows: Sequence[Row]) -> Iterator[str]:
    for row in rows[:_LISTED]:
        yield from map(str, sorted(side.keys(row), key=str))


def _agreeing(
    join: ValueJoin, left: Sequence[Row], right: Sequence[Row], rest: Callable[[], object]
) -> Iterator[tuple[Row, Row]]:
    by_key: dict[object, list[Row]] = {}
    for number, row in enumerate(right):
        if not number % RESTS:
            rest()
        for key in join.right.keys(row):
            by_key.setdefault(key, []).append(row)
    looked = 0
    for number, one in enumerate(left):
        if not number % RESTS:
            rest()
        for key in join.left.keys(one):
            for other in by_key.get(key, ()):
                looked += 1
                if looked > _PAIRS:
                    return
                if other.key != one.key:
                    yield one, other


def _softer(part: ast.Expr, passing: Callable[[ast.Expr], int], what: str) -> str | None:
    """The first softer form of a predicate with which something passes."""
    for other in softened(part):
        found = passing(other)
        if found:
            them = f"{found:,} {what}{'' if found == 1 else 's'}"
            return f"{them} would pass with {format_expression(other, True)}"
    return None


def _operands(part: ast.Expr) -> Iterator[ast.Path]:
    match part:
        case ast.Path():
            yield part
        case ast.Comparison(left=left, right=right) | ast.Arithmetic(left=left, right=right):
            yield from _operands(left)
            yield from _operands(right)
        case ast.Call(args=parts) | ast.And(parts=parts) | ast.Or(parts=parts):
            for each in parts:
                yield from _operands(each)
        case ast.Not(part=inner):
            yield from _operands(inner)


def _asks_numbers(part: ast.Expr) -> bool:
    return isinstance(part, ast.Comparison) and (
        part.op not in ("=", "!=") or isinstance(part.right, ast.Number)
    )


def _nearly(part: ast.Expr, texts: Sequence[str]) -> str | None:
    """The value, or the word of one, that is nearly what a predicate asks for."""
    match part:
        case ast.Comparison(op="=", right=ast.String(value=wanted)):
            near = nearest(wanted, texts)
        case ast.Call(name="contains", args=(_, ast.String(value=wanted))):
            near = nearest(wanted, [word for text in texts for word in text.split()])
        case _:
            return None
    return None if near is None else f"there is {quoted(near)}: write {quoted(near)}"


def _there_are(path: str, texts: Sequence[str], numbers: bool) -> str | None:
    if not texts:
        return None
    said = f"{path} is {_some(texts)}"
    if numbers and all(math.isnan(to_number(text)) for text in texts):
        return f"{said}, which is no number"
    return said


def _some(texts: Iterable[str]) -> str:
    """A few of the values, for people."""
    distinct = [*dict.fromkeys([shorten(" ".join(text.split()), _LONGEST) for text in texts])]
    shown = ", ".join([quoted(text) for text in distinct[:3]])
    return f"{shown}, …" if len(distinct) > 3 else shown
