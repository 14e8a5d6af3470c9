"""Screenshots of every screen, on a service with the sample feeds.

    python -m tests.web.screenshots DIRECTORY [--all] [SCREEN...]

By default those of `docs/web.md`; with `--all` in both themes and three widths, to look at.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect

from tests.service.process import Process
from tests.web.harness import chromium, sampled, sign_in

SCREENS = {
    "matches": "#/matches",
    "subscriptions": "#/subscriptions",
    "subscription": "#/subscriptions/discussed",
    "pattern": "#/subscriptions/comes-up",
    "feeds": "#/feeds",
    "deliveries": "#/deliveries",
    "operations": "#/operations",
    "sharing": "#/sharing",
    "start": "#/start",
}
WIDTHS = {"wide": (1440, 900), "middle": (820, 1100), "narrow": (390, 844)}
Theme = Literal["light", "dark"]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    everything = "--all" in sys.argv
    with (
        tempfile.TemporaryDirectory() as scratch,
        sampled(Path(scratch) / "state") as service,
        chromium() as browser,
    ):
        for theme in ("light", "dark"):
            for name, size in WIDTHS.items():
                if everything or (theme, name) == ("light", "wide"):
                    shoot(browser, service, folder, theme, name, size)


def shoot(
    browser: Browser,
    service: Process,
    folder: Path,
    theme: Theme,
    name: str,
    size: tuple[int, int],
) -> None:
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    page.goto(str(service.client.base_url))
    page.wait_for_selector("#code")
    if "--all" in sys.argv:
        page.screenshot(path=folder / f"sign-in-{theme}-{name}.png")
    sign_in(page, service)
    wanted = [each for each in sys.argv[2:] if each in SCREENS] or list(SCREENS)
    for screen, place in SCREENS.items():
        if screen not in wanted:
            continue
        page.evaluate("place => { location.hash = place }", place)
        if screen in ("subscription", "pattern"):
            expect(page.locator(".graph .sentence")).to_be_visible()
        settled(page)
        look = f"-{theme}-{name}" if "--all" in sys.argv else ""
        page.screenshot(path=folder / f"{screen}{look}.png")
    page.close()


def settled(page: Page) -> None:
    """All that the screen asks for has come."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.wait_for_timeout(400)


if __name__ == "__main__":
    main()
