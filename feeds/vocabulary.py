"""What the document of a feed item holds, for those who ask about it; see `feeds.item`."""

from __future__ import annotations

from types import MappingProxyType

CHILDREN = (
    *("channel_url", "channel_title", "item_url", "guid", "title", "author", "category"),
    *("timestamp", "description", "content", "enclosure", "source_url", "source_title"),
)
ATTRIBUTES = frozenset(["dated"])

_ITEMS = "the items of all feeds, RSS or Atom, are documents of their own: S//item"

ROOTS = MappingProxyType(dict.fromkeys(["entry", "rss", "feed", "RDF", "channel"], _ITEMS))
"""What is around items in feeds, and what to write in its place."""

AROUND = "//item: the items of all feeds are documents of their own"
"""What to write in its place where a stream is known to have items."""

INSTEAD = MappingProxyType(
    {
        **dict.fromkeys(["link", "url", "uri", "href"], "./item_url"),
        **dict.fromkeys(
            ["pubDate", "pubdate", "published", "updated", "date", "issued", "modified", "time"],
            "./timestamp",
        ),
        **dict.fromkeys(["summary", "subtitle", "abstract"], "./description"),
        **dict.fromkeys(["creator", "authors", "byline", "name"], "./author"),
        **dict.fromkeys(["tag", "tags", "keyword", "keywords", "categories"], "./category"),
        **dict.fromkeys(["subject", "section"], "./category"),
        **dict.fromkeys(["id", "identifier"], "./guid"),
        **dict.fromkeys(["encoded", "body", "text", "html"], "./content"),
        **dict.fromkeys(["feed", "channel", "site", "feed_title"], "./channel_title"),
        **dict.fromkeys(["feed_url", "channel_link"], "./channel_url"),
        **dict.fromkeys(["source", "publisher"], "./source_title"),
        **dict.fromkeys(["media", "thumbnail", "image"], "./enclosure"),
        "headline": "./title",
    }
)
"""Names of the dialects of feeds, and what they have become in an item."""
