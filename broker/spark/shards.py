"""The shards as Spark tasks: one task for each, which runs for as long as the engine does.

A task that is lost is started again by Spark on whatever executor has a core free, and the shard is
made anew there. If Spark gives it up, because it was lost too often, it is submitted again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from broker.cluster.files import ClusterError
from broker.cluster.serving import Place, serve_each
from broker.spark.failure import reason

_ERRORS = (PySparkException, Py4JError, OSError)
_FEW = 20
"""Times in a row that Spark may give up a shard at once."""
_AT_ONCE = 5.0
"""Seconds within which a task that ends has never begun to serve."""
_GROUP = "shards"
_PATIENCE = 180.0


class SparkTasks:
    """A launcher of shards in a session: each takes a core of the cluster."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._closed = threading.Event()
        self._failed = ""
        self._threads: list[threading.Thread] = []

    def start(self, places: Sequence[Place]) -> None:
        wait_for_cores(self._session, len(places) + 1)
        for place in places:
            thread = InheritableThread(target=self._run, args=(place,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(self, place: Place) -> None:
        """Keep a task of a shard running."""
        context = self._session.sparkContext
        failures = 0
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                context.setJobGroup(_GROUP, f"shard {place.shard}", interruptOnCancel=True)
                context.parallelize([place], 1).foreachPartition(serve_each)
            except _ERRORS as error:
                failures = failures + 1 if time.monotonic() - began < _AT_ONCE else 0
                if failures >= _FEW:
                    self._failed = reason(error)
                    return
            self._closed.wait(0.2)

    def check(self) -> None:
        if self._failed:
            raise ClusterError(f"Spark cannot run the shards: {self._failed}")

    def close(self) -> None:
        self._closed.set()
        for thread in self._threads:
            # Told that it is over, the tasks end by themselves.
            thread.join(2.0)
        if any(thread.is_alive() for thread in self._threads):
            with suppress(*_ERRORS):
                self._session.sparkContext.cancelJobGroup(_GROUP)


def wait_for_cores(session: SparkSession, wanted: int, patience: float = _PATIENCE) -> int:
    """Wait until the executors have so many cores; returns how many they have. Raises
    ClusterError."""
    latest = time.monotonic() + patience
    while (there := cores(session)) < wanted:
        if time.monotonic() > latest:
            raise ClusterError(
                f"the cluster has {there} cores, and {wanted} are needed: one for each shard, and "
                "at least one for stage 1"
            )
        time.sleep(0.2)
    return there


def cores(session: SparkSession) -> int:
    """The cores of the executors that are there now."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return int(context.defaultParallelism)
    # A cluster that has not begun says that it has two.
    java = context._jsc
    assert java is not None
    executors = java.sc().getExecutorMemoryStatus().size() - 1
    return int(context.defaultParallelism) if executors else 0
