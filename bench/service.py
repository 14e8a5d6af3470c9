"""What does the service hold: with publishers and feeds at once, 100,000 subscriptions, failing
webhooks?

    python -m bench.service [--minutes 5] [--subscriptions 100000] [--hooks 1000] [--rate 300]
        [--pipeline spark] [--quick]

A real `broker serve` with its local pipeline (or with Spark's, and then no results are saved).
First a steady rate, for latencies: from the answer to the publisher until the match is in the log,
and from there until it has reached its webhook. Then as fast as the service accepts, for the
minutes asked for, with twenty lines on the way: is what it holds flat? The webhooks of a thousand
subscriptions go to a receiver that is slow and fails one time in five; feeds grow and are polled
meanwhile. A client follows the log from its beginning, which keeps what is delivered for two
minutes. At the end every match that it read is held against an exact count, and what the receiver
got against those: loss, if there is any, is told.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from math import inf
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.end_to_end import SIZE, subscriptions, text
from bench.exact import Exact
from bench.generate import SECOND, rss
from bench.measure import finish, parser, table
from bench.receiver import Got, other
from bench.workload import Documents, Query

FEEDS = 20
WARM = 3.0
"""Seconds before the steady rate is measured."""
BEGAN = int(time.time())
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
    "p99, s",
    "CPU, s",
)


class Served:
    """A service of its own in a directory, with the files of its state."""

    def __init__(self, directory: Path, feeds: int, port: int, pipeline: str) -> None:
        urls = [f"http://127.0.0.1:{port}/feed/{n}" for n in range(feeds)]
        config = directory / "broker.toml"
        config.write_text(
            f'state = "state"\n[server]\nport = 0\n[feeds]\nurls = {json.dumps(urls)}\ninterval = '
            '"5 s"\n'
            '[delivery]\nallow_private = true\nschedule = ["1 s", "2 s", "5 s", "10 s", "20 s", '
            '"40 s"]\n'
            '[retention]\ndelivered = "2 min"\ndocuments = "11 days"\n[time]\nlateness = "60 '
            'days"\n[intake]\nmax_backlog = 20000\n'
            f'[pipeline]\nkind = "{pipeline}"\n[logs]\nlevel = "warning"\n'
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


class Follower(threading.Thread):
    """A client that reads the log behind its last number, again and again, and keeps the
    figures."""

    def __init__(self, served: Served, publisher: Publisher) -> None:
        super().__init__(daemon=True)
        self.publisher = publisher
        self.http = httpx.Client(
            base_url=served.http.base_url, headers=served.http.headers, timeout=600
        )
        self.count = 0
        self.hooked: dict[str, float] = {}
        """When the matches for webhooks were found, by id."""
        self.waited: list[float] = []
        """Seconds from accepted to found, of matches since somebody last took them."""
        self._after = 0
        self._ending = threading.Event()

    def run(self) -> None:
        while self._read() or not self._ending.is_set():
            pass

    def finish(self) -> None:
        """Read what is left, and end."""
        self._ending.set()
        self.join()

    def _read(self) -> bool:
        wanted = {"after": self._after, "limit": 1_000, "wait": 1}
        answer = self.http.get("/v1/matches", params=wanted)
        answer.raise_for_status()
        lines = answer.text.splitlines()
        for line in lines:
            match = json.loads(line)
            self._after = match["n"]
            if match["query"].startswith("q"):
                self._keep(match)
        return bool(lines)

    def _keep(self, match: dict[str, Any]) -> None:
        self.count += 1
        taken = datetime.fromisoformat(match["taken"]).timestamp()
        last = max(int(document["id"]) for document in match["documents"])
        accepted = self.publisher.accepted(last)
        self.waited.append(max(0.0, taken - accepted))
        if HOOKED <= int(match["query"][1:]) < self.publisher.hooked:
            self.hooked[match["id"]] = taken


class Publisher:
    """Sends documents in their order, a request at a time; remembers when each was accepted."""

    def __init__(
        self, served: Served, documents: Documents, hooks: int, dated: Synchronized[float]
    ) -> None:
        self.served = served
        self.dated = dated
        self.documents = documents
        self.hooked = HOOKED + hooks
        self.at: list[float] = []
        self.refused = 0

    def accepted(self, document: int) -> float:
        """When a document was accepted; it may be matched before its answer is here."""
        return self.at[document] if document < len(self.at) else inf

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
        self.dated.value = self._time(len(self.at) - 1)

    def _time(self, i: int) -> float:
        """Seconds; the documents end now, since nobody believes dates to come."""
        times = self.documents.timestamps
        return float(BEGAN + (int(times[i]) - int(times[-1])) // SECOND)

    def _line(self, i: int) -> str:
        at = self._time(i)
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


def full_speed(
    served: Served, publisher: Publisher, follower: Follower, seconds: float
) -> list[tuple[str, ...]]:
    """As fast as it accepts; twenty rows on the way."""
    rows: list[tuple[str, ...]] = []
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set() and len(publisher.at) < len(publisher.documents):
            publisher.send(200)

    thread = threading.Thread(target=publish)
    begin, before = time.monotonic(), served.status()["intake"]["applied"]
    thread.start()
    while time.monotonic() - begin < seconds and thread.is_alive():
        time.sleep(seconds / 20)
        status = served.status()
        applied, files = status["intake"]["applied"], status["files"]
        passed = time.monotonic() - begin
        sizes = [files[name] / 1e6 for name in ("broker.duckdb", "spool.sqlite", "mailbox.sqlite")]
        row = (passed, (applied - before) / passed, status["intake"]["backlog"], served.memory())
        waited, follower.waited = follower.waited, []
        p99 = np.percentile(waited or [0.0], 99)
        rows.append(
            (*(f"{value:,.0f}" for value in (*row, *sizes)), f"{p99:.1f}", f"{served.cpu():,.0f}")
        )
        print("  ".join(rows[-1]), flush=True)
    stop.set()
    thread.join()
    return rows


def verdict(
    documents: Documents,
    queries: Sequence[Query],
    publisher: Publisher,
    follower: Follower,
    got: Queue[Got],
) -> list[str]:
    """What was lost, and how long what was delivered took."""
    exact = Exact(documents.head(len(publisher.at)))
    wanted = sum(exact.count(query) for query in queries)
    came: dict[str, float] = {}
    deadline = time.monotonic() + 300
    while len(came.keys() & follower.hooked.keys()) < len(follower.hooked):
        while not got.empty():
            id, at = got.get()
            came.setdefault(id, at)
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    reached = [(came[id] - at) * 1_000 for id, at in follower.hooked.items() if id in came]
    lines = [
        f"{len(publisher.at):,} documents accepted ({publisher.refused} requests sent away for a "
        f"while), {follower.count:,} matches read, {wanted:,} counted exactly: "
        f"{wanted - follower.count:,} lost.",
        f"{len(follower.hooked):,} of them for webhooks,"
        f" {len(follower.hooked.keys() - came.keys()):,} not delivered.",
    ]
    return [*lines, *latency("found to delivered, one try in five failing", reached)]


def latency(name: str, values: Sequence[float]) -> list[str]:
    """A line about milliseconds, if there are any."""
    if not values:
        return []
    p50, p99 = np.percentile(np.maximum(values, 0), (50, 99))
    return [f"{name}: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--subscriptions", type=int, default=100_000)
    options.add_argument("--hooks", type=int, default=1_000)
    options.add_argument("--rate", type=int, default=300)
    options.add_argument("--pipeline", choices=("local", "spark"), default="local")
    args = options.parse_args()
    if args.quick:
        args.minutes, args.subscriptions, args.hooks = 0.1, 500, 20
    seconds, calm = args.minutes * 60, 5.0 if args.quick else 30.0
    documents = rss(int(args.rate * (WARM + calm) + seconds * 2_800))
    queries = subscriptions(documents.head(min(30_000, len(documents))), args.subscriptions)
    port: Queue[int] = multiprocessing.Queue()
    got: Queue[Got] = multiprocessing.Queue()
    span = int(documents.timestamps[-1] - documents.timestamps[0]) // SECOND
    dated = multiprocessing.Value("d", float(BEGAN - span))
    receiver = multiprocessing.Process(target=other, args=(port, got, dated), daemon=True)
    receiver.start()
    number = port.get()
    with tempfile.TemporaryDirectory() as scratch:
        served = Served(Path(scratch), FEEDS, number, args.pipeline)
        try:
            prepare(served, queries, documents, args.hooks, number)
            print("prepared", flush=True)
            publisher = Publisher(served, documents, args.hooks, dated)
            follower = Follower(served, publisher)
            follower.start()
            # Spark starts its workers when they are first needed.
            steady(publisher, args.rate, WARM)
            served.caught_up()
            follower.waited = []
            steady(publisher, args.rate, calm)
            served.caught_up()
            waited, follower.waited = [1_000 * s for s in follower.waited], []
            rows = full_speed(served, publisher, follower, seconds)
            served.caught_up()
            follower.finish()
            lines = verdict(documents, queries, publisher, follower, got)
            lines += latency(f"accepted to found, at {args.rate} a second", waited)
        finally:
            served.process.terminate()
            served.process.wait()
    parts = [
        f"{args.subscriptions:,} subscriptions, {args.hooks:,} with webhooks, {FEEDS} feeds; a "
        f"steady {args.rate:,} documents a second for {calm:.0f} s, then as many as it takes.",
        "\n".join(f"- {line}" for line in lines),
        table(HEAD, rows),
    ]
    finish("service", parts, args.quick or args.pipeline == "spark")


if __name__ == "__main__":
    main()
