"""A match as people read it: a headline for each document, and why they belong together.

same-story  2026-10-05 08:15 UTC
    Ferry terminal reopens (Courier City)
        2026-10-05 06:40 UTC
        https://courier.example/ferry
    Ferry terminal reopens (Courier Business)
        1 h 35 min later
        https://courier.example/ferry
    joined because link = link2 = "https://courier.example/ferry"
    title: Ferry terminal reopens
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from broker.model import DocumentRef, Match, iso_time
from broker.text.printable import visible

_UNITS = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_LONGEST = 120
_VALUES = 5
"""Values of one variable that are shown."""


class Line(NamedTuple):
    """A document of a match: its title, its feed or stream, its time, and its address."""

    title: str
    feed: str
    when: str
    link: str | None


def lines(match: Match) -> list[Line]:
    """A line for each document. The time of the first is absolute, of the others relative to it."""
    first = min((d.timestamp_us for d in match.documents), default=0)
    shown = False
    found = []
    for document in match.documents:
        passed = document.timestamp_us - first
        when = moment(first) if not shown and not passed else later(passed)
        shown |= not passed
        title = shorten(document.title or document.id)
        found.append(Line(title, shorten(document.feed or document.stream), when, link(document)))
    return found


def link(document: DocumentRef) -> str | None:
    """The address of a document, None if it is unknown."""
    for text in (document.link, document.id):
        if text is not None and is_link(text):
            return text
    return None


def is_link(text: str) -> bool:
    """Whether a text can stand as a link wherever links are."""
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\^`{|}')
    return plain and text.startswith(("http://", "https://"))


def moment(microseconds: int) -> str:
    """A time to the minute: "2026-10-05 08:15 UTC"."""
    text = iso_time(microseconds)
    date, found, time = text.partition("T")
    return f"{date} {time[:5]} UTC" if found else text


def later(microseconds: int) -> str:
    """How much later something was, in its two largest units: "1 h 35 min later"."""
    left = microseconds // 1_000_000
    if left <= 0:
        return "at the same time"
    said = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            said.append(f"{count:,} {'day' if (count, unit) == (1, 'days') else unit}")
        if len(said) == 2:
            break
    return f"{' '.join(said)} later"


def because(match: Match) -> list[str]:
    """Why its documents belong together, an equality each: `title = title2 = "…"`."""
    return [f"{names} = {values}" for names, values in reasons(match)]


def reasons(match: Match) -> list[tuple[str, str]]:
    """The same in two parts: `title = title2`, and what they say, in quotes."""
    return [(" = ".join(names), _quoted(match.values.get(names[0], []))) for names in match.joined]


def others(match: Match) -> Iterator[tuple[str, str]]:
    """The variables that join nothing, with their values; without repeated values, without those
    that are in a headline, and without whole items, whose texts are run together."""
    joins = {name for names in match.joined for name in names}
    seen = {tuple(match.values.get(name, ())) for name in joins}
    said = {text for d in match.documents for text in (d.title, d.feed, d.link)}
    for name, texts in match.values.items():
        if name in joins or tuple(texts) in seen or said.issuperset(texts):
            continue
        if not any(_is_whole(text, match) for text in texts):
            seen.add(tuple(texts))
            yield name, _listed(texts)


def _is_whole(text: str, match: Match) -> bool:
    """Whether a value is that of a whole item: its title, its link and the rest in one."""
    blanks = " ".join(text.split())
    return any(
        d.title and d.link and d.title in blanks and d.link in blanks for d in match.documents
    )


def headline(match: Match) -> str:
    """The whole match on one line: the titles of its documents, or else its values."""
    named = list(dict.fromkeys(d.title for d in match.documents if d.title))
    if named:
        return shorten(" + ".join(shorten(title) for title in named), 200)
    said = (" ".join(text.split()) for texts in match.values.values() for text in texts)
    texts = [text for text in dict.fromkeys(said) if text and not is_link(text)]
    return shorten(", ".join(texts), 200) or f"{match.query} {moment(match.end_us)}"


def as_text(match: Match) -> str:
    """A paragraph for people; see the top of this module."""
    stream = f"  -> {match.stream}" if match.stream else ""
    said = [f"{match.query}  {moment(match.end_us)}{stream}"]
    for each in lines(match):
        said += [f"    {each.title} ({each.feed})", f"        {each.when}"]
        if each.link is not None and each.link != each.title:
            said.append(f"        {each.link}")
    said += [f"    joined because {reason}" for reason in because(match)]
    said += [f"    {name}: {texts}" for name, texts in others(match)]
    return "\n".join(map(visible, said)) + "\n"


def as_html(match: Match) -> str:
    """A fragment of HTML for people: the documents, linked, and why they belong together."""
    items = "".join(
        f"<li>{_linked(each.title, each.link)}<br>{escape(each.feed)}, {escape(each.when)}</li>"
        for each in lines(match)
    )
    reasons = "".join(f"<p>Joined because {escape(reason)}</p>" for reason in because(match))
    values = "".join(f"<p>{escape(name)}: {escape(texts)}</p>" for name, texts in others(match))
    return f"<ul>{items}</ul>{reasons}{values}"


def _linked(title: str, address: str | None) -> str:
    return escape(title) if address is None else f'<a href="{escape(address)}">{escape(title)}</a>'


def shorten(text: str, limit: int = _LONGEST) -> str:
    """The text on one line, cut to `limit` characters."""
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


def _quoted(texts: list[str]) -> str:
    return _some([f'"{shorten(text)}"' for text in texts], " and ")


def _listed(texts: list[str]) -> str:
    return _some([shorten(text) for text in texts], "; ")


def _some(texts: list[str], between: str) -> str:
    more = len(texts) - _VALUES
    return between.join(texts[:_VALUES]) + (f"{between}{more:,} more" if more > 0 else "")
