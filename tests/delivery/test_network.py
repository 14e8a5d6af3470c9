"""The connections under webhooks, to real servers."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import Event, StreamReader, StreamWriter

import httpcore

from broker.delivery.network import KEPT, Connections
from tests.waiting import PATIENCE


class Server:
    """Answers requests with nothing; `closed` is set when a client has closed its connection."""

    def __init__(self) -> None:
        self.connections = 0
        self.closed = Event()
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        self.closed.set()
        writer.close()


async def ask(connections: Connections, server: Server) -> None:
    url = httpcore.URL(f"http://127.0.0.1:{server.port}/")
    headers = [(b"Host", b"localhost"), (b"Content-Length", b"0")]
    async with connections.request("POST", url, headers, b"", PATIENCE) as response:
        await response.aread()
        assert response.status == 204


def test_connections_to_a_host_that_nobody_uses_are_closed() -> None:
    async def run() -> None:
        now = 0.0
        connections = Connections(True, per_host=2, clock=lambda: now)
        one, other = Server(), Server()
        async with await one.start(), await other.start():
            await ask(connections, one)
            await ask(connections, one)
            now = KEPT
            await ask(connections, other)
            await asyncio.wait_for(one.closed.wait(), PATIENCE)
            await ask(connections, other)
            assert (one.connections, other.connections) == (1, 1)
            assert not other.closed.is_set()
            await connections.aclose()
            await asyncio.wait_for(other.closed.wait(), PATIENCE)

    asyncio.run(run())
