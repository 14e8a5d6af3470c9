"""What the workers of a cluster lack for shards and stage 1: seen from where the tasks run."""

from __future__ import annotations

import os
import platform
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from broker.spark.shards import wait_for_cores

PACKAGES = ("xml-stream-broker", "duckdb", "pyarrow", "pyspark", "lxml", "numpy")
_TASKS = 4
"""Tasks for each core, so that every executor gets one."""


class Seen(NamedTuple):
    """A worker as a task saw it: its host, what it lacks, in words."""

    host: str
    lacks: tuple[str, ...]


def check(session: SparkSession, shared: Path, wanted: int) -> tuple[int, list[Seen]]:
    """The cores of the cluster, of which so many are wanted, and its workers. Raises
    ClusterError."""
    there = wait_for_cores(session, wanted)
    context = session.sparkContext
    host = context.getConf().get("spark.driver.host") or socket.gethostname()
    said = uuid.uuid4().hex
    shared.mkdir(parents=True, exist_ok=True)
    token = shared.absolute() / f"check-{said}"
    token.write_text(said, encoding="utf-8")
    try:
        with closing(socket.create_server((host, 0))) as listening:
            address = listening.getsockname()[:2]
            look = partial(_look, versions(), str(token), said, address)
            count = _TASKS * there
            found = context.parallelize(range(count), count).mapPartitions(look).collect()
    finally:
        token.unlink()
    return there, [Seen(*each) for each in sorted(set(found))]


def versions() -> dict[str, str]:
    """The versions of what has to be the same on all machines."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _look(
    wanted: dict[str, str], token: str, said: str, address: tuple[str, int], _rows: Iterable[int]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    lacks = [
        f"{name} {there}, and the coordinator has {wanted[name]}"
        for name, there in versions().items()
        if there != wanted[name]
    ]
    try:
        read = Path(token).read_text(encoding="utf-8")
        lacks += [] if read == said else [f"{os.path.dirname(token)} is another directory here"]
    except OSError as error:
        lacks.append(f"{os.path.dirname(token)} cannot be read ({error.strerror})")
    try:
        socket.create_connection(address, timeout=10).close()
    except OSError as error:
        lacks.append(f"{address[0]} cannot be reached from here ({error.strerror or error})")
    yield socket.gethostname(), tuple(lacks)
