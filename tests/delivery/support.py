"""Matches to deliver, a manual clock, and real receivers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from broker.delivery import DeliverySettings, DeliveryWorker, Event, Mailbox
from broker.model import MICROSECONDS, DocumentRef, Match
from feeds.threaded import Threaded
from tests.waiting import PATIENCE

START = 1_790_000_000 * MICROSECONDS
HOUR = 3_600 * MICROSECONDS
DAY = 24 * HOUR


def match(
    number: int,
    query: str = "tides",
    *,
    end: int | None = None,
    values: dict[str, list[str]] | None = None,
    result: str | None = None,
    title: str = "The Tide Clerk",
) -> Match:
    at = START + number * MICROSECONDS if end is None else end
    called = f"{title} {number}"
    item = f"<item><title>{escape(title)} {number}</title><channel_title>Courier</channel_title></item>"
    return Match(
        id=hashlib.blake2b(f"{query}/{number}".encode(), digest_size=16).hexdigest(),
        query=query,
        stream=None,
        start_us=at - HOUR,
        end_us=at,
        documents=(
            DocumentRef(
                f"https://courier.example/{number}", "S", at - HOUR, called, None, "Courier"
            ),
            DocumentRef(f"tag:courier.example,2026:{number}", "S", at, called, None, "Courier"),
        ),
        values={"title": [f"The Tide Clerk {number}"]} if values is None else values,
        nodes=(1, 2),
        result=result or f'<result query="{query}">{item}{item}</result>',
    )


class Clock:
    """A clock in seconds since 1970, set by tests."""

    def __init__(self) -> None:
        self.seconds = START / MICROSECONDS

    def __call__(self) -> float:
        return self.seconds

    @property
    def now(self) -> int:
        return round(self.seconds * MICROSECONDS)


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    connection: tuple[str, int]
    method: str = "POST"

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["data"]
        return found


Answer = tuple[int, dict[str, str], bytes]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked may have been killed meanwhile."""


@dataclass
class Receiver(Threaded):
    """An HTTP server on loopback. `answer` says what a request gets; the default is 204."""

    answer: Callable[[Request], Answer] = lambda _: (204, {}, b"")
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, body, self.client_address, self.command)
                with receiver._arrived:
                    receiver.requests.append(request)
                    receiver._arrived.notify_all()
                status, answered, text = receiver.answer(request)
                self.send_response(status)
                for name, value in answered.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._arrived = threading.Condition()
        super().__init__(_Server(("127.0.0.1", 0), Handler), "receiver")

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def wait(self, count: int) -> list[Request]:
        """Wait for a number of requests; returns them."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, PATIENCE), (
                f"{len(self.requests)} of {count} requests"
            )
            return list(self.requests)

    @property
    def ids(self) -> list[str]:
        return [request.id for request in self.requests]


@dataclass(slots=True)
class Trickling:
    """A server that answers byte by byte; `connections` were made to it so far, `ended` of which
    have ended."""

    port: int
    connections: int = 0
    ended: int = 0


@contextmanager
def trickling(interval: float = 2.0, head: bytes = b"") -> Iterator[Trickling]:
    """A server on all loopback addresses that answers byte by byte, after what it says at once, and
    never ends. A byte comes every `interval` seconds, which is seldom, since there may be a
    thousand connections and a machine that is busy with other things."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.connections += 1
        try:
            writer.write(head)
            while True:
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(interval)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            told.ended += 1
            writer.close()

    told = Trickling(0)
    loops: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def main() -> None:
        stopped = asyncio.Event()
        server = await asyncio.start_server(serve, "0.0.0.0", 0, backlog=2048)
        told.port = server.sockets[0].getsockname()[1]
        loops.put((asyncio.get_running_loop(), stopped))
        await stopped.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    loop, stopped = loops.get()
    try:
        yield told
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


@contextmanager
def delivering(
    mailbox: Mailbox,
    clock: Callable[[], float] = time.time,
    on_event: Callable[[Event], None] | None = None,
    **settings: Any,
) -> Iterator[DeliveryWorker]:
    """A running worker."""
    known = {"allow_private": True, "timeout": PATIENCE, "jitter": 0.0} | settings
    worker = DeliveryWorker(mailbox, DeliverySettings(**known), clock, on_event)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(1)


def at(mailbox: Mailbox, channel: str, number: int) -> Callable[[], bool]:
    """Whether the cursor of a channel has reached a number."""
    return lambda: mailbox.channel(channel).cursor == number


def tried(mailbox: Mailbox, channel: str, attempts: int) -> Callable[[], bool]:
    """Whether the next delivery of a channel was tried so many times."""
    return lambda: mailbox.channel(channel).attempts == attempts


def always(answer: Answer) -> Callable[[Request], Answer]:
    """The same response to each request."""
    return lambda _: answer


def open_mailbox(directory: Path, clock: Callable[[], float] = time.time) -> Mailbox:
    return Mailbox(directory / "mailbox.sqlite", clock=clock)
