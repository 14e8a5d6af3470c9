"""What does the page in a browser cost: the browser, and the service that it looks at?

    python -m bench.web [--quick]

A service with one subscription of pairs finds 100 matches a second, and Chromium shows them as they
come. Of the browser are told the first paint, the bytes that were sent, and the longest tasks of the
main thread, in CPU time (`tdur` of a trace). Of the service its CPU time with ten streams, opened as
the page opens them, against none, in alternating runs on one process. Then 60,000 subscriptions are
listed. It needs Chromium and Playwright.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from bench.measure import finish, parser, table
from broker.service.web import pages
from tests.service.process import Process
from tests.web.harness import chromium, sign_in

PAIR = "pair: SELECT t, u FROM S//book[./title->t] FOLLOWED BY {t = u, 1 h} S//blog[./title->u]"
RATE = 100
STREAMS = 10
KINDS = ("book", "blog")
WORDS = "words that nobody joins " * 10
EVERY, MOST = 1, 10
"""As `follow` of `api.js` asks."""


@contextmanager
def flowing(service: Process) -> Iterator[None]:
    """So many matches a second come in, ten times a second."""
    stop = threading.Event()

    def publish() -> None:
        turn, begin, run = 0, time.monotonic(), time.time_ns()
        with httpx.Client(base_url=service.client.base_url, headers=service.client.headers) as http:
            while not stop.wait(max(0.0, begin + turn / 10 - time.monotonic())):
                lines = "".join(
                    document(f"{run} {turn} {n}", kind) for n in range(RATE // 10) for kind in KINDS
                )
                http.post(
                    "/v1/streams/S/documents",
                    content=lines.encode(),
                    headers={"Content-Type": "application/x-ndjson"},
                ).raise_for_status()
                turn += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def document(name: str, kind: str) -> str:
    """A line of JSON: one of the two documents of a match."""
    link = f"<link>https://example.org/{name.replace(' ', '/')}</link>"
    xml = f"<{kind}><title>The tide of {name}</title>{link}<text>{WORDS}</text></{kind}>"
    return json.dumps({"xml": xml}) + "\n"


# -- the browser ---------------------------------------------------------------------------------


def first_paint(page: Page, times: int) -> tuple[float, float]:
    """Milliseconds until something is painted, and until the screen has its heading: medians of
    reloads of the page."""
    found, headed = [], []
    for _ in range(times):
        page.reload()
        page.wait_for_selector("h1")
        headed.append(float(page.evaluate("performance.now()")))
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        found.append(float(page.evaluate(script)))
    return median(found), median(headed)


@contextmanager
def traced(browser: Browser, page: Page, tasks: list[float]) -> Iterator[None]:
    """Adds the CPU milliseconds of the tasks of the page's main thread, the longest first."""
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    try:
        yield
    finally:
        events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
        threads = {
            (each["pid"], each["tid"])
            for each in events
            if each.get("name") == "thread_name" and each["args"]["name"] == "CrRendererMain"
        }
        tasks += sorted(
            (
                each["tdur"] / 1_000
                for each in events
                if each.get("ph") == "X"
                and (each["pid"], each["tid"]) in threads
                and each["name"].endswith("RunTask")
                and "tdur" in each
            ),
            reverse=True,
        )


# -- the service ---------------------------------------------------------------------------------


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of those that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def streaming(service: Process, count: int) -> Iterator[list[int]]:
    """So many streams are open; how many bytes each has had."""
    sizes = [0] * count
    stop = threading.Event()
    opened = threading.Barrier(count + 1)

    def read(number: int) -> None:
        params = {"every": EVERY, "most": MOST}
        headers = service.client.headers
        with (
            httpx.Client(base_url=service.client.base_url, headers=headers, timeout=60) as http,
            http.stream("GET", "/v1/matches/stream", params=params) as reply,
        ):
            opened.wait()
            for part in reply.iter_raw():
                sizes[number] += len(part)
                if stop.is_set():
                    return

    threads = [threading.Thread(target=read, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    opened.wait()
    try:
        yield sizes
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def spent(service: Process, streams: int, seconds: float) -> float:
    """CPU seconds of the service a match, with so many streams open."""
    pid = service.process.pid
    with streaming(service, streams) if streams else ExitStack() as sizes:
        time.sleep(min(1.5, seconds / 2))
        cpu, found = cpu_of(pid), service.status()["deliveries"]["taken"]
        time.sleep(seconds)
        cpu, found = cpu_of(pid) - cpu, service.status()["deliveries"]["taken"] - found
        assert not isinstance(sizes, list) or all(sizes)
    return cpu / float(found)


def listing(browser: Browser, page: Page, service: Process, count: int) -> list[list[str]]:
    """Rows about very many subscriptions: until they are listed, and the longest tasks."""
    texts = [f"S{n:05}: S//item[./title = 'Title {n}'][./author->a];\n" for n in range(count)]
    for first in range(0, count, 5_000):
        body = {"text": "".join(texts[first : first + 5_000])}
        service.client.post("/v1/subscriptions", json=body).raise_for_status()
    tasks: list[float] = []
    begin = time.monotonic()
    with traced(browser, page, tasks):
        page.evaluate("location.hash = '/subscriptions'")
        expect(page.locator(".entry")).to_have_count(50)
        shown = time.monotonic() - begin
        for turn in range(2, 7):
            page.get_by_role("button", name="Show more").click()
            expect(page.locator(".entry")).to_have_count(50 * turn)
    begin = time.monotonic()
    page.evaluate("location.hash = '/sharing'")
    expect(page.locator(".template").first).to_be_visible()
    shared = time.monotonic() - begin
    return [
        [f"{count:,} subscriptions: until the first fifty are there, ms", f"{shown * 1e3:.0f}"],
        ["until what they share is there, ms", f"{shared * 1e3:.0f}"],
        ["longest task while 300 are shown, ms of CPU", f"{tasks[0]:.0f}"],
    ]


def main() -> None:
    quick = parser(__doc__).parse_args().quick
    runs, seconds, looking = (2, 2.0, 3.0) if quick else (10, 6.0, 20.0)
    size = sum(len(file.zipped) for name in pages.names() if (file := pages.file(name)))
    rows = [["all files of the page, KB compressed", f"{size / 1_000:.0f}"]]
    tasks: list[float] = []
    ratios, costs = [], []
    with tempfile.TemporaryDirectory() as scratch, Process(Path(scratch) / "state") as service:
        service.subscribe(PAIR)
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            sign_in(page, service)
            painted, headed = first_paint(page, 3 if quick else 9)
            rows.append(["first paint on loopback, ms (median)", f"{painted:.0f}"])
            rows.append(["until the screen has its heading, ms (median)", f"{headed:.0f}"])
            with flowing(service):
                page.wait_for_selector("article.match")
                with traced(browser, page, tasks):
                    time.sleep(looking)
            page.close()
        rows.append([f"longest task at {RATE} matches a second, ms of CPU", f"{tasks[0]:.0f}"])
        rows.append(["tasks of more than 20 ms of CPU", f"{sum(each > 20 for each in tasks)}"])
        with flowing(service):
            for run in range(runs):
                both = {}
                for streams in (0, STREAMS) if run % 2 else (STREAMS, 0):
                    both[streams] = spent(service, streams, seconds)
                ratios.append(both[STREAMS] / both[0])
                costs.append(both[0])
                print(f"{both[0] * 1e3:.2f} ms a match, {ratios[-1]:.3f} times", file=sys.stderr)
        rows.append(
            ["the service without streams, ms of CPU a match", f"{median(costs) * 1e3:.2f}"]
        )
        rows.append([f"with {STREAMS} streams, times that (median)", f"{median(ratios):.3f}"])
    with (
        tempfile.TemporaryDirectory() as scratch,
        Process(Path(scratch) / "state") as service,
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        sign_in(page, service)
        rows += listing(browser, page, service, 2_000 if quick else 60_000)
    finish("web", [table(["", ""], rows)], quick)


if __name__ == "__main__":
    main()
