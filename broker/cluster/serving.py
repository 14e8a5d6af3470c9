"""A process with one shard: it connects to the coordinator, and answers its requests.

    python -m broker.cluster.serving < where      a process of its own; `where` is a pickled Place

Every message is a pickle over a connection that both sides prove their key on. A shard that is lost
is made anew by whoever connects next, so a process that cannot go on just ends or connects again.
"""

from __future__ import annotations

import gc
import pickle
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Client, Connection
from secrets import token_hex
from typing import NamedTuple

from broker.cluster.files import files_at
from broker.cluster.shards import Stale, Worker

YOUNG = 100_000
"""Objects after which garbage is looked for: what a shard holds is hardly ever garbage."""


class Place(NamedTuple):
    """Where a shard belongs: the coordinator's address and key, the shared files, and which one
    it is."""

    address: tuple[str, int]
    key: bytes
    shared: str
    shard: int


class Replaced(Exception):
    """Another process has taken over this shard."""


class Failure(NamedTuple):
    """Why a shard cannot answer."""

    why: str


def serve(place: Place) -> None:
    """Serve until the coordinator is gone. Raises Replaced, so that Spark takes the task for failed
    and not for the one that is done."""
    gc.set_threshold(YOUNG, 50, 100)
    attempt = token_hex(8)
    while True:
        try:
            connection = Client(place.address, authkey=place.key)
        except OSError:
            return
        with connection, suppress(EOFError, OSError, Stale):
            _keep_alive(connection)
            connection.send((place.shard, attempt))
            if not _serve(place, connection):
                return


def _serve(place: Place, connection: Connection) -> bool:
    """Answer until the coordinator says that it is over, and then returns False."""
    told = connection.recv()
    if told is None:
        raise Replaced
    settings, loading = told
    try:
        worker = Worker(files_at(place.shared), place.shard, settings, loading)
    except Exception as error:
        connection.send(Failure(f"{type(error).__name__}: {error}"))
        raise
    try:
        gc.collect()
        gc.freeze()
        while (request := connection.recv()) is not None:
            try:
                answer = worker.answer(request)
            except Stale:
                raise
            except Exception as error:
                connection.send(Failure(f"{type(error).__name__}: {error}"))
                raise EOFError from error
            connection.send(answer)
        return False
    finally:
        worker.close()
        gc.unfreeze()


def _keep_alive(connection: Connection) -> None:
    """Notice that the other machine is gone."""
    own = socket.socket(fileno=connection.fileno())
    try:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    finally:
        own.detach()


def serve_each(places: Iterable[Place]) -> None:
    """The shards of a task, of which there is one."""
    for place in places:
        serve(place)


def main() -> None:
    """Serve the place that the standard input names."""
    serve(pickle.loads(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
