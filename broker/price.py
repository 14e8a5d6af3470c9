"""The price of a query: how many candidates its joins are expected to make in a day, and how many
bytes of documents pass its blocks.

In: a compiled query, and what is known of the streams that it reads. Out: an estimate, by the rates
of streams, the shares of documents that have the paths, windows, and how many values differ at what
joins. Filters that compare are not counted, so it is an upper estimate of what is searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from broker.model import UNBOUNDED
from broker.query.prepared import Compiled
from broker.query.shape import Shape
from broker.statistics.model import PathSeen, StreamSeen
from xscl.errors import Diagnostic
from xscl.normal.operators import FollowedBy, operators_of
from xscl.normal.treepattern import PatternNode, TreePattern

if TYPE_CHECKING:
    from broker.statistics.streams import StreamCatalogue

MANY = 1_000_000
"""Candidates a day from which on a query is dear."""

_DAY = 86_400 * 1_000_000
_TOLD = 20
"""Dear queries of one registration that are told of."""
_FORMS = 200
"""Forms of queries of one registration that are estimated."""

FREQUENT = 20
"""Values of each path by which prices are estimated."""
_SAMPLE = 200
"""Documents of a stream whose values are read for that, at a registration."""

Find = Callable[[str], StreamSeen | None]
"""What is known of a stream, with its most frequent values."""


def quickly(catalogue: StreamCatalogue) -> Find:
    """What is known of streams by a small sample of their documents."""
    return partial(catalogue.stream, values=FREQUENT, sample=_SAMPLE)


@dataclass(frozen=True, slots=True)
class Price:
    """`candidates` a day are expected of a query, and `bytes` of documents that pass its blocks.
    `documents` a day have the paths of each block. `grows`: without a window there are more each
    day; the candidates are those of a day in which as many documents are stored as now. `unjoined`:
    no value join connects some block."""

    candidates: float
    bytes: float
    documents: tuple[float, ...]
    grows: bool
    unjoined: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of queries of one form. `rate` and `stored` documents have its paths, a day and now;
    `selectivity` is the share of pairs with those before it that have equal values; `sides`: it is
    looked for before and after them, or only after."""

    stream: str
    size: float
    rate: float
    stored: float
    selectivity: float
    sides: int
    joined: bool


class Prices:
    """The prices of queries. All queries of a form are estimated by what is known of its streams at
    the first of them, so very many cost little more than one."""

    def __init__(self, find: Find) -> None:
        self._find = cache(find)
        self._forms: dict[int, tuple[Shape, list[_Block] | None]] = {}

    def of(self, query: Compiled) -> Price | None:
        """The price of a query; None if it is an event pattern, whose growth the plan tells, or
        reads a stream of which nothing is known."""
        if query.shape.is_pattern:
            return None
        known = self._forms.get(id(query.shape))
        if known is None:
            known = self._forms[id(query.shape)] = query.shape, _blocks(query, self._find)
        blocks = known[1]
        return None if blocks is None else _priced(blocks, query.shape.windows(query.literals))

    @property
    def forms(self) -> int:
        """How many forms were estimated."""
        return len(self._forms)


def price(query: Compiled, find: Find) -> Price | None:
    """The price of one query; None as for `Prices.of`."""
    return Prices(find).of(query)


def dear(
    queries: Iterable[Compiled], find: Find, candidates: float = MANY
) -> tuple[list[Diagnostic], int]:
    """Warnings about queries that are expected to make more than so many candidates a day, and how
    many such queries there are: only the first are told of. Of very many forms the first are
    estimated."""
    prices = Prices(find)
    warnings: list[Diagnostic] = []
    count = 0
    for query in queries:
        if prices.forms >= _FORMS:
            break
        found = prices.of(query)
        if found is None or found.candidates <= candidates:
            continue
        count += 1
        if len(warnings) < _TOLD:
            warnings.append(_warning(query, found))
    return warnings, count


def _warning(query: Compiled, found: Price) -> Diagnostic:
    cure = "narrow its window, or join by a value that fewer documents have"
    if found.unjoined:
        cure = "join its blocks by a value, as in {x = y, 1 day}, or narrow its window"
    elif found.grows:
        cure = "give it a window, as in WITHIN 1 day, or join by a value that fewer documents have"
    return Diagnostic(
        "dear-query",
        f"{query.id} is expected to make {found.candidates:,.0f} candidates a day",
        query.resolved.query.span,
        cure,
        "warning",
    )


def _priced(blocks: Sequence[_Block], windows: Sequence[int]) -> Price:
    candidates = blocks[0].rate
    for block, window in zip(blocks[1:], windows, strict=False):
        window = min(window, windows[-1])
        around = block.stored if window >= UNBOUNDED else block.rate * window / _DAY
        candidates *= min(block.sides * around, block.stored) * block.selectivity
    rates: dict[str, tuple[float, float]] = {}
    for block in blocks:
        rates[block.stream] = max(rates.get(block.stream, (0.0, 0.0)), (block.rate, block.size))
    return Price(
        candidates,
        sum(rate * size for rate, size in rates.values()),
        tuple([block.rate for block in blocks]),
        any(min(w, windows[-1]) >= UNBOUNDED for w in windows[: len(blocks) - 1]),
        not all(block.joined for block in blocks[1:]),
    )


def _blocks(query: Compiled, find: Find) -> list[_Block] | None:
    """What is known of the blocks of a form; None if some stream is not known."""
    normal = query.passes().normal
    streams = [find(block.stream) for block in normal.blocks]
    operators = [*operators_of(normal.operators)]
    found: list[_Block] = []
    for place, (block, seen) in enumerate(zip(normal.blocks, streams, strict=True)):
        if seen is None:
            return None
        share = _share(block, seen)
        before = normal.blocks[:place]
        joins = [(a, b) for a, b in normal.joins if _between(a, b, block, before)]
        selectivity = 1.0
        for a, b in joins:
            selectivity *= _selectivity(*(_seen(n, normal.blocks, streams) for n in (a, b)))
        follows = place > 0 and isinstance(operators[place - 1], FollowedBy)
        found.append(
            _Block(
                *(block.stream, seen.size, seen.per_day * share, seen.documents * share),
                *(selectivity, 1 if follows else 2, bool(joins)),
            )
        )
    return found


def _between(
    a: PatternNode, b: PatternNode, block: TreePattern, before: Sequence[TreePattern]
) -> bool:
    """Whether a value join connects a block with one of those before it."""
    return (_in(a, block) and any(_in(b, each) for each in before)) or (
        _in(b, block) and any(_in(a, each) for each in before)
    )


def _in(node: PatternNode, block: TreePattern) -> bool:
    return any(node is each for each in block.nodes)


def _share(block: TreePattern, seen: StreamSeen) -> float:
    """The share of a stream's documents that have all paths of a block, at most."""
    counts = [sum(p.documents for p in _paths(node, seen)) for node in block.nodes]
    return min([1.0, *(count / seen.documents for count in counts)])


def _seen(
    node: PatternNode, blocks: list[TreePattern], streams: list[StreamSeen | None]
) -> PathSeen | None:
    """The most frequent label path of a node."""
    for block, seen in zip(blocks, streams, strict=True):
        if seen is not None and _in(node, block):
            return max(_paths(node, seen), key=lambda each: each.documents, default=None)
    return None


def _paths(node: PatternNode, seen: StreamSeen) -> list[PathSeen]:
    """The label paths that a node of a pattern may have."""
    expression = ""
    at: PatternNode | None = node
    while at is not None:
        if at.step is not None and at.step.test.kind in ("element", "attribute"):
            mark = "@" if at.step.test.kind == "attribute" else ""
            name = re.escape(at.step.test.name) if at.step.test.name else "[^/@]+"
            between = "/" if at.step.axis == "/" else "/(?:[^/]+/)*"
            expression = f"{between}{mark}{name}{expression}"
        at = at.parent
    known = re.compile(expression)
    return [each for each in seen.paths if known.fullmatch(each.path)]


def _selectivity(left: PathSeen | None, right: PathSeen | None) -> float:
    """The share of pairs of documents that have a value in common, if values are independent."""
    if left is None or right is None:
        return 1.0
    sides = [dict(path.values) for path in (left, right)]
    sizes = [max(1, path.sampled) for path in (left, right)]
    common = sides[0].keys() & sides[1].keys()
    frequent = sum(sides[0][v] / sizes[0] * sides[1][v] / sizes[1] for v in common)
    rest = [
        1 - sum(side[v] for v in common) / size for side, size in zip(sides, sizes, strict=True)
    ]
    others = max(_distinct(left), _distinct(right)) - len(common)
    return min(1.0, frequent + max(0.0, rest[0]) * max(0.0, rest[1]) / max(1.0, others))


def _distinct(path: PathSeen) -> float:
    """About how many values differ among all documents: as many more as there are documents, the
    more so the rarer values are repeated in the sample."""
    sampled = max(1, path.sampled)
    more: float = max(1.0, path.documents / sampled) ** min(1.0, path.distinct / sampled)
    return path.distinct * more
