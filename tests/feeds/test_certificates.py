"""Over TLS, feeds are fetched from and matches sent to those alone whose certificate is trusted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpcore
import pytest

from broker.delivery.network import Connections
from feeds.fetch import Fetcher, Request
from feeds.transport import trusted
from tests.delivery.postbox import CERTIFICATE, context
from tests.feeds.data import rss
from tests.waiting import PATIENCE

FEED = rss("<title>t</title>")


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(FEED)))
        self.end_headers()
        self.wfile.write(FEED)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Who does not trust the certificate hangs up."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """An https server of 127.0.0.1, whose certificate no authority of this machine has signed."""
    with _Server(("127.0.0.1", 0), _Answers) as server:
        server.socket = context().wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(params=[True, False], ids=["trusted", "not trusted"])
def trusting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether its certificate is one of this machine's, which are read anew."""
    if request.param:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    trusted.cache_clear()
    yield request.param
    trusted.cache_clear()


def test_feeds(address: str, trusting: bool) -> None:
    with Fetcher(allow_private=True) as fetcher:
        found = fetcher.fetch(Request(address))
    if trusting:
        assert found.body == FEED
    else:
        assert "certificate verify failed" in (found.problem or "")


def test_webhooks(address: str, trusting: bool) -> None:
    async def asked() -> int:
        connections = Connections(allow_private=True, per_host=1)
        try:
            async with connections.request(
                "GET", httpcore.URL(address), [(b"Host", b"127.0.0.1")], b"", PATIENCE
            ) as response:
                return response.status
        finally:
            await connections.aclose()

    if trusting:
        assert asyncio.run(asked()) == 200
    else:
        with pytest.raises(httpcore.ConnectError, match="certificate verify failed"):
            asyncio.run(asked())
