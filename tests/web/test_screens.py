"""Every screen in both themes and at every width: axe-core finds nothing, and nothing is cut off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.service.process import Process
from tests.web.hand import WIDTHS, violations, wide
from tests.web.screenshots import SCREENS

pytestmark = pytest.mark.browser

TITLES = {
    "subscription": "discussed",
    "pattern": "comes-up",
    "sharing": "What subscriptions share",
    "start": "Begin here",
}
CUT = """() => [...document.querySelectorAll("nav li a, button, .button, h1, h2")]
    .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""


def test_anybody_can_use_every_screen(page: Page, samples: Process) -> None:
    for screen, place in SCREENS.items():
        page.evaluate("place => { location.hash = place }", place)
        expect(page.locator("main h1")).to_have_text(TITLES.get(screen, screen.capitalize()))
        expect(page.locator("[aria-busy]")).to_have_count(0)
        if screen == "matches":
            page.locator("article.match").first.get_by_text("Why").click()
            expect(page.locator(".nodes").first).to_be_visible()
        if screen in ("subscription", "pattern"):
            expect(page.locator(".graph .sentence")).to_be_visible()
        page.emulate_media(color_scheme="light")
        assert not violations(page), screen
        page.emulate_media(color_scheme="dark")  # only colours differ
        assert not violations(page, "color-contrast"), screen
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert not wide(page), (screen, width)
            assert not page.evaluate(CUT), (screen, width)
