"""Which tree should search an event pattern, and where should its NOT be asked?

    python -m bench.patterns_plans [--quick]

ZStream's questions about a sequence of four. Its trees, left-deep, right-deep and bushy, as one
predicate becomes more selective and as one block becomes rarer, beside the tree that is planned
here with each slice. And A, NOT B, C: the NOT asked within the search (as in ZStream's NSEQ)
against all pairs of A and C, of which those with a B between are taken out at the top. All find
the same matches, which is asserted. Rows come to one registered pattern in batches of a hundred;
events per CPU second.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.measure import BROKER, finish, parser, table
from bench.pattern_plots import plotted
from bench.pattern_rows import Asked, Block, Match, Quote, compiled, quotes, rate, step
from bench.planner import compiled as plan_of
from bench.planner import fixed, search, stream
from broker.planner import Shape

TREES: dict[str, Shape] = {
    "left-deep": (((0, 1), 2), 3),
    "right-deep": (0, (1, (2, 3))),
    "bushy": ((0, 1), (2, 3)),
    "inner": (0, ((1, 2), 3)),
}
_FOUR = """
    S/a[./v->v0] FOLLOWED BY S/b[./v->v1] FOLLOWED BY S/c[./v->v2] FOLLOWED BY S/d[./v->v3]
    WHERE v1 > v0 + {0} AND v3 > v2 + {1} WITHIN 60 ms
"""
Series = dict[str, list[tuple[float, float]]]


def trees(
    cases: Sequence[tuple[float, str, Mapping[str, float]]], what: str, count: int
) -> tuple[str, Series]:
    """A row for each case: its number for the plot, its text, and the weights of the blocks."""
    rows, series = [], Series()
    for value, text, weights in cases:
        pattern = plan_of(text)
        events = stream(pattern, weights, count)
        taken, wanted = search(pattern, events, None)
        cells = [f"{value:g}", f"{wanted:,}"]
        found = {BROKER: taken}
        for name, shape in TREES.items():
            found[name], matches = search(pattern, events, fixed(shape))
            assert matches == wanted, f"{name}: {matches:,} matches, and {wanted:,}"
        for name, seconds in found.items():
            cells.append(rate(count, seconds))
            series.setdefault(name, []).append((value, count / seconds))
        rows.append(cells)
        print(*cells, sep=" | ", flush=True)
    return table([what, "matches", "planned", *TREES], rows), series


def by_selectivity(count: int) -> tuple[str, Series]:
    """The predicate of the first two blocks leaves a share that falls."""
    even = dict.fromkeys("abcd", 1.0)
    cases = []
    for least in (0, 55, 80, 90):
        share = sum(max(0, 99 - least - v) for v in range(100)) / 10_000
        cases.append((share, _FOUR.format(least, 0), even))
    return trees(cases, "share left of A, B", count)


def by_rate(count: int) -> tuple[str, Series]:
    """The last block becomes rarer than the others."""
    cases = [
        (float(ratio), _FOUR.format(0, 0), dict.fromkeys("abc", float(ratio)) | {"d": 1.0})
        for ratio in (1, 3, 10, 30)
    ]
    return trees(cases, "A, B, C for each D", count)


# -- NOT -----------------------------------------------------------------------------------------

_WINDOW = 300


def on_top(blocks: Sequence[Block], every: Sequence[Quote]) -> tuple[float, list[Match]]:
    """CPU seconds for all pairs of A and C and for taking out those with a B between, and what is
    left."""
    ends = (blocks[0], blocks[2])
    text = f"{{0}} FOLLOWED BY {{1}} WHERE s0 = s2 WITHIN {_WINDOW} s"
    pattern = compiled(text.format(*(block.text() for block in ends)))
    taken, pairs = step(pattern, every, [Asked("", ends)], 100)
    of = {at: symbol for at, symbol, _ in every}
    begun = time.process_time()
    between: dict[str, list[int]] = defaultdict(list)
    for at, symbol, price in every:
        if blocks[1].low <= price <= blocks[1].high:
            between[symbol].append(at)
    kept = []
    for pair in pairs:
        times = between[of[pair[1]]]
        place = bisect_right(times, pair[1])
        if place == len(times) or times[place] >= pair[2]:
            kept.append(pair)
    return taken + time.process_time() - begun, kept


def negation(every: Sequence[Quote], widths: Sequence[int]) -> tuple[str, Series]:
    """B from nearly never to as often as all others."""
    rows, series = [], Series()
    text = "{0} FOLLOWED BY NOT {1} FOLLOWED BY {2}"
    text += f" WHERE s0 = s1 AND s0 = s2 WITHIN {_WINDOW} s"
    for width in widths:
        blocks = (Block(80, 99, "s0"), Block(20, 19 + width, "s1"), Block(1, 19, "s2"))
        pattern = compiled(text.format(*(block.text() for block in blocks)))
        early, found = step(pattern, every, [Asked("", blocks)], 100)
        late, kept = on_top(blocks, every)
        assert sorted(found) == sorted(kept), f"{len(found):,} matches, and {len(kept):,} on top"
        cells = [f"{width} %", f"{len(found):,}", rate(len(every), early), rate(len(every), late)]
        series.setdefault(BROKER, []).append((width, len(every) / early))
        series.setdefault("at the top", []).append((width, len(every) / late))
        rows.append(cells)
        print(*cells, sep=" | ", flush=True)
    return table(["B", "matches", "within the search", "at the top"], rows), series


def main() -> None:
    quick = parser(__doc__).parse_args().quick
    count = 300 if quick else 700
    parts: list[str] = []
    for title, name, x, (text, series) in (
        (
            "Trees by what one predicate leaves",
            "patterns_plans-selectivity",
            "share of pairs of A and B",
            by_selectivity(count),
        ),
        ("Trees by rates", "patterns_plans-rates", "A, B, C for each D", by_rate(count)),
        (
            "NOT within the search and at the top",
            "patterns_plans-not",
            "per cent of quotes that are B",
            negation(quotes(1_000 if quick else 10_000, 5), (1, 5, 20, 60)),
        ),
    ):
        parts += [f"{title}:", text, *plotted(quick, name, title, x, series)]
    finish("patterns_plans", parts, quick)


if __name__ == "__main__":
    main()
