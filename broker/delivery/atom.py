"""A subscription's matches as an Atom 1.0 feed (RFC 4287), newest first.

An entry's id follows from the match's, and its time from when the match was taken, so both stay as
they are. Its content is HTML, with the result document in it, escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lxml import etree

from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Delivered
from broker.model import Match, iso_time
from broker.text.formats import as_text, shorten, titles

_ATOM = "http://www.w3.org/2005/Atom"
_LONGEST_TITLE = 200
_ILLEGAL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF])


def atom(
    mailbox: Mailbox,
    subscription: str,
    self_url: str,
    *,
    title: str | None = None,
    limit: int = 50,
    since: int | None = None,
) -> bytes:
    """The feed of a subscription's newest `limit` matches. Without a match its time is `since`."""
    entries = mailbox.latest(subscription, limit)
    feed = etree.Element(f"{{{_ATOM}}}feed", nsmap={None: _ATOM})  # type: ignore[dict-item]  # the default namespace
    _add(feed, "id", f"urn:xscl:subscription:{_quoted(subscription)}")
    _add(feed, "title", title or f"Matches of {subscription}")
    _add(feed, "updated", iso_time(max((e.taken for e in entries), default=since or 0)))
    _add(feed, "link", rel="self", type="application/atom+xml", href=self_url)
    author = _add(feed, "author")
    _add(author, "name", subscription)
    _add(feed, "generator", "XML stream-join broker")
    for delivered in entries:
        _entry(feed, delivered)
    return etree.tostring(feed, xml_declaration=True, encoding="UTF-8")


def _entry(feed: etree._Element, delivered: Delivered) -> None:
    match = delivered.match
    entry = _add(feed, "entry")
    _add(entry, "id", f"urn:xscl:match:{_quoted(match.id)}")
    named = titles(match)
    _add(entry, "title", _title(match, named))
    _add(entry, "updated", iso_time(delivered.taken))
    _add(entry, "published", iso_time(delivered.taken))
    _add(entry, "category", term=match.query)
    links = list(dict.fromkeys(d.id for d in match.documents if _is_link(d.id)))
    for link in links:
        # What a reader opens, and of which there is one (RFC 4287, section 4.2.7.2): the newest.
        _add(entry, "link", rel="alternate" if link == links[-1] else "via", href=link)
    summary = as_text(match)
    if delivered.left_out:
        summary += f"    ({delivered.left_out:,} before it were left out)\n"
    _add(entry, "summary", summary, type="text")
    _add(entry, "content", _content(delivered, summary, named), type="html")


def _title(match: Match, named: Sequence[str | None]) -> str:
    """What the documents are called; else, as where SELECT takes parts of them, what they say."""
    shown = [name for name in named if name]
    if shown:
        return " + ".join(dict.fromkeys(shown))
    said = (" ".join(text.split()) for texts in match.values.values() for text in texts)
    told = [text for text in dict.fromkeys(said) if text and not _is_link(text)]
    return shorten(", ".join(told), _LONGEST_TITLE) or f"{match.query} {iso_time(match.end_us)}"


def _content(delivered: Delivered, summary: str, named: Sequence[str | None]) -> str:
    """For people: what belongs together, and the result document as it is.

    Not as XML inside of the entry: readers take elements such as <item> or <title> for the feed's.
    """
    links = "".join(
        f'<li><a href="{escape(document.id)}">{escape(name or document.id)}</a></li>'
        for document, name in zip(delivered.match.documents, named, strict=True)
        if _is_link(document.id)
    )
    listed = f"<ul>{links}</ul>" if links else ""
    result = escape(delivered.match.result)
    return f"<pre>{escape(summary)}</pre>{listed}<pre>{result}</pre>"


def _add(
    parent: etree._Element, name: str, text: str | None = None, **attributes: str
) -> etree._Element:
    child = etree.SubElement(
        parent, f"{{{_ATOM}}}{name}", {k: _legal(v) for k, v in attributes.items()}
    )
    if text is not None:
        child.text = _legal(text)
    return child


def _legal(text: str) -> str:
    """Without what XML cannot hold."""
    return text.translate(_ILLEGAL).encode("utf-8", "replace").decode()


def _quoted(text: str) -> str:
    """As a part of a URN: what is none of its characters is percent-encoded."""
    return "".join(
        c
        if c.isascii() and (c.isalnum() or c in "-._")
        else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace"))
        for c in text
    )


def _is_link(text: str) -> bool:
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\^`{|}')
    return plain and text.startswith(("http://", "https://"))
