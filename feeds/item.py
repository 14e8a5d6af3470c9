"""The item model: what every feed dialect becomes, and its XML form.

In: values that the adapter found. Out: a frozen `Item`, its `<item>` document as bytes, its content
hash, and the stream names made of feed titles. No I/O, no clock, no feedparser.

The document has these children in this order; one without a value is left out, except for
`channel_url`, `channel_title`, `guid` and `timestamp`, which are always there:

    <item dated="yes">
      <channel_url/> <channel_title/> <item_url/> <guid/> <title/> <author/>* <category/>*
      <timestamp/> <description/> <content/> <enclosure/>* <source_url/> <source_title/>
    </item>

All of it is plain text. HTML in `description` and `content` stays HTML, escaped. `dated` says
whether the timestamp is the item's own date ("yes") or its arrival ("no"). `source_url` and
`source_title` name the feed that an aggregator took the item from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

# XML 1.0, production [2] Char, turned round.
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# Namespaces in XML 1.0, NCNameStartChar and NCNameChar.
_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NOT_NAME = re.compile(f"[^-.0-9\u00b7\u0300-\u036f\u203f-\u2040{_NAME_START}]+")
_NO_NAME_START = re.compile(f"[^{_NAME_START}]")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})

DEFAULT_STREAM = "S"


@dataclass(frozen=True, slots=True)
class Item:
    """One feed item.

    `id` is its identity within its feed: the guid, else the link, else title and date. `guid` is
    the same value except where a feed gives one guid to several items; then `id` tells them apart.
    `timestamp` is in microseconds since the epoch: the item's own date if `dated`, else its
    arrival.
    """

    channel_url: str
    channel_title: str
    id: str
    guid: str
    timestamp: int
    dated: bool
    item_url: str = ""
    title: str = ""
    authors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    description: str = ""
    content: str = ""
    enclosures: tuple[str, ...] = ()
    source_url: str = ""
    source_title: str = ""

    def to_xml(self) -> bytes:
        """The `<item>` document, UTF-8, without an XML declaration."""
        parts = [
            f'<item dated="{"yes" if self.dated else "no"}">',
            _element("channel_url", self.channel_url),
            _element("channel_title", self.channel_title),
        ]
        if self.item_url:
            parts.append(_element("item_url", self.item_url))
        parts.append(_element("guid", self.guid))
        if self.title:
            parts.append(_element("title", self.title))
        parts += [_element("author", author) for author in self.authors]
        parts += [_element("category", category) for category in self.categories]
        parts.append(_element("timestamp", iso8601(self.timestamp)))
        if self.description:
            parts.append(_element("description", self.description))
        if self.content:
            parts.append(_element("content", self.content))
        parts += [_element("enclosure", enclosure) for enclosure in self.enclosures]
        if self.source_url:
            parts.append(_element("source_url", self.source_url))
        if self.source_title:
            parts.append(_element("source_title", self.source_title))
        parts.append("</item>")
        return "".join(parts).encode()

    def content_hash(self) -> bytes:
        """16 bytes that change when the item is edited.

        The channel's own URL and title are no part of it (a renamed feed does not edit its items),
        nor is an arrival time (an undated item arrives anew at every fetch).
        """
        values: tuple[str, ...] = (
            self.guid,
            self.item_url,
            self.title,
            "\0".join(self.authors),
            "\0".join(self.categories),
            str(self.timestamp) if self.dated else "",
            self.description,
            self.content,
            "\0".join(self.enclosures),
        )
        if self.source_url or self.source_title:
            values += (self.source_url, self.source_title)
        return hashlib.blake2b("\1".join(values).encode(), digest_size=16).digest()


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def escape(text: str) -> str:
    """Legal text as the content of an element; a carriage return survives the parser."""
    return text.translate(_ESCAPE)


def legal_text(text: str) -> str:
    """`text` without the characters that XML 1.0 cannot hold (controls, lone surrogates)."""
    return _ILLEGAL.sub("", text) if _ILLEGAL.search(text) else text


def one_line(text: str) -> str:
    """Legal text with each run of white space made one blank: titles, names, terms."""
    return " ".join(legal_text(text).split())


def iso8601(timestamp: int) -> str:
    """Microseconds since the epoch as `2026-10-05T08:30:00Z`, with a fraction only if there is one.

    Raises OverflowError outside the years 1 to 9999.
    """
    moment = _EPOCH + timedelta(microseconds=timestamp)
    text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}"
    return f"{text}.{moment.microsecond:06}Z" if moment.microsecond else f"{text}Z"


def stream_name(title: str, url: str = "") -> str:
    """A feed's title as an XML NCName, to name its stream; the host of `url` if the title gives
    none.

    Letters, digits, `_`, `-` and `.` stay, each run of anything else becomes one `_`, one of `-`
    one `-` (two begin a comment in a query), and the ends are trimmed of punctuation. A name that
    would start with a digit gets a `_` in front, and so does one that starts with `broker.`, as the
    broker's own streams do.
    """
    host_or_file = urlsplit(url).hostname if "://" in url else re.split(r"[/\\]", url)[-1]
    for text in (title, host_or_file or "", "feed"):
        name = _NOT_NAME.sub("_", unicodedata.normalize("NFC", text)).strip("_-.\u00b7")
        name = re.sub("-{2,}", "-", name)
        if name:
            taken = _NO_NAME_START.match(name) or name.startswith("broker.")
            return f"_{name}" if taken else name
    raise AssertionError("the last alternative is a name")


def streams_of(title: str, url: str = "", *more: str) -> tuple[str, ...]:
    """The streams of a feed's items: named after the feed, `more`, and the default stream."""
    return tuple(dict.fromkeys((*more, stream_name(title, url), DEFAULT_STREAM)))
