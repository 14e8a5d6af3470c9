"""The adapter: from the bytes of one feed to our own items.

In: bytes, the feed's URL as subscribed, the HTTP headers they came with, and the time of arrival.
Out: a `Channel`, whatever the bytes are. Nothing is fetched, no file is touched, nothing is raised.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin, urlsplit

from feeds.dates import read_date
from feeds.item import Item, iso8601, legal_text, one_line, streams_of
from feeds.parser import MAX_SECONDS, parse_document

_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]*>", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_HTML_TYPES = ("text/html", "application/xhtml+xml")
# Placeholders such as 0001-01-01 and 1970-01-01T00:00:00Z mean that there is no date. Years beyond
# 9999 have no ISO form.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1900, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_END = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
MAX_LINKS = 100
"""Links of a feed that are read at most; a feed has a handful."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A feed at one moment: `items` in the order of the document, newest first as a rule.

    `problems` says what was wrong and recovered; `malformed` that it was not well-formed XML; `cut`
    that it ends within an item, so that this one and others may be missing. With
    an `error` the document is not a feed, and there are no items. `streams` are those that each of
    its items flows through.

    `dialect` is "rss20", "atom10", "rss10", "json11" and so on, "" if unknown. `links` are pairs of
    relation and address, as the feed gives them ("self", "next", "prev-archive", ...).
    """

    url: str
    title: str
    streams: tuple[str, ...]
    items: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    error: str | None = None
    malformed: bool = False
    cut: bool = False
    dialect: str = ""
    links: tuple[tuple[str, str], ...] = ()

    def link(self, relation: str) -> str:
        """The first address with this relation, "" if there is none."""
        return next((href for name, href in self.links if name == relation), "")


def parse_feed(
    body: bytes,
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    arrival: int,
    final_url: str | None = None,
    max_seconds: float = MAX_SECONDS,
) -> Channel:
    """Make a `Channel` of a feed in any dialect of RSS or Atom.

    `url` is the feed's URL (or path) as subscribed, its identity; `final_url` where the document
    really came from, against which relative links are resolved. `headers` are the response's, in
    any case of letters. `arrival` (microseconds since the epoch) dates items without a date.
    """
    return finish(
        draft(body, url, headers, arrival=arrival, final_url=final_url, max_seconds=max_seconds)
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """A channel whose items have not been compared with each other yet: an item for each entry of
    the document, None for an entry that is empty."""

    channel: Channel
    items: tuple[Item | None, ...] = ()


def draft(
    body: bytes,
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    arrival: int,
    final_url: str | None = None,
    max_seconds: float = MAX_SECONDS,
) -> Draft:
    """The first half of `parse_feed`: converts each entry independently of the others."""
    content_type = next(
        (value for name, value in (headers or {}).items() if name.lower() == "content-type"), ""
    )
    parsed = parse_document(body, content_type, max_seconds)
    if parsed.error is not None:
        return Draft(Channel(url, "", streams_of("", url), (), parsed.problems, parsed.error))
    feed = parsed.feed
    title = _text(feed, "title") or one_line(urlsplit(url).hostname or url)
    base = _base(final_url or url, one_line(_get(feed, "link")))
    inherited = _authors(feed) if parsed.version.startswith(("atom", "json")) else ()
    items = tuple(_item(entry, url, title, base, inherited, arrival) for entry in parsed.entries)
    channel = Channel(
        url,
        title,
        streams_of(title, url),
        problems=parsed.problems + tuple(_unread_dates(parsed.entries, items)),
        malformed=parsed.malformed,
        cut=parsed.cut,
        dialect=parsed.version,
        links=_links(feed, base),
    )
    return Draft(channel, items)


def finish(drafted: Draft) -> Channel:
    """The second half of `parse_feed`: drops empty items, and gives distinct ids to items that
    share a guid."""
    if drafted.channel.error is not None:
        return drafted.channel
    problems = list(drafted.channel.problems)
    items = [item for item in drafted.items if item is not None]
    empty = len(drafted.items) - len(items)
    if empty:
        problems.append(f"{empty} items are empty and were left out")
    distinct = _with_distinct_ids(items, problems)
    return replace(drafted.channel, items=distinct, problems=tuple(problems))


# -- one item --------------------------------------------------------------------------------


def _item(
    entry: Any, url: str, channel_title: str, base: str, inherited: tuple[str, ...], arrival: int
) -> Item | None:
    title = _text(entry, "title") or one_line(_get(entry, "itunes_title"))
    raw_guid = one_line(_get(entry, "id"))
    link = _link(entry, raw_guid, base)
    description, content = _texts(entry)
    enclosures = _enclosures(entry, base)
    own_date = _date(entry)
    if not (title or raw_guid or link or description or enclosures):
        return None
    guid = raw_guid or link
    if not guid and title:
        guid = f"{title} {iso8601(own_date)}" if own_date is not None else title
    if not guid and description:
        guid = "text:" + hashlib.blake2b(description.encode(), digest_size=16).hexdigest()
    if not guid:
        guid = enclosures[0]
    source = dict.get(entry, "source") or {}
    return Item(
        channel_url=one_line(url),
        channel_title=channel_title,
        id=guid,
        guid=guid,
        timestamp=arrival if own_date is None else own_date,
        dated=own_date is not None,
        item_url=link,
        title=title,
        authors=_authors(entry) or _authors(source) or inherited,
        categories=_distinct(
            one_line(tag.get("term") or tag.get("label") or "")
            for tag in dict.get(entry, "tags", ())
        ),
        description=description,
        content=content,
        enclosures=enclosures,
        source_url=_source_url(source, base),
        source_title=_text(source, "title"),
    )


def _texts(entry: Any) -> tuple[str, str]:
    """The description, and the content if it differs: a query that reads the description alone
    always finds the text."""
    summary = legal_text(_get(entry, "summary")).strip()
    contents = [
        legal_text(part["value"]).strip()
        for part in dict.get(entry, "content", ())
        if isinstance(part.get("value"), str)
    ]
    contents.append(legal_text(_get(entry, "source_markdown")).strip())
    description = summary or next(filter(None, contents), "")
    return description, next((part for part in contents if part and part != description), "")


def _with_distinct_ids(items: list[Item], problems: list[str]) -> tuple[Item, ...]:
    """Give distinct ids to items that share a guid but not a link; keep the first of true repeats.

    Some feeds give all their items one guid. Their identity is then the guid with the link.
    """
    links: dict[str, set[str]] = {}
    for item in items:
        links.setdefault(item.id, set()).add(item.item_url)
    shared = {id for id, urls in links.items() if len(urls) > 1}
    if shared:
        problems.append(f"{len(shared)} guids are shared by items with different links")
    kept: dict[str, Item] = {}
    repeated = 0
    for item in items:
        own = replace(item, id=f"{item.id} {item.item_url}") if item.id in shared else item
        if own.id in kept:
            repeated += own.content_hash() != kept[own.id].content_hash()
        else:
            kept[own.id] = own
    if repeated:
        problems.append(f"{repeated} items repeat the id of another and were left out")
    return tuple(kept.values())


# -- fields ----------------------------------------------------------------------------------
# dict.get, not entry.get: feedparser's own is slow and maps absent keys to other ones.


def _get(source: Any, key: str) -> str:
    value = dict.get(source, key)
    return value if isinstance(value, str) else ""


def _text(source: Any, key: str) -> str:
    """A title as plain text: where it is HTML, without tags and entities."""
    value = _get(source, key)
    detail = dict.get(source, f"{key}_detail")
    if detail and detail.get("type") in _HTML_TYPES:
        value = html.unescape(_TAG.sub("", value))
    return one_line(value)


def _authors(source: Any) -> tuple[str, ...]:
    people = (
        one_line(person.get("name") or person.get("email") or "")
        for person in dict.get(source, "authors", ())
    )
    return _distinct(people) or _distinct((one_line(_get(source, "author")),))


def _enclosures(entry: Any, base: str) -> tuple[str, ...]:
    """The files that come with an item: RSS and Atom enclosures, then those of Media RSS."""
    listed = [
        link.get("href") for link in dict.get(entry, "links", ()) if link.get("rel") == "enclosure"
    ]
    listed += [media.get("url") for media in dict.get(entry, "media_content", ())]
    return _distinct(_absolute(one_line(url or ""), base) for url in listed)


def _source_url(source: Any, base: str) -> str:
    """The feed that an aggregated item came from: RSS's attribute, or Atom's "self" or site."""
    links = {link.get("rel"): link.get("href") for link in reversed(dict.get(source, "links", ()))}
    url = (
        _get(source, "href") or links.get("self") or links.get("alternate") or _get(source, "link")
    )
    return _absolute(one_line(url), base)


def _links(feed: Any, base: str) -> tuple[tuple[str, str], ...]:
    pairs = (
        (one_line(link.get("rel") or ""), _absolute(one_line(link.get("href") or ""), base))
        for link in dict.get(feed, "links", ())[:MAX_LINKS]
    )
    return tuple(dict.fromkeys(pair for pair in pairs if all(pair)))


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))


def _base(url: str, site: str) -> str:
    """The base of relative links: the document's address, else the site's."""
    return next((u for u in (url, site) if u.lower().startswith(("http://", "https://"))), "")


def _absolute(url: str, base: str) -> str:
    if not url or not base or _SCHEME.match(url):
        return url
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def _link(entry: Any, guid: str, base: str) -> str:
    """The item's address. A guid that feedparser took for the link counts only if it is a URL."""
    link = one_line(_get(entry, "feedburner_origlink") or _get(entry, "link"))
    if link and link == guid and not link.lower().startswith(("http://", "https://")):
        link = ""
    if not link:
        alternates = (
            one_line(other.get("href") or "")
            for other in dict.get(entry, "links", ())
            if other.get("rel") == "alternate"
        )
        link = next((href for href in alternates if href and href != guid), "")
    return _absolute(link, base)


_DATES = ("published", "updated", "created")


def _date(entry: Any) -> int | None:
    """The item's own date in microseconds since the epoch: published, else updated, else
    created."""
    for key in _DATES:
        moment = read_date(_get(entry, key))
        if moment and _FIRST <= moment < _END:
            return moment
    return None


def _unread_dates(entries: Iterable[Any], items: Iterable[Item | None]) -> Iterator[str]:
    """A problem that counts the items whose date cannot be read, or is ambiguous, and quotes the
    first. Placeholders such as 0001-01-01 mean "no date" and are not counted."""
    texts = [
        text
        for entry, item in zip(entries, items, strict=True)
        if item is not None and not item.dated
        if (text := next(filter(None, (one_line(_get(entry, key)) for key in _DATES)), ""))
    ]
    texts = [text for text in texts if read_date(text) is None and "0001" not in text]
    if texts:
        count = f"{len(texts)} dates are" if len(texts) > 1 else "1 date is"
        yield f"{count} unreadable or ambiguous, such as {texts[0][:40]!r}: the arrival counts"
