"""The fetcher is killed repeatedly in the middle of a fetch: no item comes twice, none is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from feeds.rows import DocumentRow, to_batch
from feeds.source import FeedSpool
from feeds.spool import last_seq, read_rows
from tests.command import Command, program
from tests.feeds.data import rss
from tests.feeds.odd_server import OddServer
from tests.waiting import PATIENCE, pause, until

PROGRAM = """
import sys
from feeds.fetch import Fetcher
from feeds.poll import Poller
from feeds.spool import Spool

path, *urls = sys.argv[1:]
with Spool(path) as spool, Fetcher(allow_private=True, connections=4) as fetcher:
    poller = Poller(spool, fetcher, urls, interval=0.05)
    print("ready", flush=True)
    while True:
        poller.fetch_wave(patience=0.1)
"""


class Publisher:
    """A feed that brings an item with every answer; the second half of the answer comes late."""

    def __init__(self) -> None:
        self.items = 3
        self.growing = True
        self.halfway = threading.Event()
        self.answers = 0

    def __call__(self, send: Callable[[bytes], object]) -> None:
        self.items += self.growing
        entries = (
            f"<guid isPermaLink='false'>{n}</guid><title>item {n}</title>"
            f"<pubDate>Mon, 05 Oct 2026 10:{n // 60:02}:{n % 60:02} GMT</pubDate>"
            for n in reversed(range(self.items))
        )
        body = rss(*entries)
        half = len(body) // 2
        send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        send(body[:half])
        self.halfway.set()
        pause(random.uniform(0.0, 0.1))
        send(body[half:])
        self.answers += 1


def run(path: Path, urls: list[str]) -> Command:
    process = program(PROGRAM, path, *urls, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: Command) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def stored(path: Path) -> list[DocumentRow]:
    return list(read_rows(path, 0, 10**9))


def test_killed_in_the_middle_of_a_fetch(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    publishers = [Publisher() for _ in range(6)]
    with ExitStack() as stack:
        urls = []
        for number, publisher in enumerate(publishers):
            # Two feeds on each of three hosts.
            server = OddServer({"/f": publisher}, f"127.0.0.{2 + number % 3}")
            urls.append(stack.enter_context(server).url("/f"))
        before: list[DocumentRow] = []
        for _ in range(6):
            process = run(path, urls)
            pause(random.uniform(0.0, 0.5))
            publisher = random.choice(publishers)
            publisher.halfway.clear()
            assert publisher.halfway.wait(PATIENCE)
            kill(process)
            # What was read before is there still, the same and in the same order.
            found = stored(path)
            assert found[: len(before)] == before
            before = found
        for publisher in publishers:
            publisher.growing = False
        wanted = sorted(
            (url, str(number))
            for url, publisher in zip(urls, publishers, strict=True)
            for number in range(publisher.items)
        )
        process = run(path, urls)
        until(lambda: last_seq(path) >= len(wanted))
        answered = [publisher.answers for publisher in publishers]
        # Whatever came twice would come now, with the last answer but one of each.
        until(
            lambda: all(
                publisher.answers >= before + 3
                for publisher, before in zip(publishers, answered, strict=True)
            )
        )
        kill(process)
    rows = stored(path)
    assert rows[: len(before)] == before
    assert sorted((row.source, row.id) for row in rows) == wanted
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert not any(row.revision or row.error for row in rows)
    for url in urls:
        own = [int(row.id) for row in rows if row.source == url]
        assert all(a < b for a, b in pairwise(own))
    # Spark reads the same, in whatever steps, and again after a crash of its own.
    reader = FeedSpool({"path": str(path), "rows_per_partition": "7"}).streamReader(None)
    for step in (10, len(rows)):
        batches = []
        for start in range(0, len(rows), step):
            end_seq = min(start + step, len(rows))
            for part in reader.partitions({"seq": start}, {"seq": end_seq}):
                batches += list(reader.read(part))
        assert [row for batch in batches for row in batch.to_pylist()] == to_batch(rows).to_pylist()
