"""What the tests in a browser share: one Chromium, and one service with the sample feeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.service.process import Process
from tests.web.hand import MOST, Hand
from tests.web.harness import CHROMIUM, chromium, sampled, sign_in


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install -y chromium")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with sampled(tmp_path_factory.mktemp("samples") / "state") as service:
        yield service


@pytest.fixture
def page(browser: Browser, samples: Process) -> Iterator[Page]:
    """A page that is signed in, and has made no errors at the end."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on(
        "response",
        lambda reply: (
            errors.append(f"{reply.request.method} {reply.url} {reply.request.post_data}")
            if reply.status >= 400
            else None
        ),
    )
    sign_in(page, samples)
    yield page
    page.close()
    assert not errors


@pytest.fixture
def hand(page: Page) -> Iterator[Hand]:
    """Somebody at that page, who has done few things at the end."""
    hand = Hand(page)
    yield hand
    assert hand.actions <= MOST
