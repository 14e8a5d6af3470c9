"""The screen of feeds, in a real browser: finding and adding, lists in and out, what was kept aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from broker.service.feeds import SAMPLES
from feeds.sample_server import FeedServer
from tests.service.process import Process
from tests.waiting import until
from tests.web.hand import WIDTHS, Hand, violations, wide
from tests.web.harness import watched

pytestmark = pytest.mark.browser


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FeedServer]:
    feed = (SAMPLES / "gannet.rss").read_text().replace("<title>Gannet<", "<title>Puffin<")
    (tmp_path / "puffin.rss").write_text(feed)
    link = '<link rel="alternate" type="application/rss+xml" href="puffin.rss">'
    (tmp_path / "index.html").write_text(f"<html><head>{link}</head></html>")
    with FeedServer(tmp_path) as server:
        yield server


def test_a_feed_is_found_added_paused_and_removed(
    hand: Hand, samples: Process, site: FeedServer, tmp_path: Path
) -> None:
    page = hand.page
    hand.link("Feeds")
    expect(page.locator(".entry")).to_have_count(17)
    hand.fill(page.get_by_label("Address of a site"), site.url("index.html"))
    hand.click(page.get_by_label("it is on this machine"))
    hand.button("Find feeds")
    hand.button("Add Puffin")
    expect(page.locator(".candidate .good")).to_have_text("added")
    hand.fill(page.get_by_label("Title or address"), "puffin")
    row = page.locator(".entry")
    expect(row).to_have_count(1)
    expect(row.locator(".badge")).to_have_text("ok")
    expect(row).to_contain_text("items a day")
    (tmp_path / "puffin.rss").unlink()
    hand.click(row.get_by_role("button", name="Refresh"))
    expect(row.locator(".badge")).to_have_text("failing")
    expect(row.locator(".bad")).to_contain_text("404")
    assert not violations(page)
    hand.click(row.get_by_role("button", name="Pause"))
    expect(row.locator(".badge")).to_have_text("paused")
    hand.click(row.get_by_role("button", name="Remove"))
    hand.click(page.get_by_role("dialog").get_by_role("button", name="Remove"))
    expect(page.get_by_text("No feed is like that")).to_be_visible()
    assert len(watched(samples)) == 17


def test_lists_go_in_by_drag_and_drop_and_out(page: Page, samples: Process) -> None:
    page.get_by_role("link", name="Feeds").click()
    expect(page.locator(".entry").first).to_be_visible()
    opml = '<opml><body><outline text="Lost" xmlUrl="http://lost.invalid/feed"/></body></opml>'
    carried = page.evaluate_handle(
        """text => { const carried = new DataTransfer();
        carried.items.add(new File([text], "mine.opml")); return carried; }""",
        opml,
    )
    page.dispatch_event("#main", "drop", {"dataTransfer": carried})
    expect(page.locator(".note")).to_contain_text("1 feed in mine.opml, 1 new")
    row = page.locator(".entry").filter(has_text="lost.invalid")
    expect(row.locator("h2")).to_contain_text("Lost")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export OPML").click()
    assert download.value.suggested_filename == "feeds.opml"
    assert 'xmlUrl="http://lost.invalid/feed"' in Path(download.value.path()).read_text()
    samples.client.delete("/v1/feeds", params={"url": "http://lost.invalid/feed"})
    expect(row).to_have_count(0)


def test_what_was_kept_aside_is_shown_resent_and_forgotten(page: Page, samples: Process) -> None:
    headers = {"Content-Type": "application/xml", "Document-Id": "broken"}
    samples.client.post("/v1/streams/S/documents", content=b"<a><b></a>", headers=headers)
    until(lambda: samples.client.get("/v1/dead-letters").json())
    page.get_by_role("link", name="Feeds").click()
    kept = page.get_by_label("Kept aside").locator(".entry")
    expect(kept).to_contain_text("broken")
    kept.get_by_text("What came").click()
    expect(kept.locator("pre")).to_contain_text("<b>")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert not wide(page)
    assert not violations(page)
    number = samples.client.get("/v1/dead-letters").json()[0]["number"]
    kept.get_by_role("button", name="Resend").click()
    expect(page.locator(".note")).to_contain_text("published again")
    until(lambda: [each["number"] for each in letters(samples)] not in ([], [number]))
    expect(kept).to_have_count(1)
    kept.get_by_role("button", name="Forget").click()
    expect(kept).to_have_count(0)
    assert letters(samples) == []


def letters(service: Process) -> list[dict[str, int]]:
    found: list[dict[str, int]] = service.client.get("/v1/dead-letters").json()
    return found
