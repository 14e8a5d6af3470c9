"""`broker cluster`: Spark's standalone cluster, and whether a cluster has what shards need."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from broker.cli.progress import stage
from broker.cli.sharding import conf_option
from broker.cli.shared import Failed, console, plural


@click.group()
def cluster() -> None:
    """Start a cluster of Spark's own kind, and check any."""


@cluster.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    default=7077,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port to listen at.",
)
def master(host: str, port: int) -> None:
    """Run the master of a standalone cluster, spark://HOST:PORT."""
    from broker.spark.standalone import start_master

    with tempfile.TemporaryDirectory(prefix="broker-master-") as directory:
        console.print(f"master spark://{host}:{port}; stop with Ctrl-C")
        _wait(start_master(Path(directory), host, port))


@cluster.command()
@click.argument("url")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of this machine.")
@click.option(
    "--cores",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Tasks that it runs at a time; they may be more than the machine has cores.",
)
@click.option("--memory", default="2g", show_default=True, help="For executors, as Spark says it.")
def worker(url: str, host: str, cores: int, memory: str) -> None:
    """Run a worker of the standalone cluster whose master is at URL (spark://HOST:PORT)."""
    from broker.spark.standalone import start_worker

    with tempfile.TemporaryDirectory(prefix="broker-worker-") as directory:
        console.print(f"worker of {url} with {plural(cores, 'core')}; stop with Ctrl-C")
        _wait(start_worker(Path(directory), url, host, cores, memory))


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Until the program ends, which it does when this command is told to."""
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if code not in (0, 143, -signal.SIGTERM):
        raise Failed(f"it ended with status {code}")


@cluster.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def pack(file: Path) -> None:
    """Write this Python and the broker's packages to FILE, a .tar.gz, for executors."""
    from broker.spark.packing import pack as write

    try:
        with stage("packing"):
            size = write(file)
    except OSError as error:
        raise Failed(str(error)) from None
    click.echo(f"{file}: {size / 1e6:,.0f} MB")


@cluster.command()
@click.option("--master", required=True, help="Spark master.")
@click.option(
    "--shards",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Into how many tasks the run divides stage 2.",
)
@click.option(
    "--shared",
    metavar="DIR|URL",
    required=True,
    help="The directory that all machines see, or s3://BUCKET/PREFIX.",
)
@conf_option
def check(master: str, shards: int, shared: str, conf: dict[str, str]) -> None:
    """Tell what the workers of a cluster lack for a run with so many shards."""
    from broker.cluster.files import ClusterError
    from broker.spark.checking import check as look
    from broker.spark.gateway import JavaError
    from broker.spark.session import start_session, stop_session

    session = None
    try:
        with stage("starting Spark"):
            session = start_session(master, conf=conf)
        cores, seen = look(session, shared, shards + 1)
    except (ClusterError, JavaError, ValueError, OSError) as error:
        raise Failed(str(error)) from None
    finally:
        if session is not None:
            stop_session(session)
    for each in seen:
        for lack in each.lacks:
            click.echo(f"{each.host}: {lack}")
    if any(each.lacks for each in seen):
        sys.exit(1)
    hosts = len({each.host for each in seen})
    click.echo(f"{plural(cores, 'core')} on {plural(hosts, 'machine')}, nothing is missing")
