"""Simulates ten thousand publishers on the loopback interface, for `polling.py`.

In: a number of feeds, and a clock shared with the reader. Out: HTTP answers as late, as large and
as faulty as those of real sites, all drawn from one seed, and counts of what was asked.

The mixture: three feeds in ten stand on ten large hosts, the others on hosts of their own. Latency
is log-normal about 120 ms; three sites in four answer conditional requests; items come at random
moments, at a log-normal rate about one a day, and a document shows the newest few of them.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import multiprocessing
import random
import socket
import time
from collections import Counter
from dataclasses import dataclass
from email.utils import formatdate
from multiprocessing.connection import Connection

DAY = 86_400.0
# Share of the feeds, and what is the matter with them.
FAULTS = {
    "missing": 0.03,  # 404
    "flaky": 0.03,  # 500, three times in ten
    "broken": 0.02,  # 500 always
    "moved": 0.02,  # 301
    "gone": 0.01,  # 410
    "busy": 0.01,  # 429 with Retry-After
    "refused": 0.01,  # nobody listens
    "slow": 0.01,  # three to eight seconds
    "silent": 0.005,  # never answers
    "page": 0.01,  # an HTML page instead of a feed
}
WORDS = ["morning", "harbour", "letter", "window", "garden", "engine", "river", "market", "signal"]
WORDS += ["copper", "winter", "bridge", "lantern", "ledger", "orchard", "compass", "thread"]


@dataclass(frozen=True, slots=True)
class Publisher:
    """One feed: where it is, what is the matter with it, and when (seconds) its items come."""

    number: int
    host: str
    fault: str
    latency: float
    conditional: bool
    shown: int
    text: int
    ttl: int
    times: tuple[float, ...]

    def path(self) -> str:
        return f"/{self.number}"


def publishers(count: int, start: float, seconds: float, seed: int = 1) -> list[Publisher]:
    """`count` publishers whose items come until `seconds` after `start`."""
    rng = random.Random(seed)
    faults = list(FAULTS)
    found = []
    for number in range(count):
        large = rng.random() < 0.3
        host = f"127.2.0.{1 + rng.randrange(10)}" if large else _own_host(number)
        (fault,) = rng.choices(
            ["", *faults], [1 - sum(FAULTS.values()), *(FAULTS[name] for name in faults)]
        )
        if large and fault == "busy":  # that would be all three hundred feeds of the host
            fault = ""
        rate = rng.lognormvariate(0.0, 1.8)  # items a day
        shown = rng.randint(5, 20)
        found.append(
            Publisher(
                number,
                host,
                fault,
                min(rng.lognormvariate(-2.1, 0.8), 3.0),
                rng.random() < 0.75,
                shown,
                int(min(rng.lognormvariate(6.4, 0.9), 20_000)),
                rng.choice((0, 0, 0, 30, 60)),
                tuple(_times(rng, rate, start, seconds, shown)),
            )
        )
    return found


def _own_host(number: int) -> str:
    return f"127.3.{number // 250}.{1 + number % 250}"


def _times(
    rng: random.Random, rate: float, start: float, seconds: float, shown: int
) -> list[float]:
    times: list[float] = []
    moment = start
    while len(times) < shown:  # backwards: what a document shows at the start
        moment -= rng.expovariate(rate / DAY)
        times.append(moment)
    times.reverse()
    moment = start
    while (moment := moment + rng.expovariate(rate / DAY)) < start + seconds:
        times.append(moment)
    return times


class Clock:
    """Time that runs `speed` times as fast as the wall's, and is put forward where nothing happens.

    Two processes share it.
    """

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.start = time.time()
        self._skipped = multiprocessing.Value("d", 0.0)

    def __call__(self) -> float:
        skipped: float = self._skipped.value
        return self.start + (time.time() - self.start) * self.speed + skipped

    def skip(self, seconds: float) -> None:
        self._skipped.value += seconds


class Web:
    """Answers for all publishers."""

    def __init__(self, feeds: list[Publisher], now: Clock) -> None:
        self.feeds = feeds
        self.now = now
        self.counts: Counter[str] = Counter()
        self.sent = 0
        self.rng = random.Random(2)

    async def serve(self, port: Connection) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        listener.bind(("", 0))
        server = await asyncio.start_server(self._talk, sock=listener, backlog=1024)
        port.send(listener.getsockname()[1])
        async with server:
            while True:
                await asyncio.sleep(0.05)
                if port.poll():
                    port.recv()
                    port.send((dict(self.counts), self.sent))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                publisher = self.feeds[int(lines[0].split(" ")[1].strip("/").split("?")[0])]
                await self._wait(publisher)
                status, headers, body = self._answer(publisher, "?" in lines[0], fields)
                self.counts[status.split(" ")[0]] += 1
                self.sent += len(body)
                headers |= {"Content-Length": str(len(body))}
                fields_out = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {status}\r\n{fields_out}\r\n".encode() + body)
                await writer.drain()
        writer.close()

    async def _wait(self, publisher: Publisher) -> None:
        late = publisher.latency * self.rng.uniform(0.7, 1.5)
        if publisher.fault == "slow":
            late = self.rng.uniform(3, 8)
        if publisher.fault == "silent":
            late = 60.0
        await asyncio.sleep(late / self.now.speed)

    def _answer(
        self, feed: Publisher, moved: bool, fields: dict[str, str]
    ) -> tuple[str, dict[str, str], bytes]:
        match feed.fault:
            case "missing":
                return "404 Not Found", {}, b"none"
            case "gone":
                return "410 Gone", {}, b"gone"
            case "broken":
                return "500 Oops", {}, b"sorry"
            case "flaky" if self.rng.random() < 0.3:
                return "500 Oops", {}, b"sorry"
            case "busy":
                return "429 Slow Down", {"Retry-After": "1200"}, b"later"
            case "moved" if not moved:
                return "301 Moved", {"Location": f"{feed.path()}?new"}, b""
            case "page":
                return "200 OK", {"Content-Type": "text/html"}, b"<html><body>hello</body></html>"
        last = bisect.bisect(feed.times, self.now())
        etag = f'"{last}"'
        headers = {"Content-Type": "application/rss+xml"}
        if feed.conditional:
            headers["ETag"] = etag
            headers["Last-Modified"] = formatdate(feed.times[last - 1], usegmt=True)
            if fields.get("if-none-match") == etag:
                return "304 Not Modified", headers, b""
        return "200 OK", headers, document(feed, last)


def document(feed: Publisher, last: int) -> bytes:
    """The newest items of a feed up to its `last`, as RSS."""
    rng = random.Random(feed.number)
    text = " ".join(rng.choices(WORDS, k=feed.text // 7))
    items = "".join(
        f"<item><title>{WORDS[n % len(WORDS)]} {n}</title><link>http://{feed.host}/{feed.number}/{n}</link>"
        f"<guid>http://{feed.host}/{feed.number}/{n}</guid>"
        f"<pubDate>{formatdate(feed.times[n], usegmt=True)}</pubDate>"
        f"<description>{text}</description></item>"
        for n in reversed(range(max(0, last - feed.shown), last))
    )
    ttl = f"<ttl>{feed.ttl}</ttl>" if feed.ttl else ""
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>Feed {feed.number}</title>'
        f"<link>http://{feed.host}/</link>{ttl}{items}</channel></rss>"
    ).encode()


def run(feeds: list[Publisher], now: Clock, port: Connection) -> None:
    """The server's process."""
    asyncio.run(Web(feeds, now).serve(port))
