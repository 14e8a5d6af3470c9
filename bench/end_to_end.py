"""How many documents a second come in as XML and leave as committed matches, and after how long?

    python -m bench.end_to_end [--quick] [--spark]

Feed items of 2 KB go through the library with a state directory: parsed, matched, stored, joined,
their matches written out and committed. Whatever the number of subscriptions, there is about one
match per document: a few subscriptions with a keyword and an author, of those that one may draw the
few that give it, and for the rest people who wait for one title to be told again. Beside it is the
floor: parsing alone, and as many bytes as the documents have in a file, synced batch by batch; and
what two cores give at best: two brokers that share nothing, each with all the subscriptions and
documents, which do not see each other's. `--spark` adds the pipeline over the same documents. The
steps are microseconds of CPU time a document; `stage 1` is all that is outside the engine, parsing
above all.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import numpy as np

from bench.exact import Exact
from bench.frozen import frozen
from bench.generate import SECOND, TITLE, constant_queries, rss
from bench.measure import CpuClock, finish, parser
from bench.pipeline import run_spark
from bench.workload import Constant, Documents, Query
from broker import Broker, Document
from broker.documents.ahead import Ahead
from broker.shared_match import count_matches
from feeds.rows import DocumentRow
from xscl.growth import collect_rarely, later, thaw
from xscl.stage1.document import parse_document

SIZE = 2_000
_BROAD = 100
_STEPS = ("admit", "store", "join", "publish", "commit")


@dataclass(frozen=True, slots=True)
class Result:
    """Documents and matches of a run, wall and CPU seconds, CPU seconds by step."""

    documents: int
    matches: int
    wall: float
    cpu: float
    steps: dict[str, float]


def subscriptions(documents: Documents, count: int, seed: int = 6) -> list[Query]:
    """Distinct queries with about one match per document in all."""
    pool = constant_queries(3_000, documents)
    exact = Exact(documents)
    counted = sorted(((exact.count(query), i) for i, query in enumerate(pool)))
    broad = min(count, _BROAD)
    sums = np.cumsum([0, *(matches for matches, _ in counted)])
    first = int(np.argmin(np.abs(sums[broad:] - sums[:-broad] - len(documents))))
    chosen = [pool[i] for _, i in counted[first : first + broad]]
    rng = random.Random(seed)
    titles = list({text for text in documents.strings if " " in text and "/" not in text})
    titles.sort()
    while len(chosen) < count:
        # Titles of the stream, then others like them.
        n = len(chosen) - broad
        title = titles[n] if n < len(titles) // 2 else f"{rng.choice(titles)} {n}"
        window = rng.choice((1, 6, 24, 48, 240)) * 3_600 * SECOND
        chosen.append(Query(((TITLE, TITLE),), window, (Constant(TITLE, "=", title),)))
    return chosen


def text(documents: Documents, queries: Iterable[Query]) -> str:
    return ";\n".join(f"q{i}: {query.text(documents.schema)}" for i, query in enumerate(queries))


def items(documents: Documents) -> list[Document]:
    """The documents as a publisher sends them."""
    times = (documents.timestamps / SECOND).tolist()
    return [
        Document(str(i), "S", times[i], documents.xml(i, SIZE).encode())
        for i in range(len(documents))
    ]


def cut(documents: list[Document], size: int) -> list[list[Document]]:
    return [documents[i : i + size] for i in range(0, len(documents), size)]


def throughput(broker: Broker, documents: list[Document], size: int) -> Result:
    """Documents in batches. A batch is frozen for the collector, which would walk it again and
    again."""
    clock = broker.engine.clock = CpuClock()
    with frozen():
        matches = 0
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in cut(documents, size):
            matches += len(broker.process(batch))
            gc.freeze()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Result(len(documents), matches, wall, cpu, dict(clock.seconds))


def latencies(broker: Broker, documents: list[Document], rate: int) -> list[float]:
    """Milliseconds from arrival to commit of documents that come at a steady rate; whatever has
    arrived when a batch is done is the next batch."""
    waited: list[float] = []
    with frozen():
        begin, done = time.perf_counter(), 0
        while done < len(documents):
            arrived = min(len(documents), int((time.perf_counter() - begin) * rate))
            if arrived == done:
                time.sleep(0.0005)
                continue
            broker.process(documents[done:arrived])
            gc.freeze()
            now = time.perf_counter() - begin
            waited += [(now - (i + 1) / rate) * 1_000 for i in range(done, arrived)]
            done = arrived
    return waited


def beside(size: int, count: int) -> str:
    """Two brokers that share nothing but the machine, in a process each."""
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Barrier(2), spawn.Queue()
    both = [spawn.Process(target=_one_of_two, args=(size, count, ready, done)) for _ in range(2)]
    for one in both:
        one.start()
    rates = [done.get() for _ in both]
    for one in both:
        one.join()
    each = " and ".join(f"{rate:,.0f}" for rate in rates)
    return f"two brokers, {count:,} subscriptions: {each} documents/s, {sum(rates):,.0f} in all"


def _one_of_two(size: int, count: int, ready: Barrier, done: Queue[float]) -> None:
    documents = rss(size)
    every, warm = items(documents), size // 10
    with tempfile.TemporaryDirectory() as state, Broker(state) as broker:
        broker.subscribe(text(documents, subscriptions(documents, count)))
        broker.process(every[:warm])
        ready.wait()
        result = throughput(broker, every[warm:], 1_000)
        done.put(result.documents / result.wall)


@contextmanager
def rarely() -> Iterator[None]:
    """A block in which garbage is collected as in the service."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)


def divided(every: list[Document], queries: str, count: int) -> str:
    """Batches of 1,000 where another process does stage 1 of the next batch meanwhile, and garbage
    is collected as in the service and `broker run`: this one is busy for less than the wall time
    where it waits for the other."""
    rows = [
        DocumentRow("bench", d.id, ("S",), int(d.timestamp * SECOND), True, None, False, d.xml)
        for d in every
        if isinstance(d.xml, bytes) and isinstance(d.timestamp, float)
    ]
    first, *batches = [rows[i : i + 1_000] for i in range(0, len(rows), 1_000)]
    with tempfile.TemporaryDirectory() as state, Broker(state) as broker:
        broker.subscribe(queries)
        engine = broker.engine
        ahead = Ahead(engine, True, lambda: False)
        ahead.ready(wait=60)
        ahead.begin(first)
        engine.apply(ahead.arrivals(first))
        gc.collect()
        with rarely():
            matches = 0
            ahead.begin(batches[0])
            wall, cpu = time.perf_counter(), time.process_time()
            for batch, following in zip(batches, [*batches[1:], []], strict=True):
                with later(many=True):
                    arrived = ahead.arrivals(batch)
                    ahead.begin(following)
                    matches += count_matches(engine.apply(arrived))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            ahead.close()
            thaw()
    n = sum(map(len, batches))
    return (
        f"{count:,} subscriptions, two processes: {n / wall:,.0f} documents/s wall,"
        f" {cpu / n * 1e6:.1f} us CPU in the first, {matches / n:.2f} matches each"
    )


def floor(documents: list[Document], size: int) -> str:
    """What nobody can do without: to parse the documents, and to have their bytes on the disk."""
    xml = [document.xml for document in documents if isinstance(document.xml, bytes)]
    begin = time.process_time()
    for one in xml:
        parse_document(one)
    parse = (time.process_time() - begin) / len(xml) * 1e6
    with tempfile.NamedTemporaryFile() as file:
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, len(xml), size):
            file.write(b"".join(xml[start : start + size]))
            file.flush()
            os.fsync(file.fileno())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return (
        f"floor, batches of {size:,}: parse {parse:.1f} us CPU; write and sync"
        f" {wall / len(xml) * 1e6:.1f} us, {cpu / len(xml) * 1e6:.1f} us CPU; per document"
    )


def spark(documents: list[Document], queries: str) -> str:
    """The pipeline over the documents."""
    rows = (
        {"id": d.id, "stream": "S", "timestamp": d.timestamp, "xml": d.xml.decode()}
        for d in documents
        if isinstance(d.xml, bytes)
    )
    summary, _ = run_spark(rows, queries)
    by_stage = ", ".join(f"{name} {seconds:.2f}" for name, seconds in summary.seconds.items())
    rate = summary.documents / summary.elapsed
    return (
        f"Spark pipeline: {summary.documents:,} documents, {summary.matches:,} matches,"
        f" {rate:,.0f} documents/s wall; seconds: {by_stage}"
    )


def shown(count: int, size: int, result: Result) -> str:
    n = result.documents
    each = {name: result.steps.get(name, 0.0) / n * 1e6 for name in _STEPS}
    outside = result.cpu / n * 1e6 - sum(each.values())
    numbers = "".join(f"{value:9.1f}" for value in (outside, *each.values()))
    return (
        f"{count:13,}{size:7,}{n / result.wall:12,.0f}{n / result.cpu:11,.0f}"
        f"{result.matches / n:10.2f}{numbers}"
    )


def library(every: list[Document], queries: str, count: int) -> tuple[list[str], str]:
    """The library under so many subscriptions: a line for each size of batch, and one of
    latency."""
    warm, few = len(every) // 10, len(every) // 6
    last = every[-few // 2 :]
    single, paced = last[: few // 12], last[few // 12 :]
    parts = ((1_000, every[warm:-few]), (100, every[-few : -few // 2]), (1, single))
    lines = []
    with tempfile.TemporaryDirectory() as state, Broker(state) as broker:
        broker.subscribe(queries)
        broker.process(every[:warm])
        for size, part in parts:
            lines.append(shown(count, size, throughput(broker, part, size)))
            print(lines[-1], flush=True)
        p50, p99 = np.percentile(latencies(broker, paced, 1_000), (50, 99))
    return lines, (
        f"{count:,} subscriptions, 1,000 documents/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--spark", action="store_true")
    args = options.parse_args()
    counts = (1, 100) if args.quick else (1, 100, 10_000, 100_000)
    size = 4_000 if args.quick else 30_000
    documents = rss(size)
    every = items(documents)
    queries = {count: text(documents, subscriptions(documents, count)) for count in counts}
    head = "".join(f"{name:>9}" for name in ("stage 1", *_STEPS))
    lines = [
        f"{'subscriptions':>13}{'batch':>7}{'docs/s wall':>12}{'docs/CPU s':>11}{'match/doc':>10}{head}"
    ]
    print(lines[0], flush=True)
    below: list[str] = []
    for count in counts:
        rates, latency = library(every, queries[count], count)
        lines += rates
        below.append(latency)
        below.append(divided(every, queries[count], count))
    lines += [*below, floor(every, 1_000), floor(every, 100)]
    lines += [beside(size, count) for count in (100, counts[-1])]
    if args.spark:
        # The second: how long it takes to hand all those patterns to the executors.
        lines += [f"{n:,} subscriptions: {spark(every, queries[n])}" for n in (100, counts[-1])]
    finish("end_to_end", ["```text\n" + "\n".join(lines) + "\n```"], args.quick)


if __name__ == "__main__":
    main()
