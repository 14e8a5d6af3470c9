"""A real browser on a real service: Chromium of the system, driven by Playwright.

Where there is no Chromium (`apt-get install -y chromium`), the tests of this folder are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect, sync_playwright

import feeds
from feeds.opml import read_opml
from feeds.sample_server import FeedServer
from tests.service.process import Process
from tests.waiting import PATIENCE, until

SAMPLES = Path(feeds.__file__).parent / "samples"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


SETTINGS = """
[time]
lateness = "INFINITY"
[feeds]
allow_private = true
[delivery]
allow_private = true
schedule = ["10 ms"]
"""
"""The samples span two weeks and are fetched in any order, so no document may be too late; and a
delivery is given up at its second failure."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a window."""
    assert CHROMIUM is not None
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def sampled(state: Path, queries: str | None = None) -> Iterator[Process]:
    """A service that has read all sample feeds, with the subscriptions of the demonstration."""
    state.parent.mkdir(parents=True, exist_ok=True)
    settings = state.with_name("samples.toml")
    settings.write_text(SETTINGS)
    text = (SAMPLES / "demo.xscl").read_text() if queries is None else queries
    with FeedServer(SAMPLES) as server, Process(state, "--config", settings) as service:
        service.subscribe(text)
        entries = read_opml((SAMPLES / "subscriptions.opml").read_bytes(), "file:///x.opml")
        for entry in entries:
            add_feed(service, server.url(Path(entry.url).name))
        until(lambda: all(each["last_success"] for each in watched(service)))
        until(lambda: service.status()["intake"]["backlog"] == 0)
        yield service


def add_feed(service: Process, url: str) -> None:
    body = {"url": url, "allow_private": True}
    service.client.post("/v1/feeds", json=body).raise_for_status()


def watched(service: Process) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.client.get("/v1/feeds").json()
    return found


def address(service: Process) -> str:
    """The address that `broker open` opens."""
    made = service.client.post("/v1/sign-in-codes").raise_for_status().json()
    return f"{service.client.base_url}".rstrip("/") + str(made["path"])


def sign_in(page: Page, service: Process) -> None:
    page.set_default_timeout(PATIENCE * 1_000)
    expect.set_options(timeout=PATIENCE * 1_000)
    page.goto(address(service))
    page.wait_for_selector("#main")


def session_cookie(page: Page) -> dict[str, Any]:
    (cookie,) = [each for each in page.context.cookies() if each["name"].startswith("broker-")]
    return dict(cookie)


def anonymous(service: Process) -> httpx.Client:
    return httpx.Client(base_url=service.client.base_url, timeout=PATIENCE, verify=False)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
