"""A person at the page, and what one looks at: its width, and the rules of axe-core."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

WIDTHS = (1280, 820, 360)
MOST = 12


class Hand:
    """A person at a page, whose actions are counted: clicks, and fields that are filled in."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def click(self, what: Locator) -> None:
        self.actions += 1
        what.click()

    def fill(self, what: Locator, text: str) -> None:
        self.actions += 1
        what.fill(text)

    def choose(self, what: Locator, value: str) -> None:
        self.actions += 1
        what.select_option(value)

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name))

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name))


def tab_to(page: Page, what: Locator) -> None:
    """Press Tab until something has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if what.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {what}")


_FOUND = """options => axe.run(document, options).then(({ violations }) => violations.map(
    each => `${each.id}: ${each.nodes.slice(0, 3).map(node => node.target).join(", ")}`))"""


def violations(page: Page, *rules: str) -> list[str]:
    """What axe-core finds, by these rules or by all. Its script is half a megabyte, and what it
    says of what is right is more, so it comes once to a page, and only tells what is wrong."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(Axe().axe_script)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = [*rules]
    found: list[str] = page.evaluate(_FOUND, options)
    return found


def wide(page: Page) -> bool:
    """Whether the page is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
