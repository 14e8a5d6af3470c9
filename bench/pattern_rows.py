"""Quotes as the rows that the blocks of event patterns take, and the step of the patterns over them.

A question is written once, with a place for each of its blocks; a block asks for a price between
two bounds, and of one of very many queries also for a symbol. Variables that begin with s are bound
to the symbol, the others to the price.
"""

from __future__ import annotations

import csv
import gzip
import time
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import xscl
from bench.frozen import frozen
from broker.pattern.in_order.events import ALL, Event
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Row
from broker.pattern.plan import Plan
from broker.pattern.standing import Standing
from broker.query.patterns import PatternQuery, pattern_query

START = 1_790_000_000
BARS = Path(__file__).parents[2] / "shared" / "data" / "events_lean_ticks/derived/minute.csv.gz"
"""Bars of stocks that are kept beside the project, if they are."""

Quote = tuple[int, str, int]
"""Time in seconds, symbol, price from 0 to 99. Those of one symbol differ in their times."""

Match = tuple[int, ...]
"""The number of a query, and the times of its documents."""

_US = 1_000_000
_BUDGET = 1 << 60
EXPIRES = 1_000
"""After so many events what has gone is dropped: the engine does so now and then, not with each
batch."""


@dataclass(frozen=True, slots=True)
class Block:
    """A price from `low` to `high`, and the variables that are bound."""

    low: int
    high: int
    variables: str = ""

    def moved(self, by: int) -> Block:
        """With narrower bounds, but for those that all prices are within."""
        low = self.low + by if self.low else 0
        return Block(low, self.high - by if self.high < 99 else 99, self.variables)

    def text(self, symbol: str = "") -> str:
        bound = "".join(
            f"[./{'s' if name[0] == 's' else 'p'}->{name}]" for name in self.variables.split()
        )
        asked = f"[./p >= {self.low}]" if self.low else ""
        asked += f"[./p <= {self.high}]" if self.high < 99 else ""
        own = f"[./s = '{symbol}']" if symbol else ""
        return f"S/q{own}{asked}{bound}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query: its symbol, "" for any, and its blocks."""

    symbol: str
    blocks: tuple[Block, ...]


def quotes(count: int, symbols: int = 200, seed: int = 6) -> list[Quote]:
    """One a second."""
    random = Random(seed)
    return [
        (START + n, f"S{random.randrange(symbols)}", random.randrange(100)) for n in range(count)
    ]


def bars() -> list[Quote]:
    """The bars, one a minute of each symbol; the price is the hundredth in which its volume lies
    among those of its symbol. None where they are not there."""
    if not BARS.exists():
        return []
    with gzip.open(BARS, "rt", encoding="utf-8") as file:
        found = [
            (datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC), row["symbol"], row["volume"])
            for row in csv.DictReader(file)
        ]
    volumes: dict[str, list[float]] = {}
    for _, symbol, volume in found:
        volumes.setdefault(symbol, []).append(float(volume))
    for each in volumes.values():
        each.sort()
    made: dict[tuple[int, str], int] = {}
    for at, symbol, volume in found:
        every = volumes[symbol]
        price = bisect_left(every, float(volume)) * 100 // len(every)
        made.setdefault((int(at.timestamp()), symbol), price)
    return sorted((at, symbol, price) for (at, symbol), price in made.items())


def head(every: Sequence[Quote], count: int) -> Sequence[Quote]:
    """The first ones, and those that are at the same time as the last of them."""
    while 0 < count < len(every) and every[count][0] == every[count - 1][0]:
        count += 1
    return every[:count]


def compiled(text: str) -> PatternQuery:
    (query,) = xscl.check([xscl.parse(text)]).queries
    return pattern_query(query)


class Rows:
    """Makes the rows of quotes for the taps of a plan, of which the first belong to the blocks of a
    query, and what is behind them to PARTITION CONTIGUITY, for which no filter counts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._paths = [
            [(text, text[0] == "s", text.partition("/")[0]) for text in tap.paths]
            for tap in plan.taps
        ]
        self._partition = [bool(tap.partition) for tap in plan.taps]

    def taps(self, quote: Quote, blocks: Sequence[Block]) -> list[int]:
        price = quote[2]
        own = [n for n, block in enumerate(blocks) if block.low <= price <= block.high]
        return [*own, *range(len(blocks), len(self._plan.taps))]

    def row(self, tap: int, number: int, quote: Quote) -> Row:
        at, symbol, price = quote
        values = {
            text: [symbol if of_symbol else str(price)] for text, of_symbol, _ in self._paths[tap]
        }
        nodes = {name: 2 if of_symbol else 3 for _, of_symbol, name in self._paths[tap]}
        tuples = frozenset([(symbol,)]) if self._partition[tap] else None
        time_us = at * _US
        return Row(
            *(number, number, number, time_us, time_us, f"{number:09}", 1), nodes, values, tuples
        )


Batch = tuple[list[tuple[int, int, Row]], int, bool]
"""Rows, each with its query and the place of its tap; the watermark behind them, and whether what
has gone is dropped then."""


def batches(
    plan: Plan,
    every: Sequence[Quote],
    asked: Sequence[Asked],
    size: int,
    common: Collection[int] = (),
) -> list[Batch]:
    """What comes to queries of one plan: what stage 1 and the join give the patterns. Documents of
    taps in `common` come once for ALL of them."""
    rows = Rows(plan)
    of: dict[str, list[int]] = {}
    for number, each in enumerate(asked):
        of.setdefault(each.symbol, []).append(number)
    found: list[Batch] = []
    for first in range(0, len(every), size):
        own: list[tuple[int, int, Row]] = []
        chunk = every[first : first + size]
        for number, quote in enumerate(chunk, first):
            for owner in (*of.get("", ()), *of.get(quote[1], ())):
                for tap in rows.taps(quote, asked[owner].blocks):
                    if not common or tap < len(asked[owner].blocks):
                        own.append((owner, tap, rows.row(tap, number, quote)))
            own += [(ALL, tap, rows.row(tap, number, quote)) for tap in common]
        expires = first // EXPIRES != (first + size) // EXPIRES
        found.append((own, chunk[-1][0] * _US, expires))
    return found


def step(
    pattern: PatternQuery, every: Sequence[Quote], asked: Sequence[Asked], size: int
) -> tuple[float, list[Match]]:
    """CPU seconds from rows to matches, and these."""
    shared = pattern.ordered
    if shared is not None:
        given = batches(pattern.plan, every, asked, size, sorted(shared.common)[:1])
        return _together(shared, given, len(asked))
    return _each(pattern.plan, batches(pattern.plan, every, asked, size))


def _together(shared: Shared, given: Iterable[Batch], queries: int) -> tuple[float, list[Match]]:
    together = Together(shared, _BUDGET)
    for owner in range(queries):
        together.join(owner, 0)
    read: list[tuple[list[Event], int, bool]] = []
    arrival = 0
    for rows, watermark, expires in given:
        events = []
        for owner, tap, row in rows:
            arrival += 1
            event = shared.readers[tap].read(owner, arrival, row)
            if event is not None:
                events.append(event)
        read.append((events, watermark, expires))
    found: list[Match] = []
    with frozen():
        spent = 0.0
        for events, watermark, expires in read:
            begun = time.process_time()
            together.extend(events)
            decided = together.published(together.decided(watermark))
            if expires:
                together.expire(watermark)
            spent += time.process_time() - begun
            for owner, published in decided.items():
                assert published is not None
                found += [match_of(owner, each.instance.rows) for each in published]
    return spent, found


def _each(plan: Plan, given: Iterable[Batch]) -> tuple[float, list[Match]]:
    standings: dict[int, Standing] = {}
    found: list[Match] = []
    with frozen():
        spent = 0.0
        for rows, watermark, expires in given:
            arrived: dict[int, dict[int, list[Row]]] = {}
            for owner, tap, row in rows:
                arrived.setdefault(owner, {}).setdefault(tap, []).append(row)
            begun = time.process_time()
            for owner, own in arrived.items():
                standing = standings.get(owner)
                if standing is None:
                    standing = standings[owner] = Standing(plan, None, _BUDGET)
                published = standing.advance(own, watermark)
                if published:
                    found += [match_of(owner, each.instance.rows) for each in published]
            if expires:
                for standing in standings.values():
                    standing.expire(watermark)
            spent += time.process_time() - begun
    return spent, found


def match_of(owner: int, rows: Sequence[Row]) -> Match:
    return (owner, *(row.end // _US for row in rows))


def rate(count: int, seconds: float) -> str:
    """Events a CPU second."""
    found = count / seconds
    return f"{found:,.0f}" if found < 100_000 else f"{round(found, -3):,.0f}"
