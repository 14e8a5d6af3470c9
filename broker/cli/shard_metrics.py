"""The load of shards, for Prometheus and in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from broker.cli.shared import Failed, plural
from broker.cluster.load import Load, ShardLoad

_COUNTERS: Sequence[tuple[str, str, Callable[[ShardLoad], float]]] = (
    ("cpu_seconds", "CPU time of a shard.", lambda shard: shard.cpu),
    ("matches", "Matches that a shard has found.", lambda shard: shard.matches),
)
_GAUGES: Sequence[tuple[str, str, Callable[[ShardLoad], float]]] = (
    ("documents", "Documents that a shard has in memory.", lambda shard: shard.documents),
    ("answer_seconds", "How long its last answer took.", lambda shard: shard.last),
    ("behind_seconds", "How much longer than that of the quickest.", lambda shard: shard.behind),
)


class _Shards(Collector):
    def __init__(self, load: Load, rebuilt: Callable[[], int]) -> None:
        self._load, self._rebuilt = load, rebuilt

    def collect(self) -> Iterator[Metric]:
        load = self._load
        for name, text, value in _COUNTERS:
            counter = CounterMetricFamily(f"broker_shard_{name}", text, labels=["shard"])
            for number, shard in enumerate(load.shards):
                counter.add_metric([str(number)], value(shard))
            yield counter
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(f"broker_shard_{name}", text, labels=["shard"])
            for number, shard in enumerate(load.shards):
                gauge.add_metric([str(number)], value(shard))
            yield gauge
        yield GaugeMetricFamily(
            "broker_shards_skew", "The CPU time of the busiest shard, of the mean.", load.skew
        )
        yield GaugeMetricFamily(
            "broker_shards_lag_seconds", "How long the round under way has waited.", load.lag
        )
        yield CounterMetricFamily(
            "broker_shards_rounds", "Rounds that all shards have answered.", load.batches
        )
        yield CounterMetricFamily(
            "broker_shards_made", "How often a shard was made, or made anew.", self._rebuilt()
        )
        yield CounterMetricFamily(
            "broker_shards_written_bytes", "Bytes of shared files.", load.bytes_written
        )


@contextmanager
def _serving(address: tuple[str, int], collector: Collector) -> Iterator[None]:
    registry = CollectorRegistry()
    registry.register(collector)
    host, port = address
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise Failed(f"--metrics {host}:{port}: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serving(
    address: tuple[str, int], load: Load, rebuilt: Callable[[], int]
) -> AbstractContextManager[None]:
    """A block in which `http://HOST:PORT/metrics` tells the load. Raises Failed."""
    return _serving(address, _Shards(load, rebuilt))


def summary(load: Load, rebuilt: int) -> str:
    """The load in a line."""
    count = len(load.shards)
    seconds = sum(shard.cpu for shard in load.shards)
    busiest = max(range(count), key=lambda n: load.shards[n].cpu)
    told = [
        f"{plural(count, 'shard')}: {seconds:.1f} s of CPU",
        f"the most in shard {busiest}, {load.skew:.2f} times the mean",
    ]
    if rebuilt > count:
        told.append(f"made anew {plural(rebuilt - count, 'time')}")
    return ", ".join(told)
