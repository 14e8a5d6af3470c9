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


def test_price_history_limit_and_throttle(page: Page, samples: Process) -> None:
    stored = "/v1/subscriptions/bounded"
    text = "SELECT t, l FROM S//item[./item_url->l][./title->t] FOLLOWED BY {l = m, 3 days}"
    text = f"bounded: {text} S//item[./item_url->m]"
    page.evaluate("location.hash = '/subscriptions/new'")
    page.get_by_label("The query, in XSCL").fill(text)
    expect(page.locator(".price")).to_contain_text(
        re.compile(r"candidates? a day from .* documents")
    )
    page.get_by_text("History, limit, throttle").click()
    page.get_by_label("Also deliver what it matches").check()
    page.get_by_label("At most so many matches").fill("1000")
    page.get_by_label("Tell of each value once").fill("t")
    page.get_by_label("in a period of").last.fill("2 h")
    page.get_by_role("button", name="Save").click()
    # Of what is stored it has matched already, each title once.
    expect(page.get_by_label("Subscription", exact=True)).to_have_value("bounded")
    expect(page.locator("article.match").first).to_be_visible()
    matches = samples.all_matches("bounded")
    titles = [match["values"]["t"][0] for match in matches]
    assert len(titles) == len(set(titles)) > 1
    found = samples.client.get(stored).json()
    assert found["limit"] == {"matches": 1_000, "period": "1 h"}
    assert (found["throttle"]["variable"], found["throttle"]["period"]) == ("t", "2 h")
    page.get_by_role("link", name="Subscriptions").click()
    page.get_by_role("link", name="bounded", exact=True).click()
    expect(page.locator(".about")).to_contain_text("At most 1,000 matches in 1 h")
    expect(page.locator(".about")).to_contain_text("Each value of t is told once in 2 h")
    # The same text with another limit: only that changes.
    page.get_by_label("At most so many matches").fill("50")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note")).to_contain_text("bounded stays as it is")
    assert samples.client.get(stored).json()["limit"]["matches"] == 50
    page.get_by_label("Tell of each value once").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".about")).not_to_contain_text("is told once")
    assert samples.client.get(stored).json()["throttle"] is None
    assert samples.all_matches("bounded") == matches
    # Another text begins anew.
    page.get_by_label("The query, in XSCL").fill(text.replace("3 days", "2 days"))
    expect(page.get_by_text("bounded: will replace the text that is there")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note")).to_contain_text("bounded is replaced")
    assert "2 days" in samples.client.get(stored).json()["text"]
    samples.client.delete(stored).raise_for_status()


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
