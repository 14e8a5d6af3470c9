"""What does a document cost where stage 2 is divided among shards, beside one machine?

    python -m bench.cluster [--quick] [--simulate]

The shards are in this process, one after another, so that the CPU time of each is its own: what the
coordinator does is what is serial, the largest shard is what the others wait for. Documents have
four values, and three queries join by one each, in batches of 8,000; about 0.4 matches a document,
which are written as JSON lines.
`--simulate` says only how evenly the routes divide documents among a thousand shards.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.measure import figures, finish, parser, table
from broker import Broker
from broker.cluster.router import Router
from broker.cluster.routes import Part, Route, side_of
from broker.cluster.shard import Answer
from broker.cluster.sharded import ShardedEngine
from broker.cluster.shards import HereShards, Request
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.shared_match import each_match
from broker.state.store import Store
from broker.text.formats import as_jsonl
from feeds.rows import DocumentRow

BATCH = 8_000
FIELDS = 3
QUERIES = "".join(
    f"q{i}: SELECT a{i} FROM S//d[./f{i}->a{i}] FOLLOWED BY {{a{i} = b{i}, 30 days}}"
    f" S//d[./f{i}->b{i}];"
    for i in range(FIELDS)
)


class Cost(NamedTuple):
    """Microseconds of CPU a document, bytes of segments a document, and matches."""

    coordinator: float
    shards: float
    largest: float
    written: float
    matches: int


def documents(count: int) -> list[DocumentRow]:
    r = Random(1)
    found = []
    for n in range(count):
        values = [f"v{i}-{r.randrange(4 * count)}" for i in range(FIELDS)]
        inner = "".join(f"<f{i}>{value}</f{i}>" for i, value in enumerate(values))
        xml = f"<d>{inner}<g>{n}</g></d>".encode()
        found.append(DocumentRow("s", f"d{n}", ("S",), n * 10**6, True, None, False, xml, None, ""))
    return found


class Timed(HereShards):
    """Shards in this process, with the CPU seconds of each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.seconds = [0.0] * count

    def answer(self, shard: int, request: Request) -> Answer:
        begin = time.process_time()
        found = super().answer(shard, request)
        self.seconds[shard] += time.process_time() - begin
        return found


def cost(rows: list[DocumentRow], count: int) -> Cost:
    """What documents cost in so many shards; with 0 one machine, all of it in `shards`."""
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
            )
            broker = Broker.over(engine)
        else:
            broker = Broker(place / "state")
        with broker:
            broker.subscribe(QUERIES)
            lines: list[bytes] = []
            broker.engine.on_text = lines.extend
            seconds = 0.0
            for first in range(0, len(rows), BATCH):
                came = arrivals(broker.engine.matcher, rows[first : first + BATCH])
                # As they come from Spark: without the texts of nodes.
                came = Arrivals(came.documents, came.rows, (), came.outlines)
                begin = time.process_time()
                found = broker.engine.apply(came)
                broker.engine.hand_over()
                lines += [as_jsonl(match).encode() for match in each_match(found)]
                broker.engine.acknowledge(found)
                seconds += time.process_time() - begin
            written = engine.cluster.shared.bytes_written if count else 0
        each = 1e6 / len(rows)
        in_shards = sum(shards.seconds) if count else seconds
        return Cost(
            (seconds - in_shards) * each,
            in_shards * each,
            max(shards.seconds, default=seconds) * each,
            written / len(rows),
            len(lines),
        )


def measured(size: int, counts: Sequence[int]) -> str:
    rows = []
    came = documents(size)
    for count in counts:
        found = cost(came, count)
        name = f"{count} shards" if count else "one machine"
        rows.append([name, *map(figures, found[:3]), figures(found.written), f"{found.matches:,}"])
    return table(["", "coordinator, µs", "shards, µs", "largest, µs", "bytes", "matches"], rows)


def simulated(size: int, shards: int = 1_000) -> str:
    """The rows of the largest shard, beside the mean, where values are as skewed as Zipf's law:
    with the documents of hot values in one shard each, and in the rows and columns of a grid."""
    left, right = Part(0, "value", 1, (1,), hot="row"), Part(1, "value", 2, (2,), hot="column")
    rows = []
    for exponent in (0.0, 0.8, 1.0, 1.2):
        weights = np.arange(1, size + 1, dtype=float) ** -exponent
        chosen = np.random.default_rng(1).choice(size, size, p=weights / weights.sum())
        hashes = np.random.default_rng(2).integers(0, 2**64, size, np.uint64)[chosen]
        columns = {
            "doc": np.arange(size).repeat(2),
            "var1": np.zeros(2 * size, np.int32),
            "var2": np.tile(np.array([1, 2], np.int32), size),
            "value": hashes.repeat(2),
        }
        values, counts = np.unique(hashes, return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        sides = {value: side_of(n, size / shards, shards) for value, n in pairs}
        hot = {value: side for value, side in sides.items() if side > 1}
        told = [figures(exponent), f"{len(hot):,}"]
        for own in ({}, hot):
            router = Router([Route((left, right))], shards, own)
            sizes = [len(places) for places in router.places(pa.table(columns))]
            told += [
                f"{max(sizes):,}",
                figures(max(sizes) * shards / (2 * size)),
                f"{sum(sizes):,}",
            ]
        rows.append(told)
    heads = ["exponent", "hot values", "rows of the largest", "of the mean", "rows in all"]
    return table([*heads, "largest, spread", "of the mean", "in all"], rows)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--simulate", action="store_true", help="only the routing")
    given = options.parse_args()
    size = BATCH if given.quick else 3 * BATCH
    parts = [f"Routing of {25 * BATCH:,} values to 1,000 shards:\n\n{simulated(25 * BATCH)}"]
    if not given.simulate:
        counts = (0, 1, 4)
        parts.insert(0, measured(size, counts))
    finish("cluster", parts, given.quick or given.simulate, f"{size:,} documents.")


if __name__ == "__main__":
    main()
