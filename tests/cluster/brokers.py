"""Brokers over shards, for the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker import Broker
from broker.cluster.sharded import ShardedEngine
from broker.cluster.shards import HereShards, Shards
from broker.state.store import Store
from tests.oracle.generate import Case
from tests.properties.harness import Opening


def sharded(
    shared: Path | str,
    count: int,
    state: Path | None = None,
    shards: Callable[[], Shards] = HereShards,
    **settings: Any,
) -> Broker:
    """A broker with so many shards over shared files."""
    engine = ShardedEngine(
        Store(state), shared=str(shared), shards=shards(), count=count, **settings
    )
    return Broker.over(engine)


def opening(
    shared: Path | str,
    counts: Callable[[], int],
    shards: Callable[[], Shards] = HereShards,
    **settings: Any,
) -> Opening:
    """Opens the broker of a case with as many shards as `counts` says each time."""

    def open_broker(case: Case, state: Path | None) -> Broker:
        more = {"lateness": case.lateness, "memory": case.memory, **settings}
        return sharded(shared, counts(), state, shards, **more)

    return open_broker
