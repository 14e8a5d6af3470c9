"""What does a document cost where very many event patterns differ in constants only?

    python -m bench.patterns_shared [--quick]

Quotes, one a second, of 200 symbols; each subscription asks of a symbol of its own. Three
questions: the NEXT quote that is dearer, two dear quotes with NOT a cheap one between them, and
three falls in a row (FOLD); and others whose first blocks are the same. First what a document costs
from end to end, with its state in memory, and what it takes to register. Then the step of the
patterns alone, from what was read of the documents to candidates, beside a script of Python that is
written for that one question, and for NEXT beside SQL for DuckDB; equal counts of matches are
asserted first. The step costs the same for any number of queries to which nothing comes. CPU time.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import duckdb
import pyarrow as pa

import xscl
from bench.frozen import frozen
from bench.measure import finish, parser, table
from bench.patterns import Quote, falls, higher
from broker import Broker, Document
from broker.pattern.in_order.events import Event
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Row
from broker.query.patterns import pattern_query

_START = 1_790_000_000
_HOT = 200
_FASTER = 250
_LEFT = "S/q[./s = '{0}'][./p->p]"
_RIGHT = "S/q[./s = '{0}'][./p->r]"
QUESTIONS = {
    "NEXT": f"{_LEFT} NEXT {{{{r > p, 5 min}}}} {_RIGHT}",
    "NOT": f"{_LEFT} FOLLOWED BY NOT S/q[./s = '{{0}}'][./p->n] FOLLOWED BY {_RIGHT}"
    " WHERE p > 80 AND n < 40 AND r > 80 WITHIN 5 min",
    "FOLD": f"{_LEFT} FOLD {{{{, r < prev(r, p)}}}} {_RIGHT} WHERE count(r) = 3",
}

_FIRST = ("first", "second")
PREFIXES = {
    "two NEXT": "S/q[./s = 'first'][./p->p] NEXT {{r > p + 95, 1 h}} S/q[./s = 'second'][./p->r]"
    " NEXT {{1 h}} S/q[./s = '{0}']",
    "a NOT": "S/q[./s = 'first'] FOLLOWED BY NOT S/q[./s = 'second'] FOLLOWED BY S/q[./s = '{0}']"
    " WITHIN 1 h",
    "a group": "S/q[./s = 'first'][./p = '7'] FOLLOWED BY (S/q[./s = 'second'][./p->r])+ FOLLOWED BY"
    " S/q[./s = '{0}'] WITHIN 5 min",
}
"""Queries whose first blocks are the same: none waits for what is not there for all."""


def quotes(count: int) -> list[Quote]:
    random = Random(6)
    return [(_START + n, f"S{random.randrange(_HOT)}", random.randrange(100)) for n in range(count)]


def prefixed(count: int) -> list[Quote]:
    """Quotes of which two thirds are for the first blocks."""
    random = Random(7)
    return [(at, random.choice((*_FIRST, symbol)), price) for at, symbol, price in quotes(count)]


# -- by hand -----------------------------------------------------------------------------------


def _not(every: Sequence[Quote]) -> int:
    found = 0
    waiting: dict[str, list[int]] = defaultdict(list)
    for at, symbol, now in every:
        if now < 40:
            waiting[symbol].clear()
        elif now > 80:
            own = waiting[symbol] = [t for t in waiting[symbol] if t + 300 >= at]
            found += len(own)
            own.append(at)
    return found


SCRIPTS: dict[str, Callable[[Sequence[Quote]], int]] = {
    "NEXT": higher,
    "NOT": _not,
    "FOLD": partial(falls, least=3),
}


def in_sql(every: Sequence[Quote], batch: int) -> tuple[float, int]:
    """NEXT in DuckDB, a statement for each batch: CPU seconds and matches."""
    with duckdb.connect() as base:
        base.execute("SET threads = 1")
        base.execute("CREATE TABLE waits (t BIGINT, s VARCHAR, p BIGINT)")
        found, begun = 0, time.process_time()
        for first in range(0, len(every), batch):
            columns = zip(*every[first : first + batch], strict=True)
            new = pa.table([*map(list, columns)], names=["t", "s", "p"])
            base.register("new", new)
            base.execute("INSERT INTO waits SELECT * FROM new")
            pairs = base.execute(
                "SELECT w.t, min(n.t) FROM waits w JOIN new n ON n.s = w.s AND n.t > w.t"
                " AND n.p > w.p AND n.t <= w.t + 300 GROUP BY w.t"
            ).fetchall()
            found += len(pairs)
            gone = [at for at, _ in pairs]
            base.execute(
                "DELETE FROM waits WHERE t < ? OR t IN (SELECT unnest(?::BIGINT[]))",
                [every[min(first + batch, len(every)) - 1][0] - 300, gone],
            )
        return time.process_time() - begun, found


# -- the step of the patterns ------------------------------------------------------------------


Columns = list[Event]
"""What the blocks of all queries take of quotes, in order of arrival."""


def columns(shared: Shared, every: Sequence[Quote]) -> list[Columns]:
    """Of each quote the rows that blocks take of it, as the step has them."""
    found = []
    arrival = 0
    for number, (at, symbol, price) in enumerate(every):
        time_us = at * 1_000_000
        own = []
        for tap, reader in shared.readers.items():
            values = {path: [str(price)] for path in shared.plan.taps[tap].paths}
            row = Row(
                *(number, number, number, time_us, time_us, str(at), 1),
                *(dict.fromkeys(values, 2), values),
            )
            arrival += 1
            event = reader.read(int(symbol[1:]), arrival, row)
            if event is not None:
                own.append(event)
        found.append(own)
    return found


def step(name: str, every: Sequence[Quote], batch: int) -> tuple[float, int]:
    """CPU seconds of the step from columns to candidates, and the number of matches."""
    (query,) = xscl.check([xscl.parse(QUESTIONS[name].format("x"))]).queries
    shared = pattern_query(query).ordered
    assert shared is not None
    together = Together(shared, 10**6)
    given = columns(shared, every)
    batches = [
        (
            [event for own in given[first : first + batch] for event in own],
            every[min(len(every), first + batch) - 1][0] * 1_000_000,
        )
        for first in range(0, len(given), batch)
    ]
    with frozen():
        candidates, begun = 0, time.process_time()
        for events, watermark in batches:
            together.extend(events)
            candidates += len(together.decided(watermark))
        taken_time = time.process_time() - begun
    return taken_time, candidates


_BOUND = {"NEXT": 10**6}
"""A price behind which nothing comes: what waits with it waits until its window ends."""


def waiting(name: str, every: Sequence[Quote], count: int, batch: int = 100) -> list[float]:
    """CPU seconds of the step where nothing waits, and where `count` instances do. They stand among
    what the documents are looked up in, but for NOT, where all that wait there are matches: there
    they wait for others."""
    (query,) = xscl.check([xscl.parse(QUESTIONS[name].format("x"))]).queries
    shared = pattern_query(query).ordered
    assert shared is not None
    given = columns(shared, every)
    first = every[0][0] - 1
    hot = _HOT if name in _BOUND else 0
    held = [
        (first, f"S{n % hot if hot else _HOT + n % _HOT}", _BOUND.get(name, 99))
        for n in range(count)
    ]
    spent, found = [], set()
    for before in ([], held):
        together = Together(shared, 10**6)
        for own in columns(shared, before):
            together.extend([event for event in own if event[2] == 0])
        together.decided((first + 1) * 1_000_000 - 1)
        with frozen():
            candidates, begun = 0, time.process_time()
            for place in range(0, len(given), batch):
                events = given[place : place + batch]
                together.extend([event for own in events for event in own])
                candidates += len(together.decided(every[place + len(events) - 1][0] * 1_000_000))
            spent.append(time.process_time() - begun)
        found.add(candidates)
    assert len(found) == 1, f"{name}: what waits for others has changed the matches"
    return spent


# -- from end to end ---------------------------------------------------------------------------


def changes(running: Broker, text: str, count: int) -> tuple[float, float]:
    """CPU seconds to add and to drop one more, each with its part of the batch behind it."""
    spent = [0.0] * 3
    for n in range(count):
        every: tuple[Callable[[], object], ...] = (
            partial(running.subscribe, f"more{n}: {text.format(f'more{n}')}"),
            partial(running.unsubscribe, f"more{n}"),
            lambda: None,
        )
        for place, change in enumerate(every):
            begun = time.process_time()
            change()
            running.process([])
            spent[place] += time.process_time() - begun
    added, dropped, nothing = (each / count for each in spent)
    return added - nothing, dropped - nothing


def end_to_end(
    name: str | None, count: int, every: Sequence[Quote], batch: int
) -> tuple[list[float], int]:
    """CPU seconds to register, to add one more, to drop it, and of a document; and the matches."""
    documents = [
        Document(str(at), timestamp=float(at), xml=f"<q><s>{symbol}</s><p>{price}</p></q>")
        for at, symbol, price in every
    ]
    with Broker(lateness=0) as running:
        begun = time.process_time()
        text, kind = (QUESTIONS | PREFIXES)[name or "NEXT"], "S" if name else "none"
        running.subscribe(";\n".join(f"w{n}: {text.format(f'{kind}{n}')}" for n in range(count)))
        spent = [time.process_time() - begun]
        running.process(documents[:batch])
        spent += changes(running, text, 10)
        with frozen():
            matches, begun = 0, time.process_time()
            for first in range(batch, len(documents), batch):
                matches += len(running.process(documents[first : first + batch]))
            spent.append((time.process_time() - begun) / (len(documents) - batch))
        assert not running.engine.take_suspensions()
    return spent, matches


def again(name: str, every: Sequence[Quote], count: int) -> tuple[float, float, int]:
    """CPU seconds to begin with stored rows, as a restart does, and then to make what all patterns
    have in memory of them, which each does for its next document; and how many rows there are. The
    quotes come so fast that all are in the window, as others
    are not read."""
    documents = [
        Document(
            str(at),
            timestamp=_START + (at - _START) / _FASTER,
            xml=f"<q><s>{symbol}</s><p>{price}</p></q>",
        )
        for at, symbol, price in every
    ]
    with Broker(lateness=0) as running:
        text = QUESTIONS[name]
        running.subscribe(";\n".join(f"w{n}: {text.format(f'S{n}')}" for n in range(count)))
        for first in range(0, len(documents), 1_000):
            running.process(documents[first : first + 1_000])
        engine = running.engine
        rows = engine.store.count("SELECT count(*) FROM pattern_rows")
        engine.standings.reload()
        gc.collect()
        begun = time.process_time()
        with engine.store.transaction():
            engine.standings.begin(engine.newest())
        ready = time.process_time()
        engine.standings.latest()  # asks all patterns, and wakes them for it
        return ready - begun, time.process_time() - ready, rows


def main() -> None:
    asked = parser(__doc__).parse_args()
    counts = (1, 1_000) if asked.quick else (1, 1_000, 100_000, 400_000)
    few = quotes(1_000 if asked.quick else 4_000)
    whole = []
    for name in (None, *QUESTIONS):
        # Each FOLD here has a warning, and is checked by itself for it.
        for count in counts[: None if name == "NEXT" else 3] if name else (1, counts[-1]):
            (setup, added, dropped, taken), matches = end_to_end(name, count, few, 100)
            cells = [name or "none takes any", f"{count:,}", f"{matches:,}", f"{setup:.2f}"]
            cells += [f"{1e3 * added:.1f}", f"{1e3 * dropped:.1f}", f"{1e6 * taken:.0f}"]
            whole.append(cells)
            print(*cells, flush=True)
    same = prefixed(1_000 if asked.quick else 6_000)
    shared = []
    for name in PREFIXES:
        for count in counts[:3]:
            (*_, taken), matches = end_to_end(name, count, same, 100)
            shared.append([name, f"{count:,}", f"{matches:,}", f"{1e6 * taken:.0f}"])
            print(*shared[-1], flush=True)
    every = quotes(5_000 if asked.quick else 50_000)
    steps = []
    for name, script in SCRIPTS.items():
        begun = time.process_time()
        wanted = script(every)
        by_hand = time.process_time() - begun
        cells = [name, f"{wanted:,}"]
        for batch in (1, 100, 1_000):
            taken, matches = step(name, every, batch)
            assert matches == wanted, f"{name}: {matches} matches, and {wanted} by the script"
            cells.append(f"{len(every) / taken:,.0f}")
        cells.append(f"{len(every) / by_hand:,.0f}")
        if name == "NEXT":
            taken, matches = in_sql(every, 1_000)
            assert matches == wanted, f"{matches} matches in SQL, and {wanted} by the script"
            cells.append(f"{len(every) / taken:,.0f}")
        else:
            cells.append("")
        steps.append(cells)
        print(*cells, flush=True)
    held = []
    for name in QUESTIONS:
        count = 50_000 if asked.quick else 500_000
        first = every[:10_000]
        none, some = (len(first) / seconds for seconds in waiting(name, first, count))
        ready, awake, rows = again(name, every, 1_000)
        held.append([name, f"{none:,.0f}", f"{some:,.0f}", f"{rows:,}"])
        held[-1] += [f"{rows / ready:,.0f}", f"{rows / awake:,.0f}"]
        print(*held[-1], flush=True)
    finish(
        "patterns_shared",
        [
            "From end to end, in batches of 100; CPU seconds to register, milliseconds to add and"
            " to drop one, microseconds of a document:",
            table(["question", "queries", "matches", "register", "add", "drop", "document"], whole),
            "Queries whose first blocks are the same, for two thirds of the documents, and whose last"
            " one has a constant of its own; microseconds of a document:",
            table(["question", "queries", "matches", "document"], shared),
            "The step from columns to candidates, events per CPU second:",
            table(
                [
                    *("question", "matches", "batch 1", "batch 100", "batch 1,000"),
                    *("script", "DuckDB, batch 1,000"),
                ],
                steps,
            ),
            "The step at batches of 100, events per CPU second, where nothing waits and where 500,000"
            " do; and of rows of 1,000 queries after a restart, rows per CPU second until it is ready,"
            " and of which patterns are made again, each for its next document:",
            table(["question", "none", "500,000 wait", "rows", "ready", "made again"], held),
        ],
        asked.quick,
    )


if __name__ == "__main__":
    main()
