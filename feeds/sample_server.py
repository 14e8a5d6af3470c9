"""A loopback HTTP server for a directory of feeds: for the demonstration and the tests.

In: a directory. Out: a base URL under which its files are served, with ETag and Last-Modified,
answering conditional requests with 304. It listens on 127.0.0.1 only and serves nothing that lies
outside the directory.
"""

from __future__ import annotations

import hashlib
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from feeds.threaded import Threaded

_CONTENT_TYPES = {
    ".atom": "application/atom+xml",
    ".rss": "application/rss+xml",
    ".rdf": "application/rdf+xml",
    ".xml": "application/xml",
    ".opml": "text/x-opml",
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}


class FeedServer(Threaded):
    """`with FeedServer(directory) as server: ... server.url("news.rss")`. `requests` is the number
    of requests so far."""

    def __init__(self, directory: str | Path, port: int = 0) -> None:
        self._directory = Path(directory).resolve()
        self.requests = 0
        server = ThreadingHTTPServer(
            ("127.0.0.1", port), type("Handler", (_Handler,), {"samples": self})
        )
        server.daemon_threads = True
        super().__init__(server, "feed-server")

    @property
    def base(self) -> str:
        """`http://127.0.0.1:PORT/`, the directory itself."""
        return f"http://127.0.0.1:{self.port}/"

    def url(self, name: str) -> str:
        return self.base + name

    def file(self, target: str) -> Path | None:
        """The file that a request's path names, None if there is none inside the directory."""
        name = unquote(urlsplit(target).path).lstrip("/")
        if "\0" in name:
            return None
        path = (self._directory / name).resolve()
        inside = path.is_relative_to(self._directory)
        return path if inside and path.is_file() else None


class _Handler(BaseHTTPRequestHandler):
    """The request handler; each server makes a subclass of it that names the server."""

    samples: FeedServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        self.samples.requests += 1
        path = self.samples.file(self.path)
        if path is None:
            self._send(404, {"Content-Type": "text/plain"}, b"not found\n", with_body)
            return
        body = path.read_bytes()
        modified = int(path.stat().st_mtime)
        headers = {
            "ETag": f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"',
            "Last-Modified": formatdate(modified, usegmt=True),
            "Content-Type": _CONTENT_TYPES.get(path.suffix.lower(), "application/octet-stream"),
        }
        if self._unchanged(headers["ETag"], modified):
            self._send(304, headers, b"", with_body=False)
        else:
            self._send(200, headers, body, with_body)

    def _unchanged(self, etag: str, modified: int) -> bool:
        # RFC 9110, 13.2.2: If-None-Match alone decides where it is given.
        wanted = self.headers.get("If-None-Match")
        if wanted is not None:
            return etag in (tag.strip() for tag in wanted.split(",")) or wanted == "*"
        since = self.headers.get("If-Modified-Since")
        if since is None:
            return False
        try:
            return modified <= parsedate_to_datetime(since).timestamp()
        except ValueError:
            return False

    def _send(self, status: int, headers: dict[str, str], body: bytes, with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass  # the demonstration's terminal belongs to its matches
