"""A person at the page, and what one looks at: its width, and the rules of axe-core."""

from __future__ import annotations

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


def violations(page: Page, *rules: str) -> list[str]:
    """What axe-core finds, by these rules or by all."""
    options = {"runOnly": [*rules]} if rules else None
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]}" for each in found]


def wide(page: Page) -> bool:
    """Whether the page is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
