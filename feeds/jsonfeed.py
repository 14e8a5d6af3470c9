"""JSON Feed, versions 1.0 and 1.1, in the shape that feedparser gives to other dialects.

In: the text of a document that begins like JSON. Out: its dialect, feedparser-like dictionaries for
the feed and its items, and problems; or NoJsonFeed with a reason. What has the wrong type is left
out, numbers in the place of text are taken as text, and what is missing is missing: a feed is read
as far as it can be. See https://www.jsonfeed.org/version/1.1/ for what the members mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_VERSION = re.compile(r"https?://(?:www\.)?jsonfeed\.org/version/(1(?:\.\d+)?)/?")

MAX_ITEMS = 50_000


class NoJsonFeed(ValueError):
    """The text is no JSON Feed; the message says what it is."""


@dataclass(frozen=True, slots=True)
class JsonFeed:
    """`version` is "json10" or "json11"; `feed` and `entries` have feedparser's keys."""

    version: str
    feed: dict[str, Any]
    entries: tuple[dict[str, Any], ...]
    problems: tuple[str, ...] = ()


def looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def read_json_feed(text: str) -> JsonFeed:
    """Parse the text of a JSON Feed. Raises NoJsonFeed for other JSON, and for other text."""
    try:
        # Raw line ends within strings are a common slip, and say clearly what is meant.
        document = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise NoJsonFeed(f"not well-formed JSON: line {error.lineno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # nested too deep, a number of 5,000 digits
        raise NoJsonFeed(f"JSON that no feed holds: {error}") from None
    if not isinstance(document, dict):
        raise NoJsonFeed("JSON, but no feed")
    version = _VERSION.fullmatch(_text(document, "version").strip())
    items = document.get("items")
    if not isinstance(items, list):
        raise NoJsonFeed("JSON Feed without items" if version else "JSON, but no feed")
    if len(items) > MAX_ITEMS:
        raise NoJsonFeed(f"JSON that no feed holds: {len(items):,} items")
    problems = []
    if version is None:
        # A list of "items" alone is common among other documents.
        if not any(isinstance(item, dict) and _names_itself(item) for item in items):
            raise NoJsonFeed("JSON, but no feed")
        problems.append("JSON Feed: it does not name its version")
    objects = [item for item in items if isinstance(item, dict)]
    if len(objects) < len(items):
        problems.append(f"JSON Feed: {len(items) - len(objects)} items are no objects")
    return JsonFeed(
        "json11" if version and version[1] != "1" else "json10",
        _feed(document),
        tuple(_entry(item) for item in objects),
        tuple(problems),
    )


def _feed(document: dict[str, Any]) -> dict[str, Any]:
    links = [
        {"rel": rel, "href": _text(document, name)}
        for name, rel in (
            ("home_page_url", "alternate"),
            ("feed_url", "self"),
            ("next_url", "next"),
        )
    ]
    links += [
        {"rel": "hub", "href": _text(hub, "url")}
        for hub in _objects(document, "hubs")
        if _text(hub, "type").lower() == "websub"
    ]
    return {
        "title": _text(document, "title"),
        "link": _text(document, "home_page_url"),
        "authors": _authors(document),
        "links": [link for link in links if link["href"]],
    }


def _entry(item: dict[str, Any]) -> dict[str, Any]:
    contents = [
        {"value": text} for name in ("content_html", "content_text") if (text := _text(item, name))
    ]
    return {
        "id": _text(item, "id"),
        "link": _text(item, "url") or _text(item, "external_url"),
        "title": _text(item, "title"),
        "summary": _text(item, "summary"),
        "content": contents[:1],  # two forms of one text
        "published": _text(item, "date_published"),
        "updated": _text(item, "date_modified"),
        "authors": _authors(item),
        "tags": [{"term": tag} for tag in _texts(item.get("tags"))],
        "links": [
            {"rel": "enclosure", "href": _text(attachment, "url")}
            for attachment in _objects(item, "attachments")
        ],
    }


def _authors(source: dict[str, Any]) -> list[dict[str, str]]:
    """`authors` of version 1.1, else the one `author` of version 1.0."""
    people = _objects(source, "authors") or _objects({"author": [source.get("author")]}, "author")
    return [{"name": _text(person, "name") or _text(person, "url")} for person in people]


def _names_itself(item: dict[str, Any]) -> bool:
    return bool(_text(item, "id")) and any(
        _text(item, name) for name in ("url", "title", "content_html", "content_text")
    )


def _objects(source: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = source.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(source: dict[str, Any], name: str) -> str:
    return next(iter(_texts([source.get(name)])), "")


def _texts(values: object) -> Iterable[str]:
    for value in values if isinstance(values, list) else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)
