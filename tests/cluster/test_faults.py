"""What goes wrong beside the broker: files that cannot be written or come late, answers that are
lost, processes that come back."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from broker import Broker
from broker.cluster.files import ClusterError, Directory
from broker.cluster.processes import Running
from broker.cluster.remote import RemoteShards
from broker.cluster.serving import Place
from broker.cluster.sharded import ShardedEngine
from tests.cluster.brokers import sharded
from tests.cluster.processes import forked
from tests.cluster.test_here import PAIR, item, told
from tests.cluster.test_lost import batches, found_alone, process
from tests.waiting import PATIENCE, until

OTHER = "other: SELECT t FROM S//i[./t->t] FOLLOWED BY {t = u, 1 h} S//i[./t->u];"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("file systems cannot be mounted here")
    yield place
    gc.collect()  # files that are mapped into memory
    subprocess.run(["umount", str(place)], check=True)


def _fill(file: RawIOBase) -> None:
    while True:
        file.write(bytes(4_096))


@contextmanager
def full(place: Path) -> Iterator[None]:
    """Until the block ends there is no space left."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        _fill(file)
    yield
    filler.unlink()


def test_a_full_directory_ends_a_batch_and_loses_nothing(small: Path, tmp_path: Path) -> None:
    """Neither documents, nor queries, nor what is divided anew."""
    with Broker() as alone, sharded(small, 4, tmp_path / "state", hot_from=6) as broker:
        for each in (alone, broker):
            each.subscribe(PAIR)
        assert process(broker, batches(1)[0]) == process(alone, batches(1)[0])
        for number in range(1, 5):
            documents = [item(6 * number + n, "all", f"t{n % 3}") for n in range(6)]
            if number == 3:
                for each in (alone, broker):
                    each.subscribe(OTHER)
            with full(small):
                for _ in range(2):
                    with pytest.raises(ClusterError, match="No space left"):
                        broker.process(documents)
            found = told(broker.process(documents))
            assert found == told(alone.process(documents))
            assert {query for query, *_ in found} == {"pair", "other"} if number >= 3 else {"pair"}
        assert isinstance(broker.engine, ShardedEngine)
        assert broker.engine.cluster.shared.routing(1)["hot"], "nothing was divided anew"


class Each:
    """A launcher of several processes for each shard, which starts none again."""

    def __init__(self, times: int = 1) -> None:
        self._times = times
        self.places: Sequence[Place] = ()
        self.running: list[Running] = []

    def start(self, places: Sequence[Place]) -> None:
        self.places = places
        for place in places:
            for _ in range(self._times):
                self.spawn(place)

    def spawn(self, place: Place) -> None:
        self.running.append(forked(place))

    def check(self) -> None:
        pass

    def close(self) -> None:
        for each in self.running:
            each.kill()
            each.wait(PATIENCE)


def test_a_process_that_comes_back_is_refused(tmp_path: Path) -> None:
    """A shard hangs and has a successor; when it goes on, with an answer that nobody waits for, the
    successor keeps the shard."""
    each = Each()
    shards = RemoteShards(each)
    found = []
    with sharded(tmp_path, 1, None, lambda: shards) as broker:
        broker.subscribe(PAIR)
        for number, batch in enumerate(batches(4)):
            if number == 1:
                (zombie,) = each.running
                os.kill(zombie.pid, signal.SIGSTOP)
                each.spawn(each.places[0])
            if number == 2:
                os.kill(zombie.pid, signal.SIGCONT)
                assert zombie.wait(PATIENCE) == 1
            found.append(process(broker, batch))
        assert each.running[1].poll() is None
        assert shards.rebuilt == 2
    assert found == found_alone(4)


class Late(Directory):
    """A directory that shows each file late to those who read it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.looks: Counter[str] = Counter()

    def _look(self, name: str) -> None:
        self.looks[name] += 1
        if self.looks[name] <= 2:
            raise FileNotFoundError(name)

    def read(self, name: str) -> pa.Buffer:
        self._look(name)
        return super().read(name)

    def open(self, name: str) -> pa.NativeFile:
        self._look(name)
        return super().open(name)


def test_files_that_are_seen_late_are_waited_for(tmp_path: Path) -> None:
    late = Late(tmp_path)
    with (
        patch("broker.cluster.shards.files_at", lambda where: late),
        sharded(tmp_path, 2) as broker,
    ):
        broker.subscribe(PAIR)
        found = [process(broker, batch) for batch in batches(3)]
    assert found == found_alone(3)
    assert {name.partition("/")[0] for name in late.looks} == {"queries", "batches"}


def test_a_shard_that_answers_late_is_waited_for(tmp_path: Path) -> None:
    """As where it reads a slow directory: it is neither replaced, nor asked twice, and it is told
    that the others wait."""
    each = Each()
    said: list[str] = []
    shards = RemoteShards(each, tell=said.append, long=0.05)
    first, second = batches(2)
    with sharded(tmp_path, 2, None, lambda: shards) as broker, ThreadPoolExecutor(1) as beside:
        broker.subscribe(PAIR)
        process(broker, first)
        assert isinstance(broker.engine, ShardedEngine)
        load = broker.engine.cluster.load
        os.kill(each.running[0].pid, signal.SIGSTOP)
        found = beside.submit(process, broker, second)
        until(lambda: load.lag > 0.1)
        until(lambda: any(text.startswith("shard 0 has not answered for ") for text in said))
        assert not found.done()
        os.kill(each.running[0].pid, signal.SIGCONT)
        assert found.result(PATIENCE) == found_alone(2)[1]
        assert shards.rebuilt == 2


class Lossy(RemoteShards):
    """Shards of which the first one's answer is lost on its way, once it is asked for that."""

    loses = False

    def receive(self) -> list[Any]:
        connection = self._connection(0)
        if self.loses and connection is not None:
            self.loses = False
            until(connection.poll)
            self._lose(0, connection)
        return super().receive()


def test_an_answer_that_is_lost_is_given_again(tmp_path: Path) -> None:
    shards = Lossy(Each())
    found = []
    with sharded(tmp_path, 2, None, lambda: shards) as broker:
        broker.subscribe(PAIR)
        for number, batch in enumerate(batches(4)):
            shards.loses = number in (1, 2)
            found.append(process(broker, batch))
            assert not shards.loses
        assert shards.rebuilt == 2 + 2
    assert found == found_alone(4)


def test_of_two_processes_for_each_shard_one_remains(tmp_path: Path) -> None:
    """As where Spark runs a task twice."""
    each = Each(times=2)
    with sharded(tmp_path, 2, None, lambda: RemoteShards(each)) as broker:
        broker.subscribe(PAIR)
        found = [process(broker, batch) for batch in batches(3)]
        until(lambda: sum(started.poll() is None for started in each.running) == 2)
        found += [process(broker, batch) for batch in batches(5)[3:]]
    assert found == found_alone(5)
