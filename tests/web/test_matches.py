"""The screen of matches, in a real browser: live, filtered, unfolded, without end, and safe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.service.process import Process
from tests.waiting import until
from tests.web.hand import Hand, violations, wide
from tests.web.harness import address, sign_in

pytestmark = pytest.mark.browser

PAIR = "SELECT t, u FROM S//book[./title->t] FOLLOWED BY {t = u} S//blog[./title->u]"


def test_matches_of_the_samples(hand: Hand, samples: Process) -> None:
    page = hand.page
    cards = page.locator("article.match")
    newest = samples.all_matches("book-reviewed")[-1]
    hand.fill(page.get_by_label("Text"), newest["values"]["reviewer"][0])
    hand.fill(page.get_by_label("Subscription"), "book-reviewed")
    # The list is shown anew for what was written; what is unfolded before is folded again.
    page.wait_for_url(re.compile("text=.*subscription=book-reviewed"))
    card = cards.filter(has_text=newest["values"]["reviewer"][0]).first
    expect(card.locator(".item")).to_have_count(2)
    expect(card.locator(".item").first).to_contain_text("Tidewater Press New Books")
    expect(card.locator(".item").nth(1).locator("mark")).to_have_text(newest["values"]["book"][0])
    link = card.locator(".item .title a").first
    expect(link).to_have_attribute("href", newest["documents"][0]["link"])
    expect(link).to_have_attribute("rel", re.compile("noopener noreferrer"))
    hand.click(card.get_by_text("Why"))
    expect(card.locator(".nodes tbody tr")).to_have_count(len(newest["values"]))
    expect(card.locator("pre.code")).to_contain_text("FOLLOWED BY {title = tag, 10 days}")
    expect(card.locator(".t-keyword").first).to_have_text("SELECT")
    hand.click(card.get_by_text("XML"))
    expect(card.locator("pre.code").last).to_contain_text(
        f"<book>{newest['values']['book'][0]}</book>"
    )
    hand.fill(page.get_by_label("Feed"), "Nobody")
    expect(page.get_by_text("No match is like that.")).to_be_visible()
    hand.button("Show all matches")
    expect(page).to_have_url(re.compile("#/matches$"))
    expect(cards.first).to_be_visible()


def test_one_writes_on_while_the_list_is_shown_anew(page: Page, samples: Process) -> None:
    reviewer = samples.all_matches("book-reviewed")[-1]["values"]["reviewer"][0]
    first, rest = reviewer[:3], reviewer[3:]
    page.get_by_label("Text").click()
    page.keyboard.type(first)
    page.wait_for_url(f"**/*text={first}")
    expect(page.get_by_label("Text")).to_be_focused()
    page.keyboard.type(rest)
    page.wait_for_url(f"**/*text={quote_plus(reviewer)}")
    expect(page.get_by_label("Text")).to_have_value(reviewer)
    expect(page.locator("article.match").first).to_contain_text(reviewer)
    page.keyboard.press("Tab")
    expect(page.get_by_label("Subscription")).to_be_focused()


def test_the_chip_of_a_subscription_shows_its_matches_alone(page: Page) -> None:
    chip = page.locator("article.match .chip").first
    name = chip.inner_text()
    chip.click()
    expect(page.get_by_label("Subscription")).to_have_value(name)
    expect(page.locator("article.match").first).to_be_visible()
    assert set(page.locator("article.match .chip").all_inner_texts()) == {name}
    page.go_back()
    expect(page.get_by_label("Subscription")).to_have_value("")


def test_the_keyboard_alone_unfolds_a_match(page: Page) -> None:
    expect(page.locator("article.match").first).to_be_visible()
    page.get_by_label("Feed").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    expect(page.locator("article.match details[open]").first).to_be_visible()


@pytest.fixture
def own(browser: Browser, tmp_path: Path) -> Iterator[tuple[Page, Process]]:
    """A page on a service of its own."""
    with Process(tmp_path / "state") as service:
        service.subscribe(f"pair: {PAIR}")
        page = browser.new_page()
        sign_in(page, service)
        yield page, service
        page.close()


def publish(service: Process, title: str, more: str = "") -> None:
    service.publish(
        f"<book><title>{title}</title>{more}</book>", Document_Id=f"book of {len(title)}"
    )
    service.publish(
        f"<blog><title>{title}</title>{more}</blog>", Document_Id=f"blog of {len(title)}"
    )


def test_matches_come_in_while_one_looks_also_after_a_restart(
    own: tuple[Page, Process], tmp_path: Path
) -> None:
    page, service = own
    expect(page.get_by_text("No matches yet")).to_be_visible()
    expect(page.locator(".live.on")).to_be_visible()
    publish(service, "The Tide Clerk")
    expect(page.locator("article.match h2")).to_have_text(["The Tide Clerk"])
    expect(page.get_by_text("No matches yet")).to_have_count(0)
    port = service.client.base_url.port
    service.terminate()
    expect(page.locator(".live:not(.on)")).to_be_visible()
    with Process(tmp_path / "state", "--port", port) as again:
        expect(page.locator(".live.on")).to_be_visible()
        publish(again, "The Second Tide")
        expect(page.locator("article.match h2")).to_have_text(["The Second Tide", "The Tide Clerk"])


def test_what_documents_hold_is_text(own: tuple[Page, Process]) -> None:
    page, service = own
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    evil = "&lt;script&gt;document.title='x'&lt;/script&gt;&lt;img src=//evil.example/a onerror=alert(1)&gt;"
    publish(service, evil, "<link>javascript:alert(1)</link>")
    publish(service, "‮txt.exe‬ مرحبا", "<link>https://example.org/‮</link>")
    publish(service, "long " + "x" * 9_990_000)
    publish(service, "nodes", "<b>1</b>" * 10_000)
    cards = page.locator("article.match")
    expect(cards).to_have_count(4)
    expect(cards.nth(3).locator("h2")).to_contain_text("<script>")
    expect(cards.nth(2).locator(".title").first).to_have_attribute("dir", "auto")
    for card in cards.all():
        card.get_by_text("XML").click()
        card.get_by_text("Why").click()
        expect(card.locator("pre.code")).to_have_count(2)
    assert page.locator("script").count() == 1
    assert page.locator("main img").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert page.title() == "Matches · Broker"
    assert not wide(page)
    assert all(url.startswith(str(service.client.base_url)) for url in asked)


def test_very_many_matches_scroll_and_few_are_in_the_page(own: tuple[Page, Process]) -> None:
    page, service = own
    lines = "\n".join(
        f'{{"xml": "<{kind}><title>Title {n}</title></{kind}>", "id": "{kind} {n}"}}'
        for n in range(1_000)
        for kind in ("book", "blog")
    )
    service.client.post(
        "/v1/streams/S/documents",
        content=lines.encode(),
        headers={"Content-Type": "application/x-ndjson"},
    ).raise_for_status()
    until(lambda: service.status()["deliveries"]["matches"] == 1_000)
    page.reload()
    expect(page.locator("article.match").first).to_be_visible()
    end = page.get_by_text("These are all matches")

    def at_the_end() -> bool:
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        return end.count() > 0

    until(at_the_end)
    expect(page.get_by_text("These are all matches")).to_be_visible()
    expect(page.locator("article.match h2").last).to_have_text("Title 0")
    assert page.locator("article.match").count() < 400
    # While one reads further down, what is new waits, and nothing moves.
    publish(service, "News")
    expect(page.get_by_role("button", name="1 new match")).to_be_visible()
    page.get_by_role("button", name="1 new match").click()
    expect(page.locator("article.match h2").first).to_have_text("News")


def test_a_revoked_token_ends_what_is_open(browser: Browser, samples: Process) -> None:
    page = browser.new_page()
    wanted = {"name": "guest", "scopes": ["subscribe", "read:*"]}
    made = samples.client.post("/v1/tokens", json=wanted).raise_for_status().json()
    mine = {"Authorization": f"Bearer {made['secret']}"}
    code = samples.client.post("/v1/sign-in-codes", headers=mine).raise_for_status().json()
    page.goto(f"{samples.client.base_url}".rstrip("/") + code["path"])
    expect(page.locator("h1")).to_have_text("Begin here")  # without the matches of others
    expect(page.get_by_role("button", name="Load the samples")).to_have_count(0)
    expect(page.locator("nav li")).to_have_text(["Matches", "Subscriptions", "Deliveries"])
    expect(page.locator("nav")).to_contain_text("Signed in as guest")
    page.get_by_role("link", name="Matches").click()
    expect(page.locator(".live.on")).to_be_visible()
    page.evaluate("location.hash = '/operations'")
    expect(page.locator("h1")).to_have_text("Matches")
    expect(page.locator(".live.on")).to_be_visible()
    samples.client.delete("/v1/tokens/guest").raise_for_status()
    expect(page.get_by_role("alert")).to_contain_text("its token was revoked")
    page.close()


def test_codes_that_are_used_and_the_way_out(browser: Browser, samples: Process) -> None:
    page = browser.new_page()
    used = address(samples)
    page.goto(used)
    expect(page.locator("#main")).to_be_visible()
    assert "code" not in page.url
    assert not page.evaluate("document.cookie")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto("about:blank")
    page.goto(used)
    expect(page.get_by_role("alert")).to_contain_text("was used, or is too old")
    assert not violations(page)
    page.get_by_label("Code").fill(address(samples).rpartition("=")[2].lower())
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("article.match").first).to_be_visible()
    page.close()
