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


@pytest.fixture(scope="package")
def tab(browser: Browser, samples: Process) -> Iterator[tuple[Page, list[str]]]:
    """A page that is signed in, and the errors that it makes. Most tests look at the same one: a
    new one has a process of its own, and reads and compiles all anew."""
    page = browser.new_page()
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
    yield page, errors
    page.close()


@pytest.fixture
def page(tab: tuple[Page, list[str]], samples: Process) -> Iterator[Page]:
    """That page, which has just been opened, and has made no errors at the end."""
    page, errors = tab
    page.goto("about:blank")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")
    errors.clear()
    page.goto(str(samples.client.base_url))
    page.wait_for_selector("#main")
    yield page
    assert not errors


@pytest.fixture
def hand(page: Page) -> Iterator[Hand]:
    """Somebody at that page, who has done few things at the end."""
    hand = Hand(page)
    yield hand
    assert hand.actions <= MOST
