"""Spark's standalone cluster out of the Python package: its master, and a worker on each machine.

Both are Java programs that end on the signal of the process that has started them, and on Linux
with it, however it ends. A worker starts the executors, which find Java and Spark's jars through
the environment that it has here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from broker.spark.gateway import LOGGING, MODULE_OPTIONS, class_path, java_program
from broker.spark.java_cache import cache_directory, find_cache
from broker.spark.session import LOCAL_JAVA, local_cache_key

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
MASTER_PORT = 7077


_JAVA = """\
#!/bin/sh
# The Java of a Python package, without a module and a package that it lacks and Spark asks for, and
# with the jars in the order that our own programs have: one ahead-of-time cache is for all.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    "$SPARK_HOME/conf:$SPARK_HOME/jars/"*":$SPARK_HOME/jars/*")
      [ -e "$SPARK_HOME/conf" ] || argument=$CLASSPATH
      set -- "$@" "$argument" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
# With it Python workers would import pyspark from an archive without byte code.
unset SPARK_HOME
exec "{java}" "$@"
"""


def environment(directory: Path) -> dict[str, str]:
    """What the programs of a standalone cluster find Java, Spark and Python by; `directory` gets
    the Java that executors are started with."""
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(_JAVA.format(java=java_program()), encoding="utf-8")
    java.chmod(0o755)
    home = Path(pyspark.__file__).parent
    (scala,) = [each.name for each in (home / "jars").glob("scala-library-*.jar")]
    return {
        **os.environ,
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(home),
        # Without it a worker looks for the directories of a build.
        "SPARK_SCALA_VERSION": ".".join(scala.removeprefix("scala-library-").split(".")[:2]),
        "CLASSPATH": os.pathsep.join(map(str, class_path())),
    }


def _cache() -> list[str]:
    """Options for the ahead-of-time cache of a session on this machine, if there is one."""
    directory, key = cache_directory(), local_cache_key()
    cache = find_cache(directory, key) if directory is not None and key is not None else None
    # What Java has to say about it is of no use to anybody.
    return [f"-XX:AOTCache={cache}", "-Xlog:aot*=off"] if cache is not None else []


def _command(
    directory: Path, main: str, arguments: Sequence[str], settings: Mapping[str, str]
) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    logging = directory / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    return [
        str(java_program()),
        "-Xmx512m",
        *LOCAL_JAVA,
        *_cache(),
        "-XX:-UsePerfData",
        f"-Djava.io.tmpdir={directory}",
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        *MODULE_OPTIONS,
        *(f"-D{name}={value}" for name, value in settings.items()),
        main,
        *arguments,
    ]


def start_master(
    directory: Path, host: str, port: int = MASTER_PORT, page: int = 0
) -> subprocess.Popen[bytes]:
    """Start a master at `spark://host:port`; its page in a browser has the port `page`. Its files
    are in `directory`, its output is ours."""
    arguments = ["--host", host, "--port", str(port), "--webui-port", str(page)]
    command = _command(directory, _MASTER, arguments, {})
    return begin(command, directory, environment(directory))


def start_worker(
    directory: Path,
    master: str,
    host: str,
    cores: int,
    memory: str,
    settings: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a worker that offers so many cores and so much memory (as Spark writes sizes) to the
    applications of a master."""
    arguments = ["--host", host, "--webui-port", "0", "--cores", str(cores), "--memory", memory]
    arguments += ["--work-dir", str(directory / "work"), master]
    command = _command(directory, _WORKER, arguments, settings or {})
    return begin(command, directory, environment(directory))


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def begin(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program, which on Linux is told to end when the thread does that has started it."""
    bound = _end_with_parent if sys.platform == "linux" else None
    return subprocess.Popen(command, env=environment, cwd=directory, preexec_fn=bound)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
