"""Connections that hold something: heads and bodies that do not come, and too many at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.service.api_harness import Running, serving
from tests.waiting import PATIENCE, until


@contextmanager
def connection(running: Running) -> Iterator[socket.socket]:
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        yield client


def answered(client: socket.socket) -> bytes:
    """Everything up to the end of the connection."""
    found = b""
    while part := client.recv(1 << 16):
        found += part
    return found


def said(answer: bytes) -> tuple[int, str]:
    """The status, and the type of the problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["type"].rpartition(":")[2]


def head(running: Running, length: int, more: str = "") -> bytes:
    return (
        f"POST /v1/streams/S/documents HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
        f"Authorization: Bearer {running.service.token}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    state = tmp_path_factory.mktemp("state")
    with serving(state, server__head_timeout="300 ms", server__body_timeout="300 ms") as running:
        yield running


def test_a_head_without_an_end(impatient: Running) -> None:
    with connection(impatient) as client:
        client.sendall(b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Drip: a")
        assert said(answered(client)) == (408, "too-slow")


def test_a_connection_on_which_nothing_is_asked_ends_without_a_word(impatient: Running) -> None:
    with connection(impatient) as client:
        assert answered(client) == b""


def test_a_second_head_without_an_end(impatient: Running) -> None:
    with connection(impatient) as client:
        request = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        client.sendall(request + b"GET /health/live HTTP/1.1\r\nHost:")
        first, _, rest = answered(client).partition(b'{"status":"alive"}')
        assert first.startswith(b"HTTP/1.1 200")
        assert said(rest) == (408, "too-slow")


def test_a_body_that_does_not_come(impatient: Running) -> None:
    with connection(impatient) as client:
        client.sendall(head(impatient, 100) + b"<a>")
        assert said(answered(client)) == (408, "too-slow")
    until(lambda: impatient.api.connections.open == len(impatient.server.server_state.connections))


def test_a_long_body_may_take_long_while_it_comes(tmp_path: Path) -> None:
    """Longer in all than a part of it may take."""
    with serving(tmp_path / "state", server__body_timeout="2 s") as running:
        body = b"<a>" + b"x" * (5 << 16) + b"</a>"
        with connection(running) as client:
            client.sendall(head(running, len(body), "Connection: close\r\n"))
            for at in range(0, len(body), 1 << 16):
                client.sendall(body[at : at + (1 << 16)])
                # Something else happens meanwhile, on another connection.
                running.http.get("/v1/status").raise_for_status()
            assert answered(client).startswith(b"HTTP/1.1 202")


def test_bodies_that_drip_hold_nothing_for_long(impatient: Running) -> None:
    """Eight of the largest fill what may be held in memory; then others are served again."""
    most = 10_000_000
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(connection(impatient))
            client.sendall(head(impatient, most) + b"<a>" + b"x" * 1_000)
        until(
            lambda: (
                impatient.http.post(
                    "/v1/streams/S/documents",
                    content=b"<a/>",
                    headers={"Content-Type": "application/xml"},
                ).is_success
            )
        )


def test_connections_of_one_client(tmp_path: Path) -> None:
    with serving(tmp_path / "state", server__client_connections=5) as running, ExitStack() as stack:

        def fill() -> list[socket.socket]:
            return [stack.enter_context(connection(running)) for _ in range(8)]

        refused = [client for client in fill() if _is_refused(client)]
        # One is the client's that the harness uses.
        assert len(refused) == 4
        stack.close()
        until(lambda: running.http.get("/v1/status").is_success)
        assert running.api.connections.open <= 5


def test_connections_of_all(tmp_path: Path) -> None:
    with serving(tmp_path / "state", server__connections=3) as running:
        with connection(running), connection(running), connection(running) as third:
            assert said(answered(third)) == (503, "too-many-connections")
        until(lambda: running.api.connections.open == 1)
        assert running.http.get("/v1/status").is_success


def _is_refused(client: socket.socket) -> bool:
    client.settimeout(0.5)
    try:
        return said(answered(client)) == (503, "too-many-connections")
    except TimeoutError:
        return False
