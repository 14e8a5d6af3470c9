"""What does the broker hold of a query, an item and a value, and does it stay flat over ten million
items?

    python -m bench.memory [--items 10000000] [--quick]

Each size is what a process of its own grows by. Then items go through the library with a state
directory: an item every 20 ms, one leaf, whose value one item in ten shares with one of the
200,000 before it; pairs of equal values within an hour match. So 180,000 items are within the
window and as many as the lateness adds, and `memory=100000` does not let all of them stay in
memory: what is beyond is read again from the state when its value comes again. Identities are kept
for two hours. Matches are acknowledged. Nothing is checkpointed by hand: the log is put into the
file when it has grown to what the broker lets it. Last, a million items under a window of INFINITY,
where only the index is bounded, with a checkpoint before each line.
"""

from __future__ import annotations

import gc
import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bench.generate import ITEM, SECOND, constant_queries, join_queries, rss
from bench.measure import finish, parser, resident, table
from bench.ours import Ours
from bench.workload import Documents, Query, Workload, flat
from broker import Broker, Document
from broker.figures import figures

_STEP = 0.02
"""Seconds between two items."""
_TEND = 20
"""Batches between two looks for identities that may be forgotten."""


# -- sizes -------------------------------------------------------------------------------------


def subscriptions(texts: list[str], first: int) -> float:
    """Bytes of each of the subscriptions after the `first`, which pay for what all share."""
    named = [f"q{i}: {text}" for i, text in enumerate(texts)]
    with Broker() as broker:
        before = 0
        # A few at a time, or the memory of their texts and trees would be what is counted.
        for start in range(0, len(named), 200):
            if start == first:
                gc.collect()
                before = resident()
            broker.subscribe(";\n".join(named[start : start + 200]))
            broker.engine.joiner.refresh()
        gc.collect()
        return (resident() - before) / (len(named) - first)


def shared(count: int) -> float:
    return subscriptions([q.text(ITEM) for q in join_queries(count)], count // 3)


def own(count: int) -> float:
    documents = rss(20_000)
    texts = [q.text(documents.schema) for q in constant_queries(count, documents)]
    return subscriptions(texts, count // 3)


def indexed(count: int, cold: int, hot: int) -> float:
    """Bytes of an item in the index: with so many values that no other item has, and so many that
    one item in ten has."""
    rng = np.random.default_rng(1)
    new = np.arange(count * cold).reshape(count, cold) + 10
    ids = np.concatenate([new, rng.integers(0, 10, (count, hot))], axis=1)
    schema = flat("item", [f"l{n}" for n in range(cold + hot)])
    times = np.arange(count, dtype=np.int64) * SECOND
    strings = [f"value {n}" for n in range(10 + count * cold)]
    documents = Documents(schema, strings, ids.astype(np.int64), times)
    workload = Workload(documents, [Query(((n, n),)) for n in range(cold + hot)])
    system, batches = Ours(workload), workload.batches(1_000)
    system.add(next(batches))
    gc.collect()
    before = resident()
    for batch in batches:
        system.add(batch)
    gc.collect()
    return (resident() - before) / (count - 1_000)


def stored(count: int, size: int) -> float:
    """Bytes on the disk of an item of five leaves, all of which join, and so many bytes of XML in
    all, of which the description is made of random words."""
    documents, rng = rss(count), random.Random(1)
    words = sorted({word for text in documents.strings for word in text.split()})
    with tempfile.TemporaryDirectory() as state, Broker(state, math.inf) as broker:
        for leaf in range(5):
            query = Query(((leaf, leaf),), SECOND)
            broker.subscribe(f"q{leaf}: {query.text(documents.schema)}")
        for start in range(0, count, 1_000):
            xml = [described(documents, i, size, words, rng) for i in range(start, start + 1_000)]
            times = documents.timestamps[start : start + 1_000] / SECOND
            broker.process(
                Document(str(start + i), "S", at, text)
                for i, (at, text) in enumerate(zip(times.tolist(), xml, strict=True))
            )
        broker.engine.store.checkpoint()
        return sum(on_disk(state)) / count


def described(
    documents: Documents, number: int, size: int, words: list[str], rng: random.Random
) -> bytes:
    """An item as XML, with a description that makes it as long as that, if it is shorter."""
    xml = documents.xml(number)
    missing = size - len(xml) - 27
    if missing > 0:
        text = " ".join(rng.choices(words, k=missing // 4))[:missing]
        xml = xml.replace("</item>", f"<description>{text}</description></item>")
    return xml.encode()


def by_itself(measure: Callable[..., float], *arguments: int) -> float:
    """What a process of its own measures."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def sizes(count: int) -> str:
    """The table of sizes."""
    one, two, hot = (by_itself(indexed, count, *n) for n in ((1, 0), (3, 0), (1, 2)))
    rows = [
        ("subscription that others have too", "memory", by_itself(shared, count)),
        ("subscription with constants of its own", "memory", by_itself(own, count)),
        ("item in the index, of one value that no other has", "memory", one),
        ("each further value that no other has", "memory", (two - one) / 2),
        ("each further value that one item in ten has", "memory", (hot - one) / 2),
        ("item of 300 bytes and five values that join", "disk", by_itself(stored, count, 300)),
        ("item of 2,000 bytes and five values that join", "disk", by_itself(stored, count, 2_000)),
    ]
    return table(("what", "where", "bytes"), [(a, b, f"{n:,.0f}") for a, b, n in rows])


# -- long runs ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Long:
    """A long run: items, the query's window (None: INFINITY) and the lateness in seconds, documents
    in memory, seconds for which identities are kept, items in a batch, and rows of the table."""

    items: int = 10_000_000
    window: int | None = 3_600
    lateness: int = 600
    memory: int = 100_000
    identities: int | None = 7_200
    batch: int = 2_500
    rows: int = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """How it stands after so many items: documents in the index, identities in the state, bytes of
    memory, of the file and of its log, items a CPU second since the last mark."""

    items: int
    held: int
    known: int
    memory: int
    file: int
    log: int
    rate: float

    def row(self) -> tuple[str, ...]:
        numbers = (self.memory / 1e6, self.file / 1e6, self.log / 1e6, self.rate)
        counts = (self.items, self.held, self.known)
        return (*(f"{n:,}" for n in counts), *(f"{n:,.0f}" for n in numbers))


HEAD = ("items", "in the index", "known", "memory, MB", "file, MB", "log, MB", "items a CPU s")


def stream() -> Iterator[Document]:
    """Small items without end."""
    rng = random.Random(1)
    chance, back = rng.random, rng.randint
    number = 0
    while True:
        value = number if number == 0 or chance() < 0.9 else number - back(1, min(number, 200_000))
        xml = b"<item><link>https://feeds.example/%d</link></item>" % value
        yield Document(str(number), "S", number * _STEP, xml)
        number += 1


def on_disk(state: str) -> tuple[int, int]:
    """Bytes of the file, and of its log."""
    found = {file.suffix: file.stat().st_size for file in Path(state).iterdir()}
    return found.get(".duckdb", 0), found.get(".wal", 0)


def long_run(run: Long) -> tuple[list[Mark], int]:
    """The marks of a run, printed as they come, and how many matches it found."""
    window = "INFINITY" if run.window is None else f"{run.window} s"
    marks: list[Mark] = []
    lateness = timedelta(seconds=run.lateness)
    with tempfile.TemporaryDirectory() as state, Broker(state, lateness, run.memory) as broker:
        broker.subscribe(
            f"same: S//item->x[./link->l] FOLLOWED BY {{l = m, {window}}} S//item->y[./link->m]"
        )
        engine, items = broker.engine, stream()
        every, matches = run.items // run.rows, 0
        gc.freeze()
        begin = time.process_time()
        for done in range(run.batch, run.items + 1, run.batch):
            found = broker.process(islice(items, run.batch))
            broker.acknowledge(found)
            matches += len(found)
            # What lives on need not be walked through by every later collection.
            gc.freeze()
            if run.identities is not None and done // run.batch % _TEND == 0:
                engine.retain(identities=run.identities * SECOND)
            if done % every == 0:
                rate = every / (time.process_time() - begin)
                if run.window is None:
                    engine.store.checkpoint()
                held, known = engine.live_documents(), figures(engine).documents
                sizes = (resident(), *on_disk(state))
                marks.append(Mark(done, held, known, *sizes, rate))
                print("".join(f"{cell:>14}" for cell in marks[-1].row()), flush=True)
                begin = time.process_time()
    return marks, matches


FLAT: dict[str, Callable[[Mark], float]] = {
    "memory less the log": lambda mark: mark.memory - mark.log,
    "file": lambda mark: mark.file,
    "documents in the index": lambda mark: mark.held,
    "identities": lambda mark: mark.known,
}
"""What has to stay flat; what is in the log is in memory too, until it is put into the file."""


def grown(marks: list[Mark]) -> str:
    """How the second half of a run compares with the quarter before, when all that is bounded had
    been filled."""
    half = len(marks) // 2
    first, second = marks[half // 2 : half], marks[half:]
    parts = []
    for name, of in FLAT.items():
        before, after = (sum(map(of, part)) / len(part) for part in (first, second))
        parts.append(f"{name} {after / before - 1:+.1%}")
    items = marks[-1].items - marks[half - 1].items
    return f"The last {items:,} items against the quarter before, on average: " + ", ".join(parts)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=10_000_000)
    args = options.parse_args()
    finite = Long(args.items)
    if args.quick:
        finite = Long(100_000, window=100, lateness=60, memory=3_000, identities=200)
    endless = replace(
        finite, items=max(25_000, finite.items // 10), window=None, identities=None, rows=5
    )
    parts = [sizes(6_000 if args.quick else 60_000)]
    print(parts[0], flush=True)
    for title, run in (("A window of an hour", finite), ("A window of INFINITY", endless)):
        print(f"\n{title}\n" + "".join(f"{name:>14}" for name in HEAD), flush=True)
        marks, matches = long_run(run)
        parts += [f"### {title}", table(HEAD, [mark.row() for mark in marks])]
        if run.window is not None:
            parts.append(f"{matches:,} matches. {grown(marks)}.")
            if not args.quick:
                parts.append(chart(marks))
        else:
            more = (marks[-1].file - marks[0].file) / (marks[-1].items - marks[0].items)
            parts.append(f"The file grows by {more:,.0f} bytes an item.")
    finish("memory", parts, args.quick)


def chart(marks: list[Mark]) -> str:
    from bench.plots import over_items

    millions = [mark.items / 1e6 for mark in marks]
    series = {
        "memory, MB": [mark.memory / 1e6 for mark in marks],
        "file and log, MB": [(mark.file + mark.log) / 1e6 for mark in marks],
        "documents in the index, thousands": [mark.held / 1e3 for mark in marks],
        "identities known, thousands": [mark.known / 1e3 for mark in marks],
    }
    return over_items("memory", "Ten million items", millions, series)


if __name__ == "__main__":
    main()
