"""What does the broker hold of a subscription, an item and a value, and does a long run stay flat?

    python -m bench.memory [--quick] [--minutes 3]

The sizes are what the process grows by. The long runs are feed items without a description: one
with a finite window, where everything expires, and one with a window of INFINITY, where the index
is bounded by `memory=` and read again from the store. A line is printed at each tenth of a run. Matches
are acknowledged, so that the outbox stays empty. What is told for ten million items is extrapolated
from the second half of the run.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

from bench.generate import SECOND, constant_queries, rss
from bench.measure import machine, save
from bench.workload import Documents
from broker import Broker, Document

_BATCH = 1_000
_TEN_MILLION = 10_000_000
SAME = (
    "same: S//item->x[./title->t][./link->l] FOLLOWED BY {{t = u AND l = m, {}}}"
    " S//item->y[./title->u][./link->m]"
)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def stored(state: str) -> int:
    return sum(file.stat().st_size for file in Path(state).iterdir())


def stream(documents: Documents) -> Iterator[Document]:
    """The items over and over, ever later and with ids of their own."""
    xml = [documents.xml(i).encode() for i in range(len(documents))]
    times = (documents.timestamps / SECOND).tolist()
    span = times[-1] - times[0] + 60
    turn = 0
    while True:
        for i, (text, at) in enumerate(zip(xml, times, strict=True)):
            yield Document(f"{turn}/{i}", "S", at + turn * span, text)
        turn += 1


def sizes(count: int, queries: int) -> list[str]:
    """Bytes of a subscription, of an item and of a posting, by the growth of the process."""
    documents = rss(count)
    texts = [query.text(documents.schema) for query in constant_queries(queries, documents)]
    broker = Broker()
    gc.collect()
    before = resident()
    broker.subscribe(";\n".join(f"q{i}: {text}" for i, text in enumerate(texts)))
    gc.collect()
    lines = [
        f"{queries:,} distinct subscriptions: {(resident() - before) / queries:,.0f} bytes each"
    ]
    broker.close()
    with tempfile.TemporaryDirectory() as state, Broker(state) as broker:
        broker.subscribe(SAME.format("INFINITY"))
        items = stream(documents)
        broker.process(islice(items, _BATCH))
        gc.collect()
        before, on_disk = resident(), stored(state)
        for _ in range(count // _BATCH - 1):
            broker.acknowledge(broker.process(islice(items, _BATCH)))
        broker.engine.store.connection.execute("CHECKPOINT")
        gc.collect()
        records = broker.engine.joiner.postings.records.values()
        held = len(records)
        values = sum(1 for record in records for code in record.codes if code)
        grown = resident() - before
        lines.append(
            f"{held:,} items of {values / held:.1f} values: {grown / held:,.0f} bytes of memory each,"
            f" {grown / values:,.0f} by value, {(stored(state) - on_disk) / held:,.0f} bytes on disk"
        )
    return lines


def long_run(title: str, window: str, memory: int, seconds: float) -> list[str]:
    """Items for so many seconds: memory, size of the state and rate at each tenth."""
    lines = [title, f"{'items':>12}{'in memory':>12}{'MB':>8}{'state, MB':>11}{'items/s':>10}"]
    marks: list[tuple[int, int, int]] = []
    lateness = timedelta(hours=1)
    with tempfile.TemporaryDirectory() as state, Broker(state, lateness, memory) as broker:
        broker.subscribe(SAME.format(window))
        items = stream(rss(100_000))
        done, begin, last, before = 0, time.perf_counter(), 0.0, 0
        while last < seconds:
            broker.acknowledge(broker.process(islice(items, _BATCH)))
            done += _BATCH
            now = time.perf_counter() - begin
            if now - last >= seconds / 10:
                size, held = stored(state), len(broker.engine.joiner.postings.records)
                rate = (done - before) / (now - last)
                last, before = now, done
                marks.append((done, resident(), size))
                lines.append(
                    f"{done:12,}{held:12,}{marks[-1][1] / 1e6:8,.0f}{size / 1e6:11,.1f}{rate:10,.0f}"
                )
                print(lines[-1], flush=True)
    (n1, m1, s1), (n2, m2, s2) = marks[len(marks) // 2 - 1], marks[-1]
    left = (_TEN_MILLION - n2) / (n2 - n1)
    lines.append(
        f"extrapolated to {_TEN_MILLION:,}: {(m2 + (m2 - m1) * left) / 1e6:,.0f} MB of memory,"
        f" {(s2 + (s2 - s1) * left) / 1e6:,.0f} MB of state"
    )
    print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=3.0)
    args = parser.parse_args()
    seconds = 5.0 if args.quick else args.minutes * 60
    lines = sizes(3_000, 300) if args.quick else sizes(100_000, 10_000)
    print("\n".join(lines), flush=True)
    lines += long_run("\nwindow of a day", "1 d", 1_000_000, seconds)
    lines += long_run("\nwindow INFINITY, memory=50,000", "INFINITY", 50_000, seconds)
    if not args.quick:
        table = "\n".join(lines)
        save("memory", f"{machine()}\n\n```text\n{table}\n```")


if __name__ == "__main__":
    main()
