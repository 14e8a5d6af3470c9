"""The pipeline of the service through Spark: stage 1 on the executors, stage 2 in this process.

Each run has a session of its own, so that a JVM that died is replaced. A batch at which the engine
fails is left to the local pipeline, which finds the document that causes the failure.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker.documents.arrow import Arrivals
from broker.join.work import Cancelled
from broker.runs import PipelineError, Progress
from broker.service.core.core import Batch, Core
from broker.service.pipeline.driver import Watch
from broker.service.pipeline.local import ENVIRONMENT, LocalPipeline
from broker.shared_match import SharedMatch
from broker.spark.pipeline import Again, run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import Source
from feeds.rows import DocumentRow
from feeds.source import FeedSpool
from feeds.spool import stored_at


class SparkPipeline:
    """A pipeline of the service. `size`: most documents in a batch; `master`: as for Spark."""

    def __init__(self, core: Core, size: int, master: str | None, local: LocalPipeline) -> None:
        self._core = core
        self._size = size
        self._master = master
        self._local = local

    def __call__(self, stop: threading.Event, watch: Watch) -> None:
        core = self._core
        path = core.spool.path.absolute()
        session = start_session(self._master, state_dir=core.state)
        try:
            session.dataSource.register(FeedSpool)
            reader = session.readStream.format("feed_spool").option("path", str(path))
            frame = reader.option("rows_per_batch", str(self._size)).load()
            engine = _TimedEngine(core, path)
            watch.running(True)

            def on_progress(done: Progress) -> None:
                if done.documents:
                    batch = Batch(done.documents, done.matches, done.seconds)
                    watch.batch(batch, engine.latencies.popleft())
                else:
                    watch.well()

            run_pipeline(
                session,
                engine,
                [Source(f"feeds {path}", frame)],
                core.state / "checkpoint",
                once=False,
                on_matches=None,
                on_progress=on_progress,
                on_stream=watch.stream,
                stop=stop,
                lock=core.lock,
            )
        except PipelineError as error:
            cause = error.__cause__
            if isinstance(cause, Exception) and not isinstance(cause, ENVIRONMENT):
                core.mend()
                self._local.step(watch)
            raise
        finally:
            stop_session(session)


class _TimedEngine:
    """The engine of the state, which also records for how many seconds the oldest document of each
    batch has waited."""

    def __init__(self, core: Core, path: Path) -> None:
        self._core = core
        self._path = path
        self.latencies: deque[float | None] = deque()

    def spec(self) -> bytes:
        return self._core.engine.spec()

    def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
        with self._again():
            return self._core.engine.witness(rows)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        core = self._core
        since = stored_at(self._path, core.position)
        with self._again():
            matches = core.engine.apply(arrivals, now, position)
        core.committed()
        core.hand_over(matches)  # `run_pipeline` holds the lock
        self.latencies.append(core.waited(since))
        return matches

    @contextmanager
    def _again(self) -> Iterator[None]:
        """A block that is to be run again if it is stopped for others."""
        try:
            yield
        except Cancelled as error:
            self._core.cancelled(self._core.position + 1)
            raise Again from error
