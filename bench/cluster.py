"""What does a document cost where stage 2 is divided among shards, beside one machine?

    python -m bench.cluster [--quick] [--simulate | --spark]

The shards are in this process, one after another, so that the CPU time of each is its own: what the
coordinator does is what is serial, the largest shard is what the others wait for. Documents have
four values, and three queries join by one each, in batches of 8,000; about 0.4 matches a document,
which are written as JSON lines.
Each is run five times, and of each batch and shard the run counts that took the least.
`--simulate` says only how evenly the routes divide documents among a thousand shards, `--spark`
only what a batch costs the coordinator on a real cluster.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from bench.cluster_spark import serial
from bench.measure import figures, finish, parser, table
from bench.skew import simulated
from broker import Broker
from broker.cluster.answers import Answer, Waits
from broker.cluster.files import files_at
from broker.cluster.processes import Processes
from broker.cluster.remote import RemoteShards
from broker.cluster.sharded import ShardedEngine
from broker.cluster.shards import Ask, HereShards, Request, Worker
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.engine import Engine
from broker.shared_match import each_match
from broker.state.store import Store
from broker.text.formats import as_jsonl
from feeds.rows import DocumentRow
from xscl.growth import collect_rarely

BATCH = 8_000
FIELDS = 3
QUERIES = "".join(
    f"q{i}: SELECT a{i} FROM S//d[./f{i}->a{i}] FOLLOWED BY {{a{i} = b{i}, 30 days}}"
    f" S//d[./f{i}->b{i}];"
    for i in range(FIELDS)
)


TOGETHER = QUERIES.replace("30 days", "20 seconds")
"""Matches of documents with a common value would be as many as its square with a long window."""


RUNS = 5
"""How often each is run. Of a batch and a shard the run counts that took the least: what other
programs take from this one's time is different each time, and what there is to do is the same."""


class Run(NamedTuple):
    """CPU seconds by batch, of the coordinator and of each shard; bytes of segments; matches."""

    coordinator: list[float]
    shards: list[list[float]]
    written: int
    matches: int


class Cost(NamedTuple):
    """Microseconds of CPU a document, bytes of segments a document, and matches."""

    coordinator: float
    shards: float
    largest: float
    written: float
    matches: int

    @classmethod
    def of(cls, runs: Sequence[Run], documents: int) -> Cost:
        """The least of several runs; with no shards, all of it is that of one."""
        each = 1e6 / documents
        coordinator = each * sum(map(min, zip(*[run.coordinator for run in runs], strict=True)))
        by_shard = zip(*[run.shards for run in runs], strict=True)
        shards = [each * sum(map(min, zip(*own, strict=True))) for own in by_shard]
        if not shards:
            coordinator, shards = 0.0, [coordinator]
        written = runs[0].written / documents
        return cls(coordinator, sum(shards), max(shards), written, runs[0].matches)


def documents(count: int, common: float = 0.0) -> list[DocumentRow]:
    """Documents a second apart; a share of them have one common value."""
    r = Random(1)
    found = []
    for n in range(count):
        values = [f"v{i}-{r.randrange(4 * count)}" for i in range(FIELDS)]
        if r.random() < common:
            values[0] = "common"
        inner = "".join(f"<f{i}>{value}</f{i}>" for i, value in enumerate(values))
        xml = f"<d>{inner}<g>{n}</g></d>".encode()
        found.append(DocumentRow("s", f"d{n}", ("S",), n * 10**6, True, None, False, xml, None, ""))
    return found


class Timed(HereShards):
    """Shards in this process, with the CPU seconds of each by request."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.seconds: list[list[float]] = [[] for _ in range(count)]

    def answer(self, shard: int, request: Request | Ask) -> Answer | Waits:
        begin = time.process_time()
        found = super().answer(shard, request)
        self.seconds[shard].append(time.process_time() - begin)
        return found


def run(rows: list[DocumentRow], count: int, queries: str, hot_from: int) -> Run:
    """Documents in so many shards; with 0 one machine, all of it in `coordinator`."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        shards = Timed(count)
        if count:
            engine = ShardedEngine(
                Store(place / "state"),
                shared=str(place / "shared"),
                shards=shards,
                count=count,
                form="jsonl",
                hot_from=hot_from,
            )
            broker = Broker.over(engine)
        else:
            broker = Broker(place / "state")
        with broker:
            broker.subscribe(queries)
            lines: list[bytes] = []
            broker.engine.on_text = lines.extend
            seconds = []
            for first in range(0, len(rows), BATCH):
                came = arrivals(broker.engine.matcher, rows[first : first + BATCH])
                # As they come from Spark: without the texts of nodes.
                came = Arrivals(came.documents, came.rows, (), came.outlines)
                before = sum(map(sum, shards.seconds))
                begin = time.process_time()
                found = broker.engine.apply(came)
                broker.engine.hand_over()
                lines += [as_jsonl(match).encode() for match in each_match(found)]
                broker.engine.acknowledge(found)
                taken = time.process_time() - begin
                seconds.append(taken - (sum(map(sum, shards.seconds)) - before))
            written = engine.cluster.shared.bytes_written if count else 0
        return Run(seconds, shards.seconds, written, len(lines))


def measured(
    came: list[DocumentRow], counts: Sequence[int], queries: str = QUERIES, hot_from: int = 1_000
) -> str:
    # One after the other, so that a time of much other work falls on all of them.
    runs = [[run(came, count, queries, hot_from) for count in counts] for _ in range(RUNS)]
    rows = []
    for count, own in zip(counts, zip(*runs, strict=True), strict=True):
        found = Cost.of(own, len(came))
        name = f"{count} shard{'s' * (count > 1)}" if count else "one machine"
        waited = figures(found.coordinator + found.largest)
        told = [*map(figures, found[:3]), waited, figures(found.written), f"{found.matches:,}"]
        rows.append([name, *told])
    heads = ["", "coordinator, µs", "shards, µs", "largest, µs", "one after another, µs"]
    return table([*heads, "bytes", "matches"], rows)


def recovery(rows: list[DocumentRow], count: int) -> str:
    """What it costs to make a shard anew, of so many."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        shards = HereShards()
        where = str(place / "shared")
        store = Store(place / "state")
        engine = ShardedEngine(store, shared=where, shards=shards, count=count, form="jsonl")
        with Broker.over(engine) as broker:
            broker.subscribe(QUERIES)
            for first in range(0, len(rows), BATCH):
                broker.engine.apply(arrivals(engine.matcher, rows[first : first + BATCH]))
                broker.engine.hand_over()
            told = engine.cluster.settings()
            begin = time.process_time()
            Worker(files_at(where), 0, told, engine.cluster.loading()).close()
            seconds = time.process_time() - begin
    each = figures(seconds * 1e6 / len(rows))
    return (
        f"One of {count} shards is made anew of {len(rows):,} documents in {figures(seconds)} s of"
        f" CPU, {each} µs for each of all documents."
    )


def latency(rows: list[DocumentRow], counts: Sequence[int]) -> str:
    """What a document takes by itself, with the shards as processes beside this one."""
    lines = []
    for count in counts:
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            store = Store(place / "state")
            if count:
                shards = RemoteShards(Processes())
                where = str(place / "shared")
                engine: Engine = ShardedEngine(store, shared=where, shards=shards, count=count)
            else:
                engine = Engine(store)
            with Broker.over(engine) as broker:
                broker.subscribe(QUERIES)
                took = []
                for row in rows:
                    came = arrivals(engine.matcher, [row])
                    cpu, wall = time.process_time(), time.perf_counter()
                    engine.acknowledge(engine.apply(came))
                    took.append((time.process_time() - cpu, time.perf_counter() - wall))
        later = took[len(took) // 3 :]
        cpu, wall = (median(each[i] for each in later) * 1e3 for i in (0, 1))
        lines.append([f"{count or 'none'}", figures(cpu), figures(wall)])
    return table(["shards", "ms of CPU here", "ms until it is committed"], lines)


def main() -> None:
    collect_rarely()  # as `broker run` does
    options = parser(__doc__)
    options.add_argument("--simulate", action="store_true", help="only the routing")
    options.add_argument("--spark", action="store_true", help="only the cost of batches on Spark")
    given = options.parse_args()
    size = BATCH if given.quick else 3 * BATCH
    parts: list[str] = []
    if not given.spark:
        routed = 10_000 if given.quick else 100_000
        told = simulated(routed)
        parts.append(f"Routing of {routed:,} documents to 1,000 shards, by simulation:\n\n{told}")
    if not (given.simulate or given.spark):
        came = documents(size)
        parts.insert(0, measured(came, (0, 1, 2, 4, 8)))
        common = documents(size, common=0.1)
        shards = (0, 1, 4, 8, 16)
        plain = measured(common, shards, TOGETHER, hot_from=size)
        parts.insert(1, f"A tenth of all documents have one value, in one shard:\n\n{plain}")
        spread = measured(common, shards[3:], TOGETHER, hot_from=100)
        parts.insert(2, f"The same, the value spread over several:\n\n{spread}")
        parts.insert(3, recovery(came, 4))
        alone = latency(came[:90], (0, 1, 4))
        parts.insert(4, f"Documents one by one, in the median:\n\n{alone}")
    if not given.simulate:
        sizes = (100, 500) if given.quick else (500, 4_000)
        told = serial(documents(8 * sizes[1]), QUERIES, sizes)
        parts.append(f"What a batch costs the coordinator, Spark's JVM included:\n\n{told}")
    only = given.quick or given.simulate or given.spark
    finish("cluster", parts, only, f"{size:,} documents.")


if __name__ == "__main__":
    main()
