"""The running pipeline of one machine: documents -> stage 1 -> stage 2, all in this thread, but for
stage 1 of the next batch where there is much to do (`Ahead`).

    sources -> rows in order of arrival -> witnesses -> engine.apply -> on_matches

The engine's file is the truth: a batch is committed there before its matches go out and before
`Positions` says that it was read. After a crash documents may come again, and the engine drops what
it has.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker.documents.ahead import WORTH, Ahead, cores
from broker.engine import Engine
from broker.join.work import Cancelled, Work
from broker.local.positions import Positions
from broker.local.sources import Source
from broker.model import Match
from broker.runs import PipelineError, Progress, Stop, Stopping, Summary
from broker.shared_match import count_matches, each_match
from broker.stopwatch import Stopwatch
from feeds.rows import DocumentRow
from xscl.growth import later, thaw

MOMENT = 1.0
"""Seconds that a batch may still take when the run is to end."""

_EVERY = 0.2
"""Seconds between two looks whether that is so."""


def run_local(
    engine: Engine,
    sources: Sequence[Source],
    directory: Path,
    *,
    once: bool,
    on_matches: Callable[[list[Match]], object],
    on_progress: Callable[[Progress], object] = lambda _: None,
    stop: Stopping | None = None,
    ahead: Ahead | None = None,
) -> Summary:
    """Run until what is there now is processed (`once`), or until `stop` is set; the batch in
    flight is finished first, if that takes no longer than a moment. `directory` is where the
    engine's state is. Where there are two cores, stage 1 of the next batch is done `ahead`.

    `on_matches` gets the matches of each batch that has any, after the batch is committed, and
    `on_progress` each batch that had documents. What they raise ends the run.

    Raises PipelineError where the engine fails or a directory cannot be listed, with the exception
    as its cause.
    """
    run = _Run(engine, list(sources), Positions(directory, engine.admission.next_doc), ahead)
    stop = stop or Stop()
    started = time.monotonic()
    if once:
        run.stop_growing()
    try:
        with _cancelling(engine.work, stop):
            while not stop.is_set():
                progress = run.step(on_matches)
                if progress is not None:
                    on_progress(progress)
                elif once:
                    break
                else:
                    stop.wait(run.until_due())
    except Cancelled:
        pass  # nothing of the batch is stored, and the next run begins with it
    finally:
        run.ahead.close()
        thaw()
    return run.summary(time.monotonic() - started)


@contextmanager
def _cancelling(work: Work, stop: Stopping) -> Iterator[None]:
    """A block in which a search that goes on when the run is to end is cancelled."""
    over = threading.Event()

    def watch() -> None:
        since: float | None = None
        while not over.wait(_EVERY):
            if stop.is_set():
                since = time.monotonic() if since is None else since
                if time.monotonic() - since > MOMENT:
                    # Again and again: it may have begun a statement since.
                    work.stop(Cancelled("the run is to end"))

    thread = threading.Thread(target=watch, name="cancelling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _listing() -> Iterator[None]:
    """Errors of a place that cannot be looked at end the run."""
    try:
        yield
    except OSError as error:
        raise PipelineError(f"{error.filename}: {error.strerror}") from error


_Read = tuple[list[DocumentRow], list[tuple[Source, object]]]


class _Run:
    def __init__(
        self,
        engine: Engine,
        sources: list[Source],
        positions: Positions,
        ahead: Ahead | None,
    ) -> None:
        self._engine = engine
        self.ahead = ahead or Ahead(engine, cores() > 1)
        self._following: _Read | PipelineError | None = None
        """The next batch, or why it could not be read, if that was tried already."""
        self._sources = sources
        self._positions = positions
        self._due = dict.fromkeys(range(len(sources)), 0.0)
        """By source, when it is looked at next, in seconds of a monotonic clock."""
        self._batches = self._documents = self._matches = 0
        self._seconds: dict[str, float] = {}
        self._undated: Counter[str] = Counter()
        positions.resume(sources)

    def stop_growing(self) -> None:
        """What is there now is all that is read."""
        with _listing():
            for source in self._sources:
                source.stop_growing()

    def step(self, on_matches: Callable[[list[Match]], object]) -> Progress | None:
        """Process one batch; None where no source has anything new."""
        clock = Stopwatch()
        rows, read = self._next()
        if not rows and not read:
            return None
        with later(many=len(rows) >= WORTH):
            return self._match(rows, read, on_matches, clock)

    def _match(
        self,
        rows: list[DocumentRow],
        read: list[tuple[Source, object]],
        on_matches: Callable[[list[Match]], object],
        clock: Stopwatch,
    ) -> Progress:
        """Process the rows of a batch, and begin with the next one."""
        if len(rows) >= WORTH and self.ahead.enabled:
            self._look_ahead()
        clock.lap("read")
        self._batches += 1
        try:
            arrived = self.ahead.arrivals(rows)
            clock.lap("stage1")
            position = max((row.seq for row in rows if row.seq is not None), default=None)
            found = self._engine.apply(arrived, time.time_ns() // 1000, position)
            clock.lap("stage2")
        except Cancelled:
            raise
        except Exception as error:
            message = f"batch {self._batches}: {type(error).__name__}: {error}"
            raise PipelineError(message) from error
        for source, upto in read:
            self._positions.read(source, upto, self._engine.admission.next_doc)
        if found:
            on_matches(each_match(found))
            clock.lap("deliver")
        matches = count_matches(found)
        self._documents += len(rows)
        self._matches += matches
        for step, seconds in clock.seconds.items():
            self._seconds[step] = self._seconds.get(step, 0.0) + seconds
        self._undated.update(row.source for row in rows if not row.dated and row.error is None)
        return Progress(self._batches, len(rows), matches, dict(clock.seconds))

    def _look_ahead(self) -> None:
        """Read the next batch, and begin with it."""
        try:
            self._following = self._read()
            self.ahead.begin(self._following[0])
        except PipelineError as error:
            self._following = error

    def _next(self) -> _Read:
        """The next batch. Raises PipelineError."""
        following, self._following = self._following, None
        if isinstance(following, PipelineError):
            raise following
        return following or self._read()

    def _read(self) -> _Read:
        """The rows of a batch in order of arrival, and how far they take each source. Raises
        PipelineError."""
        with _listing():
            return self._read_sources()

    def _read_sources(self) -> _Read:
        rows: list[DocumentRow] = []
        read: list[tuple[Source, object]] = []
        now = time.monotonic()
        for number, source in enumerate(self._sources):
            if self._due[number] > now:
                continue
            more, position = source.read()
            rows += more
            if position:
                read.append((source, position))
            # One that has brought something is looked at again at once: there may be more.
            self._due[number] = 0.0 if more or position else time.monotonic() + source.poll
        rows.sort(key=lambda row: (row.order or "", row.seq or 0, row.source))
        return rows, read

    def until_due(self) -> float:
        """Seconds until a source is looked at again."""
        return max(0.0, min(self._due.values()) - time.monotonic())

    def summary(self, elapsed: float) -> Summary:
        return Summary(
            *(self._documents, self._batches, self._matches, self._seconds, elapsed),
            self._undated,
        )
