"""The documents that a kept state has seen, those that wait in it, and those that come when it goes
on.

All is told here once, so that the program that made a state and the one that goes on with it are
given the same. Times are minutes after BEGIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 10, 5, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Doc:
    id: str
    minute: float
    xml: str
    stream: str = "S"
    revision: bool = False

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(minutes=self.minute)


def book(number: int, minute: float, title: str, authors: str, price: float, year: int) -> Doc:
    names = "".join(f"<author>{name}</author>" for name in authors.split())
    xml = (
        f'<book isbn="b{number}" lang="en"><title>{title}</title>{names}<price>{price}</price>'
        f"<year>{year}</year><date>2026-10-0{number % 9 + 1}</date></book>"
    )
    return Doc(f"book{number}", minute, xml)


def post(id: str, minute: float, title: str, author: str, year: int = 1991) -> Doc:
    xml = (
        f'<post lang="no"><title>{title}</title><author>{author}</author><year>{year}</year>'
        f"<by><name>{author}</name><mail>{author.lower()}@x.example</mail></by>"
        f"<date>Tue, 06 Oct 2026 08:00:00 GMT</date></post>"
    )
    return Doc(id, minute, xml)


def order(id: str, minute: float, isbn: str, city: str, count: int) -> Doc:
    xml = f"<order><isbn>{isbn}</isbn><city>{city}</city><count>{count}</count><shop>in {city}</shop></order>"
    return Doc(id, minute, xml)


def note(id: str, minute: float, about: str, link: str = "") -> Doc:
    where = f"<link>{link}</link>" if link else ""
    return Doc(id, minute, f'<note lang="en"><about>{about}</about>{where}</note>', "T")


def card(id: str, minute: float, name: str) -> Doc:
    return Doc(
        id,
        minute,
        f"<card><name>{name}</name><mail>{name.lower()}@x.example</mail></card>",
        "T",
    )


def film(id: str, minute: float, title: str) -> Doc:
    xml = f'<m:film xmlns:m="urn:media"><m:title>{title}</m:title></m:film>'
    return Doc(id, minute, xml)


FIRST = [
    book(1, 0, "Low Tide", "Ann Bo", 12, 1990),
    book(2, 1, "High Tide", "Ann", 25, 1991),
    order("o1", 2, "b1", "Oslo", 3),
    order("o2", 3, "b2", "Rome", 5),
    post("p1", 4, "Low Tide", "Ann"),
    note("n1", 6, "Low Tide", "http://WWW.example.org/a/?utm_source=x#top"),
    card("c1", 7, "Ann"),
    film("f1", 8, "Low Tide"),
    Doc("a1", 9, "<alarm/>"),
    Doc("a2", 10, "<alarm/>"),
]
"""Seen by the queries of `first.xscl`."""

SECOND = [
    book(3, 60, "The Fog", "Cy", 35, 1980),
    post("p2", 75, "The Fog", "Cy"),
    order("o3", 80, "b3", "Oslo", 6),
    order("o4", 81, "b1", "Bergen", 1),
    note("n2", 82, "the  FOG!"),
    note("n3", 83, "The Fog"),
    card("c2", 84, "Cy"),
    post("p3", 85, "High Tide", "Di", 1999),
    book(4, 86, "Dry Land", "Ed", 5, 1992),
]
"""Seen after one was resumed and one was paused, and by the queries of `later.xscl`, which stand
since."""

EDITED = [
    Doc(
        "book4",
        86,
        '<book isbn="b4" lang="en"><title>Wet '
        "Land</title><author>Ed</author><price>15</price></book>",
        revision=True,
    ),
    post("p4", 90, "Wet Land", "Ed"),
    Doc("torn", 91, "<post><title>torn</post>"),
    Doc("old", -100_000, "<thing/>", "slow"),
]
"""An edited document and one that meets it, one that is not well-formed, and one that is too
late."""

SAME = [book(100 + n, 120 + n, "Sand", "Flo", 11, 1970 + n) for n in range(10)]
"""A value that so many documents have in common that it gets lists of its own."""

WAITING = [
    post("w1", 140, "Sand", "Flo", 1975),
    order("w2", 141, "b101", "Oslo", 9),
    order("w3", 142, "b3", "Oslo", 7),
    note("w4", 143, "Sand"),
    post("w5", 144, "High Tide", "Ann", 1998),
    card("w6", 145, "Flo"),
    note("w7", 146, "High Tide", "https://www.example.org/a"),
    order("w8", 147, "b2", "Rome", 8),
    film("w9", 148, "Dry Land"),
    Doc("w10", 149, "<alarm/>"),
    Doc("w11", 150, "<alarm>"),
    order("w12", 151, "b2", "Bergen", 2),
]
"""Accepted together, of which the first few are matched, and the others wait in the spool."""

THEN = [
    order("t1", 200, "b1", "Oslo", 9),
    order("t2", 201, "b3", "Oslo", 9),
    post("t3", 202, "Low Tide", "Ann", 2001),
    post("t4", 203, "Sand", "Flo", 1979),
    note("t5", 204, "Wet Land"),
    note("t6", 205, "The Fog", "https://www.example.org/b"),
    card("t7", 206, "Ed"),
    Doc("t8", 207, "<alarm/>"),
    Doc("t9", 151, "<alarm/>"),
    book(5, 208, "New Moon", "Gil", 50, 2000),
    order("t10", 209, "b5", "Oslo", 6),
    post("t11", 210, "New Moon", "Gil", 2003),
    Doc("t12", 211, "<torn"),
]
"""When it goes on."""

KNOWN = [FIRST[0], SECOND[3], WAITING[4]]
"""Sent once more: they are known."""
