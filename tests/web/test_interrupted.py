"""What happens to people meanwhile: no network for a while, two tabs, the button back, a screen that
is loaded anew, and a service that is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Request, Route, expect

from tests.service.process import Process
from tests.web.harness import sign_in
from tests.web.screenshots import SCREENS
from tests.web.test_screens import TITLES

pytestmark = pytest.mark.browser


@pytest.fixture
def tabs(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def publish(service: Process, title: str) -> None:
    for kind in ("book", "blog"):
        service.publish(f"<{kind}><title>{title}</title></{kind}>", Document_Id=f"{kind} {title}")


def test_without_network_for_a_while_nothing_is_missed_or_doubled(
    tabs: BrowserContext, tmp_path: Path
) -> None:
    with Process(tmp_path / "state") as service:
        service.subscribe(
            "pair: SELECT t FROM S//book[./title->t] FOLLOWED BY {t = u} S//blog[./title->u]"
        )
        first, second = tabs.new_page(), tabs.new_page()
        sign_in(first, service)
        second.goto(str(service.client.base_url))  # signed in by the other tab
        for page in (first, second):
            expect(page.locator(".live.on")).to_be_visible()
        publish(service, "One")
        for page in (first, second):
            expect(page.locator("article.match h2")).to_have_text(["One"])
        tabs.set_offline(True)
        publish(service, "Two")
        publish(service, "Three")
        tabs.set_offline(False)
        for page in (first, second):
            expect(page.locator(".live.on")).to_be_visible()
            expect(page.locator("article.match h2")).to_have_text(["Three", "Two", "One"])
        first.get_by_role("button", name="Sign out").click()
        expect(first.get_by_text("You are signed out.")).to_be_visible()
        # The stream of the other tab ends with the session, and says so.
        expect(second.get_by_text("You are signed out: the session is over")).to_be_visible()


def test_every_screen_is_loaded_anew_and_left_by_the_button_back(
    tabs: BrowserContext, samples: Process
) -> None:
    page = tabs.new_page()
    sign_in(page, samples)
    before = "matches"
    for screen, place in SCREENS.items():
        page.evaluate("place => { location.hash = place }", place)
        title = TITLES.get(screen, screen.capitalize())
        expect(page.locator("main h1")).to_have_text(title)
        page.reload()
        expect(page.locator("main h1")).to_have_text(title)
        if screen != before:
            page.go_back()
            expect(page.locator("main h1")).to_have_text(TITLES.get(before, before.capitalize()))
            page.go_forward()
            expect(page.locator("main h1")).to_have_text(title)
        before = screen


def _named(request: Request) -> str:
    """The name of the query that is asked about; "" where nothing is."""
    found = re.search("(one|two): ", request.post_data or "")
    return found[1] if found else ""


def test_a_slow_service_is_waited_for_and_what_comes_too_late_is_dropped(
    tabs: BrowserContext, samples: Process
) -> None:
    page = tabs.new_page()
    sign_in(page, samples)
    held: list[Route] = []
    asked = re.compile("/v1/(feeds|why)$")
    page.route(asked, lambda route: held.append(route))
    with page.expect_request(asked):
        page.get_by_role("link", name="Feeds").click()
    page.get_by_role("link", name="Subscriptions").click()
    expect(page.locator(".entry").first).to_be_visible()
    with page.expect_response(asked):
        held.pop().continue_()
    expect(page.locator("main h1")).to_have_text("Subscriptions")
    page.unroute(asked)
    about: dict[str, Route] = {}

    def hold(route: Route) -> None:
        name = _named(route.request)
        if name in about or not name:
            route.continue_()
        else:
            about[name] = route

    page.route("**/v1/why", hold)
    page.evaluate("location.hash = '/subscriptions/new'")
    editor = page.get_by_label("The query, in XSCL")
    for name in ("one", "two"):
        editor.fill(f"{name}: SELECT t FROM S//item[./title->t]")
        while name not in about:
            page.wait_for_timeout(10)
        expect(page.locator("section[aria-busy]")).to_be_visible()
    one, two = about["one"], about["two"]
    two.continue_()
    expect(page.locator(".graph .sentence")).to_contain_text("two:")
    with page.expect_response("**/v1/why"):
        one.continue_()
    expect(page.locator(".graph .sentence")).to_contain_text("two:")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")
