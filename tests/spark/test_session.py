"""The Spark session: without installed Java, without leftovers, and killed at any moment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from broker import Broker, Document
from broker.spark import java_cache
from broker.spark import session as spark_session
from broker.spark.gateway import MODULE_OPTIONS
from broker.spark.pipeline import run_pipeline
from broker.spark.session import default_master, start_session, stop_session
from broker.spark.sources import xml_source
from tests.spark.conftest import PAIR, blog, book
from tests.waiting import PATIENCE, until

DRIVER = """
import os, signal, sys
from pathlib import Path
from broker import Broker
from broker.spark import session as sessions
from broker.runs import PipelineError
from broker.spark.pipeline import run_pipeline
from broker.spark.session import start_session
from broker.spark.sources import xml_source

state, folder, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
broker = Broker(state)
broker.subscribe(Path(sys.argv[4]).read_text())
session = start_session("local[2,4]", state_dir=state)
running = sessions._running
print("java", running.java.process.pid, flush=True)
print("scratch", running.scratch, flush=True)
print("left", os.listdir(), flush=True)
batches = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

store = broker.engine.store
write = broker.engine.admission.write

def before_commit():
    global batches
    batches += 1
    write()
    if when == "before commit" and batches == 3:
        die()

broker.engine.admission.write = before_commit

def after_commit(matches):
    print("matches", len(matches), flush=True)
    if when == "after commit" and batches == 2:
        die()
    if when == "java":
        running.java.process.kill()

try:
    run_pipeline(
        session,
        broker.engine,
        [xml_source(session, folder, timestamp="/*/date", files_per_batch=10)],
        state / "checkpoint",
        once=True,
        on_matches=after_commit,
    )
except PipelineError as error:
    print("error", error)
    sessions.stop_session(session)
print("finished", "yes", flush=True)
"""

STARTER = """
import os, signal, sys
from broker.spark import gateway
from broker.spark.session import start_session, stop_session

def die(process, connection, *_):
    process.send_signal(signal.SIGSTOP)
    print(process.pid, connection.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "killed":
    gateway._connection = die
session = start_session("local[1]")
print(session.range(3).count(), flush=True)
stop_session(session)
"""
"""Starts Spark, or kills itself when its JVM has only begun to start, and lets that wait."""


def drive(directory: Path, state: Path, folder: Path, when: str) -> dict[str, str]:
    """Run the driver without any Java to be found, until it or its JVM is killed; what it said."""
    directory.mkdir()
    query = directory.parent / "pair.xscl"
    query.write_text(PAIR)
    path = path_without_java(directory.parent / "bin")
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", DRIVER, str(state), str(folder), when, str(query)],
        cwd=directory,
        env={
            "PATH": str(path),
            "HOME": str(directory),
            "TMPDIR": tempfile.gettempdir(),
            "PYTHONPATH": str(root),
            java_cache.VARIABLE: str(java_cache.cache_directory() or "off"),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == (0 if when == "java" else -9), result.stderr
    assert result.stderr == ""  # no word of Spark's
    output = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    assert ("finished" in output) == (when == "java")
    assert output["left"] == "[]"
    assert list(directory.iterdir()) == []
    until(lambda: ended(int(output["java"])), "the JVM outlived its process")
    return output


def path_without_java(directory: Path) -> Path:
    """A directory for PATH with the system's programs (Hadoop calls `chmod`), but no Java."""
    if not directory.exists():
        directory.mkdir()
        for place in map(Path, ("/bin", "/usr/bin")):
            for program in place.iterdir() if place.is_dir() else ():
                link = directory / program.name
                if not program.name.startswith("java") and not link.exists():
                    link.symlink_to(program)
    assert shutil.which("java", path=str(directory)) is None
    return directory


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_killed_twice_and_continued_it_finds_each_match_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, state = tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    documents = []
    for n in range(60):
        name, text = f"{n:02d}.xml", (book if n % 3 else blog)(n % 5, n)
        (folder / name).write_text(text)
        documents.append(Document(name, timestamp=n, xml=text, source=str(folder)))
    (folder / "99.xml").write_text("<bad>")
    with Broker() as library:
        library.subscribe(PAIR)
        expected = {m.id for m in library.process(documents)}
    assert len(expected) > 50

    for n, when in enumerate(("before commit", "after commit")):
        directory = tmp_path / f"cwd{n}"
        output = drive(directory, state, folder, when)
        # What a killed process left behind goes when the next one starts.
        scratch, lock = spark_session._claim_scratch()
        assert not Path(output["scratch"]).exists()
        assert Path(output["scratch"]).parent == scratch.parent
        spark_session._release_scratch(scratch, lock)

    with Broker(state) as broker:
        before = {m.id for m in broker.undelivered(10_000)}
        assert before
        assert before < expected
        run_pipeline(
            spark,
            broker.engine,
            [xml_source(spark, folder, timestamp="/*/date", files_per_batch=10)],
            state / "checkpoint",
            once=True,
            on_matches=lambda matches: None,
        )
        found = Counter(m.id for m in broker.undelivered(10_000))
        assert set(found) == expected
        assert max(found.values()) == 1
        rows = broker.engine.store.rows("SELECT source, id, count(*) FROM documents GROUP BY ALL")
        assert sorted(rows) == [(str(folder), f"{n:02d}.xml", 1) for n in range(60)]
        assert {letter.place for letter in broker.dead_letters()} == {f"{folder}/99.xml"}


def test_killed_while_java_starts_it_leaves_no_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start comes before the JVM of the first has looked for its files."""
    root = Path(__file__).resolve().parents[2]

    def start(when: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", STARTER, when],
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    killed = start("killed")
    assert killed.returncode == -9, killed.stderr
    java, scratch = killed.stdout.split()
    try:
        again = start("not killed")
        assert (again.stdout, again.returncode) == ("3\n", 0), again.stderr
        assert list(tmp_path.iterdir()) == [Path(scratch)], "it is in use"
    finally:
        os.kill(int(java), signal.SIGCONT)
    until(lambda: ended(int(java)), "the JVM outlived its process")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    claimed = spark_session._claim_scratch()
    assert not Path(scratch).exists()
    spark_session._release_scratch(*claimed)
    assert list(tmp_path.iterdir()) == []


def test_only_the_jvm_keeps_the_scratch_directory_in_use(spark: SparkSession) -> None:
    """Its Python workers may outlive it for a moment, and need none of its files."""
    running = spark_session._running
    assert running is not None
    assert running.java is not None
    scratch, pid = running.scratch.stat(), running.java.process.pid
    wanted = scratch.st_dev, scratch.st_ino

    def held(_: object) -> bool:
        for descriptor in range(1_000):
            try:
                found = os.fstat(descriptor)
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == wanted:
                return True
        return False

    assert held(None)
    places = [str(place.readlink()) for place in Path(f"/proc/{pid}/fd").iterdir()]
    assert str(running.scratch) in places
    assert spark.sparkContext.parallelize([0], 1).map(held).collect() == [False]


def test_a_lost_jvm_is_one_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.xml").write_text(book(1, 1))
    (folder / "b.xml").write_text(blog(1, 2))
    output = drive(tmp_path / "cwd", tmp_path / "state", folder, "java")
    assert output["error"] == "the Java process ended unexpectedly"
    assert not Path(output["scratch"]).exists()


def test_the_module_options_are_those_of_this_spark() -> None:
    """When Spark asks for more, the JVM has to be given more."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-launcher_*.jar")
    with zipfile.ZipFile(jar) as archive:
        code = archive.read("org/apache/spark/launcher/JavaModuleOptions.class")
    asked = {
        option.decode() for option in re.findall(rb"-(?:-[a-z-]+=[\w./=-]+|D[\w.]+=[\w.]+)", code)
    }
    without = {
        "--add-modules=jdk.incubator.vector",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    }
    assert asked - without == set(MODULE_OPTIONS)
    assert without < asked


def test_one_session_at_a_time(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match="already running"):
        start_session()
    stop_session(object())  # type: ignore[arg-type]
    assert spark.range(3).count() == 3
    running = spark_session._running
    assert running is not None
    assert running.java is not None
    assert running.java.log.exists()


def test_the_default_master_takes_the_cores_there_are() -> None:
    assert default_master(2) == "local[2,4]"
    assert default_master(64) == "local[8,4]"


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[*]", None)]
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert spark_session._local_cores(master) == (cores or spark_session._cores())


@pytest.mark.parametrize(("size", "megabytes"), [("2g", 2048), ("512m", 512), ("1.5GB", 1536)])
def test_sizes_as_spark_writes_them(size: str, megabytes: int) -> None:
    assert spark_session._megabytes(size) == megabytes


def test_a_size_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"spark\.driver\.memory"):
        spark_session._megabytes("much")


def test_settings_of_a_cluster_leave_its_addresses_alone(tmp_path: Path) -> None:
    here = spark_session._settings("local[2,4]", "x", tmp_path)
    there = spark_session._settings("spark://node:7077", "x", tmp_path)
    assert here["spark.driver.host"] == "127.0.0.1"
    assert there["spark.master"] == "spark://node:7077"
    assert not {"spark.driver.host", "spark.local.dir"} & set(there)
