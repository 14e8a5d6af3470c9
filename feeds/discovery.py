"""Discovery: from the address of a site to its feeds.

In: the address of a page, and a function that fetches addresses. Out: the feeds found, each fetched
and parsed, the best first. These places are tried in order until one yields a feed: the address
itself; the feeds that the page and its headers declare (`<link rel="alternate">`); links of the
page that look like feeds; the paths at which most programs put theirs. At most `MAX_REQUESTS`
requests are made in all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit, urlunsplit

from lxml import etree, html

from feeds.adapter import Channel, parse_feed
from feeds.encoding import decode
from feeds.fetch import Fetched
from feeds.identity import duplicate_feeds
from feeds.item import legal_text, one_line

MAX_REQUESTS = 25
TYPES = {
    "application/atom+xml",
    "application/rss+xml",
    "application/rdf+xml",
    "application/feed+json",
    "application/x.atom+xml",
    "application/x-atom+xml",
    "application/x-rss+xml",
    "application/json",
    "application/xml",
    "text/xml",
}
"""Content types with which pages declare feeds; those in `_VAGUE` are tried last."""
_VAGUE = {"application/json", "application/xml", "text/xml"}
WELL_KNOWN = (
    *("feed", "rss", "atom.xml", "feed.xml", "rss.xml", "index.xml", "feed.json", "index.rdf"),
    *("atom", "feed.atom", "feed.rss", "feeds/posts/default", "?feed=rss2"),
)
"""Paths that widespread site programs use, tried below the page's folder and at the root."""
_LOOKS_LIKE = re.compile(r"(?:\.(?:rss|atom|rdf)|/(?:feed|rss|atom)(?:\.xml|\.json)?)/?$", re.I)
_LINK_HEADER = re.compile(r"<([^<>]{1,2000})>([^<>]{0,500})")
_PREFERRED = ("atom", "rss", "json", "")

Fetch = Callable[[str], Fetched]


@dataclass(frozen=True, slots=True)
class Found:
    """A feed of the site. `same_as` is the url of a better feed with the same items, "" if there is
    none."""

    url: str
    channel: Channel
    same_as: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The feeds of a site, the best first, and the requests that failed (address and reason)."""

    feeds: tuple[Found, ...]
    problems: tuple[str, ...] = ()


def discover(url: str, fetch: Fetch, *, arrival: int) -> Discovery:
    """The feeds of the site at `url` (http or https; a bare host means https)."""
    return _Search(fetch, arrival).run(with_scheme(url))


def with_scheme(url: str) -> str:
    """A bare `example.org/blog` as an https address; other addresses as they are."""
    return url if "://" in url else f"https://{url}"


class _Search:
    def __init__(self, fetch: Fetch, arrival: int) -> None:
        self._fetch = fetch
        self._arrival = arrival
        self._asked: set[str] = set()
        self._found: dict[str, Channel] = {}
        self.problems: list[str] = []

    def run(self, url: str) -> Discovery:
        page = self._fetch(url)
        self._asked.add(_plain(url))
        if page.outcome != "ok":
            return Discovery((), (f"{url}: {page.problem or page.outcome}",))
        if not self._read(url, page):
            document = _parse(page)
            self._try([*_header_links(page), *_declared(document, page.final_url)])
            if not self._found:
                self._try(_linked(document, page.final_url))
            if not self._found:
                self._try(_well_known(page.final_url), enough=1)
        return Discovery(tuple(self._ranked()), tuple(self.problems))

    def _try(self, urls: Iterable[str], enough: int = MAX_REQUESTS) -> None:
        """Fetch addresses until enough of them are feeds."""
        for url in urls:
            if len(self._found) >= enough or len(self._asked) >= MAX_REQUESTS:
                return
            if _plain(url) in self._asked or not url.lower().startswith(("http://", "https://")):
                continue
            self._asked.add(_plain(url))
            fetched = self._fetch(url)
            if fetched.outcome == "ok":
                self._read(url, fetched)
            elif fetched.outcome != "missing":
                self.problems.append(f"{url}: {fetched.problem or fetched.outcome}")

    def _read(self, url: str, fetched: Fetched) -> bool:
        """Keep a fetched document if it is a feed, under the address to fetch from now on; whether
        it is one."""
        address = fetched.moved_to or url
        channel = parse_feed(
            fetched.body,
            address,
            fetched.headers,
            arrival=self._arrival,
            final_url=fetched.final_url,
        )
        if channel.error is None:
            self._found.setdefault(address, channel)
        return channel.error is None

    def _ranked(self) -> Iterator[Found]:
        order = sorted(self._found, key=lambda url: _rank(self._found[url], url))
        pairs = duplicate_feeds({url: channel.items for url, channel in self._found.items()})
        for position, url in enumerate(order):
            better = order[:position]
            same = [one for one in better if (one, url) in pairs or (url, one) in pairs]
            yield Found(url, self._found[url], same[0] if same else "")


def _rank(channel: Channel, url: str) -> tuple[bool, bool, int, int]:
    """Feeds of comments last, empty ones behind others, then by what a dialect can say."""
    comments = "comment" in f"{url} {channel.title}".lower()
    family = next(i for i, name in enumerate(_PREFERRED) if channel.dialect.startswith(name))
    return comments, not channel.items, family, len(url)


# -- where feeds may be ----------------------------------------------------------------------


def _parse(page: Fetched) -> html.HtmlElement | None:
    """The page's tree; None if it is not HTML. Nothing that it refers to is loaded."""
    text, _ = decode(page.body, page.headers.get("content-type", ""))
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        return html.document_fromstring(legal_text(text).encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


def _declared(document: html.HtmlElement | None, url: str) -> list[str]:
    """`<link rel="alternate" type="…">` and `rel="feed"`, those of vague types behind."""
    if document is None:
        return []
    base = _base(document, url)
    found: list[tuple[bool, str]] = []
    for link in document.iter("link"):
        relations = str(link.get("rel") or "").lower().split()
        kind = str(link.get("type") or "").lower().partition(";")[0].strip()
        alternate = "alternate" in relations and kind in TYPES and "stylesheet" not in relations
        if alternate or "feed" in relations:
            address = _joined(base, str(link.get("href") or ""))
            if address:
                found.append((kind in _VAGUE, address))
    return [address for _, address in sorted(found, key=lambda pair: pair[0])]


def _linked(document: html.HtmlElement | None, url: str) -> list[str]:
    """Addresses of the same site in the page's text that look like those of feeds."""
    if document is None:
        return []
    base = _base(document, url)
    addresses = (_joined(base, str(link.get("href") or "")) for link in document.iter("a"))
    return [
        address
        for address in dict.fromkeys(filter(None, addresses))
        if _LOOKS_LIKE.search(urlsplit(address).path) and _site(address) == _site(url)
    ]


def _header_links(page: Fetched) -> list[str]:
    """The feeds that the Link header (RFC 8288) declares."""
    found = []
    for target, parameters in _LINK_HEADER.findall(page.headers.get("link", "")[:20_000]):
        said = parameters.lower()
        if "alternate" in said and any(kind in said for kind in TYPES - _VAGUE):
            found.append(_joined(page.final_url, target))
    return [address for address in found if address]


def _well_known(url: str) -> list[str]:
    parts = urlsplit(url)
    folder = parts.path.rpartition("/")[0] + "/"
    last = parts.path.rpartition("/")[2]
    # example.org/blog is a folder more often than a file.
    below = [folder] if not last or "." in last else [f"{parts.path}/", folder]
    roots = dict.fromkeys((*below, "/"))
    return [
        urljoin(urlunsplit((parts.scheme, parts.netloc, root, "", "")), path)
        for root in roots
        for path in WELL_KNOWN
    ]


def _base(document: html.HtmlElement, url: str) -> str:
    for element in document.iter("base"):
        return _joined(url, str(element.get("href") or "")) or url
    return url


def _joined(base: str, href: str) -> str:
    href = one_line(href)
    if not href:
        return ""
    href = re.sub(r"^feed:(?://)?(?=https?:)", "", href, flags=re.I)
    href = re.sub(r"^feed://", "http://", href, flags=re.I)
    try:
        address = urljoin(base, href)
        urlsplit(address)
    except ValueError:
        return ""
    return address


def _site(url: str) -> str:
    """The host; `www.` is no difference."""
    return (urlsplit(url).hostname or "").lower().removeprefix("www.")


def _plain(url: str) -> str:
    return url.partition("#")[0].rstrip("/")
