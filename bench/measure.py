"""The measurements of the join benchmarks: CPU time of a system under a workload, checks, tables,
results.

A `System` takes a workload's subscriptions, then batches of witness columns, and says how often
each canonical query matched. `run` feeds it until the documents or its budget of CPU time end; a
system that was stopped has had the easier part of the stream, with less to join with, so its rate
is flattered. `Verifier` holds its counts against exact ones
over just the documents it was given.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from math import floor, log10
from pathlib import Path
from typing import Protocol, runtime_checkable

from bench.exact import Exact
from bench.frozen import frozen
from bench.workload import Batch, Documents, Query, Workload
from broker.stopwatch import Stopwatch

BROKER = "this broker"
"""The name of the broker's own join in the tables."""

RESULTS = Path(__file__).parent / "results"
_VERIFIED = 1_000
"""Where there are more than twice as many queries, that many are checked of either kind."""


class System(Protocol):
    """What joins. Built from a workload: its subscriptions and the numbers of their variables."""

    def add(self, batch: Batch) -> None:
        """The next documents, in order of time; joins them with all before and with each other."""

    def counts(self) -> dict[Query, int]:
        """Matches by canonical query so far; one that is missing has none."""


@runtime_checkable
class Sampling(Protocol):
    """A system that evaluates some subscriptions only, and is charged for all."""

    sample: Sequence[Query]

    def unpaid(self) -> float:
        """CPU seconds that the subscriptions left out would have taken, extrapolated."""


Factory = Callable[[Workload], System]


@dataclass(frozen=True, slots=True)
class Run:
    """A system's run: CPU seconds to register, CPU seconds and documents of the stream.

    `marks` are (documents, CPU seconds) on the way. `sample`: the queries that `counts` speaks of,
    None for all.
    """

    name: str
    setup: float
    documents: int
    seconds: float
    counts: dict[Query, int]
    sample: Sequence[Query] | None
    marks: list[tuple[int, float]] = field(repr=False)

    def complete(self, workload: Workload) -> bool:
        return self.documents == len(workload.documents)

    @property
    def rate(self) -> float:
        """Documents a CPU second."""
        return self.documents / self.seconds

    def seconds_at(self, documents: int) -> float:
        """CPU seconds for the first documents, between marks in proportion."""
        i = bisect_left(self.marks, (documents, 0.0))
        high = self.marks[min(i, len(self.marks) - 1)]
        low = self.marks[i - 1] if i else (0, 0.0)
        if high[0] <= low[0]:
            return high[1]
        return low[1] + (high[1] - low[1]) * (documents - low[0]) / (high[0] - low[0])


def run(name: str, factory: Factory, workload: Workload, size: int, budget: float) -> Run:
    """Feed the workload to a new system, `size` documents at a time (fewer if it says that it
    wants no more), for about `budget` CPU seconds, one batch at least. Reading out the counts is
    part of the time."""
    size = min(size, getattr(factory, "largest", size))
    with frozen():
        begin = time.process_time()
        system = factory(workload)
        setup = time.process_time() - begin
        sampling = system if isinstance(system, Sampling) else None
        batches, chunk, documents, seconds = workload.batches(size), 1, 0, 0.0
        marks: list[tuple[int, float]] = []
        # Several batches between two looks at the clock, where batches are quick.
        while ready := list(islice(batches, chunk)):
            begin = time.process_time()
            for batch in ready:
                system.add(batch)
            took = time.process_time() - begin
            seconds += took
            documents += sum(len(batch.timestamps) for batch in ready)
            marks.append((documents, seconds + (sampling.unpaid() if sampling else 0.0)))
            if seconds > budget:
                break
            # What lives on need not be walked through by every later collection.
            gc.freeze()
            if took < 0.02:
                chunk *= 2
        begin = time.process_time()
        counts = system.counts()
        seconds += time.process_time() - begin + (sampling.unpaid() if sampling else 0.0)
        marks[-1] = (documents, seconds)
    sample = sampling.sample if sampling else None
    return Run(name, setup, documents, seconds, counts, sample, marks)


class Disagreement(Exception):
    """A system counted other matches than there are."""


class Verifier:
    """Exact counts for prefixes of one sequence of documents."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._exact = Exact(documents)

    def verify(self, run: Run, workload: Workload) -> int:
        """The matches of all subscriptions that the run evaluated.

        Raises `Disagreement` unless the counts are those of exactly the run's documents; where
        there are very many queries, of those with matches and of others at random.
        """
        counter = self._exact
        if run.documents < len(self.documents):
            counter = Exact(self.documents.head(run.documents))
        for query in self._checked(run, workload):
            counted, count = run.counts.get(query, 0), counter.count(query)
            if counted != count:
                raise Disagreement(
                    f"{run.name}: {counted:,} matches, not {count:,}, among {run.documents:,}"
                    f" documents: {query.text(self.documents.schema)}"
                )
        if run.sample is not None:
            return sum(run.counts.get(query, 0) for query in run.sample)
        return sum(n * workload.distinct[query] for query, n in run.counts.items())

    @staticmethod
    def _checked(run: Run, workload: Workload) -> list[Query]:
        if run.sample is not None:
            return list(dict.fromkeys(run.sample))
        queries = list(workload.distinct)
        if len(queries) <= 2 * _VERIFIED:
            return queries
        rng = random.Random(6)
        found = [query for query, n in run.counts.items() if n]
        found = rng.sample(found, min(_VERIFIED, len(found)))
        return list(dict.fromkeys([*found, *rng.sample(queries, _VERIFIED)]))


def machine() -> str:
    """The machine, the versions, and how busy it has been for five minutes, in a line."""
    names = [
        line.partition(":")[2].strip()
        for line in _lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[1]
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "") if _lines(_RELEASE) else ""
    packages = ", ".join(f"{p} {version(p)}" for p in ("duckdb", "numpy", "pyarrow", "lxml"))
    return (
        f"{os.cpu_count()} cores ({names[0] if names else platform.machine()}), {memory:.0f} GB,"
        f" {system or platform.platform()}, Python {platform.python_version()}, {packages};"
        f" {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {load:.1f}"
    )


_RELEASE = "/etc/os-release"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; the first column to the left, the others to the right."""
    body = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in body) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        padded = [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)]
        return f"| {' | '.join(padded)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(body[0]), line(rule), *map(line, body[1:])])


def figures(value: float) -> str:
    """A number with its first two or three figures."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 0.1:
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{value:.{1 - floor(log10(value))}f}" if value > 0 else "0"


class CpuClock(Stopwatch):
    """Where the CPU time of batches goes: what else the machine does is not counted."""

    def __init__(self) -> None:
        super().__init__(time.process_time)


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The command line of a benchmark, whose docstring says what it does."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="a few seconds, and no results file")
    return made


def finish(name: str, parts: Sequence[str], quick: bool, note: str = "") -> None:
    """Prints the parts of a benchmark's results, and saves them under what was measured how
    (`note`) and the machine, unless it was only tried."""
    text = "\n\n".join([*filter(None, [note]), machine(), *parts])
    print("\n" + text)
    if not quick:
        save(name, text)


def save(name: str, text: str) -> None:
    """A benchmark's part of the results page."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
