"""A Spark session that needs no Java on the machine and leaves nothing behind.

Owns the settings of the session and its scratch directory. In: a master and a state directory;
out: a `SparkSession`, one at a time in a process. Everything temporary (Spark's blocks, its
warehouse, unpacked libraries) is below one scratch directory, never in the working directory; the
directories of processes that were killed are removed by the next start after their JVM's end.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from broker.spark.gateway import (
    MODULE_OPTIONS,
    START_TIMEOUT,
    STOP_TIMEOUT,
    JavaError,
    JavaProcess,
    class_path,
    java_program,
    start_java,
)
from broker.spark.java_cache import (
    cache_directory,
    cache_key,
    find_cache,
    train_in_background,
)

Session = SparkSession
"""For those outside this package, who do not import Spark."""

LOG_NAME = "spark.log"
LOG_BYTES = 4 << 20
HEAP_MEGABYTES = 2048

LOCAL_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The quick compiler alone, and the simple collector. The JVM plans small batches and copies rows
here; the optimising compiler takes more of a laptop's cores in the first minutes (a third of the
time of a start) than it gives back."""

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The default one forks `chmod` four times a batch: 77 ms instead of 29 for an empty batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Plans only hand rows on to Python. To compile code for them takes a sixth of the time of a
    # start, and the code gives nothing back.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Adaptive execution re-plans stages after shuffles; there is none.
    "spark.sql.adaptive.enabled": "false",
    # Many small files: list them here instead of in a job, and put many into one task.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.files.openCostInBytes": "16384",
    # A file that was deleted before it could be read is not an error of the stream.
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
}


@dataclass(slots=True)
class _Running:
    session: SparkSession
    java: JavaProcess | None
    scratch: Path
    lock: int


_SOCKET_DIRECTORY = 60
"""The longest directory in which a socket can be addressed (104 bytes on some systems, less the
name that Spark gives it)."""

_running: _Running | None = None
_guard = threading.Lock()


def default_master(cores: int | None = None) -> str:
    """`local[N,4]`: all cores but at most 8, and a task whose worker died is tried four times."""
    return f"local[{max(1, min(cores or _cores(), 8))},4]"


def start_session(
    master: str | None = None,
    app_name: str = "xml-stream-broker",
    conf: Mapping[str, str] | None = None,
    state_dir: Path | None = None,
    java_options: Sequence[str] = (),
    timeout: float = START_TIMEOUT,
) -> SparkSession:
    """Start Spark and return its session; `stop_session` ends it, and so does the process's end.

    `master`: `local[...]` (default: `default_master()`) or any address that Spark knows. `conf`
    overrides `SETTINGS`; `spark.driver.memory` there is the JVM's heap. `state_dir` holds the log
    (`spark.log`); without it the log ends with the session. `java_options` are for the JVM, beside
    `spark.driver.extraJavaOptions`. Under `spark-submit` its JVM is used.

    Raises `JavaError` when Spark does not start, or Java does not within `timeout` seconds, and
    RuntimeError when a session runs already.
    """
    global _running
    with _guard:
        if SparkContext._active_spark_context is not None:
            raise RuntimeError("a Spark session is already running in this process")
        master = master or default_master()
        # What a Python function raises in a callback is raised here too; py4j logs its trace twice,
        # and that of a lost JVM or of Ctrl-C (to the root logger).
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_not_py4j)
        scratch, lock = _claim_scratch()
        java: JavaProcess | None = None
        try:
            if state_dir is not None:
                state_dir.mkdir(parents=True, exist_ok=True)
            log = (state_dir or scratch).absolute() / LOG_NAME
            _trim(log)
            settings = {**_settings(master, app_name, scratch), **(conf or {})}
            python = settings.get("spark.pyspark.python") or os.environ.get(
                "PYSPARK_PYTHON", sys.executable
            )
            _stand_in(scratch, python)
            if "PYSPARK_GATEWAY_PORT" not in os.environ:
                heap = settings.pop("spark.driver.memory", None)
                options = [
                    *settings.pop("spark.driver.extraJavaOptions", "").split(),
                    *java_options,
                ]
                start = partial(
                    start_java,
                    scratch,
                    log,
                    _megabytes(heap) if heap else _heap_megabytes(),
                    _environment(master, python),
                    keep=[lock],
                    timeout=timeout,
                )
                java = (
                    _start_local(start, options)
                    if master.startswith("local")
                    else start(extra=options)
                )
            session = _session(settings, java, log, python)
        except BaseException:
            if java is not None:
                java.stop()
            _forget_gateway()
            _release_scratch(scratch, lock)
            raise
        _running = _Running(session, java, scratch, lock)
        atexit.register(stop_session)
        return session


def stop_session(session: SparkSession | None = None, timeout: float = STOP_TIMEOUT) -> None:
    """Stop the session that `start_session` began, its JVM and its scratch directory; idempotent.
    The JVM is killed if it takes more seconds than allowed."""
    global _running
    with _guard:
        running, _running = _running, None
        if running is None or (session is not None and session is not running.session):
            _running = running
            return
        atexit.unregister(stop_session)
        try:
            if running.java is None or running.java.alive:
                with suppress(Py4JError, OSError):  # it may be dying
                    running.session.stop()
        finally:
            if running.java is not None:
                running.java.stop(timeout)
                _forget_gateway()
            _release_scratch(running.scratch, running.lock)


def local_cache_key() -> str | None:
    """The key of the ahead-of-time cache for a JVM of this machine, None if it can have none."""
    return cache_key(java_program(), class_path(), (*LOCAL_JAVA, *MODULE_OPTIONS))


def _start_local(start: Callable[..., JavaProcess], options: Sequence[str]) -> JavaProcess:
    """Start a JVM with its ahead-of-time cache, or have one made for the next start."""
    extra = [*LOCAL_JAVA, *options]
    directory = cache_directory()
    key = local_cache_key() if directory is not None else None
    if directory is None or key is None:
        return start(extra=extra)
    cache = find_cache(directory, key)
    if cache is None:
        java = start(extra=extra)
        train_in_background(directory, key)
        return java
    try:
        return start(extra=[*extra, f"-XX:AOTCache={cache}"])
    except JavaError:
        java = start(extra=extra)
        with suppress(OSError):
            cache.unlink()  # without it Java starts
        return java


def _stand_in(scratch: Path, python: str) -> None:
    """Make a Python that executors unpack found here too, where the JVM runs: plans ask it."""
    if os.path.dirname(python) and not os.path.isabs(python):
        own = scratch / python
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        own.chmod(0o755)


def _session(
    settings: Mapping[str, str], java: JavaProcess | None, log: Path, python: str
) -> SparkSession:
    configuration = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        configuration.set(name, value)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        try:
            context = SparkContext(conf=configuration, gateway=java.gateway if java else None)
        finally:
            # pyspark puts a handler of its own in place; what Ctrl-C means is the caller's to say.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)
        # What the Python functions of this session's plans run with.
        context.pythonExec = python
        # When the JVM is killed this server prints a traceback beside the error that is raised.
        context._accumulatorServer.handle_error = _say_nothing  # type: ignore[method-assign]
        return SparkSession(context)
    except Exception as error:
        raise JavaError(f"Spark did not start: {_first_line(error)} (see {log})") from error


def _not_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in (
        "Exception while sending command.",
        "KeyboardInterrupt while sending command.",
    )


def _say_nothing(request: object, client_address: object) -> None:
    """In place of `socketserver.BaseServer.handle_error`."""


def _settings(master: str, app_name: str, scratch: Path) -> dict[str, str]:
    settings = {
        **SETTINGS,
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.submit.deployMode": "client",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }
    if master.startswith("local"):
        cores = str(_local_cores(master))
        settings |= {
            "spark.local.dir": str(scratch),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": cores,
        }
        if len(str(scratch)) <= _SOCKET_DIRECTORY:
            # Over TCP each task of a Python worker waits 40 ms for a delayed acknowledgement.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(scratch)
    if master == "yarn":
        settings["spark.yarn.isPython"] = "true"
    return settings


def _environment(master: str, python: str) -> dict[str, str]:
    environment = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": python}
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    elif "SPARK_HOME" in os.environ:
        environment["SPARK_HOME"] = os.environ["SPARK_HOME"]
    return environment


def _forget_gateway() -> None:
    # pyspark keeps the gateway of a stopped session for the next one; this one's JVM is gone.
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


_SCRATCH_PREFIX = "xml-stream-broker-spark-"


def _claim_scratch() -> tuple[Path, int]:
    """A new directory, and a descriptor that locks it while any process has it open: this one, and
    the JVM that inherits it. So the JVM of a process that was killed keeps its files until it has
    ended too, also one that was just starting. Directories without a lock are removed.

    In the machine's temporary directory: a state directory may be far from the root, too far for
    the address of a socket, or on a file system that has no sockets.
    """
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{_SCRATCH_PREFIX}*"):
        try:
            descriptor = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(descriptor)
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX, dir=base))
    lock = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return scratch, lock


def _release_scratch(scratch: Path, lock: int) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    os.close(lock)


def _trim(log: Path) -> None:
    """Keep one older log: the JVM appends for as long as it lives."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _local_cores(master: str) -> int:
    """The N of `local[N]` and `local[N,retries]`; `*` is all cores, plain `local` one."""
    inside = master.partition("[")[2].partition("]")[0].split(",")[0].strip()
    if inside == "*":
        return _cores()
    return int(inside) if inside.isdigit() else 1


def _heap_megabytes() -> int:
    """At most 2 GiB, a quarter of the memory on a small machine, never below 512 MiB."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError):
        return HEAP_MEGABYTES
    return max(512, min(HEAP_MEGABYTES, memory // 4))


def _megabytes(size: str) -> int:
    """Spark's notation of a size (`2g`, `1500m`, plain mebibytes) in mebibytes."""
    text = size.strip().lower().removesuffix("b")
    units = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return max(1, int(float(number) * unit))
    except ValueError:
        raise ValueError(f"spark.driver.memory: not a size: {size!r}") from None


def _first_line(error: Any) -> str:
    text = str(getattr(error, "java_exception", None) or error)
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
