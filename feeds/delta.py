"""Incremental parsing of many versions of one feed: only new items go through feedparser.

In: versions of one feed, as bytes. Out: for each the same `Channel` that `parse_feed` makes of it.
An archive shows most items in dozens of snapshots, and feedparser takes nearly all the time.

What an item becomes depends on its own text and on the rest of the document (its *frame*: title,
namespaces, language, base), not on the other items. So items are remembered by their text as long
as the frame stays the same but for its dates, and a document with the frame and the unknown items
alone is parsed. This holds where the text cuts cleanly into items: the document is well-formed,
without DOCTYPE and comments, its items declare no namespace and no base, and no CDATA section
reaches over an item's end. All else goes through `parse_feed` as it is.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from xml.parsers import expat

from feeds.adapter import Channel, Draft, draft, finish, parse_feed
from feeds.encoding import decode
from feeds.item import Item

_DECLARATION = re.compile(r"\s*<\?xml\s[^>]*\?>")
_DATES = re.compile(r"<(lastBuildDate|pubDate|updated|dc:date)>[^<]*</\1>")


@dataclass(frozen=True, slots=True)
class _Cut:
    """A document cut into the texts of its items and what is around them."""

    head: str
    pieces: tuple[str, ...]
    tail: str

    @property
    def frame(self) -> str:
        return _DATES.sub("", self.head) + "\0" + _DATES.sub("", self.tail)


class DeltaReader:
    """Reads versions of the feed `url`; remembers the items of the last one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._frame = ""
        self._channel = Channel(url, "", ())
        self._known: dict[str, Item | None] = {}

    def parse(self, body: bytes, arrival: int) -> Channel:
        """The same as `parse_feed(body, url, arrival=arrival)`."""
        cut = _cut(body)
        if cut is None:
            return parse_feed(body, self._url, arrival=arrival)
        if cut.frame != self._frame:
            self._frame, self._known = cut.frame, {}
        new = [piece for piece in dict.fromkeys(cut.pieces) if piece not in self._known]
        if new or not self._known:
            drafted = draft(
                (cut.head + "".join(new) + cut.tail).encode(), self._url, arrival=arrival
            )
            channel = drafted.channel
            if channel.error or channel.problems or len(drafted.items) != len(new):
                return parse_feed(body, self._url, arrival=arrival)
            self._channel = channel
            self._known.update(zip(new, drafted.items, strict=True))
        # Items that this document lacks are forgotten, so the memory is as large as one document.
        self._known = {piece: self._known[piece] for piece in cut.pieces}
        items = tuple(_arrived(self._known[piece], arrival) for piece in cut.pieces)
        return finish(Draft(self._channel, items))


def _arrived(item: Item | None, arrival: int) -> Item | None:
    if item is None or item.dated:
        return item
    return replace(item, timestamp=arrival)


def _cut(body: bytes) -> _Cut | None:
    """The document in pieces, None where it does not cut cleanly."""
    text, problems = decode(body)
    if problems or "<!DOCTYPE" in text or "<!--" in text:
        return None
    text = _DECLARATION.sub("", text, count=1)
    name = "item" if "<item>" in text else "entry"
    spans = _spans(text, f"<{name}>", f"</{name}>")
    if not spans or not _well_formed(text):
        return None
    pieces = tuple(text[start:end] for start, end in spans)
    head, tail = text[: spans[0][0]], text[spans[-1][1] :]
    gaps = (text[a[1] : b[0]] for a, b in itertools.pairwise(spans))
    if any(gap and not gap.isspace() for gap in gaps):
        return None
    if not all(_closed(piece) for piece in (head, *pieces, tail)):
        return None
    # A base that an item sets for its content stays with feedparser after the item's end.
    unfit = ("xmlns", "base=")
    if any(piece.count(f"<{name}") != 1 or any(map(piece.__contains__, unfit)) for piece in pieces):
        return None
    return None if f"<{name}" in head or f"<{name}" in tail else _Cut(head, pieces, tail)


def _spans(text: str, opening: str, closing: str) -> list[tuple[int, int]]:
    """Where the items are, each from an opening to the next closing; none if one is not closed."""
    spans = []
    end = 0
    while (start := text.find(opening, end)) >= 0:
        close = text.find(closing, start)
        if close < 0:
            return []
        end = close + len(closing)
        spans.append((start, end))
    return spans


def _closed(piece: str) -> bool:
    return piece.count("<![CDATA[") == piece.count("]]>")


def _well_formed(text: str) -> bool:
    parser = expat.ParserCreate("utf-8", "\n")
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError):
        return False
    return True
