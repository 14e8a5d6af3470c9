"""A site on the loopback interface, given as a dictionary of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from feeds.threaded import Threaded


@dataclass(frozen=True)
class Page:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Site(Threaded):
    """Serves `pages` by path and query; `{base}` in a body or header is the site's own address."""

    def __init__(self, pages: Mapping[str, Page | bytes], host: str = "127.0.0.1") -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                page = site.pages.get(self.path, Page(b"not found", 404))
                page = page if isinstance(page, Page) else Page(page)
                self.send_response(page.status)
                for name, value in page.headers.items():
                    self.send_header(name, value.replace("{base}", site.base))
                self.end_headers()
                self.wfile.write(page.body.replace(b"{base}", site.base.encode()))

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(ThreadingHTTPServer((host, 0), Handler), "site")
        self.base = f"http://{host}:{self.port}"

    def url(self, path: str) -> str:
        return self.base + path
