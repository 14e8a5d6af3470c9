"""What the workers of a cluster lack for shards and stage 1: seen from where the tasks run."""

from __future__ import annotations

import platform
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from pyspark.sql import SparkSession

from broker.cluster.files import ClusterError, files_at
from broker.spark.shards import wait_for_cores

PACKAGES = ("xml-stream-broker", "duckdb", "pyarrow", "pyspark", "lxml", "numpy")
_TASKS = 4
"""Tasks for each core, so that every executor gets one."""


class Seen(NamedTuple):
    """A worker as a task saw it: its host, what it lacks, in words."""

    host: str
    lacks: tuple[str, ...]


def check(session: SparkSession, shared: str, wanted: int) -> tuple[int, list[Seen]]:
    """The cores of the cluster, of which so many are wanted, and its workers. Raises
    ClusterError."""
    there = wait_for_cores(session, wanted)
    context = session.sparkContext
    host = context.getConf().get("spark.driver.host") or socket.gethostname()
    said = uuid.uuid4().hex
    files = files_at(shared)
    token = f"check/{said}"
    if not files.create(token) or files.create(token):
        raise ClusterError(f"{shared} makes a file that is there already, so it fences nobody")
    files.put(token, said.encode())
    try:
        with closing(socket.create_server((host, 0))) as listening:
            address = listening.getsockname()[:2]
            look = partial(_look, versions(), files.where, said, address)
            count = _TASKS * there
            found = context.parallelize(range(count), count).mapPartitions(look).collect()
    finally:
        files.remove([token])
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
    wanted: dict[str, str], shared: str, said: str, address: tuple[str, int], _rows: Iterable[int]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    lacks = [
        f"{name} {there}, and the coordinator has {wanted[name]}"
        for name, there in versions().items()
        if there != wanted[name]
    ]
    try:
        files_at(shared).read(f"check/{said}")
    except (OSError, ClusterError) as error:
        lacks.append(f"{shared} cannot be read ({getattr(error, 'strerror', None) or error})")
    try:
        socket.create_connection(address, timeout=10).close()
    except OSError as error:
        lacks.append(f"{address[0]} cannot be reached from here ({error.strerror or error})")
    yield socket.gethostname(), tuple(lacks)
