"""What does it cost to keep up with ten thousand feeds, and what does politeness save?

    python -m bench.polling [--feeds 10000] [--minutes 60] [--quick]

One process serves the feeds on the loopback interface (`publishers.py`: latency, sizes, faults and
items as on the web), another reads them with the fetcher, the poller and the spool as
`broker run --feeds` does. The clock of both runs `--speed` times as fast as the wall's, with it
latencies and time limits, and is put forward whenever the reader has nothing to do. What the reader
computes is not faster, so its lags are worse than they would be. Beside it the naive reader: every
feed in full every quarter of an hour, whatever happened before. One of its rounds is measured in
the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from bench import publishers
from feeds.fetch import Fetcher
from feeds.poll import Poller
from feeds.spool import Spool

INTERVAL = 900.0
CLOSED_PORT = 9


@dataclass
class Reading:
    """What the reader did; times in seconds, lags in seconds of the feeds' own clock."""

    wall: float = 0.0
    cpu: float = 0.0
    fetched: int = 0
    items: int = 0
    first_round: float = 0.0
    lags: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    active: int = 0
    spool_bytes: int = 0
    problems: Counter[str] = field(default_factory=Counter)


def address(feed: publishers.Publisher, port: int) -> str:
    port = CLOSED_PORT if feed.fault == "refused" else port
    return f"http://{feed.host}:{port}{feed.path()}"


def read(
    feeds: list[publishers.Publisher],
    port: int,
    now: publishers.Clock,
    seconds: float,
    connections: int,
) -> Reading:
    done, start = Reading(), now.start
    urls = [address(feed, port) for feed in feeds]
    began, cpu = time.monotonic(), time.process_time()
    with (
        tempfile.TemporaryDirectory() as directory,
        Spool(Path(directory) / "spool.sqlite") as spool,
        Fetcher(
            allow_private=True,
            connections=connections,
            now=now,
            timeout=10.0 / now.speed,
            max_seconds=30.0 / now.speed,
        ) as fetcher,
    ):
        poller = Poller(spool, fetcher, urls, interval=INTERVAL, now=now)
        seen = 0
        while now() < start + seconds:
            wave = poller.fetch_wave(patience=0.2)
            done.fetched += wave.fetched
            done.items += wave.rows
            done.problems.update(problem for _, problem in wave.problems)
            last = spool.last_seq()
            for row in spool.read(seen, last) if last > seen else ():
                if row.dated and row.timestamp / 1e6 > start:
                    done.lags.append(now() - row.timestamp / 1e6)
            seen = last
            spool.trim(seen)
            wait = poller.seconds_until_due()
            if wait is None:
                break
            if wait > 0:
                done.first_round = done.first_round or now() - start
                now.skip(min(wait, max(0.0, start + seconds - now())))
        states = spool.feeds()
        done.active = sum(state.status == "active" for state in states)
        done.spool_bytes = spool.path.stat().st_size
        done.behind = [
            now() - state.last_success / 1e6 for state in states if state.last_success is not None
        ]
    done.wall, done.cpu = time.monotonic() - began, time.process_time() - cpu
    return done


def naive_round(urls: list[str], connections: int, timeout: float) -> tuple[float, float, int]:
    """Fetch everything in full once: wall and CPU seconds, and failures."""
    began, cpu = time.monotonic(), time.process_time()
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:

        def one(url: str) -> bool:
            try:
                return client.get(url).status_code != 200
            except httpx.HTTPError:
                return True

        with ThreadPoolExecutor(connections) as pool:
            failures = sum(pool.map(one, urls))
    return time.monotonic() - began, time.process_time() - cpu, failures


def counted(port: Connection) -> tuple[Counter[str], int]:
    port.send("counts")
    counts, sent = port.recv()
    return Counter(counts), sent


def rss() -> float:
    """Megabytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def line(what: str, *values: object) -> None:
    print(f"{what:44}" + "".join(f"{value!s:>16}" for value in values))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--feeds", type=int, default=10_000)
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--connections", type=int, default=16)
    options.add_argument("--speed", type=float, default=6.0)
    options.add_argument("--quick", action="store_true", help="200 feeds for 40 minutes, at 20")
    given = options.parse_args()
    if given.quick:
        given.feeds, given.minutes, given.speed = 200, 40.0, 20.0
    os.nice(10)
    before = rss()
    seconds = given.minutes * 60
    feeds = publishers.publishers(given.feeds, time.time(), seconds + 3600)
    now = publishers.Clock(given.speed)
    ours, theirs = multiprocessing.Pipe()
    arguments = (feeds, now, theirs)
    server = multiprocessing.Process(target=publishers.run, args=arguments, daemon=True)
    server.start()
    port: int = ours.recv()

    done = read(feeds, port, now, seconds, given.connections)
    memory = rss()
    counts, sent = counted(ours)
    urls = [address(feed, port) for feed in feeds]
    wall, cpu, failures = naive_round(urls, given.connections, 10.0 / given.speed)
    all_sent = counted(ours)[1]
    server.terminate()
    server.join()
    report(given, done, counts, sent, memory - before, before)
    rounds = int(seconds // INTERVAL) + (seconds % INTERVAL > 0)
    asked, round_bytes = len(urls), all_sent - sent
    requests = done.fetched
    print()
    line("", "ours", "naive", "saved")
    line(
        "fetches", f"{requests:,}", f"{asked * rounds:,}", f"{1 - requests / (asked * rounds):.0%}"
    )
    line(
        "megabytes received",
        f"{sent / 1e6:,.0f}",
        f"{round_bytes * rounds / 1e6:,.0f}",
        f"{1 - sent / (round_bytes * rounds):.0%}",
    )
    failed = sum(done.problems.values())
    line(
        "fetches that failed",
        f"{failed:,}",
        f"{failures * rounds:,}",
        f"{1 - failed / max(1, failures * rounds):.0%}",
    )
    line(
        "CPU ms a fetch (ours with parsing, spool)",
        f"{1e3 * done.cpu / requests:.2f}",
        f"{1e3 * cpu / asked:.2f}",
    )
    print(f"\nnaive: one round took {wall:.0f} s, times {rounds}; it neither parses nor stores")


def report(
    given: argparse.Namespace,
    done: Reading,
    counts: Counter[str],
    sent: int,
    memory: float,
    before: float,
) -> None:
    print(
        f"{given.feeds:,} feeds, {given.minutes:g} minutes of their clock, "
        f"{given.connections} connections, "
        f"{given.speed:g} times as fast\n"
    )
    line("fetches", f"{done.fetched:,}")
    for status, number in sorted(counts.items()):
        line(f"  answered {status}", f"{number:,}")
    for problem, number in done.problems.most_common(12):
        line(f"  {problem[:42]}", f"{number:,}")
    fetches = max(1, done.fetched)
    line(
        "  of those with a document or 304, 304",
        f"{counts['304'] / max(1, counts['304'] + counts['200']):.0%}",
    )
    line("items stored", f"{done.items:,}")
    line("megabytes received", f"{sent / 1e6:,.1f}")
    line("first round, s", f"{done.first_round:.0f}")
    line("wall s, CPU s", f"{done.wall:.0f}", f"{done.cpu:.0f}")
    line("fetches a wall second", f"{fetches / done.wall:.0f}")
    line("fetches a CPU second", f"{fetches / done.cpu:.0f}")
    line("peak memory beyond the start's, MB", f"{memory:.0f}", f"(start {before:.0f})")
    line("spool file at the end, MB", f"{done.spool_bytes / 1e6:.0f}")
    line("feeds still asked at the end", f"{done.active:,}")
    for name, values in (("item", done.lags), ("feed", done.behind)):
        what = "lag of an item, min" if name == "item" else "since a feed's last success, min"
        if values:
            line(
                f"{what}: median, p90, max",
                f"{statistics.median(values) / 60:.1f}",
                f"{percentile(values, 0.9) / 60:.1f}",
                f"{max(values) / 60:.1f}",
            )
    line("items that came in that time and were read", f"{len(done.lags):,}")


if __name__ == "__main__":
    main()
