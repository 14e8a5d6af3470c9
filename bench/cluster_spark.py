"""What a batch costs the coordinator on a real cluster: its process and the JVM beside it.

A standalone cluster out of the package, on this machine, whose executors are not counted. The same
documents in batches of two sizes, on one shard and on four: by least squares the cost of a batch is
a + b for each shard + c for each document.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.measure import figures, table
from broker import Broker
from broker.cluster.remote import RemoteShards
from broker.cluster.sharded import ShardedEngine
from broker.documents.arrow import Arrivals
from broker.runs import Progress
from broker.shared_match import SharedMatch
from broker.spark.pipeline import run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.shards import SparkTasks
from broker.spark.sources import json_source
from broker.spark.standalone import start_master, start_worker
from broker.state.store import Store
from feeds.rows import DocumentRow

HOST = "127.0.0.1"
SHARDS = (1, 4)
_WARM = 2
"""Batches before those that are counted."""


@contextmanager
def cluster(directory: Path, cores: int) -> Iterator[str]:
    """The URL of a cluster with one worker."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://{HOST}:{port}"
    running = [start_master(directory / "master", HOST, port)]
    try:
        while not _listens(port):
            time.sleep(0.1)
        running.append(start_worker(directory / "worker", url, HOST, cores, "1g"))
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


class _Applied(ShardedEngine):
    """Notes the CPU time of this process and of a JVM at the end of each batch."""

    java: int
    marks: list[float]

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        found = super().apply(arrivals, now, position)
        self.marks.append(time.process_time() + _seconds(self.java))
        return found


def _seconds(pid: int) -> float:
    """The CPU seconds of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batch_cost(rows: Sequence[DocumentRow], queries: str, size: int, shards: int) -> float:
    """CPU seconds of the coordinator for a batch of so many documents."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as scratch:
        place = Path(scratch)
        with cluster(place, shards + 1) as url:
            with (place / "documents.jsonl").open("w") as lines:
                for n, row in enumerate(rows):
                    assert isinstance(row.xml, bytes)
                    said = {"id": f"d{n}", "timestamp": n, "xml": row.xml.decode()}
                    lines.write(json.dumps(said) + "\n")
            remote = RemoteShards()
            engine = _Applied(
                Store(place / "state"),
                shared=str(place / "shared"),
                shards=remote,
                count=shards,
                form="jsonl",
            )
            with Broker.over(engine) as broker:
                broker.subscribe(queries)
                engine.on_text = lambda lines: None
                conf = {"spark.driver.host": HOST, "spark.executor.memory": "512m"}
                session = start_session(url, conf=conf)
                try:
                    java = session.sparkContext._jvm
                    assert java is not None
                    engine.java = java.java.lang.ProcessHandle.current().pid()
                    engine.marks = []
                    remote.use(SparkTasks(session), HOST)
                    engine.cluster.start()
                    source = json_source(session, place / "documents.jsonl", lines_per_batch=size)
                    done: list[Progress] = []
                    run_pipeline(
                        session,
                        engine,
                        [source],
                        place / "checkpoint",
                        once=True,
                        on_matches=None,
                        on_progress=done.append,
                        hand_over=engine.hand_over,
                    )
                    assert [each.documents for each in done] == [size] * (len(rows) // size)
                    marks = engine.marks
                    return (marks[-1] - marks[_WARM - 1]) / (len(marks) - _WARM)
                finally:
                    engine.cluster.close()
                    stop_session(session)


def serial(rows: Sequence[DocumentRow], queries: str, sizes: Sequence[int]) -> str:
    """The costs of batches, and what they are made of."""
    lines, given, found = [], [], []
    for shards in SHARDS:
        for size in sizes:
            seconds = batch_cost(rows[: size * (_WARM + 6)], queries, size, shards)
            lines.append([f"{shards}", f"{size:,}", figures(seconds * 1e3)])
            given.append((1.0, shards, size))
            found.append(seconds)
    (a, b, c), *_ = np.linalg.lstsq(np.array(given), np.array(found), rcond=None)
    told = table(["shards", "documents", "ms of CPU a batch"], lines)
    return (
        f"{told}\n\n{figures(a * 1e3)} ms + {figures(b * 1e3)} ms a shard + "
        f"{figures(c * 1e6)} µs a document."
    )
