"""A forward proxy on the loopback interface: passes plain HTTP on, and keeps account."""

from __future__ import annotations

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from feeds.threaded import Threaded
from tests.waiting import PATIENCE


class Proxy(Threaded):
    """`where` says which host and port stand behind a name, as the proxy's own resolver would."""

    def __init__(self, where: dict[str, str]) -> None:
        self.where = where
        self.requests: list[tuple[str, str | None]] = []
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        server.daemon_threads = True
        super().__init__(server, "proxy")

    def url(self, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.requests.append((self.path, self.headers["Proxy-Authorization"]))
                target = urlsplit(self.path)
                behind = http.client.HTTPConnection(proxy.where[target.netloc], timeout=PATIENCE)
                behind.request("GET", target.path, headers={"Host": target.netloc})
                answer = behind.getresponse()
                body = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                behind.close()

            def do_CONNECT(self) -> None:
                proxy.requests.append((self.path, self.headers["Proxy-Authorization"]))
                self.send_error(403)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
