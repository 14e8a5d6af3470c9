"""Very many subscriptions and matches, as one looks at them: in the tests some thousands, in
`python -m tests --long web` as many as the page is made for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from broker import Broker
from tests.service.process import Process
from tests.waiting import until

_SHARED = 100
"""Subscriptions that have the same matches."""


def registered(state: Path, count: int) -> None:
    """A state with so many subscriptions: s00000 and so on, each of another topic."""
    text = "\n".join(
        f"s{n:05d}: S//item[./title->t][./kind = 'kind {n}']"
        f" FOLLOWED BY {{t = u, {1 + n % 9} days}} S//item[./topic{n % 500}->u];"
        for n in range(count)
    )
    broker = Broker(state)
    try:
        broker.subscribe(text)
    finally:
        broker.close()


def nodes(page: Page) -> int:
    """Elements in the page."""
    return int(page.evaluate("document.querySelectorAll('*').length"))


def look_at_subscriptions(page: Page, count: int) -> None:
    """The list, a search in it, and what all of them share, of subscriptions as above."""
    last = f"s{count - 1:05d}"
    page.get_by_role("link", name="Subscriptions", exact=True).click()
    expect(page.locator(".entry")).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".entry")).to_have_count(100)
    page.get_by_label("Begins with").fill(last)
    expect(page.locator(".entry h2 a")).to_have_text([last])
    expect(page.locator(".spark svg")).to_have_count(1)
    page.get_by_role("link", name="What they share").click()
    expect(page.locator(".facts")).to_contain_text(f"{count:,}, 0 of them event patterns")
    expect(page.locator(".template").first).to_contain_text("followed by, 1 value equal")
    expect(page.locator(".template .count").first).to_contain_text("subscriptions")
    expect(page.locator(".paths li code").first).to_have_text("S")
    assert 10 < page.locator(".paths li").count() <= 150
    assert nodes(page) < 3_000
    page.go_back()
    expect(page.locator(".entry h2 a")).to_have_text([last])
    page.locator(".entry h2 a").click()
    expect(page.locator("h1")).to_have_text(last)
    expect(page.get_by_text(f"{last}: is as it is stored")).to_be_visible()


def publish_pairs(service: Process, pairs: int) -> int:
    """Publish so many pairs of documents; how many matches they make."""
    query = "SELECT t FROM S//book[./title->t] FOLLOWED BY {t = u} S//blog[./title->u]"
    service.subscribe(";\n".join(f"p{n:03d}: {query}" for n in range(_SHARED)))
    for first in range(0, pairs, 500):
        lines = "\n".join(
            f'{{"xml": "<{kind}><title>Title {n}</title></{kind}>", "id": "{kind} {n}"}}'
            for n in range(first, min(first + 500, pairs))
            for kind in ("book", "blog")
        )
        service.client.post(
            "/v1/streams/S/documents",
            content=lines.encode(),
            headers={"Content-Type": "application/x-ndjson"},
        ).raise_for_status()
    until(lambda: service.status()["deliveries"]["matches"] == pairs * _SHARED)
    return pairs * _SHARED


@dataclass(frozen=True, slots=True)
class Scrolled:
    """What scrolling through all matches took: most elements at once, the longest task of the
    page's thread in milliseconds, and its memory in the end in bytes."""

    nodes: int
    task: float
    memory: int


_SCROLL = """async () => {
    let longest = 0, most = 0;
    new PerformanceObserver((list) => {
        for (const each of list.getEntries()) longest = Math.max(longest, each.duration);
    }).observe({ entryTypes: ["longtask"] });
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    while (!document.querySelector(".end p")) {
        window.scrollTo(0, document.documentElement.scrollHeight);
        await frame();
        most = Math.max(most, document.getElementsByTagName("*").length);
    }
    return [most, longest, performance.memory?.usedJSHeapSize || 0];
}"""


def scroll_to_the_end(page: Page) -> Scrolled:
    """Scroll down until there are no older matches."""
    expect(page.locator("article.match").first).to_be_visible()
    most, longest, memory = page.evaluate(_SCROLL)
    expect(page.locator(".end")).to_contain_text(re.compile("These are all matches"))
    return Scrolled(int(most), float(longest), int(memory))
