"""Thousands of subscriptions in the page: their list, a search, and what they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.service.process import Process
from tests.web.harness import sign_in
from tests.web.many import look_at_subscriptions, registered

pytestmark = pytest.mark.browser

COUNT = 3_000


def test_thousands_of_subscriptions_are_listed_found_and_drawn(
    browser: Browser, tmp_path: Path
) -> None:
    registered(tmp_path / "state", COUNT)
    with Process(tmp_path / "state") as service:
        page = browser.new_page()
        sign_in(page, service)
        look_at_subscriptions(page, COUNT)
        page.close()
