"""A subscription's matches as an Atom 1.0 feed (RFC 4287), newest first.

An entry's id is derived from the match's id, and its time is when the match entered the mailbox, so
both are stable. Its content is HTML, which contains the result document, escaped.
"""

from __future__ import annotations

from html import escape

from lxml import etree

from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Delivered
from broker.model import iso_time
from broker.text.people import as_html, as_text, headline, link

_ATOM = "http://www.w3.org/2005/Atom"
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
    _add(entry, "title", headline(match))
    _add(entry, "updated", iso_time(delivered.taken))
    _add(entry, "published", iso_time(delivered.taken))
    feeds = dict.fromkeys(d.feed for d in match.documents if d.feed)
    for name in feeds or [match.query]:
        _add(_add(entry, "author"), "name", name)
    _add(entry, "category", term=match.query)
    links = list(dict.fromkeys(found for d in match.documents if (found := link(d))))
    for each in links:
        # Feed readers open the alternate link, and an entry has one (RFC 4287, section 4.2.7.2): it
        # is that of the newest document.
        _add(entry, "link", rel="alternate" if each == links[-1] else "via", href=each)
    summary = as_text(match)
    if delivered.left_out:
        summary += f"    ({delivered.left_out:,} before it were left out)\n"
    _add(entry, "summary", summary, type="text")
    _add(entry, "content", _content(delivered), type="html")


def _content(delivered: Delivered) -> str:
    """The match for people, followed by the escaped result document. It is not embedded as XML,
    because feed readers take elements such as <item> or <title> for the feed's own."""
    count = delivered.left_out
    left_out = f"<p>{count:,} before it were left out.</p>" if count else ""
    result = escape(delivered.match.result)
    shown = f"<details><summary>XML</summary><pre>{result}</pre></details>"
    return as_html(delivered.match) + left_out + shown


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
    """The text without characters that XML cannot represent."""
    return text.translate(_ILLEGAL).encode("utf-8", "replace").decode()


def _quoted(text: str) -> str:
    """The text as a part of a URN, other characters percent-encoded."""
    return "".join(
        c
        if c.isascii() and (c.isalnum() or c in "-._")
        else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace"))
        for c in text
    )
