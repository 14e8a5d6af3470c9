"""Shared files in a directory and in an object store: the same brokers over both."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from broker import Broker
from broker.cluster.files import ClusterError, Directory, files_at
from broker.cluster.remote import RemoteShards
from broker.cluster.segments import Fenced, Shared
from broker.cluster.sharded import ShardedEngine
from tests.cluster.brokers import sharded
from tests.cluster.processes import forking
from tests.cluster.test_here import PAIR
from tests.cluster.test_lost import batches, found_alone, process

Where = Callable[[], str]
_prefixes = count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of a bucket of a server that speaks S3, which the environment leads to."""
    from moto.server import ThreadedMotoServer  # a second to import, in every process of the tests

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    settings = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as environment:
        for name, value in settings.items():
            environment.setenv(name, value)
        made = urllib.request.Request(f"{url}/bucket", method="PUT")
        urllib.request.urlopen(made).close()
        yield "s3://bucket"
    server.stop()


@pytest.fixture(params=["directory", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "shared")
    return f"{request.getfixturevalue('bucket')}/{next(_prefixes)}"


def test_what_is_put_is_read_in_whole_and_in_parts(where: str) -> None:
    files = files_at(where)
    numbers = pa.record_batch({"n": pa.array(range(50_000), pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, numbers.schema) as writer:
        for _ in range(3):
            writer.write_batch(numbers)
    content = sink.getvalue()
    files.put("batches/1", content)
    files.put("batches/2", b"")
    assert files.read("batches/1").equals(content)
    assert pa.ipc.open_file(files.open("batches/1")).get_batch(1).equals(numbers)
    assert sorted(files.names("batches")) == ["1", "2"]
    files.put("batches/1", b"other")
    assert files.read("batches/1").to_pybytes() == b"other"
    files.remove(["batches/1", "batches/3"])
    assert files.names("batches") == ["2"]
    assert not files.exists("batches/1")
    assert files.names("nothing") == []
    for missing in (files.read, files.open):
        with pytest.raises(OSError, match=r"batches/1|No such file"):
            missing("batches/1")


def test_one_of_many_at_once_creates_a_file(where: str) -> None:
    files = files_at(where)
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda _: files.create("epochs/1"), range(16))]
    assert sum(made) == 1
    assert files.exists("epochs/1")


def test_coordinators_that_begin_at_once_have_each_an_epoch_and_the_last_goes_on(
    where: str,
) -> None:
    claimed = [Shared(files_at(where)) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        [*threads.map(Shared.claim, claimed)]
    *earlier, last = sorted(claimed, key=lambda each: each.epoch)
    assert [each.epoch for each in (*earlier, last)] == [1, 2, 3, 4, 5, 6]
    last.check()
    for each in earlier:
        with pytest.raises(Fenced):
            each.check()


def test_shards_that_are_killed_and_coordinators_that_end_lose_nothing(
    bucket: str, tmp_path: Path
) -> None:
    where, found, segments = f"{bucket}/kills", [], []
    for part in (0, 3):
        processes = forking()
        opened = sharded(where, 2, tmp_path / "state", partial(RemoteShards, processes))
        with opened as broker:
            segments.append(sorted(files_at(where).names("batches")))
            if not part:
                broker.subscribe(PAIR)
            for number, batch in enumerate(batches(6)[part : part + 3]):
                found.append(process(broker, batch))
                if number == 1:
                    processes.running[number].kill()
    assert found == found_alone(6)
    assert len(segments[1]) == 6  # they were not made again
    assert set(segments[1]) < set(files_at(where).names("batches"))


def test_files_that_are_lost_are_made_of_the_state(where: str, tmp_path: Path) -> None:
    found = []
    for number, batch in enumerate(batches(3)):
        with sharded(where, 2, tmp_path / "state") as broker:
            if not number:
                broker.subscribe(PAIR)
            found.append(process(broker, batch))
        files = files_at(where)
        names = sorted(files.names("batches"))
        files.remove([f"batches/{names[0]}"] if number else [f"batches/{n}" for n in names])
    assert found == found_alone(3)


def test_lists_of_files_that_lag_behind_change_nothing(tmp_path: Path) -> None:
    found = []
    with patch.object(Directory, "names", lambda self, folder: []):
        for number, batch in enumerate(batches(3)):
            with sharded(tmp_path / "shared", 2, tmp_path / "state") as broker:
                assert _epoch(broker) == number + 1
                if not number:
                    broker.subscribe(PAIR)
                found.append(process(broker, batch))
    assert found == found_alone(3)
    with sharded(tmp_path / "shared", 2, tmp_path / "state") as broker:
        # What earlier coordinators left beside the three that count is gone.
        assert len(files_at(str(tmp_path / "shared")).names("batches")) == 6
        assert _epoch(broker) == 4


def _epoch(broker: Broker) -> int:
    assert isinstance(broker.engine, ShardedEngine)
    return broker.engine.cluster.shared.epoch


def test_a_store_that_is_not_there_is_named(bucket: str) -> None:
    with pytest.raises(ClusterError, match="s3://missing/there/epochs"):
        Shared(files_at("s3://missing/there")).claim()
    with pytest.raises(ClusterError, match="gopher://x"):
        files_at("gopher://x")
