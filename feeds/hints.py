"""The hints that a feed gives about fetching it: how often, and which WebSub hub pushes it.

In: the bytes of a feed, and the header fields it came with. Out: `Hints`, empty where there are
none. Only the part before the first item is read, by expat, which stops at the first entity
declaration; nothing is fetched.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.parsers import expat

_HEAD = 65_536
_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*!#$&+.^`|~-]+\s*(?:=\s*(?:"[^"]*"|[^\s",;]*))?)*)')
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*(?:=\s*(?:"([^"]*)"|([^\s",;]*)))?')
_PERIODS = {
    "hourly": 3_600,
    "daily": 86_400,
    "weekly": 604_800,
    "monthly": 2_592_000,
    "yearly": 31_536_000,
}
_SY = "http://purl.org/rss/1.0/modules/syndication/"
_ATOM = ("http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")

Links = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Hints:
    """`wish` is the shortest time between two fetches in seconds, 0 for none. `hub` and `topic` are
    for WebSub, as absolute http(s) addresses."""

    wish: int = 0
    hub: str | None = None
    topic: str | None = None


class _Enough(Exception):
    """The head of the document is over, or not to be trusted further."""


def read_hints(body: bytes, headers: Mapping[str, str], url: str) -> Hints:
    """The hints of a feed that came from `url`; names of headers in lower case.

    The Link header goes before the document (WebSub, section 4), and the first hub before others.
    """
    start = body[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    wish, inside = (0, _json_links(body)) if start.startswith(b"{") else _Head().read(body)
    above = header_links(headers.get("link", ""))
    hub = _first("hub", above, url) or _first("hub", inside, url)
    topic = _first("self", above, url) or _first("self", inside, url)
    return Hints(wish, hub, topic)


def header_links(value: str) -> Links:
    """The pairs of relation and target of a Link header (RFC 8288)."""
    found: Links = []
    for target, parameters in _LINK.findall(value[:_HEAD]):
        relations = (
            (quoted or plain).lower().split()
            for name, quoted, plain in _PARAMETER.findall(parameters)
            if name.lower() == "rel"
        )
        found += [(relation, target) for relation in next(relations, [])]
    return found


def _json_links(body: bytes) -> Links:
    """JSON Feed names hubs under `hubs` and itself under `feed_url`."""
    try:
        feed = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(feed, dict):
        return []
    listed = feed.get("hubs")
    hubs = [hub for hub in listed if isinstance(hub, dict)] if isinstance(listed, list) else []
    found = [("hub", hub.get("url")) for hub in hubs if str(hub.get("type")).lower() == "websub"]
    found.append(("self", feed.get("feed_url")))
    return [(relation, target) for relation, target in found if isinstance(target, str)]


class _Head:
    """Reads the elements before the first item of a feed."""

    def __init__(self) -> None:
        self._links: Links = []
        self._texts: dict[str, str] = {}
        self._text: list[str] = []

    def read(self, body: bytes) -> tuple[int, Links]:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.EntityDeclHandler = self._entity
        # What was found until then counts.
        with contextlib.suppress(_Enough, expat.ExpatError, LookupError, ValueError):
            parser.Parse(body[:_HEAD].lstrip(), False)
        ttl = 60 * _whole(self._texts.get("ttl", ""))
        period = _PERIODS.get(self._texts.get(f"{_SY} updatePeriod", "").lower(), 0)
        frequency = _whole(self._texts.get(f"{_SY} updateFrequency", ""))
        return max(ttl, period // max(1, frequency)), self._links

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        if local in ("item", "entry"):
            raise _Enough
        self._text.clear()
        if local == "link" and space in _ATOM:
            href = attributes.get("href", "")
            self._links += [(rel, href) for rel in attributes.get("rel", "").lower().split()]

    def _end(self, name: str) -> None:
        self._texts[name] = "".join(self._text).strip()
        self._text.clear()

    def _entity(self, *_: Any) -> None:
        raise _Enough


def _whole(text: str) -> int:
    return int(text[:6]) if text.isascii() and text.isdigit() else 0


def _first(relation: str, links: Links, base: str) -> str | None:
    addresses = (_http(base, target) for name, target in links if name == relation)
    return next(filter(None, addresses), None)


def _http(base: str, target: str) -> str | None:
    """An absolute http(s) address without a login and odd characters; None for anything else."""
    target = target.strip()
    try:
        address = urljoin(base, target)
        parts, given = urlsplit(address), urlsplit(target)
    except ValueError:
        return None
    plain = all(" " < character < "\x7f" for character in target)
    known = parts.scheme in ("http", "https") and parts.hostname and (given.netloc or given.path)
    return address if known and plain and "@" not in parts.netloc else None
