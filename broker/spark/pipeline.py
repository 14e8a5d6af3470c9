"""The running pipeline: documents -> stage 1 on the executors -> stage 2 in this process.

    sources (union) -> micro-batch -> stage 1 (mapInArrow) -> toArrow ──> engine.apply -> on_matches
                       in the thread of Spark's callback                  in a thread of its own

Owns one streaming query at a time. In: sources, an engine, a checkpoint directory; out: matches,
progress, a summary. Stage 1 is put onto each micro-batch inside `foreachBatch`, with the spec of
that moment, so that queries come and go without the stream's plan ever changing. While the engine
applies a batch, Spark goes on with the next one (`Joining`); what that was witnessed by is checked
when it is its turn.

The engine's store is the truth, Spark's checkpoint only says where to read on, and is taken back to
what the engine has before a stream begins (`Checkpoint`): a batch that is replayed, or a checkpoint
that is lost or damaged, makes documents come again, and the engine drops what it has.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from broker.documents.arrow import Arrivals, arrivals_from_table
from broker.model import Match
from broker.runs import PipelineError, Progress, Stop, Stopping, StreamProgress, Summary
from broker.shared_match import SharedMatch, count_matches, each_match
from broker.spark.arrow import ArrowMap
from broker.spark.checkpoint import Checkpoint
from broker.spark.failure import reason
from broker.spark.joining import Joining
from broker.spark.packed import PACKED, in_order, stage1_batches, unpack
from broker.spark.progress import ProgressReports
from broker.spark.sources import Source, union
from broker.stopwatch import Stopwatch
from feeds.rows import DocumentRow

_POLL_SECONDS = 0.25
_SPARK_ERRORS = (PySparkException, Py4JError)
_LOST = (*_SPARK_ERRORS, OSError)
"""What a call into a JVM that fails, or is gone, raises."""


class Again(Exception):
    """The engine was needed for something else, and nothing is applied. The batch is to be applied
    once who waits for the lock has had it, perhaps with another compiled form."""


class Engine(Protocol):
    """What the pipeline needs of stage 2."""

    def spec(self) -> bytes:
        """Stage 1's compiled form for the queries registered now; the same object while they
        stay the same."""

    def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
        """Stage 1 for the queries registered now, in this process. Raises Again."""

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        """Apply a batch in one transaction; `now` in microseconds. `position` is the highest number
        in it, where its rows are of a log that numbers them. Raises Again."""


STAGES = ("list", "log", "plan", "stage1", "wait", "other", "stage2", "deliver")
"""list: find what is new; log: Spark's checkpoint; plan: Spark's planning; stage1: read, parse,
match and collect; wait: for the batch before to be applied; other: the rest of the trigger. Beside
the next batch's: stage2: order and apply; deliver: on_matches."""

_TRIGGER = STAGES[: STAGES.index("other")]
"""What a trigger of Spark's consists of, but for the rest."""

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
    spec changed meanwhile is matched again, in this process and with the lock held, so that no
    subscription misses a document and frequent changes cannot delay a batch forever.
    `hand_over` is called after each batch, and returns how many matches were handed over that the
    engine has not returned. All but `on_progress` and `on_stream` are called in a thread of the
    pipeline's own. Documents with a number are all of one log: the engine gets the log's position
    with each batch.

    Raises `PipelineError` with the reason, and the Python exception as its cause where it is one;
    Spark's log has the trace.
    """
    keys = [source.key for source in documents]
    checkpoint = Checkpoint(checkpoint_dir.absolute() / _digest(keys))
    is_new = not checkpoint.path.exists()
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
        if run.batches or error.__cause__ is not None or is_new:
            raise
        # It failed before the first batch: perhaps the checkpoint cannot be read. It is only a
        # hint, so look again without it before giving up.
        checkpoint.set_aside()
        run.stream(frame, checkpoint, once, interval)
    finally:
        run.release()
    return run.summary(time.monotonic() - started)


class _Witnessed(NamedTuple):
    """A micro-batch after stage 1: its numbers for Spark and in this run, its rows, their spec."""

    number: int
    ordinal: int
    table: pa.Table
    spec: bytes
    clock: Stopwatch


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
    failed_at: int = 0
    """The batch of the run at which `error` was raised."""
    reports: ProgressReports | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _done: dict[int, Progress] = field(default_factory=dict)
    _spec: bytes | None = None
    _broadcast: Any = None
    _stage: ArrowMap | None = None
    _joining: Joining[_Witnessed] | None = None
    _current: bytes = b""
    """The spec when the last batch began to be applied."""
    _checkpoint: Checkpoint | None = None

    # -- the streaming query, in the caller's thread ---------------------------------------------

    def stream(self, frame: DataFrame, checkpoint: Checkpoint, once: bool, interval: float) -> None:
        trigger: dict[str, Any] = (
            {"availableNow": True}
            if once
            else {"processingTime": f"{max(1, round(interval * 1000))} milliseconds"}
        )
        query = None
        try:
            checkpoint.rewind()
        except OSError as error:
            raise PipelineError(str(error)) from error
        self.error, self._checkpoint = None, checkpoint
        joining = self._joining = Joining(self._join)
        try:
            query = (
                frame.writeStream.foreachBatch(self.batch)
                .option("checkpointLocation", str(checkpoint.path))
                .trigger(**trigger)
                .start()
            )
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                self._report(query)
                if joining.error is not None:
                    break
                if self.stop.is_set():
                    # A batch in flight holds `_busy`; the next one sees `stop` and does nothing.
                    with self._busy:
                        pass
                    break
            joining.close()
            self._report(query)
        except _LOST as error:
            joining.close()
            if not (self.stop.is_set() and isinstance(self.error, _Stopped)):
                raise self._failure(error) from self._cause()
        finally:
            if query is not None:
                _end(query)
            joining.close()
            self._flush()
        if joining.error is not None and not isinstance(joining.error, _Stopped):
            raise self._failure(joining.error) from self._cause()

    def _failure(self, error: BaseException) -> PipelineError:
        cause = self._cause()
        if cause is not None:
            return PipelineError(f"batch {self.failed_at}: {type(cause).__name__}: {cause}")
        if isinstance(self.error, _SPARK_ERRORS):
            return PipelineError(f"batch {self.failed_at}: {reason(self.error)}")
        return PipelineError(reason(error))

    def _cause(self) -> BaseException | None:
        """What a function of ours raised in this process; of Spark's own errors only the reason."""
        return None if isinstance(self.error, (_Stopped, *_SPARK_ERRORS)) else self.error

    # -- a batch, in the thread of Spark's callback ----------------------------------------------

    def batch(self, frame: DataFrame, number: int) -> None:
        """Witness one micro-batch and hand it over; called by Spark, one at a time."""
        with self._busy:
            try:
                if self.stop.is_set():
                    raise _Stopped
                self._witness(frame, number)
            except BaseException as error:
                self._note(error, self.batches)
                raise

    def _note(self, error: BaseException, ordinal: int) -> None:
        """Note the first error of all, and at which batch of the run."""
        if self.error is None:
            self.error, self.failed_at = error, ordinal

    def _witness(self, frame: DataFrame, number: int) -> None:
        assert self._joining is not None
        self._joining.check()
        self.batches += 1
        clock = Stopwatch()
        # The lock is held while a batch is applied: the spec of its begin will do, since what a
        # batch was witnessed by is checked when it is applied.
        if self._joining.is_busy() and self._current:
            spec = self._current
        else:
            with self.lock:
                spec = self.engine.spec()
        table = self._stage1(frame, spec)
        clock.lap("stage1")
        self._joining.wait()
        clock.lap("wait")
        self._joining.hand_over(_Witnessed(number, self.batches, table, spec, clock))

    # -- the batch before, in the thread of `Joining` ----------------------------------------------

    def _join(self, batch: _Witnessed) -> None:
        try:
            self._process(batch)
        except BaseException as error:
            self._note(error, batch.ordinal)
            raise

    def _process(self, batch: _Witnessed) -> None:
        assert self._checkpoint is not None
        table, clock = batch.table, batch.clock
        clock.start()
        found = self._match(batch) if table.num_rows else []
        self._checkpoint.applied(batch.number)
        if found and self.on_matches is not None:
            self.on_matches(each_match(found))
            clock.lap("deliver")
        self.documents += table.num_rows
        self.undated.update(_undated(table))
        matches = count_matches(found) + self.hand_over()
        self.matches += matches
        self._done[batch.number] = Progress(
            batch.number, table.num_rows, matches, dict(clock.seconds)
        )

    def _match(self, batch: _Witnessed) -> list[SharedMatch]:
        arrivals, spec = arrivals_from_table(in_order(batch.table)), batch.spec
        while True:
            with self.lock, suppress(Again):
                self._current = self.engine.spec()
                if self._current is not spec:
                    arrivals = self.engine.witness(arrivals.documents)
                    spec = self._current
                return self._apply(arrivals, batch.clock)
            if self.stop.is_set():
                raise _Stopped  # nothing is applied, and the next run begins with it

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
            self._stage = ArrowMap(partial(stage1_batches, key, self._broadcast), PACKED)
            self._spec = spec
        return unpack(self._stage(frame).toArrow())

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
        known = sum(seconds[stage] for stage in _TRIGGER)
        seconds["other"] = max(0.0, spark.get("triggerExecution", 0) / 1000 - known)
        for stage, time_taken in seconds.items():
            self.seconds[stage] += time_taken
        if self.on_progress is not None:
            self.on_progress(Progress(done.batch, done.documents, done.matches, seconds))

    def summary(self, elapsed: float) -> Summary:
        return Summary(
            self.documents, self.batches, self.matches, dict(self.seconds), elapsed, self.undated
        )


class _Stopped(Exception):
    """A batch began after the stop, or was given up then: it is left for the next run."""


def _undated(table: pa.Table) -> dict[str, int]:
    """By source, how many rows are documents without a date of their own."""
    without = pc.and_(pc.invert(table.column("dated")), pc.is_null(table.column("error")))
    counted = pc.value_counts(table.filter(without).column("source"))
    return {entry["values"]: entry["counts"] for entry in counted.to_pylist()}


def _end(query: StreamingQuery) -> None:
    with suppress(*_LOST):
        query.stop()


def _digest(keys: Sequence[str]) -> str:
    """A checkpoint counts for one list of sources; other sources have one of their own."""
    return hashlib.blake2b("\n".join(keys).encode(), digest_size=8).hexdigest()
