"""What Spark says of its streaming query: what it does, how far it is, and how fast.

In: a query that runs. Out: `StreamProgress`, looked at so seldom that it costs next to nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from broker.runs import StreamProgress

_EVERY = 1.0
"""Seconds between two looks: each asks the JVM twice."""


@dataclass(slots=True)
class ProgressReports:
    """Calls `report` with what Spark says of a query."""

    report: Callable[[StreamProgress], None]
    _next: float = 0.0
    _batch: Any = None

    def look(self, query: StreamingQuery) -> None:
        """Report, unless that was done a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        last: Any = query.lastProgress or {}
        # Without news Spark reports the batch to come, without rows.
        if last.get("numInputRows"):
            self._batch = last
        self.report(_stream_progress(query.status["message"], self._batch or {}, last))


def _stream_progress(doing: str, batch: Any, last: Any) -> StreamProgress:
    """Of the message of the query's status, and of two progresses as `StreamingQuery.lastProgress`
    has them: that of the last batch with rows, and the last of all."""
    durations = batch.get("durationMs") or {}
    return StreamProgress(
        doing=doing,
        batch=batch.get("batchId", -1),
        rows=batch.get("numInputRows") or 0,
        arriving=batch.get("inputRowsPerSecond") or 0.0,
        processed=batch.get("processedRowsPerSecond") or 0.0,
        phases={name: taken / 1_000 for name, taken in durations.items()},
        read=[_offset(source.get("endOffset")) for source in last.get("sources") or ()],
    )


def _offset(offset: Any) -> Any:
    """Spark writes the offset of a source in Python as JSON."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return offset
