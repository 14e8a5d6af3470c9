"""How often the same value comes in real feeds, and what a thousand shards make of it.

The figures are counts alone: pairs (k, n) say that n values came k times each. Links and titles are
of 12,030 items of 19 sections of one publisher in 18 hours of July 2021 (BBC); authors, categories and feeds of the 4,572
entries of 177 feeds of blogs, podcasts and papers that the collections Kagi Small Web, CodeHollow,
GreatFire and Scripting News test their programs with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.measure import figures, table
from broker.cluster.router import Router
from broker.cluster.routes import Part, Route, bucket, side_of

Values = npt.NDArray[np.int64]

_AUTHORS = (
    *((1, 367), (2, 101), (3, 16), (4, 19), (5, 5), (6, 11), (7, 3), (8, 3), (9, 3), (10, 32)),
    *((11, 1), (12, 3), (14, 1), (15, 9), (16, 2), (20, 2), (25, 3), (30, 2), (33, 1), (34, 1)),
    *((40, 1), (57, 1), (64, 1), (65, 1), (90, 1)),
)
_CATEGORIES = (
    *((1, 2004), (2, 420), (3, 181), (4, 89), (5, 43), (6, 49), (7, 27), (8, 29), (9, 18)),
    *((10, 28), (11, 9), (12, 8), (13, 8), (14, 9), (15, 2), (16, 5), (17, 4), (18, 6), (19, 4)),
    *((20, 1), (21, 2), (22, 4), (24, 3), (25, 4), (26, 3), (28, 2), (29, 1), (30, 4), (31, 1)),
    *((33, 2), (34, 1), (35, 1), (37, 1), (38, 1), (39, 3), (40, 1), (41, 1), (43, 1), (48, 1)),
    *((49, 1), (61, 2), (62, 2), (64, 2), (65, 1), (72, 1), (77, 1), (78, 1), (85, 1), (90, 1)),
    *((115, 1), (132, 1), (159, 1), (212, 1), (244, 1)),
)
_FEEDS = (
    *((1, 4), (2, 2), (3, 1), (4, 3), (5, 4), (6, 3), (9, 5), (10, 47), (11, 2), (12, 2)),
    *((13, 2), (14, 1), (15, 20), (16, 1), (17, 2), (18, 2), (20, 9), (22, 3), (25, 9), (30, 10)),
    *((32, 2), (33, 3), (34, 2), (35, 1), (38, 1), (40, 1), (43, 1), (46, 1), (50, 6), (56, 2)),
    *((57, 2), (58, 1), (59, 1), (64, 1), (65, 1), (66, 2), (77, 1), (85, 2), (92, 1), (100, 2)),
    *((118, 1), (141, 1), (183, 1), (200, 1), (235, 1)),
)
REAL: dict[str, tuple[Sequence[tuple[int, int]], bool]] = {
    "links": (((1, 10_970), (2, 374), (3, 83), (4, 13), (5, 1), (6, 1)), True),
    "titles": (((1, 11_182), (2, 311), (3, 59), (4, 11), (5, 1)), True),
    "authors": (_AUTHORS, False),
    "categories": (_CATEGORIES, False),
    "feeds": (_FEEDS, False),
}
"""By name, how often values came, and whether more documents bring other values: as if further
publishers were like the first. Otherwise the values stay the same however many documents come, which
is worse than it can be."""


def real(name: str, size: int) -> Values:
    """So many values, which come as often as those of a sample do."""
    counts, fresh = REAL[name]
    times = np.concatenate([np.full(n, k) for k, n in counts])
    sample = np.repeat(np.arange(len(times)), times)
    copies = np.arange(size) // len(sample)
    values: Values = np.resize(sample, size) + (copies * len(times) if fresh else 0)
    return values


def zipf(exponent: float, size: int) -> Values:
    """So many values, as frequent as their rank to the power of minus the exponent."""
    weights = np.arange(1, size + 1, dtype=float) ** -exponent
    drawn: Values = np.random.default_rng(1).choice(size, size, p=weights / weights.sum())
    return drawn


def simulated(size: int, shards: int = 1_000) -> str:
    """The load of the largest shard of the mean, in a join of a stream with itself: of the rows
    that it stores, and the pairs that it makes. With the documents of hot values in one shard
    each, and in rows and columns of a square."""
    lines = []
    for exponent in (0.0, 0.8, 1.0, 1.2):
        lines.append([f"Zipf {exponent}", *_told(zipf(exponent, size), shards)])
    for name in REAL:
        lines.append([name, *_told(real(name, size), shards)])
    heads = [
        "values",
        "hot",
        "rows",
        "pairs",
        "rows, spread",
        "pairs, spread",
        "rows in all, times",
    ]
    return table(heads, lines)


def _told(values: Values, shards: int) -> list[str]:
    left, right = Part(0, "value", 1, (1,), hot="row"), Part(1, "value", 2, (2,), hot="column")
    size = len(values)
    codes = np.random.default_rng(2).integers(0, 2**64, values.max() + 1, np.uint64)[values]
    columns = {
        "doc": np.random.default_rng(3).permutation(size).repeat(2),
        "var1": np.zeros(2 * size, np.int32),
        "var2": np.tile(np.array([1, 2], np.int32), size),
        "value": codes.repeat(2),
    }
    found, counts = np.unique(codes, return_counts=True)
    pairs = [*zip(found.tolist(), counts.tolist(), strict=True)]
    sides = {value: side_of(n, size / shards, shards) for value, n in pairs}
    hot = {value: side for value, side in sides.items() if side > 1}
    told, sizes = [f"{len(hot):,}"], []
    for own in ({}, hot):
        router = Router([Route((left, right))], shards, own)
        rows = [len(places) for places in router.places(pa.table(columns))]
        made = np.zeros(shards)
        for value, n in pairs:
            cells = np.arange(own.get(value, 1) ** 2)
            np.add.at(made, (bucket(value) + cells) % shards, n * n / len(cells))
        told += [figures(max(rows) * shards / sum(rows)), figures(made.max() / made.mean())]
        sizes.append(sum(rows))
    # Rows are told of the mean without hot values, so that both can be compared.
    told[3] = figures(float(told[3]) * sizes[1] / sizes[0])
    return [*told, figures(sizes[1] / sizes[0])]
