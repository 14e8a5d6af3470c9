"""`broker serve`: the service as a process, until a signal ends it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.config import load_settings
from broker.cli.shared import Failed, StateType
from broker.runs import Stop
from xscl.growth import collect_rarely

if TYPE_CHECKING:
    from broker.service.service import Service
    from broker.settings.schema import Settings

_WAYS_OUT = {
    errno.EADDRINUSE: "; give another --port (server.port), 0 for any that is free",
    errno.EADDRNOTAVAIL: "; give an address of this machine as --host (server.host)",
    errno.EACCES: "; ports below 1024 are the system's: give another --port (server.port)",
}
"""What to do about an address that cannot be had."""

_DRAIN = 30.0
"""Seconds that documents and deliveries in flight may take to end."""


@click.command()
@click.option(
    "--config",
    "file",
    envvar="BROKER_CONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of settings, in TOML; see broker config.",
)
@click.option("--state", type=StateType(), help="Directory in which everything survives.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0: any.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that clients must send; else one is made and kept in the state.",
)
@click.option("--pipeline", type=click.Choice(["local", "spark"]), help="Where stage 1 runs.")
@click.option("--master", help="Spark master; by default Spark runs in this process's machine.")
@click.option(
    "--safe",
    is_flag=True,
    help="Pause all subscriptions before anything is matched: to find and remove the one that the "
    "service does not get past. broker resume makes the others active again.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much is logged, to standard error.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "text", "json"]),
    help="Text, or a line of JSON each; auto: text on a terminal, else JSON.",
)
def serve(
    file: Path | None,
    state: Path | None,
    host: str | None,
    port: int | None,
    token_file: Path | None,
    pipeline: str | None,
    master: str | None,
    safe: bool,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run the service: it takes documents, matches them and delivers what it finds.

    Options count more than the environment (BROKER_SERVER__PORT), and that more than the file.
    SIGTERM or Ctrl-C lets it finish what it has begun and stop; a second one ends it at once, which
    loses nothing either.
    """
    overrides = {
        "state": None if state is None else str(state),
        "server.host": host,
        "server.port": port,
        "server.token_file": token_file,
        "pipeline.kind": pipeline,
        "pipeline.master": master,
        "logs.level": log_level,
        "logs.format": log_format,
    }
    settings = load_settings(file, overrides)
    from broker.text import logs

    logs.configure(settings.logs.level, settings.logs.format)
    os.umask(0o077)  # only the owner may read documents, matches and secrets
    with _until_signalled() as stop, ExitStack() as stack:
        listening = stack.enter_context(_listening(settings))
        service = _start(settings, stack, safe=safe)
        stack.enter_context(_serving(service, listening, stop))
        stack.enter_context(_announced(settings, listening))
        stop.wait()
        # While work in flight ends, publishers are refused and other requests are still answered.
        clean = service.halt(_DRAIN)
    if not clean:
        raise Failed("not all that was in flight ended in time; it is done again at the next start")


@contextmanager
def _until_signalled() -> Iterator[Stop]:
    """A `Stop` that the first SIGINT or SIGTERM sets; the second ends the process at once."""
    stop = Stop()

    def on_signal(number: int, _: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The bound socket. It is bound before the state is opened, so that errors come at once."""
    from broker.service.api.server import listen

    host, port = settings.server.host.strip("[]"), settings.server.port
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = listen(family, address)
    except OSError as error:
        what = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise Failed(what + _WAYS_OUT.get(error.errno or 0, "")) from None
    with listening:
        yield listening


def _start(settings: Settings, stack: ExitStack, *, safe: bool) -> Service:
    from broker.delivery import MailboxError
    from broker.service.service import Service
    from broker.state.store import StateError
    from feeds.spool import SpoolError

    # A thousand take a millisecond, in which nothing is accepted or matched.
    collect_rarely(at_once=1_000)
    # The thread that matches holds the interpreter for so long, and a request needs it ten times.
    # With Python's own 5 ms a request does little but wait.
    sys.setswitchinterval(0.0003)
    service = Service(settings)
    try:
        service.start(safe)
    except (StateError, SpoolError, MailboxError, ValueError) as error:
        raise Failed(str(error)) from None
    stack.callback(service.stop, timeout=_DRAIN)
    return service


@contextmanager
def _serving(service: Service, listening: socket.socket, stop: Stop) -> Iterator[None]:
    """Serve the HTTP API during the block. If it fails, the service stops."""
    from broker.service.api.app import Api
    from broker.service.api.server import ServerError, answering

    try:
        with answering(Api(service), listening, on_end=stop.set):
            yield
    except ServerError as error:
        raise Failed(str(error)) from error


@contextmanager
def _announced(settings: Settings, listening: socket.socket) -> Iterator[None]:
    """Write the file by which commands find the service, and remove it at the end."""
    import structlog

    from broker.state.disk import write_private

    path = settings.state / "service.json"
    url = _url(listening)
    write_private(path, json.dumps({"url": url, "pid": os.getpid()}))
    structlog.get_logger(__name__).info(f"serving on {url}")
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def _url(listening: socket.socket) -> str:
    """The address at which commands on this machine reach the service."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
