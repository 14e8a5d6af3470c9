"""The baselines of the join benchmarks, each implemented independently.

All take witness columns in order of time and count matches, each pair of documents in the batch
that brings the later one. Every node of the benchmarks' schemas occurs once in a document, so a
row of a conjunctive query is a match and counting rows is exact. To favour the baselines they count
in place and never list a match, keep all state in memory, and check no expiry.
"""

from __future__ import annotations

import random
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from operator import itemgetter

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.measure import Factory
from bench.shapes import Fitted, Shape, conjunctive_query, fit
from bench.workload import UNBOUNDED, Batch, Integers, Query, Workload

_COLUMNS = "doc BIGINT, ts BIGINT, var1 BIGINT, var2 BIGINT, node1 BIGINT, node2 BIGINT"


class _Relations:
    """RL in DuckDB: the rows of all documents so far. One thread, since CPU time is what counts.

    `rl` has the edges to leaves, with values; `rs` the edges to inner nodes.
    """

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1, "memory_limit": "4GB"})
        # Twice to five times faster than the default, which plans joins of ten relations exactly.
        self.connection.execute("SET approximate_join_order_threshold = 6")
        for name in ("rl", "rs", "rr", "rrs"):
            self.connection.execute(f"CREATE TEMP TABLE {name} ({_COLUMNS}, value UBIGINT)")

    def register(self, batch: Batch) -> None:
        """The batch as RR, in `rr` and `rrs`."""
        self.connection.register("batch", batch.table())
        self._replace("rr", "SELECT * FROM batch WHERE value IS NOT NULL")
        self._replace("rrs", "SELECT * FROM batch WHERE value IS NULL")

    def store(self) -> None:
        """RR into RL."""
        self.connection.execute("INSERT INTO rl SELECT * FROM rr")
        self.connection.execute("INSERT INTO rs SELECT * FROM rrs")

    def number(self, select: str) -> int:
        ((number,),) = self.connection.execute(select).fetchall()
        return int(number)

    def _replace(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}")


class Sequential(_Relations):
    """One SQL statement for each subscription, as a broker that shares nothing would run them.

    The paper's Sequential. Only a sample of the subscriptions, drawn at random, is evaluated; the
    CPU time of its statements is charged in proportion for the others, that of storing is not.
    """

    def __init__(self, workload: Workload, sample: int = 16) -> None:
        super().__init__()
        queries = workload.queries
        chosen = random.Random(7).sample(range(len(queries)), min(sample, len(queries)))
        self.sample = [queries[i] for i in chosen]
        self._share = len(queries) / len(self.sample)
        self._seconds = 0.0
        self._counts: Counter[Query] = Counter()
        self._statements = [self._statement(fit(workload, q), q) for q in self.sample]

    @staticmethod
    def _statement(fitted: Fitted, query: Query) -> str:
        relations = {"l": "rl", "p": "rs", "r": "rr", "q": "rrs"}
        return "SELECT count(*) " + conjunctive_query(
            fitted.shape, relations, fitted.edges, query.window
        )

    def add(self, batch: Batch) -> None:
        self.register(batch)
        self.store()
        begin = time.process_time()
        counted: dict[Query, int] = {}
        for query, statement in zip(self.sample, self._statements, strict=True):
            counted[query] = self.number(statement)
        self._seconds += time.process_time() - begin
        self._counts.update(counted)

    def unpaid(self) -> float:
        return self._seconds * (self._share - 1)

    def counts(self) -> dict[Query, int]:
        return dict(self._counts)


class Templates(_Relations):
    """The paper's plan: one SQL statement for each template (MMQJP, Algorithm 4).

    RT holds a row for each canonical query. Before the templates run, RL and RR are cut down to the
    values that both have (the paper's Rvj); if there are none, no template runs.
    """

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._queries = list(workload.distinct)
        self._counts = np.zeros(len(self._queries), np.int64)
        rows: dict[Shape, list[list[int]]] = {}
        for number, query in enumerate(self._queries):
            fitted = fit(workload, query)
            variables = [v for alias in fitted.shape.aliases() for v in fitted.edges[alias]]
            rows.setdefault(fitted.shape, []).append([number, query.window, *variables])
        self._statements = [self._template(i, *item) for i, item in enumerate(rows.items())]

    def _template(self, number: int, shape: Shape, rows: list[list[int]]) -> str:
        aliases = shape.aliases()
        names = ["cq", "w", *(f"{alias}{end}" for alias in aliases for end in "ab")]
        columns = np.array(rows, np.int64).T
        self.connection.register("parameters", pa.table(dict(zip(names, columns, strict=True))))
        self._replace(f"rt{number}", "SELECT * FROM parameters")
        relations = {"l": "hits", "p": "rs", "r": "fresh", "q": "rrs"}
        edges = {alias: (f"t.{alias}a", f"t.{alias}b") for alias in aliases}
        source = conjunctive_query(shape, relations, edges, "t.w", f"rt{number} t")
        return f"SELECT t.cq, count(*) {source}\nGROUP BY t.cq"

    def add(self, batch: Batch) -> None:
        self.register(batch)
        self.connection.execute("INSERT INTO rs SELECT * FROM rrs")
        if self._common(batch):
            for statement in self._statements:
                for number, count in self.connection.execute(statement).fetchall():
                    self._counts[number] += count
        self._store(batch)

    def _common(self, batch: Batch) -> int:
        """RL and RR where they share a value, in `hits` and `fresh`: the number of rows of RL."""
        select = "SELECT * FROM rl WHERE value IN (SELECT value FROM rr)"
        if len(batch.timestamps) > 1:
            select += (
                " UNION ALL SELECT * FROM rr WHERE value IN"
                " (SELECT value FROM rr GROUP BY value HAVING min(doc) < max(doc))"
            )
        self._replace("hits", select)
        return self._fresh()

    def _fresh(self) -> int:
        self._replace("fresh", "SELECT * FROM rr WHERE value IN (SELECT value FROM hits)")
        return self.number("SELECT count(*) FROM hits")

    def _store(self, batch: Batch) -> None:
        self.connection.execute("INSERT INTO rl SELECT * FROM rr")

    def counts(self) -> dict[Query, int]:
        return dict(zip(self._queries, self._counts.tolist(), strict=True))


class TemplatesWithViews(Templates):
    """The paper's plan with view materialisation (Algorithm 5): string value -> slice of RL.

    The cache is kept up to date from the start and never evicts, so each value of a batch finds its
    slice at once; RL for the batch is the union of those slices.
    """

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._slices: dict[int, array[int]] = {}
        self._rows = np.zeros((7, 1 << 12), np.int64)
        self._size = 0

    def _common(self, batch: Batch) -> int:
        places = [self._slices[v] for v in set(batch.value.tolist()) if v in self._slices]
        numbers = [np.frombuffer(place, np.int64) for place in places]
        parts = [self._rows[:, n] for n in numbers]
        if len(batch.timestamps) > 1:
            parts.append(self._own(batch))
        rows = np.concatenate(parts, axis=1) if parts else self._rows[:, :0]
        if not rows.shape[1]:
            return 0
        columns = {n.split()[0]: rows[i] for i, n in enumerate(_COLUMNS.split(", "))}
        columns["value"] = rows[6].view(np.uint64)
        self.connection.register("slices", pa.table({k: pa.array(c) for k, c in columns.items()}))
        self._replace("hits", "SELECT * FROM slices")
        return self._fresh()

    @staticmethod
    def _columns(batch: Batch, chosen: npt.NDArray[np.bool]) -> Integers:
        ts = batch.timestamps[batch.doc - batch.first]
        edges = (batch.var1, batch.var2, batch.node1, batch.node2)
        return np.stack([batch.doc, ts, *edges, batch.value.view(np.int64)])[:, chosen]

    def _own(self, batch: Batch) -> Integers:
        """The batch's rows whose value occurs more than once in it."""
        _, inverse, times = np.unique(batch.value, return_inverse=True, return_counts=True)
        return self._columns(batch, (times[inverse] > 1) & (batch.value != 0))

    def _store(self, batch: Batch) -> None:
        rows = self._columns(batch, batch.value != 0)
        end = self._size + rows.shape[1]
        while end > self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        self._rows[:, self._size : end] = rows
        for number, value in enumerate(rows[6].view(np.uint64).tolist(), self._size):
            place = self._slices.get(value)
            if place is None:
                place = self._slices[value] = array("q")
            place.append(number)
        self._size = end


class HashJoin:
    """A hash join for each canonical query, as one writes it by hand in Python.

    Queries whose earlier side has the same leaves share that side's table, from the values to the
    times of the documents that have them. Since times only rise, the partners of a document are a
    range of that list, and counting them is two binary searches. Inner nodes decide nothing here,
    since each occurs once in a document.
    """

    largest = 50
    """The largest batch to give it: it joins one by one, and so may be stopped sooner."""

    def __init__(self, workload: Workload) -> None:
        self._tables: dict[tuple[int, ...], dict[object, list[int]]] = {}
        self._builds: dict[int, list[_Build]] = {}
        self._probes: dict[int, list[_Probe]] = {}
        self._counts: Counter[Query] = Counter()
        leaves = workload.documents.schema.leaves
        for query in workload.distinct:
            left, right = (
                tuple(workload.variable(query, side, leaves[n]) for n in query.leaves(side))
                for side in (0, 1)
            )
            if left not in self._tables:
                self._tables[left] = {}
                build = (itemgetter(*left), self._tables[left])
                self._builds.setdefault(left[0], []).append(build)
            probe = (itemgetter(*right), self._tables[left], query.window, query)
            self._probes.setdefault(right[0], []).append(probe)

    def add(self, batch: Batch) -> None:
        rows = list(zip(batch.var2.tolist(), batch.value.tolist(), strict=True))
        cuts = np.searchsorted(
            batch.doc, np.arange(batch.first, batch.first + len(batch.timestamps) + 1)
        ).tolist()
        for i, now in enumerate(batch.timestamps.tolist()):
            self._one(dict(rows[cuts[i] : cuts[i + 1]]), now)

    def _one(self, values: dict[int, int], now: int) -> None:
        counts = self._counts
        for variable in values:
            for key, table, window, query in self._probes.get(variable, ()):
                times = table.get(key(values))
                if times is not None:
                    found = bisect_left(times, now)
                    if window != UNBOUNDED:
                        found -= bisect_left(times, now - window)
                    if found:
                        counts[query] += found
        for variable in values:
            for key, table in self._builds.get(variable, ()):
                table.setdefault(key(values), []).append(now)

    def counts(self) -> dict[Query, int]:
        return dict(self._counts)


_Key = Callable[[dict[int, int]], object]
_Build = tuple[_Key, dict[object, list[int]]]
_Probe = tuple[_Key, dict[object, list[int]], int, Query]

BASELINES: dict[str, Factory] = {
    "Sequential": Sequential,
    "hash joins by hand": HashJoin,
    "templates (Alg. 4)": Templates,
    "templates with views (Alg. 5)": TemplatesWithViews,
}
"""All of them, by the name in the tables."""
