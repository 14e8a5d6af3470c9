"""Compares our items with those of another parser for the same feeds, field by field.

The folder `feeds_rbren` holds feeds and what a widely used parser for JavaScript gives for them.
Each difference is named by the first of `REASONS` that explains it.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urljoin

from feeds.adapter import parse_feed
from feeds.item import Item, one_line
from tests.feeds.data import DATA

FOLDER = DATA / "feeds_rbren" / "test"
FIELDS = ("title", "link", "date", "author", "categories")
BASE = "http://feeds.example/"

Value = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """One field of one item: what they say, what we say, their item, and the feed's text."""

    feed: str
    field: str
    theirs: Value
    ours: Value
    entry: dict[str, Any]
    text: str


def _plain(text: str) -> str:
    return one_line(html.unescape(re.sub(r"</?[A-Za-z][^<>]*>", "", html.unescape(text))))


def _lines(values: Value) -> Value:
    return tuple(filter(None, map(one_line, values)))


def _origlinks(text: str) -> set[str]:
    found = re.findall(r"<feedburner:origLink>([^<]*)<", text)
    return {html.unescape(link) for link in found}


def _their_itunes(pair: Pair, name: str) -> str:
    value = pair.entry.get("itunes", {}).get(name, "")
    return one_line(value) if isinstance(value, str) else ""


@lru_cache(maxsize=16)
def _has(feed: str, beginning: str) -> bool:
    """Whether a tag with this beginning is in the text of a feed, which is asked for each item."""
    return beginning in feed


REASONS: dict[str, dict[str, Callable[[Pair], bool]]] = {
    "title": {
        "runs of blanks are one blank": lambda p: _lines(p.theirs) == p.ours,
        "they read the wrong encoding": lambda p: any("\ufffd" in text for text in p.theirs),
        "HTML is made plain text": lambda p: tuple(map(_plain, p.theirs)) == p.ours,
    },
    "link": {
        "blanks around it": lambda p: _lines(p.theirs) == p.ours,
        "made absolute": lambda p: tuple(urljoin(BASE, url) for url in p.theirs) == p.ours,
        "the original link, where FeedBurner gives it": lambda p: p.ours[0] in _origlinks(p.text),
    },
    "date": {},
    "author": {
        "blanks around it": lambda p: _lines(p.theirs) == p.ours,
        "they read the wrong encoding": lambda p: any("\ufffd" in text for text in p.theirs),
        "itunes:author is an author too": lambda p: _their_itunes(p, "author") in p.ours,
        "of several authors they keep one": lambda p: (
            set(p.theirs) < set(p.ours) and bool(p.theirs)
        ),
        "Atom: the feed's author is that of its entries": lambda p: (
            not p.theirs and _has(p.text, "<feed")
        ),
    },
    "categories": {
        "runs of blanks are one blank": lambda p: _lines(p.theirs) == p.ours,
        "repetitions left out": lambda p: tuple(dict.fromkeys(_lines(p.theirs))) == p.ours,
        "they read the wrong encoding": lambda p: any("\ufffd" in text for text in p.theirs),
        "they do not read those of Atom": lambda p: not p.theirs and _has(p.text, "<feed"),
        "dc:subject is a category": lambda p: not p.theirs and _has(p.text, "<dc:subject"),
        "itunes:keywords are categories": lambda p: (
            set(_lines(p.theirs)) < set(p.ours) and _has(p.text, "<itunes:keywords")
        ),
    },
}


def _text_of(value: Any) -> str:
    """Their values are texts, or elements with attributes."""
    if isinstance(value, dict):
        return str(value.get("_") or value.get("$", {}).get("term", ""))
    return str(value)


def _theirs(entry: dict[str, Any], field: str) -> Value:
    if field == "date":
        text = entry.get("isoDate")
        return (str(int(datetime.fromisoformat(text).timestamp())),) if text else ()
    if field == "author":
        return _filled(entry.get("creator") or entry.get("author") or "")
    if field == "categories":
        return tuple(map(_text_of, entry.get("categories") or ()))
    return _filled(_text_of(entry.get(field) or ""))


def _filled(text: str) -> Value:
    return (text,) if text else ()


def _ours(item: Item, field: str) -> Value:
    match field:
        case "date":
            return (str(item.timestamp // 1_000_000),) if item.dated else ()
        case "author":
            return item.authors
        case "categories":
            return item.categories
        case "link":
            return _filled(item.item_url)
        case _:
            return _filled(item.title)


def feeds() -> Iterator[tuple[str, list[dict[str, Any]], tuple[Item, ...], str]]:
    """Each feed with a counterpart: its name, their items, ours, and its text."""
    sources = {path.stem: path for path in (FOLDER / "input").iterdir()}
    for path in sorted((FOLDER / "output").glob("*.json")):
        body = sources[path.stem].read_bytes()
        document = json.loads(_decoded(path.read_bytes()))
        entries = document.get("feed", document)["items"]
        items = parse_feed(body, BASE, arrival=0).items
        yield path.stem, entries, items, _decoded(body)


def pairs() -> Iterator[Pair]:
    for name, entries, items, text in feeds():
        for entry, item in zip(entries, items, strict=False):
            for field in FIELDS:
                yield Pair(name, field, _theirs(entry, field), _ours(item, field), entry, text)


def judge(pair: Pair) -> str:
    """ "agrees", the reason of a difference, or "" for one that nothing explains."""
    if pair.theirs == pair.ours:
        return "agrees"
    reasons = REASONS[pair.field]
    return next((reason for reason, holds in reasons.items() if holds(pair)), "")


@cache
def report() -> tuple[list[str], list[Pair]]:
    """The lines of the report, and the differences that nothing explains."""
    counts: Counter[tuple[str, str]] = Counter()
    unexplained = []
    for pair in pairs():
        reason = judge(pair)
        counts[pair.field, reason] += 1
        if not reason:
            unexplained.append(pair)
    lines = []
    for field in FIELDS:
        total = sum(count for (name, _), count in counts.items() if name == field)
        lines.append(f"{field:12}{counts[field, 'agrees']:6} of {total} agree")
        lines += [
            f"{counts[field, reason]:18}  {reason}"
            for reason in REASONS[field]
            if counts[field, reason]
        ]
    missing = [
        f"{name}: they have {len(entries)} items, we {len(items)}"
        for name, entries, items, _ in feeds()
        if len(entries) != len(items)
    ]
    return lines + missing, unexplained


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("latin-1")
