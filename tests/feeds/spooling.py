"""Helpers to write to and read from a spool in tests."""

from __future__ import annotations

from feeds.adapter import parse_feed
from feeds.rows import DocumentRow
from feeds.spool import (
    Batch,
    FeedState,
    Spool,
)
from tests.feeds.data import rss

A, B = "http://a.example/f", "http://b.example/f"


def item(name: str, day: int | None = None, text: str = "") -> str:
    date = f"<pubDate>{day:02} Oct 2026 00:00:00 GMT</pubDate>" if day else ""
    return f"<guid isPermaLink='false'>{name}</guid><title>{name}</title>{date}<description>{text}</description>"


def batch(url: str, *items: str, arrival: int = 100, problem: str | None = None) -> Batch:
    body = rss(*items)
    channel = parse_feed(body, url, arrival=arrival)
    return Batch(FeedState(url, url, "News", problem=problem), arrival, channel, body)


def broken(url: str, body: bytes, arrival: int = 100) -> Batch:
    channel = parse_feed(body, url, arrival=arrival)
    state = FeedState(url, url, errors=1, problem=f"parse: {channel.error}")
    return Batch(state, arrival, channel, body)


def rows(spool: Spool) -> list[DocumentRow]:
    return list(spool.read(0, spool.last_seq()))


def posted(id: str, xml: bytes = b"<a/>") -> DocumentRow:
    return DocumentRow("post:S", id, ("S",), 7, True, None, False, xml, place=f"post:S/{id}")
