"""The screens of subscriptions, in a real browser: list, editor, picture, dry run, and their ways."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.service.process import Process
from tests.web.hand import WIDTHS, Hand, violations, wide

pytestmark = pytest.mark.browser


def test_a_query_is_written_checked_tried_and_saved(hand: Hand, samples: Process) -> None:
    page = hand.page
    hand.link("Subscriptions")
    hand.link("New subscription")
    editor = page.get_by_label("The query, in XSCL")
    hand.fill(editor, "mine: SELECT t FROM S//item[./title->t] FOLLOWED BY {t = v, 2 dais} S//item")
    expect(page.locator(".finding.error pre").first).to_contain_text("^")
    expect(page.locator(".wrong.error").first).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    hand.fill(
        editor,
        "mine: SELECT t FROM S//item[./item_url->l][./title->t]"
        " FOLLOWED BY {l = m, 3 days} Gannet//item[./item_url->m]",
    )
    expect(page.get_by_text("mine: will be added")).to_be_visible()
    expect(page.locator(".box")).to_have_count(2)
    expect(page.locator(".edge")).to_contain_text("within 3 days")
    hand.button("Dry run")
    expect(page.get_by_text(re.compile(r"\d+ match\w* among \d+ stored documents"))).to_be_visible()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert not wide(page)
    assert not violations(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    hand.button("Save")
    expect(page.locator("h1")).to_have_text("mine")
    assert samples.client.get("/v1/subscriptions/mine").json()["status"] == "active"
    hand.button("Pause")
    expect(page.locator(".badge")).to_have_text("paused")
    hand.button("Resume")
    expect(page.locator(".badge")).to_have_text("active")
    expect(page.locator(".graph .sentence")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)
    hand.button("Remove…")
    hand.click(page.get_by_role("button", name="Remove", exact=True))
    expect(page.locator("h1")).to_have_text("Subscriptions")
    assert samples.client.get("/v1/subscriptions/mine").status_code == 404


def test_completion_knows_keywords_and_what_was_seen(page: Page) -> None:
    page.evaluate("location.hash = '/subscriptions/new'")
    editor = page.get_by_label("The query, in XSCL")
    editor.fill("")
    editor.press_sequentially("SEL")
    expect(page.locator("#choices [role=option]").first).to_contain_text("SELECT")
    editor.press("Enter")
    expect(editor).to_have_value("SELECT ")
    editor.press_sequentially("x FROM S//item[./chan")
    expect(page.locator("#choices [role=option]").first).to_contain_text("channel_")


def test_the_list_and_each_of_the_samples_opens_as_it_is_stored(page: Page) -> None:
    page.get_by_role("link", name="Subscriptions").click()
    expect(page.locator(".entry")).to_have_count(10)
    page.get_by_role("link", name="same-byline").click()
    expect(page.get_by_text("same-byline: is as it is stored")).to_be_visible()
    expect(page.locator(".graph .sentence")).to_be_visible()
