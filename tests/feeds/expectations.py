"""feedparser's own tests, applied to the parser with our settings and to our items.

Each of its small feeds says in a comment what is to come out, as an expression over its result.
"""

from __future__ import annotations

import ast
import io
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import feedparser
from feedparser.util import FeedParserDict

from feeds.adapter import parse_feed
from feeds.item import Item
from feeds.parser import parse_document
from tests.feeds.data import DATA

FOLDER = DATA / "feedparser_tests" / "tests"
EXPLAINED = {
    "atom10_id.xml": "two entries of one id are one item",
    "bozo_bogus_encoding.xml": "an unknown encoding matters not where the text is UTF-8",
    "bozo_http_text_plain.xml": "a wrong Content-Type matters not where the text is a feed",
    "doctype_contains_entity_decl.xml": "we report a parameter entity that is not read",
    "entry_author_map_author.xml": "an author has a name, and the address only where there is none",
    "rss_version_091_netscape.xml": "both kinds of RSS 0.91 are one dialect",
}
AS_SENT = {"sanitize_html": False, "resolve_relative_uris": False}

_EXPECT = re.compile(r"Expect:\s*(.+?)\s*-->", re.DOTALL)
_HEADER = re.compile(r"^\s*Header:\s*([^:]+):(.+)$", re.MULTILINE)
_ENCODINGS = ("utf-8-sig", "utf-32", "utf-16", "utf-32-be", "utf-32-le", "utf-16-be", "utf-16-le", "cp037")  # fmt: skip
_KEPT = {
    *("title", "link", "id", "guid", "author", "authors", "tags", "category", "name", "term"),
    *("published_parsed", "updated_parsed", "created_parsed", "enclosures", "href", "value"),
    *("summary", "description", "content"),
}


@dataclass(frozen=True)
class Case:
    path: Path
    body: bytes
    expression: str
    headers: Mapping[str, str]


@cache
def cases() -> tuple[Case, ...]:
    found = []
    for path in sorted(FOLDER.rglob("*.xml")):
        body = path.read_bytes()
        text = next(filter(_EXPECT.search, (body.decode(e, "replace") for e in _ENCODINGS)))
        expect = _EXPECT.search(text)
        assert expect is not None
        headers = {name.strip().lower(): value.strip() for name, value in _HEADER.findall(text)}
        found.append(Case(path, body, expect[1], headers))
    return tuple(found)


def holds(expression: str, **names: Any) -> bool:
    try:
        return bool(eval(expression, {"feedparser": feedparser, **names}))
    except (LookupError, AttributeError, TypeError, NameError):
        return False


def of_feedparser(case: Case, **options: bool) -> bool:
    """Whether the installed feedparser fulfils the expectation."""
    found = feedparser.parse(io.BytesIO(case.body), response_headers=dict(case.headers), **options)
    return holds(case.expression, **{"bozo": False, **found})


def of_our_parser(case: Case) -> bool:
    found = parse_document(case.body, case.headers.get("content-type", ""))
    return holds(
        case.expression,
        bozo=bool(found.problems or found.error),
        feed=found.feed or FeedParserDict(),
        entries=list(found.entries),
        version=found.version,
        headers=case.headers,
    )


def about_items(case: Case) -> bool:
    """Whether an expectation asks of entries, and of nothing that an item has no place for."""
    keys = set()
    of_entries = False
    for node in ast.walk(ast.parse(case.expression, mode="eval")):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            of_entries |= isinstance(node.value, ast.Name) and node.value.id == "entries"
            keys.add(node.slice.value)
        elif isinstance(node, ast.Attribute):
            keys.add(node.attr)
        elif isinstance(node, ast.Name):
            keys.add(node.id)
        elif isinstance(node, ast.Dict):
            return False
    names = {key for key in keys if isinstance(key, str)}
    return of_entries and names <= _KEPT | {"entries", "bozo", "len"}


def of_our_items(case: Case) -> bool:
    """The same, with our items in the place of entries."""
    url = "http://127.0.0.1:8097/x/y.xml"
    body = case.body
    channel = parse_feed(body, url, case.headers, arrival=0)
    if any("are empty and were left out" in problem for problem in channel.problems):
        # These feeds hold one element each. An item has to be something to be kept.
        for start, name in ((b"<item>", b"guid"), (b"<entry>", b"id")):
            body = body.replace(start, start + b"<%b>urn:x</%b>" % (name, name))
        channel = parse_feed(body, url, case.headers, arrival=0)
    entries = [_entry(item) for item in channel.items]
    return holds(case.expression, bozo=bool(channel.problems), entries=entries)


def _entry(item: Item) -> FeedParserDict:
    """An item under feedparser's names."""
    moment = tuple(time.gmtime(item.timestamp // 1_000_000)) if item.dated else None
    return FeedParserDict(
        title=item.title,
        link=item.item_url,
        id=item.guid,
        author=item.authors[0] if item.authors else "",
        authors=[FeedParserDict(name=author) for author in item.authors],
        tags=[FeedParserDict(term=term) for term in item.categories],
        published_parsed=moment,
        updated_parsed=moment,
        created_parsed=moment,
        summary=item.description,
        content=[FeedParserDict(value=item.content or item.description)],
        links=[FeedParserDict(rel="enclosure", href=url) for url in item.enclosures],
    )


def _is_cdf(case: Case) -> bool:
    return "cdf" in case.path.name or case.path.parent.name == "cdf"


@cache
def report() -> tuple[list[str], set[str]]:
    """The lines of the report, and the names of what fails and is not in it."""
    counts: Counter[str] = Counter()
    left: set[str] = set()
    for case in cases():
        if of_our_parser(case):
            counts["hold"] += 1
        elif not of_feedparser(case):
            counts["fail in the released feedparser too"] += 1
        elif not of_feedparser(case, **AS_SENT):
            counts["want HTML cleaned or links in it made absolute, which we leave as sent"] += 1
        elif "encoding ==" in case.expression or "bozo_exception" in case.expression:
            counts["ask for the name of the encoding, which nobody keeps"] += 1
        elif _is_cdf(case):
            counts["want CDF, a format of 1997, accepted without a remark"] += 1
        else:
            left.add(case.path.name)
    lines = [f"{len(cases())} expectations of the parser:"]
    lines += [f"{count:6}  {reason}" for reason, count in counts.most_common()]
    asked = [
        case
        for case in cases()
        if about_items(case) and not _is_cdf(case) and of_feedparser(case, **AS_SENT)
    ]
    kept = [case for case in asked if of_our_items(case)]
    titles = [case for case in asked if case not in kept and "'title'" in case.expression]
    lines += [
        f"{len(asked)} expectations of what an item keeps:",
        f"{len(kept):6}  hold",
        f"{len(titles):6}  want markup in titles, which are plain text",
    ]
    left |= {case.path.name for case in asked if case not in kept and case not in titles}
    lines += ["Others that fail in one or both:"]
    lines += [f"        {name}: {why}" for name, why in EXPLAINED.items() if name in left]
    return lines, left - EXPLAINED.keys()
