"""The reason for each document and each pair, by brute force: the oracle's own embeddings and values.

In: a checked query and documents. Out: the same counts as `broker.why` gives, worked out one document and
one pair after the other. A block is cut off behind each of its conditions *in its text*, and each piece is
asked of the document as a block of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from tests.oracle import queries
from tests.oracle.matches import Standing, Stored, _assignments, _interval
from tests.oracle.oracle import Arrival
from tests.oracle.patterns import embeddings
from tests.oracle.trees import Tree
from xscl import ast
from xscl.check.program import ResolvedQuery


@dataclass
class BlockReasons:
    documents: int = 0
    passed: int = 0
    fell: Counter[int] = field(default_factory=Counter)


@dataclass
class PairReasons:
    agree: int = 0
    ordered: int = 0
    within: int = 0
    passed: int = 0


@dataclass
class Reasons:
    blocks: list[BlockReasons]
    pairs: dict[tuple[int, int], PairReasons]
    joined: int
    ordered: int
    matched: int


def stored(arrivals: Sequence[Arrival]) -> list[Stored]:
    return [
        Stored(a.key, a.id, a.streams, a.timestamp, a.timestamp, Tree(a.xml), number)
        for number, a in enumerate(arrivals)
    ]


def reasons(resolved: ResolvedQuery, documents: Sequence[Stored]) -> Reasons:
    """The counts for a query of Part 1 that has no query in its FROM."""
    standing = Standing(resolved, 0, None, {})
    count = len(standing.blocks)
    own: list[list[ast.Expr]] = [[] for _ in range(count)]
    between: list[ast.Expr] = []
    for predicate in standing.predicates:
        named = {standing.home[name] for name in queries.variables(predicate)}
        (own[min(named)] if len(named) == 1 else between).append(predicate)
    blocks, passing = [], []
    for number, block in enumerate(standing.blocks):
        found = BlockReasons()
        taken = []
        for document in documents:
            if block.stream not in document.streams:
                continue
            found.documents += 1
            failed = _first_failing(standing, number, block, own[number], document)
            if failed is None:
                found.passed += 1
                taken.append(document)
            else:
                found.fell[failed] += 1
        blocks.append(found)
        passing.append(taken)
    pairs = {
        (i, j): _pair(standing, (i, j), between, own, passing)
        for i in range(count)
        for j in range(i + 1, count)
    }
    joined = ordered = matched = 0
    for chosen in product(*passing):
        if len({d.key for d in chosen}) < count or not _assigned(
            standing, standing.predicates, chosen
        ):
            continue
        joined += 1
        ordered += _interval(_unbounded(resolved.query), iter(chosen)) is not None
        matched += _interval(resolved.query, iter(chosen)) is not None
    return Reasons(blocks, pairs, joined, ordered, matched)


def _first_failing(
    standing: Standing, number: int, block: ast.Block, own: Sequence[ast.Expr], document: Stored
) -> int | None:
    """Which part of the block's text, or of the predicates on it, is the first that fails."""
    namespaces = standing.resolved.namespaces
    cut = [*pieces(block.steps)]
    for place, steps in enumerate(cut):
        if not embeddings(document.tree, replace(block, steps=steps), namespaces):
            return place
    for place in range(len(own)):
        if not _assigned(standing, own[: place + 1], [document], [number]):
            return len(cut) + place
    return None


def pieces(steps: tuple[ast.Step, ...]) -> Iterator[tuple[ast.Step, ...]]:
    """A path, cut off behind each of the conditions in it."""
    for at, step in enumerate(steps):
        before, bare = steps[:at], replace(step, variable=None, filters=())
        if not (step.test.kind == "self" and step.axis == "/"):
            yield (*before, bare)
        flat = [each for part in step.filters for each in _flat(part)]
        for place, part in enumerate(flat):
            for piece in _pieces_of(part):
                yield (*before, replace(bare, filters=(*flat[:place], piece)))


def _flat(part: ast.Expr) -> list[ast.Expr]:
    if isinstance(part, ast.And) and not _counts(part):
        return [each for inner in part.parts for each in _flat(inner)]
    return [part]


def _counts(part: object) -> bool:
    """Whether a filter counts positions somewhere outside the filters of its own paths."""
    match part:
        case ast.Call(name=name, args=args):
            return name in ("position", "last") or any(map(_counts, args))
        case ast.And(parts=parts) | ast.Or(parts=parts) | ast.Union(parts=parts):
            return any(map(_counts, parts))
        case ast.Not(part=inner):
            return _counts(inner)
        case ast.Comparison(left=left, right=right) | ast.Arithmetic(left=left, right=right):
            return _counts(left) or _counts(right)
    return False


def _pieces_of(part: ast.Expr) -> Iterator[ast.Expr]:
    if _is_path(part):
        assert isinstance(part, ast.Path)
        for steps in pieces(part.steps):
            yield replace(part, steps=steps)
        return
    if isinstance(part, ast.Comparison):
        for side in (part.left, part.right):
            if _is_path(side):
                yield from _pieces_of(side)
    yield part


def _is_path(part: ast.Expr) -> bool:
    plain = ("element", "attribute", "text")
    return (
        isinstance(part, ast.Path)
        and part.variable is None
        and bool(part.steps)
        and all(
            s.test.axis is None
            and (s.test.kind in plain or (s.test.kind == "self" and s.axis == "//"))
            for s in part.steps
        )
    )


def _pair(
    standing: Standing,
    pair: tuple[int, int],
    between: Sequence[ast.Expr],
    own: Sequence[Sequence[ast.Expr]],
    passing: Sequence[Sequence[Stored]],
) -> PairReasons:
    """What becomes of the pairs of two blocks."""
    named = [(p, {standing.home[name] for name in queries.variables(p)}) for p in between]
    asked = [p for p, blocks in named if blocks == {*pair}]
    equal = [p for p in asked if _is_equality(p, standing.home)]
    alone = [*own[pair[0]], *own[pair[1]]]
    found = PairReasons()
    for one, other in product(passing[pair[0]], passing[pair[1]]):
        if one.key == other.key or not _assigned(standing, [*alone, *equal], [one, other], pair):
            continue
        found.agree += 1
        if not _in_order(standing.resolved.query, pair, one, other):
            continue
        found.ordered += 1
        length = max(one.end, other.end) - min(one.start, other.start)
        if any(w is not None and length > w for w in _windows(standing.resolved.query, pair)):
            continue
        found.within += 1
        found.passed += _assigned(standing, [*alone, *asked], [one, other], pair)
    return found


def _is_equality(predicate: ast.Expr, home: Mapping[str, int]) -> bool:
    """Whether it is an equality of one value of one block with one of another."""
    if not isinstance(predicate, ast.Comparison) or predicate.op != "=":
        return False
    sides = [
        {home[name] for name in queries.variables(side)}
        for side in (predicate.left, predicate.right)
    ]
    return [len(side) for side in sides] == [1, 1] and sides[0] != sides[1]


def _assigned(
    standing: Standing,
    predicates: Sequence[ast.Expr],
    documents: Sequence[Stored],
    blocks: Sequence[int] | None = None,
) -> bool:
    """Whether some choice of nodes of these documents, at these blocks, satisfies predicates."""
    blocks = range(len(standing.blocks)) if blocks is None else blocks
    part = _Part(standing, list(blocks), predicates)
    choices = [standing.embedded(at, d) for at, d in zip(blocks, documents, strict=True)]
    return next(_assignments(part, documents, choices), None) is not None  # type: ignore[arg-type]


class _Part:
    """Some blocks of a query, with some of its predicates, as the oracle's assignments take them."""

    def __init__(
        self, standing: Standing, blocks: list[int], predicates: Sequence[ast.Expr]
    ) -> None:
        self.resolved = standing.resolved
        self.home = {n: blocks.index(b) for n, b in standing.home.items() if b in blocks}
        self.due: list[list[ast.Expr]] = [[] for _ in blocks]
        for predicate in predicates:
            named = [self.home[name] for name in queries.variables(predicate)]
            self.due[max(named, default=0)].append(predicate)
        self.read = standing.read


def _joins(pattern: ast.Pattern, first: int = 0) -> Iterator[tuple[ast.Join, range, range]]:
    """The operators, with the numbers of the blocks on either side."""
    if isinstance(pattern, ast.Join):
        left, right = len([*queries.terms(pattern.left)]), len([*queries.terms(pattern.right)])
        yield from _joins(pattern.left, first)
        yield from _joins(pattern.right, first + left)
        yield pattern, range(first, first + left), range(first + left, first + left + right)


def _in_order(query: ast.Query, pair: tuple[int, int], one: Stored, other: Stored) -> bool:
    return all(
        one.end < other.start
        for join, left, right in _joins(query.pattern)
        if join.kind == "FOLLOWED BY" and pair[0] in left and pair[1] in right
    )


def _windows(query: ast.Query, pair: tuple[int, int]) -> Iterator[int | None]:
    yield None if query.within is None else query.within.microseconds
    for join, left, right in _joins(query.pattern):
        if {*pair} <= {*left, *right}:
            yield None if join.window is None else join.window.microseconds


def _unbounded(query: ast.Query) -> ast.Query:
    def without(pattern: ast.Pattern) -> ast.Pattern:
        if not isinstance(pattern, ast.Join):
            return pattern
        return replace(
            pattern, left=without(pattern.left), right=without(pattern.right), window=None
        )

    return replace(query, pattern=without(query.pattern), within=None)
