"""The shards in other processes, which connect to this one; a launcher starts them.

A connection that breaks is a shard that is lost. The next process of that shard makes it anew of
the committed segments, and gets the last request again. The others answer the round meanwhile, and
then wait: a batch is one transaction with the matches of all.

Of two processes of one shard the later one has it. One that was thought to be lost and comes back
is refused from then on, or the two would take the shard from each other again and again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from secrets import token_bytes
from typing import Any, Protocol

from broker.cluster.answers import Answer, Waits
from broker.cluster.files import ClusterError
from broker.cluster.serving import Failure, Place
from broker.cluster.shard import Settings
from broker.cluster.shards import Ask, Loading, Request

_POLL = 0.5
_LONG = 30.0
"""Seconds after which it is told that a shard is waited for; then after twice as many each time."""
PATIENCE = 600.0
"""Seconds that a shard may take for an answer, or that there may be none."""


class Launcher(Protocol):
    """What starts the processes of shards, and starts them again."""

    def start(self, places: Sequence[Place]) -> None:
        """Start a process for each shard."""

    def check(self) -> None:
        """Raises ClusterError if a process cannot be started."""

    def close(self) -> None:
        """End the processes."""


class RemoteShards:
    """Shards that connect to `host`, an address of this machine that theirs reach."""

    def __init__(
        self,
        launcher: Launcher | None = None,
        host: str = "127.0.0.1",
        patience: float = PATIENCE,
        tell: Callable[[str], object] = lambda text: None,
        long: float = _LONG,
    ) -> None:
        self._launcher = launcher
        self._host = host
        self._patience = patience
        self._tell = tell
        self._long = long
        self._key = token_bytes(32)
        self._changed = threading.Condition()
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, Connection] = {}
        """The connections that have the last request."""
        self._attempts: dict[int, str] = {}
        """By shard, the process that has it, or had it last."""
        self._replaced: set[str] = set()
        """The processes that others came after."""
        self._request: Request | Ask | None = None
        self._listener: socket.socket | None = None
        self.rebuilt = 0
        """How often a shard was made, first or anew."""

    def use(self, launcher: Launcher, host: str) -> None:
        """Set the launcher, before the start."""
        self._launcher, self._host = launcher, host

    def start(self, shared: str, settings: Settings, loading: Callable[[], Loading]) -> None:
        assert self._launcher is not None, "use() comes first"
        self._settings, self._loading = settings, loading
        self._listener = socket.create_server((self._host, 0))
        address = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        self._launcher.start(
            [Place(address, self._key, shared, shard) for shard in range(settings.shards)]
        )

    # -- connections -------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._welcome, args=(accepted,), daemon=True).start()

    def _welcome(self, accepted: socket.socket) -> None:
        """Begin with a process that has connected."""
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(accepted.detach())
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            shard, attempt = connection.recv()
            known = self._take_on(shard, attempt)
            connection.send((self._settings, self._loading()) if known else None)
        except (OSError, EOFError, AuthenticationError):
            connection.close()
            return
        if not known:
            connection.close()
            return
        with self._changed:
            before = self._connections.get(shard)
            self._connections[shard] = connection
            self.rebuilt += 1
            self._changed.notify_all()
        if before is not None:
            before.close()  # of an attempt that is taken for lost

    def _take_on(self, shard: int, attempt: str) -> bool:
        """Whether a process has its shard from now on: unless another has come after it."""
        with self._changed:
            if attempt in self._replaced:
                return False
            before = self._attempts.get(shard, attempt)
            if before != attempt:
                self._replaced.add(before)
            self._attempts[shard] = attempt
            return True

    def _lose(self, shard: int, connection: Connection) -> None:
        with self._changed:
            if self._connections.get(shard) is connection:
                del self._connections[shard]
        connection.close()

    # -- requests ----------------------------------------------------------------------------

    def send(self, request: Request | Ask) -> None:
        self._request = request
        self._asked.clear()
        with self._changed:
            there = dict(self._connections)
        for shard, connection in there.items():
            with suppress(OSError):
                connection.send(request)
                self._asked[shard] = connection

    def receive(self) -> list[Any]:
        return [self._answer(shard) for shard in range(self._settings.shards)]

    def _answer(self, shard: int) -> Answer | Waits:
        began, told = time.monotonic(), self._long
        while (waited := time.monotonic() - began) < self._patience:
            connection = self._connection(shard)
            if waited > told:
                told *= 2
                what = "has no process on any core" if connection is None else "has not answered"
                self._tell(f"shard {shard} {what} for {waited:.0f} s; the others wait")
            if connection is None:
                if self._launcher is not None:
                    self._launcher.check()
                continue
            try:
                if self._asked.get(shard) is not connection:
                    connection.send(self._request)
                    self._asked[shard] = connection
                if not connection.poll(_POLL):
                    continue
                found = connection.recv()
            except (OSError, EOFError):
                self._lose(shard, connection)
                continue
            if isinstance(found, Failure):
                raise ClusterError(f"shard {shard}: {found.why}")
            assert isinstance(found, Answer | Waits)
            return found
        raise ClusterError(f"shard {shard} has not answered for {self._patience:.0f} s")

    def _connection(self, shard: int) -> Connection | None:
        with self._changed:
            self._changed.wait_for(lambda: shard in self._connections, _POLL)
            return self._connections.get(shard)

    def reset(self) -> None:
        with self._changed:
            gone, self._connections = [*self._connections.values()], {}
        for connection in gone:
            connection.close()

    def close(self) -> None:
        if self._listener is None:
            return
        # A listener that is only closed would go on with the connection that it waits for.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        with self._changed:
            there, self._connections = [*self._connections.values()], {}
        for connection in there:
            with suppress(OSError):
                connection.send(None)
            connection.close()
        if self._launcher is not None:
            self._launcher.close()
