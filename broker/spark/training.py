"""The training run of Java's ahead-of-time cache: `python -m broker.spark.training`.

Starts Spark, does what the broker does with it, and lets Java keep the classes that this took. Run
by the first start on a machine, in the background, and by hand where a first start is to be quick:
in the image of a container, say. It takes half a minute of processor time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals, compile_changes, matcher_for
from broker.runs import PipelineError, Progress
from broker.shared_match import SharedMatch
from broker.spark import java_cache
from broker.spark.gateway import JavaError
from broker.spark.pipeline import run_pipeline
from broker.spark.session import local_cache_key, start_session, stop_session
from broker.spark.sources import json_source, xml_source
from feeds.rows import DocumentRow

_PATIENCE = 1800.0
"""Seconds in which Java is to start, and then to write the cache when it ends: each takes some ten
seconds of a free core, but perhaps no core is free."""


class _Nothing:
    """An engine that finds nothing: stage 2 does not concern Java."""

    def spec(self) -> bytes:
        return _NO_PATTERNS

    def witness(self, rows: Sequence[DocumentRow]) -> Arrivals:
        return arrivals(matcher_for(_NO_PATTERNS), rows)

    def apply(
        self, arrivals: Arrivals, now: int | None = None, position: int | None = None
    ) -> list[SharedMatch]:
        return []


_NO_PATTERNS = compile_changes(())


def train(directory: Path, key: str) -> Path:
    """Make the cache of that key; its path. Raises JavaError, PipelineError or OSError."""
    # On the file system of the directory, so that the file can be moved into place.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{key}-", dir=directory) as scratch:
        made = Path(scratch) / "cache"
        os.environ[java_cache.VARIABLE] = "off"
        session = start_session(java_options=[f"-XX:AOTCacheOutput={made}"], timeout=_PATIENCE)
        try:
            _work(session, Path(scratch))
        finally:
            stop_session(session, _PATIENCE)
        return java_cache.keep_cache(made, directory, key)


def _work(session: SparkSession, scratch: Path) -> None:
    """Files of both kinds, a few batches, to their end and as a stream that is stopped."""
    folder = scratch / "documents"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.xml").write_text(f"<a><b>{number}</b></a>")
    lines = [json.dumps({"id": str(number), "xml": "<a/>"}) for number in range(4)]
    (folder / "lines.jsonl").write_text("\n".join(lines))
    sources = [
        xml_source(session, folder, files_per_batch=2),
        json_source(session, folder, lines_per_batch=2),
    ]
    for once in (True, False):
        stop = threading.Event()

        def on_progress(_: Progress, stop: threading.Event = stop) -> None:
            stop.set()

        run_pipeline(
            session,
            _Nothing(),
            sources,
            scratch / f"checkpoint-{once}",
            once=once,
            on_matches=None,
            on_progress=None if once else on_progress,
            stop=stop,
        )


def _give_way() -> None:
    """Take what time and memory nobody else wants; so will the JVM."""
    with suppress(OSError):
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(19)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> int:
    directory = java_cache.cache_directory()
    key = local_cache_key()
    if directory is None or key is None:
        print("Java cannot have an ahead-of-time cache here: the variable", end=" ")
        print(f"{java_cache.VARIABLE} switches it off, or the class path holds directories")
        return 1
    if found := java_cache.find_cache(directory, key):
        print(f"{found} is there already")
        return 0
    if "--idle" in sys.argv[1:]:
        _give_way()
    try:
        print(f"made {train(directory, key)}")
    except (JavaError, PipelineError, OSError) as error:
        print(f"no ahead-of-time cache was made: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
