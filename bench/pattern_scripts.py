"""Event patterns by hand in Python: a closure for each query and symbol, one event at a time.

Written for quotes of one symbol that come in the order of time, no two at once: no ties, no late
documents, no versions. A closure takes the time and the price of a quote, and appends its matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bench.frozen import frozen
from bench.pattern_rows import Asked, Block, Match, Quote

Feed = Callable[[int, int, list[Match]], None]
Maker = Callable[[int, Sequence[Block], int], Feed]
"""Makes the closure of a query by its number, its blocks and its window in seconds."""


def sequence(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """Each A, B and C in this order."""
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = ((b.low, b.high) for b in blocks)
    starts: list[int] = []
    pairs: list[tuple[int, int]] = []

    def feed(at: int, price: int, found: list[Match]) -> None:
        nonlocal starts, pairs
        if c_low <= price <= c_high and pairs:
            pairs = [pair for pair in pairs if pair[0] + window >= at]
            found += [(owner, *pair, at) for pair in pairs]
        if b_low <= price <= b_high and starts:
            starts = [start for start in starts if start + window >= at]
            pairs += [(start, at) for start in starts]
        if a_low <= price <= a_high:
            starts.append(at)

    return feed


def next_next(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """Of each A the next B, and of it the next C."""
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = ((b.low, b.high) for b in blocks)
    starts: list[int] = []
    pairs: list[tuple[int, int]] = []

    def feed(at: int, price: int, found: list[Match]) -> None:
        if c_low <= price <= c_high and pairs:
            found += [(owner, *pair, at) for pair in pairs if pair[0] + window >= at]
            pairs.clear()
        if b_low <= price <= b_high and starts:
            pairs.extend([(start, at) for start in starts])
            starts.clear()
        if a_low <= price <= a_high:
            starts.append(at)

    return feed


def lacking(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """A, no B, and C."""
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = ((b.low, b.high) for b in blocks)
    starts: list[int] = []

    def feed(at: int, price: int, found: list[Match]) -> None:
        if c_low <= price <= c_high:
            found += [(owner, start, at) for start in starts if start + window >= at]
        if b_low <= price <= b_high:
            starts.clear()
        if a_low <= price <= a_high:
            starts.append(at)

    return feed


def longest(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """A, all B that are above the average of those before, and C: others are skipped."""
    return _group(owner, blocks, window, contiguous=False)


def contiguous(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """The same where nothing is skipped."""
    return _group(owner, blocks, window, contiguous=True)


def _group(owner: int, blocks: Sequence[Block], window: int, contiguous: bool) -> Feed:
    (a_low, a_high), (b_low, b_high), (c_low, c_high) = ((b.low, b.high) for b in blocks)
    runs: list[tuple[int, int, int, tuple[int, ...]]] = []

    def feed(at: int, price: int, found: list[Match]) -> None:
        nonlocal runs
        runs = [run for run in runs if run[0] + window >= at]
        if c_low <= price <= c_high:
            found += [(owner, run[0], *run[3], at) for run in runs if run[1]]
        if b_low <= price <= b_high:
            kept = []
            for run in runs:
                start, count, total, taken = run
                if not count or price * count > total:
                    kept.append((start, count + 1, total + price, (*taken, at)))
                elif not contiguous:
                    kept.append(run)
            runs = kept
        elif contiguous:
            runs = []
        if a_low <= price <= a_high:
            runs.append((at, 0, 0, ()))

    return feed


def dearer(owner: int, blocks: Sequence[Block], window: int) -> Feed:
    """Of each A the next B that is dearer."""
    (a_low, a_high), (b_low, b_high) = ((b.low, b.high) for b in blocks)
    waiting: list[tuple[int, int]] = []

    def feed(at: int, price: int, found: list[Match]) -> None:
        nonlocal waiting
        if b_low <= price <= b_high and waiting:
            waiting = [each for each in waiting if each[0] + window >= at]
            found += [(owner, start, at) for start, own in waiting if own < price]
            waiting = [each for each in waiting if each[1] >= price]
        if a_low <= price <= a_high:
            waiting.append((at, price))

    return feed


def run(
    make: Maker, asked: Sequence[Asked], every: Sequence[Quote], window: int
) -> tuple[float, list[Match]]:
    """CPU seconds for all queries, which are found by the symbol of a quote; and the matches."""
    any_symbol = [n for n, each in enumerate(asked) if not each.symbol]
    own: dict[str, list[int]] = {}
    for number, each in enumerate(asked):
        own.setdefault(each.symbol, []).append(number)
    feeds: dict[str, list[Feed]] = {}
    found: list[Match] = []
    with frozen():
        begun = time.process_time()
        for at, symbol, price in every:
            these = feeds.get(symbol)
            if these is None:
                numbers = [*any_symbol, *own.get(symbol, ())]
                these = feeds[symbol] = [make(n, asked[n].blocks, window) for n in numbers]
            for feed in these:
                feed(at, price, found)
        taken = time.process_time() - begun
    return taken, found
