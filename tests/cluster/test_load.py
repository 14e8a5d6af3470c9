"""What is told of the shards: to Prometheus, and in a line."""

from __future__ import annotations

import urllib.request
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.cli.shard_metrics import serving, summary
from broker.cli.shared import Failed
from broker.cluster.load import Load, Use
from broker.cluster.remote import RemoteShards
from broker.cluster.sharded import ShardedEngine
from tests.cluster.brokers import sharded
from tests.cluster.processes import forking
from tests.cluster.test_here import PAIR
from tests.cluster.test_lost import batches, found_alone, process
from tests.ports import reserved_port


def test_metrics_tell_what_each_shard_has_done(tmp_path: Path) -> None:
    shards = RemoteShards(forking())
    with sharded(tmp_path, 2, None, lambda: shards) as broker:
        assert isinstance(broker.engine, ShardedEngine)
        load = broker.engine.cluster.load
        broker.subscribe(PAIR)
        for batch in batches(3):
            process(broker, batch)
        address = "127.0.0.1", reserved_port()
        with serving(address, load, lambda: shards.rebuilt):
            with pytest.raises(Failed, match="--metrics"), serving(address, load, int):
                pass
            url = "http://{}:{}/metrics".format(*address)
            with urllib.request.urlopen(url) as answer:
                told = answer.read().decode()
    values: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            values.setdefault(sample.name, []).append(sample.value)
    assert sum(values["broker_shard_matches_total"]) == sum(map(len, found_alone(3)))
    # Of 18 documents the four values of titles are divided, and each is in one shard.
    assert sum(values["broker_shard_documents"]) == 18
    assert all(seconds > 0 for seconds in values["broker_shard_cpu_seconds_total"])
    assert min(values["broker_shard_behind_seconds"]) == 0
    assert values["broker_shards_rounds_total"] == [3]
    assert values["broker_shards_made_total"] == [2]
    assert values["broker_shards_lag_seconds"] == [0]
    assert 1 <= values["broker_shards_skew"][0] <= 2
    assert values["broker_shards_written_bytes_total"][0] > 1_000


def test_skew_is_the_busiest_of_the_mean_and_lag_what_is_waited() -> None:
    load = Load.of(2)
    assert (load.skew, load.lag) == (1, 0)
    load.sent()
    assert load.lag > 0
    load.answered([Use(1.0, 0.5, 7, 1), Use(3.0, 0.75, 9, 2)])
    assert (load.skew, load.lag) == (1.5, 0)
    assert [shard.behind for shard in load.shards] == [0, 0.25]
    told = partial(summary, load)
    assert told(2) == "2 shards: 4.0 s of CPU, the most in shard 1, 1.50 times the mean"
    assert told(3).endswith(", made anew 1 time")
