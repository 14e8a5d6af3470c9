"""The headline of a document of a match, for people: its title, its link, its feed."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from lxml import etree

from xscl.stage1.document import has_name, string_value

_CHILDREN = 40
"""Children of the root that are searched at most."""
_LONGEST = 500
_TITLES = frozenset({"title", "headline", "name", "subject", "summary"})
_LINKS = frozenset({"item_url", "link", "url"})
_FEED = "channel_title"


class Headline(NamedTuple):
    """Texts on one line, None where the document has none."""

    title: str | None = None
    link: str | None = None
    feed: str | None = None


def headline(root: etree._Element) -> Headline:
    """Of a feed item its title, address and feed; of other documents the first child of the root
    with a name such as `title`, and the first that is an address."""
    title = link = feed = None
    for child in islice(root, _CHILDREN):
        if not has_name(child):
            continue
        name = child.tag.rpartition("}")[2]
        if title is None and name in _TITLES:
            title = _line(child)
        elif link is None and name in _LINKS:
            found = child.get("href") or _line(child) or ""
            link = found[:2_000] if found.startswith(("http://", "https://")) else None
        elif name == _FEED:
            feed = _line(child)
    return Headline(title, link, feed)


def _line(element: etree._Element) -> str | None:
    text = element.text if not len(element) else string_value(element)
    if not text:
        return None
    folded = " ".join(text[: 4 * _LONGEST].split())
    return (folded if len(folded) <= _LONGEST else folded[: _LONGEST - 1] + "…") or None
