"""Processes of shards that are forked from one that has imported everything."""

from __future__ import annotations

import pickle
import subprocess

from broker.cluster.processes import Processes, Running
from broker.cluster.serving import Place
from tests.command import Command


def forked(place: Place) -> Running:
    """A process for a shard."""
    command = Command((), stdin=subprocess.PIPE, main="broker.cluster.serving:main")
    assert command.stdin is not None
    with command.stdin as where:
        where.buffer.write(pickle.dumps(place))  # type: ignore[attr-defined]
    return command


def forking() -> Processes:
    """A launcher of such processes."""
    return Processes(forked)
