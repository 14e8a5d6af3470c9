"""Java's ahead-of-time cache saves time, and never costs a start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker.spark import java_cache
from broker.spark import session as spark_session
from broker.spark.gateway import JavaError, JavaProcess, start_java
from broker.spark.java_cache import (
    cache_directory,
    cache_key,
    find_cache,
    keep_cache,
    train_in_background,
)
from tests.waiting import PATIENCE


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of caches that is empty."""
    path = tmp_path / "caches"
    path.mkdir()
    monkeypatch.setenv(java_cache.VARIABLE, str(path))
    return path


def kept(directory: Path, content: bytes, key: str = "key") -> Path:
    made = directory / "made"
    made.write_bytes(content)
    return keep_cache(made, directory, key)


def test_spark_starts_with_the_cache_of_this_java(spark: SparkSession) -> None:
    running = spark_session._running
    assert running is not None
    assert running.java is not None
    where, key = cache_directory(), spark_session.local_cache_key()
    assert where is not None
    assert key is not None
    cache = find_cache(where, key)
    mapped = Path(f"/proc/{running.java.process.pid}/maps").read_text()
    assert cache is not None
    assert str(cache) in mapped


def test_a_cache_is_found_when_it_is_whole(directory: Path) -> None:
    assert find_cache(directory / "none", "key") is None
    assert find_cache(directory, "key") is None
    path = kept(directory, b"classes")
    assert list(directory.iterdir()) == [path]
    assert find_cache(directory, "key") == path
    assert find_cache(directory, "other") is None


@pytest.mark.parametrize("damaged", [b"", b"class", b"c1asses"])
def test_a_damaged_cache_is_removed(directory: Path, damaged: bytes) -> None:
    path = kept(directory, b"classes")
    path.write_bytes(damaged)
    assert find_cache(directory, "key") is None
    assert list(directory.iterdir()) == []


def test_what_is_not_used_any_more_goes(directory: Path) -> None:
    long_ago = time.time() - java_cache.UNUSED_SECONDS - 1
    used, unused = (kept(directory, b"classes", key) for key in ("used", "unused"))
    killed = directory / "key-of-a-run-that-was-killed"
    killed.mkdir()
    (killed / "cache").write_bytes(b"half")
    for path in (used, unused, killed):
        os.utime(path, (long_ago, long_ago))
    assert find_cache(directory, "used") == used
    latest = kept(directory, b"more classes", "latest")
    assert set(directory.iterdir()) == {used, latest}


def test_the_key_is_that_of_java_jars_and_options(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    modules = tmp_path / "lib" / "modules"
    jar, directory = tmp_path / "a.jar", tmp_path / "conf"
    modules.parent.mkdir()
    directory.mkdir()
    for file in (modules, jar):
        file.write_text("1")
    key = cache_key(java, [jar], ["-XX:+UseSerialGC"])
    assert key is not None
    assert key == cache_key(java, [jar], ["-XX:+UseSerialGC"])
    assert key != cache_key(java, [], ["-XX:+UseSerialGC"])
    assert key != cache_key(java, [jar], ["-XX:+UseG1GC"])
    for file in (modules, jar):
        before = cache_key(java, [jar], ["-XX:+UseSerialGC"])
        file.write_text("22")
        assert before != cache_key(java, [jar], ["-XX:+UseSerialGC"])
    # Java has no cache for a class path with directories.
    assert cache_key(java, [directory, jar], []) is None
    assert cache_key(java, [tmp_path / "gone.jar"], []) is None


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv(java_cache.VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == Path("/home/ann/.cache/xml-stream-broker")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == Path("/home/ann/.cache/xml-stream-broker")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/ann")
    assert cache_directory() == Path("/var/cache/ann/xml-stream-broker")
    monkeypatch.setenv(java_cache.VARIABLE, "~/java")
    assert cache_directory() == Path("/home/ann/java")
    monkeypatch.setenv(java_cache.VARIABLE, "Off")
    assert cache_directory() is None


def test_the_first_start_has_it_made_once(directory: Path) -> None:
    """Of two that start at once one has it made; and no other soon after, if it came to nothing."""
    key = spark_session.local_cache_key()
    assert key is not None
    cache = kept(directory, b"as if", key)  # so that the run has nothing to do
    run = train_in_background(directory, key)
    assert run is not None
    assert train_in_background(directory, key) is None
    assert run.wait(PATIENCE) == 0
    log = directory / f"{key}.log"
    assert log.read_text() == f"{cache} is there already\n"
    assert train_in_background(directory, key) is None
    earlier = time.time() - java_cache.RETRY_SECONDS - 1
    os.utime(log, (earlier, earlier))
    again = train_in_background(directory, key)
    assert again is not None
    assert again.wait(PATIENCE) == 0


def test_where_nothing_can_be_written_nothing_is_made(directory: Path) -> None:
    (directory / "file").write_text("no directory")
    assert train_in_background(directory / "file", "key") is None
    assert find_cache(directory / "file", "key") is None


def test_made_by_hand_it_says_why_it_was_not_made(directory: Path) -> None:
    (directory / "file").write_text("no directory")
    environment = os.environ | {java_cache.VARIABLE: str(directory / "file")}
    done = subprocess.run(
        [sys.executable, "-m", "broker.spark.training"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("no ahead-of-time cache was made: ")
    assert len(done.stderr.splitlines()) == 1


def test_java_starts_with_what_is_no_cache(directory: Path, tmp_path: Path) -> None:
    key = spark_session.local_cache_key()
    assert key is not None
    kept(directory, b"nothing that Java knows " * 1_000, key)

    def start(extra: list[str]) -> JavaProcess:
        assert any(option.startswith("-XX:AOTCache=") for option in extra)
        return start_java(tmp_path, tmp_path / "spark.log", 256, {}, extra)

    java = spark_session._start_local(start, [])
    assert java.alive
    java.stop()


def test_a_cache_with_which_java_does_not_start_is_removed(directory: Path) -> None:
    key = spark_session.local_cache_key()
    assert key is not None
    cache = kept(directory, b"what no Java survives", key)
    tried: list[list[str]] = []

    def start(works: bool) -> Callable[..., JavaProcess]:
        def starting(extra: list[str]) -> JavaProcess:
            tried.append([option for option in extra if "AOTCache" in option])
            if tried[-1] or not works:
                raise JavaError("Java ended with status 134")
            return JavaProcess(None, None, Path())  # type: ignore[arg-type]

        return starting

    with pytest.raises(JavaError):
        spark_session._start_local(start(works=False), [])
    assert cache.exists(), "Java does not start without it either"
    spark_session._start_local(start(works=True), [])
    assert not cache.exists()
    assert tried == [[f"-XX:AOTCache={cache}"], []] * 2
