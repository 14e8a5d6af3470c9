"""Runs the Spark pipeline over documents, for benchmarks that compare it with the library."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from broker import Broker
from broker.engine import LATENESS
from broker.runs import Summary
from broker.spark.pipeline import run_pipeline
from broker.spark.session import start_session, stop_session
from broker.spark.sources import json_source


def run_spark(
    documents: Iterable[Mapping[str, object]],
    queries: str,
    lateness: timedelta | float = timedelta(microseconds=LATENESS),
) -> tuple[Summary, float]:
    """Documents as lines of JSON go through the pipeline, started once, with a state directory. Its
    summary, and the wall seconds that Spark took to start."""
    with tempfile.TemporaryDirectory() as scratch, Broker(scratch, lateness=lateness) as broker:
        lines = Path(scratch) / "items.jsonl"
        with lines.open("w") as file:
            file.writelines(json.dumps(document) + "\n" for document in documents)
        broker.subscribe(queries)
        begin = time.perf_counter()
        session = start_session()
        started = time.perf_counter() - begin
        summary = run_pipeline(
            session,
            broker.engine,
            [json_source(session, lines)],
            Path(scratch) / "checkpoint",
            once=True,
            on_matches=broker.acknowledge,
        )
        stop_session(session)
    return summary, started
