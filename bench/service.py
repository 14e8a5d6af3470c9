"""What does the service hold: with publishers and feeds at once, 100,000 subscriptions, failing webhooks?

    python -m bench.service [--minutes 5] [--subscriptions 100000] [--hooks 1000] [--quick]

A real `broker serve` with its local pipeline. First a steady rate, for latencies: from the answer to the
publisher until the match is in the log, and from there until it has reached its webhook. Then as fast as
the service accepts, for the minutes asked for, with a line every ten seconds: is what it holds flat? The
webhooks of a thousand subscriptions go to a receiver that is slow and fails one time in five; feeds grow
and are polled meanwhile. At the end every match is held against an exact count, and what the
receiver got against the log: loss, if there is any, is told.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.end_to_end import SIZE, subscriptions, text
from bench.exact import Exact
from bench.generate import SECOND, rss
from bench.measure import finish, parser, table
from bench.workload import Documents, Query

FEEDS = 20
HOOKED = 100
"""The first subscription with a webhook: those before it match more than a slow receiver takes."""
HEAD = (
    "s",
    "documents/s",
    "backlog",
    "memory, MB",
    "DuckDB, MB",
    "spool, MB",
    "mailbox, MB",
    "CPU, s",
)
Got = tuple[str, float]
"""The id of a match, and when it came."""


class _Other(BaseHTTPRequestHandler):
    """A slow and failing receiver, and feeds that get an item every five seconds."""

    protocol_version = "HTTP/1.1"
    got: Queue[Got]
    begun = 0.0
    dated = 0.0
    """When the first item of a feed is from, in the time of the documents."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(random.random() * 0.2)
        fails = random.random() < 0.2
        if not fails:
            self.got.put((self.headers["webhook-id"], time.time()))
        self._answer(503 if fails else 204, b"")

    def do_GET(self) -> None:
        newest = int((time.time() - self.begun) / 5)
        items = []
        for n in range(max(0, newest - 20), newest):
            date = format_datetime(datetime.fromtimestamp(self.dated + 5 * n, UTC))
            told = f"<guid>{self.path}/{n}</guid><title>Item {n}</title><pubDate>{date}</pubDate>"
            items.append(f"<item>{told}</item>")
        channel = f"<title>Feed {self.path}</title>{''.join(items)}"
        self._answer(200, f"<rss version='2.0'><channel>{channel}</channel></rss>".encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Many(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


def other(port: Queue[int], got: Queue[Got], dated: float) -> None:
    """The process of the receiver and of the feeds."""
    _Other.got, _Other.begun, _Other.dated = got, time.time(), dated
    server = _Many(("127.0.0.1", 0), _Other)
    port.put(server.server_port)
    server.serve_forever()


class Served:
    """A service of its own in a directory, with the files of its state."""

    def __init__(self, directory: Path, feeds: int, port: int) -> None:
        urls = [f"http://127.0.0.1:{port}/feed/{n}" for n in range(feeds)]
        config = directory / "broker.toml"
        config.write_text(
            f'state = "state"\n[server]\nport = 0\n[feeds]\nurls = {json.dumps(urls)}\ninterval = "5 s"\n'
            '[delivery]\nallow_private = true\nschedule = ["1 s", "2 s", "5 s", "10 s", "20 s", "40 s"]\n'
            '[retention]\ndelivered = "30 days"\ndocuments = "11 days"\n[time]\nlateness = "60 days"\n[intake]\nmax_backlog = 20000\n'
            '[pipeline]\nkind = "local"\n[logs]\nlevel = "warning"\n'
        )
        self.state = directory / "state"
        command = [sys.executable, "-c", "from broker.cli import main; main()", "serve"]
        self.process = subprocess.Popen([*command, "--config", str(config)])
        while not (self.state / "service.json").exists():
            time.sleep(0.1)
        url = json.loads((self.state / "service.json").read_text())["url"]
        token = (self.state / "token").read_text().strip()
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=600
        )

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = self.http.request(method, path, **more)
        answer.raise_for_status()
        return answer

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "/v1/status").json()
        return found

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def caught_up(self) -> None:
        while self.status()["intake"]["backlog"]:
            time.sleep(0.2)

    def log(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = 0
        while lines := self.ask("GET", "/v1/matches", params={"after": after, "limit": 1000}).text:
            page = [json.loads(line) for line in lines.splitlines()]
            after = page[-1]["n"]
            found += page
        return found


class Publisher:
    """Sends documents in their order, a request at a time; remembers when each was accepted."""

    def __init__(self, served: Served, documents: Documents) -> None:
        self.served = served
        self.documents = documents
        self.at: list[float] = []
        self.refused = 0

    def send(self, count: int) -> None:
        first = len(self.at)
        lines = [self._line(i) for i in range(first, min(first + count, len(self.documents)))]
        while True:
            answer = self.served.http.post(
                "/v1/streams/S/documents",
                content="\n".join(lines),
                headers={"Content-Type": "application/x-ndjson"},
            )
            if answer.status_code != 429:
                break
            self.refused += 1
            time.sleep(min(2.0, float(answer.headers["Retry-After"])))
        answer.raise_for_status()
        self.at += [time.time()] * len(lines)

    def _line(self, i: int) -> str:
        at = self.documents.timestamps[i] / SECOND
        return json.dumps({"id": str(i), "timestamp": at, "xml": self.documents.xml(i, SIZE)})


def prepare(
    served: Served, queries: Sequence[Query], documents: Documents, hooks: int, port: int
) -> None:
    """Subscriptions a thousand at a time, and the webhooks of the first ones."""
    for start in range(0, len(queries), 1_000):
        part = text(documents, queries[start : start + 1_000])
        part = ";\n".join(
            f"q{start + n}{query[query.index(':') :]}" for n, query in enumerate(part.split(";\n"))
        )
        served.ask("POST", "/v1/subscriptions", json={"text": part})
    for n in range(HOOKED, HOOKED + hooks):
        settings = {"url": f"http://127.0.0.1:{port}/hook/{n}"}
        body = {"kind": "webhook", "subscription": f"q{n}", "settings": settings}
        served.ask("PUT", f"/v1/channels/h{n}", json=body)


def steady(publisher: Publisher, rate: int, seconds: float) -> None:
    begin, first = time.monotonic(), len(publisher.at)
    while (passed := time.monotonic() - begin) < seconds:
        due = int(passed * rate) - (len(publisher.at) - first)
        if due > 0:
            publisher.send(due)
        else:
            time.sleep(0.005)


def full_speed(served: Served, publisher: Publisher, seconds: float) -> list[tuple[str, ...]]:
    """As fast as it accepts; a row every ten seconds."""
    rows: list[tuple[str, ...]] = []
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set() and len(publisher.at) < len(publisher.documents):
            publisher.send(200)

    thread = threading.Thread(target=publish)
    begin, before = time.monotonic(), served.status()["intake"]["applied"]
    thread.start()
    while time.monotonic() - begin < seconds and thread.is_alive():
        time.sleep(min(10.0, seconds / 3))
        told = served.status()
        applied, files = told["intake"]["applied"], told["files"]
        passed = time.monotonic() - begin
        sizes = [files[name] / 1e6 for name in ("broker.duckdb", "spool.sqlite", "mailbox.sqlite")]
        row = (passed, (applied - before) / passed, told["intake"]["backlog"], served.memory())
        rows.append(tuple(f"{value:,.0f}" for value in (*row, *sizes, served.cpu())))
        print("  ".join(rows[-1]), flush=True)
    stop.set()
    thread.join()
    return rows


def verdict(
    served: Served, documents: Documents, queries: Sequence[Query], publisher: Publisher,
    hooks: int, got: Queue[Got], first: int,
) -> list[str]:  # fmt: skip
    """Latencies of the first documents, and what was lost."""
    log = [match for match in served.log() if match["query"].startswith("q")]
    exact = Exact(documents.head(len(publisher.at)))
    wanted = sum(exact.count(query) for query in queries)
    came: dict[str, float] = {}
    numbers = range(HOOKED, HOOKED + hooks)
    hooked = {m["id"] for m in log if int(m["query"][1:]) in numbers}
    deadline = time.monotonic() + 300
    while len(came.keys() & hooked) < len(hooked) and time.monotonic() < deadline:
        while not got.empty():
            id, at = got.get()
            came.setdefault(id, at)
        time.sleep(0.2)
    found, reached = [], []
    for match in log:
        last = max(int(document["id"]) for document in match["documents"])
        if last < first:
            taken = datetime.fromisoformat(match["taken"]).timestamp()
            found.append((taken - publisher.at[last]) * 1_000)
            if match["id"] in came:
                reached.append((came[match["id"]] - taken) * 1_000)
    lines = [
        f"{len(publisher.at):,} documents accepted ({publisher.refused} requests sent away for a while),"
        f" {len(log):,} matches in the log, {wanted:,} counted exactly: {wanted - len(log):,} lost.",
        f"{len(hooked):,} of them for webhooks, {len(hooked - came.keys()):,} not delivered.",
    ]
    for name, values in (
        ("accepted to found", found),
        ("found to delivered, one try in five failing", reached),
    ):
        if values:
            p50, p99 = np.percentile(np.maximum(values, 0), (50, 99))
            lines.append(f"{name}: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms")
    return lines


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--subscriptions", type=int, default=100_000)
    options.add_argument("--hooks", type=int, default=1_000)
    options.add_argument("--rate", type=int, default=300)
    args = options.parse_args()
    if args.quick:
        args.minutes, args.subscriptions, args.hooks = 0.1, 500, 20
    seconds, calm = args.minutes * 60, 5.0 if args.quick else 30.0
    documents = rss(int(args.rate * calm + seconds * 4_000))
    queries = subscriptions(documents.head(min(30_000, len(documents))), args.subscriptions)
    port: Queue[int] = multiprocessing.Queue()
    got: Queue[Got] = multiprocessing.Queue()
    receiver = multiprocessing.Process(
        target=other, args=(port, got, documents.timestamps[0] / SECOND), daemon=True
    )
    receiver.start()
    number = port.get()
    with tempfile.TemporaryDirectory() as scratch:
        served = Served(Path(scratch), FEEDS, number)
        try:
            prepare(served, queries, documents, args.hooks, number)
            print("prepared", flush=True)
            publisher = Publisher(served, documents)
            steady(publisher, args.rate, calm)
            served.caught_up()
            first = len(publisher.at)
            rows = full_speed(served, publisher, seconds)
            served.caught_up()
            lines = verdict(served, documents, queries, publisher, args.hooks, got, first)
        finally:
            served.process.terminate()
            served.process.wait()
    parts = [
        f"{args.subscriptions:,} subscriptions, {args.hooks:,} with webhooks, {FEEDS} feeds; a steady"
        f" {args.rate:,} documents a second for {calm:.0f} s, then as many as it takes.",
        "\n".join(f"- {line}" for line in lines),
        table(HEAD, rows),
    ]
    finish("service", parts, args.quick)


if __name__ == "__main__":
    main()
