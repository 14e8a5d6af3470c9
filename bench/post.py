"""What does a document cost the service that is posted: by itself, as a line of many, and until its
match is pulled?

    python -m bench.post [--quick] [--subscriptions N …]

A real `broker serve` with the feed items and subscriptions of `bench.end_to_end`, about one match a
document. *One at a time*: a document of 2 KB a request, over one connection that is kept; beside it,
in the same run, what the HTTP server alone needs to take the same request and send the same
response, and what SQLite needs to store and sync the body. *Lines*: JSON lines, a thousand
documents a request, until the last is matched and committed; beside it, what the second process
spends, which does stage 1 meanwhile where the machine is not busy. *Pulled*: documents that come at
a steady thousand a second, one a request, over a few connections; a client that waits for matches
(`GET /v1/matches?wait=`) tells when it has each. CPU time is that of the server's process, by its
threads; the client runs on the same cores. Where these are those of a virtual machine, it is told
for how long they stood still meanwhile, which is in the latencies, and in no CPU time.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.end_to_end import SIZE, subscriptions, text
from bench.generate import SECOND, rss
from bench.measure import finish, parser, table
from bench.posting import (
    GROUPS,
    Kept,
    Server,
    Spent,
    ask,
    caught_up,
    echo,
    send_all,
    service,
)
from bench.workload import Documents

LINES = 1_000
"""Documents in a request of JSON lines."""
WARM = 5
"""Such requests before anything is measured: where two batches wait, the service starts the second
process."""
RATES = (300, 1_000)
"""Documents a second that come one a request."""
CONNECTIONS = 4
"""Connections over which single documents come at a steady rate."""
STREAM = "/v1/streams/S/documents"
XML, JSON_LINES = "application/xml", "application/x-ndjson"


def subscribe(server: Server, documents: Documents, count: int) -> None:
    queries = subscriptions(documents.head(min(30_000, len(documents))), count)
    for start in range(0, count, 1_000):
        part = [
            f"q{start + n}{query[query.index(':') :]}"
            for n, query in enumerate(text(documents, queries[start : start + 1_000]).split(";\n"))
        ]
        body = json.dumps({"text": ";\n".join(part)}).encode()
        ask(server, "POST", "/v1/subscriptions", body, "application/json")


class Sent:
    """The documents, in their order; they end about now, since nobody believes dates to come."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._first = int(time.time()) - int(documents.timestamps[-1]) // SECOND
        self.next = 0

    def _time(self, i: int) -> int:
        return self._first + int(self.documents.timestamps[i]) // SECOND

    def single(self, server: Server, count: int) -> list[bytes]:
        """Requests with a document each."""
        chosen = range(self.next, self.next + count)
        self.next += count
        return [
            server.request(
                "POST",
                STREAM,
                self.documents.xml(i, SIZE).encode(),
                XML,
                Document_Id=str(i),
                Document_Timestamp=str(self._time(i)),
            )
            for i in chosen
        ]

    def lines(self, server: Server, count: int) -> list[bytes]:
        """Requests with a thousand documents each."""
        requests = []
        for begin in range(self.next, self.next + count, LINES):
            lines = [
                json.dumps(
                    {"id": str(i), "timestamp": self._time(i), "xml": self.documents.xml(i, SIZE)}
                )
                for i in range(begin, min(begin + LINES, self.next + count))
            ]
            requests.append(server.request("POST", STREAM, "\n".join(lines).encode(), JSON_LINES))
        self.next += count
        return requests


# -- what is measured ----------------------------------------------------------------------------

HEAD = ("one at a time", "CPU, us", *GROUPS.values(), "rest", "p50, ms", "p99, ms")


def row(name: str, spent: Spent, waited: Sequence[float]) -> tuple[str, ...]:
    p50, p99 = np.percentile(np.array(waited) * 1_000, (50, 99))
    return (name, *spent.micros(len(waited)), f"{p50:.2f}", f"{p99:.2f}")


def one_at_a_time(server: Server, sent: Sent, count: int, name: str) -> tuple[str, ...]:
    kept = Kept(server)
    send_all(kept, sent.single(server, count // 10))
    caught_up(server)
    requests = sent.single(server, count)
    waited: list[float] = []
    spent = server.measured(lambda: waited.extend(send_all(kept, requests)))
    caught_up(server)
    return row(name, spent, waited)


def http_alone(directory: Path, requests: Sequence[bytes], response: bytes) -> tuple[str, ...]:
    """The floor: uvicorn as the service runs it, with an application that does nothing."""
    file = directory / "echo.json"
    server = Server(echo, (str(file), response), file)
    try:
        kept = Kept(server)
        send_all(kept, requests[: len(requests) // 10])
        waited: list[float] = []
        spent = server.measured(lambda: waited.extend(send_all(kept, requests)))
    finally:
        server.close()
    return row("HTTP server alone", spent, waited)


def stored_alone(directory: Path, bodies: Sequence[bytes]) -> tuple[str, ...]:
    """The floor: a row for each body, synced."""
    db = sqlite3.connect(directory / "alone.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE document (seq INTEGER PRIMARY KEY, xml BLOB)")
    waited = []
    begin = time.perf_counter(), time.process_time()
    for body in bodies:
        at = time.perf_counter()
        db.execute("INSERT INTO document (xml) VALUES (?)", (body,))
        waited.append(time.perf_counter() - at)
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    db.close()
    return row("SQLite alone", Spent(cpu, {"intake": cpu}, wall), waited)


LINES_HEAD = (
    "subscriptions, lines",
    "accepted/s",
    "matched/s",
    "CPU, us",
    *GROUPS.values(),
    "rest",
    "stage 1 apart",
    "matches/document",
)


def as_lines(server: Server, sent: Sent, count: int, name: str) -> tuple[str, ...]:
    kept, requests = Kept(server), sent.lines(server, count)
    before = ask(server, "GET", "/v1/status")["pipeline"]["matches"]
    accepted = 0.0

    def work() -> None:
        nonlocal accepted
        begin = time.perf_counter()
        send_all(kept, requests)
        accepted = time.perf_counter() - begin
        caught_up(server)

    spent = server.measured(work)
    matches = ask(server, "GET", "/v1/status")["pipeline"]["matches"] - before
    rates = (f"{count / accepted:,.0f}", f"{count / spent.wall:,.0f}")
    parts = (*spent.micros(count), f"{spent.apart / count * 1e6:,.0f}")
    return (name, *rates, *parts, f"{matches / count:.2f}")


class Puller(threading.Thread):
    """A client that waits for matches, and notes when each document that completes one came."""

    def __init__(self, server: Server, after: int) -> None:
        super().__init__(daemon=True)
        self._server, self._kept = server, Kept(server)
        self._after = after
        self.at: dict[int, float] = {}
        self.ending = False

    def run(self) -> None:
        while True:
            path = f"/v1/matches?after={self._after}&limit=1000&wait=1"
            status, body = self._kept.send(self._server.request("GET", path))
            now = time.perf_counter()
            assert status == 200, body
            lines = body.splitlines()
            for line in lines:
                match = json.loads(line)
                self._after = match["n"]
                last = max(int(document["id"]) for document in match["documents"])
                self.at.setdefault(last, now)
            if self.ending and not lines:
                return


def pulled(server: Server, sent: Sent, rate: int, seconds: float) -> str:
    """How long from sending a document to its pulled match, and to its response."""
    count = int(rate * seconds)
    first = sent.next
    requests = sent.single(server, count)
    puller = Puller(server, ask(server, "GET", "/v1/status")["deliveries"]["last"])
    puller.start()
    began = [0.0] * count
    answered = [0.0] * count
    start = time.perf_counter() + 0.1

    def publish(lane: int, own: Kept) -> None:
        for i in range(lane, count, CONNECTIONS):
            due = start + i / rate
            while (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            # From when it was due: a client that is held up does not hide that.
            began[i] = due
            send_all(own, requests[i : i + 1])
            answered[i] = time.perf_counter()

    def work() -> None:
        lanes = [
            threading.Thread(target=publish, args=(lane, Kept(server)))
            for lane in range(CONNECTIONS)
        ]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    gc.collect()
    gc.freeze()
    spent = server.measured(work)
    caught_up(server)
    puller.ending = True
    puller.join()
    found = [(at - began[i - first]) * 1_000 for i, at in puller.at.items() if i >= first]
    answers = np.subtract(answered, began) * 1_000
    return (
        f"{rate:,} documents/s ({count / spent.wall:,.0f} were sent): from POST to the pulled match"
        f" {quantiles(found)}; to the response {quantiles(answers)};"
        f" {spent.process / count * 1e6:,.0f} us CPU a document; the machine's cores stood still"
        f" for {spent.stolen * 1_000:,.0f} ms"
    )


def quantiles(milliseconds: Any) -> str:
    p50, p99 = np.percentile(milliseconds, (50, 99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def measured(
    documents: Documents, count: int, seconds: float
) -> tuple[list[tuple[str, ...]], tuple[str, ...], list[str]]:
    """Rows of both tables, and lines about what is pulled, for so many subscriptions."""
    singles, many = int(300 * seconds), int(2_000 * seconds)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with service(directory) as server:
            subscribe(server, documents, count)
            sent = Sent(documents)
            send_all(Kept(server), sent.lines(server, WARM * LINES))
            caught_up(server)
            single = [one_at_a_time(server, sent, singles, f"{count:,} subscriptions")]
            print(single[0], flush=True)
            lines = as_lines(server, sent, many, f"{count:,}")
            print(lines, flush=True)
            said = [pulled(server, sent, rate, seconds) for rate in RATES]
            print(*said, sep="\n", flush=True)
            requests = sent.single(server, singles)
            accepted = {"accepted": 1, "known": 0, "first": 1_000, "last": 1_000, "ids": ["1000"]}
            answer = json.dumps(accepted, separators=(",", ":")).encode()
        single.append(http_alone(directory, requests, answer))
        bodies = [request.partition(b"\r\n\r\n")[2] for request in requests]
        single.append(stored_alone(directory, bodies))
        print(*single[1:], sep="\n", flush=True)
    return single, lines, [f"{count:,} subscriptions, {one}" for one in said]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--subscriptions", type=int, nargs="+", default=[100, 100_000])
    options.add_argument("--seconds", type=float, default=10)
    args = options.parse_args()
    sys.setswitchinterval(0.0003)  # the client's threads wait for each other no longer than that
    if args.quick:
        args.subscriptions, args.seconds = [100], 2.0
    documents = rss(int(args.seconds * (600 + 2_000 + 2 * sum(RATES))) + (WARM + 1) * LINES)
    found = [measured(documents, count, args.seconds) for count in args.subscriptions]
    parts = [
        table(HEAD, [row for single, _, _ in found for row in single]),
        table(LINES_HEAD, [lines for _, lines, _ in found]),
        "\n".join(f"- {line}" for _, _, said in found for line in said),
    ]
    finish("post", parts, args.quick)


if __name__ == "__main__":
    main()
