"""What one comes to the page for, each in at most twelve actions, on a real service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.delivery.support import Receiver
from tests.service.process import Process
from tests.waiting import PATIENCE, until
from tests.web.hand import MOST, Hand, tab_to, violations, wide
from tests.web.harness import address

pytestmark = pytest.mark.browser


def test_why_nothing_and_what_is_shared(hand: Hand, samples: Process) -> None:
    page = hand.page
    hand.link("Subscriptions")
    hand.link("New subscription")
    never = "SELECT t FROM S//item[./title->t] FOLLOWED BY {t = u, 1 day} S//item[./titel->u]"
    hand.fill(page.get_by_label("The query, in XSCL"), f"never: {never}")
    expect(page.locator(".box.none .count")).to_contain_text(re.compile(r"0 of \d+ documents pass"))
    expect(page.locator(".whole.none")).to_contain_text("0")
    hand.link("Subscriptions")
    hand.link("comes-up")
    expect(page.locator(".holder.absent .box")).to_contain_text("documents taken")
    expect(page.locator(".chain > .edge").last).to_contain_text("within 4 days")
    expect(page.locator(".waits")).to_contain_text("were blocked")
    hand.link("Subscriptions")
    hand.link("unpatched")
    expect(page.locator(".waits").first).to_contain_text(re.compile(r"until \d+ Oct 2026"))
    hand.link("Subscriptions")
    hand.link("What they share")
    expect(page.locator(".template").first).to_contain_text("followed by, 1 value equal")
    expect(page.locator(".paths li").first).to_contain_text("S")


def test_a_channel_is_made_tried_reset_and_removed(
    hand: Hand, samples: Process, tmp_path: Path
) -> None:
    page, file = hand.page, tmp_path / "matches.jsonl"
    hand.link("Deliveries")
    hand.click(page.get_by_text("New channel"))
    hand.choose(page.get_by_label("How"), "file")
    hand.fill(page.get_by_label("Name"), "desk")
    hand.fill(page.get_by_label("Subscription", exact=True), "discussed")
    hand.fill(page.get_by_label("File on the machine"), str(file))
    hand.button("Add channel")
    row = page.locator(".entry").filter(has_text="desk")
    expect(row).to_contain_text("0 delivered")
    hand.button("Reset desk")
    hand.click(page.get_by_role("dialog").get_by_role("button", name="Deliver again"))
    matches = len(samples.all_matches("discussed"))
    expect(row).to_contain_text(f"{matches} delivered")
    assert len(file.read_text().splitlines()) == matches > 5
    hand.button("Test desk")
    expect(page.locator(".note")).to_contain_text("desk: ")
    expect(page.get_by_label("In a feed reader").locator("code").first).to_contain_text(".atom?key")
    samples.client.delete("/v1/channels/desk").raise_for_status()
    expect(row).to_have_count(0)


def test_what_was_given_up_is_sent_again(page: Page, samples: Process) -> None:
    newest = samples.all_matches("comes-up")[-2:]
    given = page.get_by_label("Given up")
    rows = given.locator(".entry")
    with Receiver() as receiver:
        receiver.answer = lambda _: (500, {}, b"")
        hook = {"kind": "webhook", "subscription": "comes-up", "settings": {"url": receiver.url()}}
        samples.client.put("/v1/channels/hook", json=hook).raise_for_status()
        samples.client.post("/v1/channels/hook/reset", json={"after": newest[0]["n"] - 1})
        page.get_by_role("link", name="Deliveries").click()
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("500")
        receiver.answer = lambda _: (204, {}, b"")
        rows.first.get_by_role("button", name="Resend").click()
        expect(page.locator(".note")).to_contain_text("It will be tried again.")
        expect(rows).to_have_count(1)
        refused, taken = receiver.wait(5)[:4], receiver.requests[4]
        assert taken.id in {each.id for each in refused}
        given.get_by_role("button", name="Resend all").click()
        expect(page.locator(".note")).to_contain_text("will be tried again")
        expect(given).to_be_hidden()
        assert {taken.id, receiver.wait(6)[-1].id} == {each.id for each in refused}
        samples.client.delete("/v1/channels/hook").raise_for_status()


def test_operations(hand: Hand, samples: Process, tmp_path: Path) -> None:
    page = hand.page
    hand.link("Operations")
    expect(page.locator(".live.on")).to_contain_text("Well")
    charts = page.locator(".chart")
    expect(charts).to_have_count(7)
    expect(charts.filter(has_text="Memory").locator("b")).to_contain_text("MB")
    hand.button("Last day")
    expect(page.get_by_role("button", name="Last day")).to_have_attribute("aria-pressed", "true")
    hand.click(page.get_by_text("Show the settings"))
    expect(page.locator("tbody tr").filter(has_text="time.lateness")).to_contain_text("INFINITY")
    hand.fill(page.get_by_label("New directory"), str(tmp_path / "copy"))
    hand.button("Back up")
    expect(page.locator(".note")).to_contain_text("Backed up")
    assert (tmp_path / "copy" / "spool.sqlite").exists()
    hand.click(page.get_by_text("New token"))
    hand.fill(page.get_by_label("Name"), "desk")
    hand.fill(page.get_by_label("Subscriptions at most"), "5")
    hand.button("Add token")
    secret = page.get_by_label("The secret of desk").input_value()
    expect(page.get_by_label("Tokens and quotas").locator(".entry")).to_contain_text(
        "at most 5 subscriptions"
    )
    mine = {"Authorization": f"Bearer {secret}"}
    assert samples.client.get("/v1/identity", headers=mine).json()["name"] == "desk"
    expect(page.get_by_label("Changes")).to_contain_text("add token desk")
    hand.button("Revoke desk")
    hand.click(page.get_by_role("dialog").get_by_role("button", name="Revoke"))
    until(lambda: samples.client.get("/v1/identity", headers=mine).status_code == 401)


def test_the_keyboard_alone_adds_a_token(page: Page, samples: Process) -> None:
    page.get_by_role("link", name="Operations").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".live.on")).to_be_visible()
    summary = page.locator("summary", has_text="New token")
    tab_to(page, summary)
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("keys")
    page.keyboard.press("Enter")
    expect(page.get_by_label("The secret of keys")).to_be_focused()
    revoke = page.get_by_role("button", name="Revoke keys")
    revoke.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(revoke).to_be_focused()
    samples.client.delete("/v1/tokens/keys").raise_for_status()


def test_what_comes_from_elsewhere_is_text_on_every_screen(
    page: Page, samples: Process, tmp_path: Path
) -> None:
    evil = "<script>document.title='x'</script><img src=//evil.example/a onerror=alert(1)>\u202e"
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    outline = f"<outline text={quoteattr(evil)} xmlUrl='http://evil.invalid/'/>"
    opml = f"<opml><body>{outline}</body></opml>"
    samples.client.post("/v1/feeds/opml", json={"opml": opml}).raise_for_status()
    headers = {"Content-Type": "application/xml", "Document-Id": "evil"}
    kept = f"<a>{evil * 100}".encode()
    samples.client.post("/v1/streams/S/documents", content=kept, headers=headers)
    hook = {"kind": "webhook", "settings": {"url": "http://evil.invalid/<script>"}}
    samples.client.put("/v1/channels/evil", json=hook).raise_for_status()
    page.get_by_role("link", name="Feeds").click()
    feed = page.locator(".entry").filter(has_text="evil.invalid")
    expect(feed.locator("h2")).to_contain_text("<script>")
    letter = page.get_by_label("Kept aside").locator(".entry")
    letter.get_by_text("What came").click()
    expect(letter.locator("pre")).to_contain_text("<script>")
    assert not wide(page)
    page.get_by_role("link", name="Deliveries").click()
    expect(page.locator("h1")).to_have_text("Deliveries")
    expect(page.locator(".entry").filter(has_text="evil")).to_contain_text("<script>")
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_label("Changes")).to_contain_text("put channel evil")
    assert page.locator("script").count() == 1
    assert page.title() == "Operations · Broker"
    assert all(url.startswith(str(samples.client.base_url)) for url in asked)
    samples.client.delete("/v1/channels/evil").raise_for_status()
    samples.client.delete("/v1/dead-letters").raise_for_status()
    samples.client.delete("/v1/feeds", params={"url": "http://evil.invalid/"}).raise_for_status()


def test_from_nothing_to_a_first_match(browser: Browser, tmp_path: Path) -> None:
    with Process(tmp_path / "state") as service:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        expect.set_options(timeout=PATIENCE * 1_000)
        hand = Hand(page)
        hand.actions += 1  # `broker open`
        page.goto(address(service))
        expect(page.get_by_role("heading", name="Begin here")).to_be_visible()
        assert not violations(page)
        hand.button("Load the samples")
        expect(page.get_by_text("17 feeds, 132 documents read")).to_be_visible()
        hand.button("The same link in two feeds")
        expect(page.locator("pre.code .t-keyword").first).to_have_text("SELECT")
        expect(page.locator(".findings article.match")).to_be_visible()
        assert not wide(page)
        assert not violations(page)
        hand.button("Subscribe")
        expect(page.get_by_label("Subscription", exact=True)).to_have_value("same-link")
        expect(page.locator("article.match").first).to_be_visible()
        matches = service.client.get("/v1/matches", params={"subscription": "same-link"})
        assert json.loads(matches.text.splitlines()[0])["query"] == "same-link"
        assert hand.actions <= MOST
        with_the_keyboard(page)
        page.goto("about:blank")
        page.goto(str(service.client.base_url))
        expect(page).to_have_title(re.compile("^Matches"))
        page.close()


def with_the_keyboard(page: Page) -> None:
    """Subscribe to another ready question, without a mouse."""
    page.evaluate("location.hash = '/start'")
    question = page.get_by_role("button", name="The same title in two feeds")
    expect(question).to_be_visible()
    tab_to(page, question)
    page.keyboard.press("Enter")
    expect(page.locator(".findings article.match")).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Subscribe"))
    page.keyboard.press("Enter")
    expect(page.get_by_label("Subscription", exact=True)).to_have_value("same-title")
    expect(page.locator("article.match").first).to_be_visible()
