"""The running pipeline: documents -> stage 1 on the executors -> stage 2 in this process.

    sources (union) -> micro-batch -> stage 1 (mapInArrow) -> toArrow -> engine.apply -> on_matches

Owns one streaming query at a time. In: sources, an engine, a checkpoint directory; out: matches,
progress, a summary. Stage 1 is put onto each micro-batch inside `foreachBatch`, with the spec of
that moment, so that queries come and go without the stream's plan ever changing.

The engine's store is the truth, Spark's checkpoint only says where to read on: a batch that is
replayed, or a checkpoint that is lost or damaged, makes documents come again, and the engine drops
what it has.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.documents.arrow import WITNESSED, Arrivals, arrivals_from_table
from broker.documents.witnessing import matcher_for, stage1
from broker.model import Match
from broker.runs import PipelineError, Progress, Stop, Stopping, StreamProgress, Summary
from broker.shared_match import SharedMatch, count_matches, each_match
from broker.sources.documents import ORDER
from broker.spark.arrow import ArrowMap
from broker.spark.failure import reason
from broker.spark.progress import ProgressReports
from broker.spark.sources import Source, union
from broker.spark.worker import keep, settle
from broker.stopwatch import Stopwatch

_POLL_SECONDS = 0.25
_SPARK_ERRORS = (PySparkException, Py4JError)
_LOST = (*_SPARK_ERRORS, OSError)
"""What a call into a JVM that fails, or is gone, raises."""

_ORDERED = WITNESSED.append(pa.field(ORDER, pa.string()))
_PACKED = pa.schema([pa.field("batch", pa.binary())])
"""A record batch a row, as a stream of Arrow: Spark would take each apart into rows and lists, and
put them together again."""


class Again(Exception):
    """The engine was needed for something else, and nothing is applied. The batch is to be applied
    once who waits for the lock has had it, perhaps with another compiled form."""


class Engine(Protocol):
    """What the pipeline needs of stage 2."""

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries registered now; the same object while they
        stay the same."""

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        """Apply a batch in one transaction; `now` in microseconds. `position` is the highest number
        in it, where its rows are of a log that numbers them. Raises Again."""


STAGES = ("list", "log", "plan", "stage1", "stage2", "deliver", "other")
"""list: find what is new; log: Spark's checkpoint; plan: Spark's planning; stage1: read, parse,
match and collect; stage2: order and apply; deliver: on_matches; other: the rest of the trigger."""

_SPARK_STAGES = {
    "latestOffset": "list",
    "walCommit": "log",
    "commitOffsets": "log",
    "commitBatch": "log",
    "getBatch": "plan",
    "queryPlanning": "plan",
}


def run_pipeline(  # noqa: PLR0913  # each by its keyword
    session: SparkSession,
    engine: Engine,
    documents: Sequence[Source],
    checkpoint_dir: Path,
    *,
    once: bool,
    on_matches: Callable[[list[Match]], object] | None,
    on_progress: Callable[[Progress], None] | None = None,
    on_stream: Callable[[StreamProgress], None] | None = None,
    trigger_interval: float | None = None,
    stop: Stopping | None = None,
    lock: AbstractContextManager[object] | None = None,
    hand_over: Callable[[], int] = int,
) -> Summary:
    """Run until what is there now is processed (`once`), or until `stop` is set.

    `on_matches` gets the matches of each batch that has any, after the batch is committed;
    `on_progress` is called soon after each batch, `on_stream` about once a second with what Spark
    says of its query. None may raise: what they raise ends the run.
    `trigger_interval`: seconds between two checks for new documents (default: the sources' longest
    `poll`). `stop`: the batch in flight is finished first (see `stop_on_signals`). `lock` is held
    while the engine is used; a thread that changes subscriptions must hold it too. A batch whose
    spec changed meanwhile is matched again, so that no subscription misses a document; the second
    time the lock is held throughout, so that frequent changes cannot delay a batch forever.
    `hand_over` is called after each batch, and returns how many matches were handed over that the
    engine has not returned. Documents with a number are all of one log: the engine gets the log's
    position with each batch.

    Raises `PipelineError` with the reason, and the Python exception as its cause where it is one;
    Spark's log has the trace.
    """
    keys = [source.key for source in documents]
    checkpoint = checkpoint_dir.absolute() / _digest(keys)
    run = _Run(
        session, engine, on_matches, on_progress, stop or Stop(), lock or nullcontext(), hand_over
    )
    run.reports = ProgressReports(on_stream) if on_stream else None
    frame = union([source.frame for source in documents])
    interval = trigger_interval or max(source.poll for source in documents)
    started = time.monotonic()
    try:
        run.stream(frame, checkpoint, once, interval)
    except PipelineError as error:
        if run.batches or error.__cause__ is not None or not checkpoint.exists():
            raise
        # It failed before the first batch: perhaps the checkpoint cannot be read. It is only a
        # hint, so look again without it before giving up.
        _set_aside(checkpoint)
        run.stream(frame, checkpoint, once, interval)
    finally:
        run.release()
    return run.summary(time.monotonic() - started)


@dataclass(slots=True)
class _Run:
    session: SparkSession
    engine: Engine
    on_matches: Callable[[list[Match]], object] | None
    on_progress: Callable[[Progress], None] | None
    stop: Stopping
    lock: AbstractContextManager[object]
    hand_over: Callable[[], int] = int
    batches: int = 0
    documents: int = 0
    matches: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    undated: Counter[str] = field(default_factory=Counter)
    error: BaseException | None = None
    reports: ProgressReports | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _done: dict[int, Progress] = field(default_factory=dict)
    _spec: bytes | None = None
    _broadcast: Any = None
    _stage: ArrowMap | None = None

    # -- the streaming query, in the caller's thread ---------------------------------------------

    def stream(self, frame: DataFrame, checkpoint: Path, once: bool, interval: float) -> None:
        trigger: dict[str, Any] = (
            {"availableNow": True}
            if once
            else {"processingTime": f"{max(1, round(interval * 1000))} milliseconds"}
        )
        query = None
        try:
            query = (
                frame.writeStream.foreachBatch(self.batch)
                .option("checkpointLocation", str(checkpoint))
                .trigger(**trigger)
                .start()
            )
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                self._report(query)
                if self.stop.is_set():
                    # A batch in flight holds `_busy`; the next one sees `stop` and does nothing.
                    with self._busy:
                        pass
                    break
            self._report(query)
        except _LOST as error:
            if not (self.stop.is_set() and isinstance(self.error, _Stopped)):
                raise self._failure(error) from self._cause()
        finally:
            if query is not None:
                _end(query)
            self._flush()

    def _failure(self, error: BaseException) -> PipelineError:
        cause = self._cause()
        if cause is not None:
            return PipelineError(f"batch {self.batches}: {type(cause).__name__}: {cause}")
        if isinstance(self.error, _SPARK_ERRORS):
            return PipelineError(f"batch {self.batches}: {reason(self.error)}")
        return PipelineError(reason(error))

    def _cause(self) -> BaseException | None:
        """What a function of ours raised in this process; of Spark's own errors only the reason."""
        return None if isinstance(self.error, (_Stopped, *_SPARK_ERRORS)) else self.error

    # -- a batch, in the thread of Spark's callback ----------------------------------------------

    def batch(self, frame: DataFrame, number: int) -> None:
        """Process one micro-batch; called by Spark, one at a time."""
        with self._busy:
            try:
                if self.stop.is_set():
                    raise _Stopped
                self._process(frame, number)
            except BaseException as error:
                self.error = error
                raise

    def _process(self, frame: DataFrame, number: int) -> None:
        self.batches += 1
        clock = Stopwatch()
        table, found = self._match(frame, clock)
        if found and self.on_matches is not None:
            self.on_matches(each_match(found))
            clock.lap("deliver")
        self.documents += table.num_rows
        self.undated.update(_undated(table))
        matches = count_matches(found) + self.hand_over()
        self.matches += matches
        self._done[number] = Progress(number, table.num_rows, matches, dict(clock.seconds))

    def _match(self, frame: DataFrame, clock: Stopwatch) -> tuple[pa.Table, list[SharedMatch]]:
        with self.lock:
            spec = self.engine.spec()
        table = self._stage1(frame, spec)
        clock.lap("stage1")
        if not table.num_rows:
            return table, []
        while True:
            with self.lock:
                if self.engine.spec() is not spec:
                    spec = self.engine.spec()
                    table = self._stage1(frame, spec)
                    clock.lap("stage1")
                with suppress(Again):
                    return table, self._apply(arrivals_from_table(in_order(table)), clock)

    def _apply(self, arrivals: Arrivals, clock: Stopwatch) -> list[SharedMatch]:
        numbers = [a.seq for a in arrivals.documents if a.seq is not None]
        position = max(numbers, default=None)
        found = self.engine.apply(arrivals, now=time.time_ns() // 1000, position=position)
        clock.lap("stage2")
        return found

    def _stage1(self, frame: DataFrame, spec: bytes) -> pa.Table:
        if self._stage is None or spec is not self._spec:
            self.release()
            self._broadcast = self.session.sparkContext.broadcast(spec)
            key = hashlib.blake2b(spec, digest_size=16).hexdigest()
            self._stage = ArrowMap(partial(stage1_batches, key, self._broadcast), _PACKED)
            self._spec = spec
        packed = self._stage(frame).toArrow().column(0)
        batches = (batch for row in packed for batch in pa.ipc.open_stream(row.as_buffer()))
        return pa.Table.from_batches(batches, schema=_ORDERED)

    def release(self) -> None:
        """Let go of the broadcast spec."""
        if self._broadcast is not None:
            with suppress(*_LOST):
                self._broadcast.unpersist()
            self._spec = self._broadcast = self._stage = None

    # -- progress --------------------------------------------------------------------------------

    def _report(self, query: StreamingQuery) -> None:
        if self.reports is not None:
            self.reports.look(query)
        if not self._done:
            return
        for update in query.recentProgress:
            done = self._done.pop(update.batchId, None)
            if done is not None:
                self._finish(done, update.durationMs)

    def _flush(self) -> None:
        for number in sorted(self._done):
            self._finish(self._done.pop(number), {})

    def _finish(self, done: Progress, spark: dict[str, int]) -> None:
        seconds = {**dict.fromkeys(STAGES, 0.0), **done.seconds}
        for name, stage in _SPARK_STAGES.items():
            seconds[stage] += spark.get(name, 0) / 1000
        seconds["other"] = max(0.0, spark.get("triggerExecution", 0) / 1000 - sum(seconds.values()))
        for stage, time_taken in seconds.items():
            self.seconds[stage] += time_taken
        if self.on_progress is not None:
            self.on_progress(Progress(done.batch, done.documents, done.matches, seconds))

    def summary(self, elapsed: float) -> Summary:
        return Summary(
            self.documents, self.batches, self.matches, dict(self.seconds), elapsed, self.undated
        )


class _Stopped(Exception):
    """A batch began after the stop: it is left for the next run."""


def stage1_batches(
    key: str, broadcast: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage 1 on an executor: DOCUMENTS and ORDER in, WITNESSED and ORDER out, each batch in a row.

    `key` names the spec that is broadcast.
    """
    spec = keep(key, lambda: broadcast.value)
    matcher_for(spec)
    settle(key)
    for batch in batches:
        orders = batch.column(ORDER)
        for witnessed in stage1(spec, iter([batch])):
            yield _pack(pa.RecordBatch.from_arrays([*witnessed.columns, orders], schema=_ORDERED))


def _pack(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as the one row of another, of schema `_PACKED`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    return pa.RecordBatch.from_arrays([pa.array([whole], pa.binary())], schema=_PACKED)


def _undated(table: pa.Table) -> dict[str, int]:
    """By source, how many rows are documents without a date of their own."""
    without = pc.and_(pc.invert(table.column("dated")), pc.is_null(table.column("error")))
    counted = pc.value_counts(table.filter(without).column("source"))
    return {entry["values"]: entry["counts"] for entry in counted.to_pylist()}


def in_order(table: pa.Table) -> pa.Table:
    """The rows in order of arrival: by sequence number, files by age and name."""
    keys = pa.table(
        {
            "order": pc.fill_null(table.column(ORDER), ""),
            # One spool numbers the rows of many sources, and numbers them as they arrived.
            "seq": pc.fill_null(table.column("seq"), 0),
            "source": table.column("source"),
        }
    )
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    return table.take(order).drop_columns([ORDER])


def _end(query: StreamingQuery) -> None:
    with suppress(*_LOST):
        query.stop()


def _digest(keys: Sequence[str]) -> str:
    """A checkpoint counts for one list of sources; other sources have one of their own."""
    return hashlib.blake2b("\n".join(keys).encode(), digest_size=8).hexdigest()


def _set_aside(checkpoint: Path) -> None:
    damaged = checkpoint.with_suffix(".damaged")
    shutil.rmtree(damaged, ignore_errors=True)
    checkpoint.rename(damaged)
