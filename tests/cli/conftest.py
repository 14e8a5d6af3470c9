"""One service for the tests that need nothing special of it: each has streams and names of its
own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.feeding import NEWS, SAME, Broker
from tests.cli.serving import Serving, serving
from tests.feeds.site import Page, Site


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("service") / "state") as running:
        yield running


@pytest.fixture
def site() -> Iterator[Site]:
    pages: dict[str, Page | bytes] = {
        "/news.rss": NEWS,
        "/news.atom": SAME,
        "/broken.rss": NEWS.replace(b"</channel>", b""),
        "/": b'<html><link rel="alternate" type="application/rss+xml" href="/news.rss">'
        b'<link rel="alternate" type="application/atom+xml" href="/news.atom"></html>',
        "/empty": b"<html></html>",
        "/login": Page(b"", 401),
    }
    with Site(pages) as site:
        yield site


@pytest.fixture
def mine(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "state")
