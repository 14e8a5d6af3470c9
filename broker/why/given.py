"""Exactly what holds and what does not between documents that somebody names, step by step.

In: a query taken apart, and stored documents. Out: for each block and document its conditions, and
the nodes that it takes; for each two blocks that take them, the predicates, order and window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from broker.pattern.conditions import compile_condition
from broker.pattern.instances import Row
from broker.state.stored_documents import StoredDocument
from broker.text.people import shorten
from broker.text.units import duration_up
from broker.why import cures
from broker.why.asked import Asked
from broker.why.joins import Between, Side, count, satisfied, span
from xscl.stage1.tree import ATTRIBUTE, ELEMENT, Tree
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_expression

_LONGEST = 80
_NODES = 20


@dataclass(frozen=True, slots=True)
class Step:
    """What is asked, whether it holds (None: it was not asked, for one before it fails), and the
    values or times there."""

    asked: str
    holds: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node that a variable takes: its path in the document, and its text."""

    variable: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class GivenBlock:
    """A document at a block."""

    document: str
    block: int
    passed: bool
    steps: tuple[Step, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class GivenJoin:
    """Two of the documents at two blocks that take them."""

    left: int
    right: int
    left_document: str
    right_document: str
    holds: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """What is told about given documents; `lines` in words."""

    documents: tuple[str, ...]
    blocks: tuple[GivenBlock, ...]
    joins: tuple[GivenJoin, ...]
    lines: tuple[str, ...] = ()


def given(asked: Asked, documents: Sequence[StoredDocument], most: int) -> Given:
    """What a query says of these documents; `most` pairs of rows are looked at."""
    blocks: list[GivenBlock] = []
    rows: dict[tuple[int, int], list[Row]] = {}
    for place, document in enumerate(documents):
        tree, judged = asked.judge(document)
        for number, each in judged.items():
            made = given_block(asked, document, tree, number, each.failed, each.rows)
            blocks.append(made)
            if made.passed:
                rows[place, number] = each.rows
    joins = []
    for between in asked.betweens:
        for one, other in permutations(range(len(documents)), 2):
            left, right = rows.get((one, between.left)), rows.get((other, between.right))
            if left and right:
                joins.append(_join(between, left, right, most))
    found = Given(tuple([d.id for d in documents]), tuple(blocks), tuple(joins))
    return Given(found.documents, found.blocks, found.joins, tuple(_lines(asked, found)))


def given_block(
    asked: Asked,
    document: StoredDocument,
    tree: Tree,
    number: int,
    failed: int | None,
    rows: Sequence[Row],
) -> GivenBlock:
    """What a block says of a document, as `Asked.judge` has it."""
    reader = asked.readers[number]
    steps = []
    for place, text in enumerate(reader.asked):
        holds = None if failed is not None and place > failed else place != failed
        detail = ""
        if place == failed:
            if place < len(reader.conditions):
                detail = cures.of_condition(reader, reader.conditions[place], [tree]) or ""
            else:
                conjunct = reader.conjuncts[place - len(reader.conditions)]
                detail = "; ".join(cures.values_of(conjunct, [(row, row) for row in rows[:_NODES]]))
        steps.append(Step(text, holds, detail))
    nodes = {
        (name, node): Node(name, path_of(tree, node), shorten(tree.text(node), _LONGEST))
        for row in rows
        for name, node in row.nodes.items()
    }
    taken = tuple([*nodes.values()][:_NODES]) if failed is None else ()
    return GivenBlock(document.id, number, failed is None, tuple(steps), taken)


def path_of(tree: Tree, node: int) -> str:
    """Where a node is: /book[1]/author[2]/@lang."""
    steps: list[str] = []
    while node:
        parent, name = tree.parents[node], tree.names[node].rpartition("}")[2]
        if tree.kinds[node] == ATTRIBUTE:
            steps.append(f"@{name}")
        else:
            alike = [
                other
                for other in tree.children(parent)
                if (tree.kinds[other], tree.names[other]) == (tree.kinds[node], tree.names[node])
            ]
            shown = name if tree.kinds[node] == ELEMENT else "text()"
            steps.append(shown if len(alike) == 1 else f"{shown}[{alike.index(node) + 1}]")
        node = parent
    return "/" + "/".join(reversed(steps))


def _join(between: Between, left: Sequence[Row], right: Sequence[Row], most: int) -> GivenJoin:
    one, other = left[0], right[0]
    steps = []
    for join in between.equalities:
        alone = Between(between.left, between.right, False, None, [join], [])
        both = count(alone, left, right, most)
        values = (_values(join.left, left), _values(join.right, right))
        detail = f"{values[0]} and {values[1]}"
        if both.agree:
            common = _keys(join.left, left) & _keys(join.right, right)
            detail = shorten(", ".join(sorted(map(str, common))), _LONGEST)
        steps.append(Step(join.text, bool(both.agree), detail))
    found = count(between, left, right, most)
    if len(between.equalities) > 1:
        steps.append(Step("all of them for the same nodes", bool(found.agree), ""))
    if one.key == other.key:
        steps.append(Step("two different documents", False, "they are one document"))
    if between.order:
        apart = duration_up(abs(other.start - one.end))
        holds = one.end < other.start
        detail = f"{apart} {'before' if holds else 'after, or at once'}"
        steps.append(Step("comes before", holds, detail))
    if between.window is not None:
        length = span((one, other))
        text = f"within {format_microseconds(between.window)}"
        steps.append(Step(text, length <= between.window, f"{duration_up(length)} apart"))
    pairs = [pair for each in found.agree.values() for pair in each]
    for predicate in between.residuals:
        condition = compile_condition(predicate)
        passing = [pair for pair in pairs if satisfied(condition, *pair)]
        shown = passing or pairs
        steps.append(
            Step(
                format_expression(predicate),
                bool(passing) if pairs else None,
                "; ".join(cures.values_of(predicate, shown[:_NODES])),
            )
        )
        pairs = passing or pairs
    passed = bool(found.passed)
    return GivenJoin(between.left, between.right, one.id, other.id, passed, tuple(steps))


def _keys(side: Side, rows: Sequence[Row]) -> set[object]:
    return {key for row in rows for key in side.keys(row)}


def _values(side: Side, rows: Sequence[Row]) -> str:
    texts = sorted(map(str, _keys(side, rows)))
    return shorten(", ".join(texts), _LONGEST) or "nothing"


# -- in words ----------------------------------------------------------------------------------

_SIGNS = {True: "yes", False: "NO ", None: "-  "}


def _lines(asked: Asked, found: Given) -> Iterator[str]:
    for name in found.documents:
        own = [block for block in found.blocks if block.document == name]
        if not own:
            yield elsewhere(name, asked.streams)
        for block in own:
            yield from block_lines(asked.readers[block.block].shown, block)
    for join in found.joins:
        verdict = "go together" if join.holds else "do not go together"
        yield f"  {join.left_document} and {join.right_document} {verdict}"
        yield from map(_line, join.steps)


def elsewhere(document: str, streams: Collection[str]) -> str:
    """That a document has nothing to do with a query over these streams."""
    return f"  {document} flows through none of the streams {', '.join(sorted(streams))}"


def block_lines(shown: str, block: GivenBlock) -> Iterator[str]:
    """A document at a block, which is `shown` as this."""
    yield f"  {block.document} as {shown}"
    yield from map(_line, block.steps)
    for node in block.nodes:
        yield f"         {node.variable} is {node.path}: {node.text}"


def _line(step: Step) -> str:
    detail = f"  ({step.detail})" if step.detail else ""
    return f"    {_SIGNS[step.holds]}  {step.asked}{detail}"
