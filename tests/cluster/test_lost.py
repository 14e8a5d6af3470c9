"""Shards, answers and coordinators that are lost: every match is found once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest

from broker import Broker, Match
from broker.cluster.files import ClusterError
from broker.cluster.remote import RemoteShards
from broker.cluster.segments import Fenced
from broker.cluster.serving import Place
from broker.cluster.sharded import ShardedEngine
from broker.results.matches import Result
from tests.cluster.brokers import sharded
from tests.cluster.processes import forking
from tests.cluster.test_here import CASCADE, PAIR, item, told


def batches(count: int) -> list[list[tuple[str, str]]]:
    r = Random(5)
    return [
        [(str(6 * number + n), f"t{r.randint(0, 3)}") for n in range(6)] for number in range(count)
    ]


def found_alone(count: int) -> list[list[tuple[str, ...]]]:
    with Broker() as broker:
        broker.subscribe(PAIR)
        return [process(broker, batch) for batch in batches(count)]


def process(broker: Broker, batch: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    return told(broker.process([item(int(number), title) for number, title in batch]))


def test_processes_that_are_killed_change_nothing(tmp_path: Path) -> None:
    processes = forking()
    with sharded(tmp_path, 2, None, lambda: RemoteShards(processes)) as broker:
        broker.subscribe(PAIR)
        found = []
        for number, batch in enumerate(batches(6)):
            found.append(process(broker, batch))
            if number in (1, 2, 4):
                processes.running[number % 2].kill()
    assert found == found_alone(6)


def test_a_batch_that_fails_after_the_shards_have_answered_is_made_again(tmp_path: Path) -> None:
    found: list[Match] = []
    with sharded(tmp_path / "shared", 3, tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        outbox = type(broker.engine.outbox)
        for number, batch in enumerate(batches(4)):
            documents = [item(int(n), title) for n, title in batch]
            if number in (1, 3):
                with (
                    patch.object(outbox, "post_columns", side_effect=OSError("no space")),
                    pytest.raises(OSError, match="no space"),
                ):
                    broker.process(documents)
            found += broker.process(documents)
        assert sorted(m.id for m in broker.undelivered()) == sorted(m.id for m in found)
    assert told(found) == sorted(each for own in found_alone(4) for each in own)


def test_an_earlier_coordinator_is_fenced(tmp_path: Path) -> None:
    first, second, third = batches(3)
    with sharded(tmp_path / "shared", 2, tmp_path / "one") as earlier:
        earlier.subscribe(PAIR)
        process(earlier, first)
        with sharded(tmp_path / "shared", 2, tmp_path / "two") as later:
            later.subscribe(PAIR)
            process(later, first)
            with pytest.raises(Fenced, match="another coordinator"):
                process(earlier, second)
            # What the later one does is not disturbed by the attempt.
            assert [process(later, each) for each in (second, third)] == found_alone(3)[1:]
    with sharded(tmp_path / "shared", 2, tmp_path / "one") as again:
        assert [process(again, each) for each in (second, third)] == found_alone(3)[1:]


def test_what_an_earlier_coordinator_writes_late_is_never_read(tmp_path: Path) -> None:
    """It hangs while it writes a batch, and goes on when another one has committed that batch."""
    first, second, third = batches(3)
    with (
        sharded(tmp_path / "shared", 2, tmp_path / "one") as earlier,
        sharded(tmp_path / "other", 2, tmp_path / "two") as later,
    ):
        for each in (earlier, later):
            each.subscribe(PAIR)
            process(each, first)
        later.close()
        assert isinstance(earlier.engine, ShardedEngine)
        files = earlier.engine.cluster.shared.files
        put = files.put
        found: list[list[tuple[str, ...]]] = []

        def hang(name: str, content: pa.Buffer) -> None:
            if name.endswith(".documents") and not found:
                with sharded(tmp_path / "shared", 2, tmp_path / "two") as successor:
                    found.append(process(successor, second))
            put(name, content)

        with patch.object(files, "put", hang), pytest.raises(Fenced, match="another coordinator"):
            process(earlier, second)
        written = [each.name for each in (tmp_path / "shared" / "batches").glob("*.rows")]
        assert {name.split(".")[1] for name in written} == {"000001", "000002"}
    with sharded(tmp_path / "shared", 2, tmp_path / "two") as successor:
        assert [*found, process(successor, third)] == found_alone(3)[1:]
        written = [each.name for each in (tmp_path / "shared" / "batches").glob("*.rows")]
        assert "000001" not in {name.split(".")[1] for name in written}


def test_a_shard_that_is_lost_between_two_rounds_is_made_of_the_first(tmp_path: Path) -> None:
    alone, processes = Broker(), forking()
    with alone, sharded(tmp_path, 2, None, lambda: RemoteShards(processes)) as broker:
        for each in (alone, broker):
            each.subscribe(CASCADE)
        assert isinstance(broker.engine, ShardedEngine)
        cluster = broker.engine.cluster
        receive = cluster.receive
        for number, batch in enumerate(batches(4)):

            def receive_and_kill(now: int | None, number: int = number) -> list[Result]:
                found = receive(now)
                if number in (1, 3):
                    processes.running[number // 2].kill()
                return found

            with patch.object(cluster, "receive", receive_and_kill):
                assert process(broker, batch) == process(alone, batch)


class Nowhere:
    """A launcher whose processes never come."""

    def start(self, places: Sequence[Place]) -> None:
        pass

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_shard_that_does_not_answer_ends_the_batch_and_loses_nothing(tmp_path: Path) -> None:
    first, second = batches(2)
    hung = partial(RemoteShards, Nowhere(), patience=0.1)
    with sharded(tmp_path / "shared", 2, tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        process(broker, first)
    with (
        sharded(tmp_path / "shared", 2, tmp_path / "state", hung) as broker,
        pytest.raises(ClusterError, match="shard 0 has not answered"),
    ):
        process(broker, second)
    with sharded(tmp_path / "shared", 2, tmp_path / "state") as broker:
        assert process(broker, second) == found_alone(2)[1]
