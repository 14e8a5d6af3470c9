"""The server that hubs call, and clients that hold its connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.request import urlopen

import pytest

from feeds.callback import AT_ONCE, CallbackServer
from tests.waiting import PATIENCE, pause, until

HEADS = {
    "head": b"POST /x HTTP/1.1\r\nX: ",
    "body without a token": b"POST /x HTTP/1.1\r\nContent-Length: 9000\r\n\r\n",
}


@contextmanager
def dripping(address: tuple[str, int], begin: bytes) -> Iterator[None]:
    """More clients than the server takes at once, each of which sends a byte now and then, and
    connects again when its connection has ended."""
    stop = threading.Event()

    def drip() -> None:
        while not stop.is_set():
            with suppress(OSError), socket.create_connection(address) as client:
                client.sendall(begin)
                while not stop.is_set():
                    client.sendall(b"x")
                    pause(0.02)

    threads = [threading.Thread(target=drip) for _ in range(AT_ONCE + 4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("begin", HEADS.values(), ids=HEADS)
def test_clients_that_drip_shut_no_hub_out(begin: bytes) -> None:
    with ExitStack() as stack:
        server = CallbackServer(
            ("127.0.0.1", 0),
            is_active=lambda token: False,
            verify=lambda token, query: b"challenge",
            receive=lambda token, headers, body: False,
            max_bytes=10,
            patience=0.3,
        )
        stack.enter_context(server)

        def answers() -> bool:
            try:
                with urlopen(server.base + "token", timeout=PATIENCE) as answer:
                    return bool(answer.read() == b"challenge")
            except OSError:
                return False

        until(answers)
        stack.enter_context(dripping(("127.0.0.1", server.port), begin))
        until(lambda: not answers(), "all connections are held")
        for _ in range(3):
            until(answers)
