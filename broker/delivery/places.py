"""The places of matches in the log, and the matches there: reading of the tables `match` and
`member`, see `broker/delivery/audiences.py`.

A place is the number of a row, and how far before it a match is: its number in the log is `row -
back`. Functions over a connection, on which one transaction should hold all calls that belong
together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from broker.delivery.documents import Reader, unpacked
from broker.delivery.model import Delivered
from broker.delivery.tables import DamagedMatch, marked
from broker.rendering.content import Content
from broker.rendering.rendering import whole
from broker.shared_match import ID, SharedMatch

Place = tuple[int, int]

LAST = 2**62
"""Above all numbers of the log."""

_PARSED = 100
"""Documents that are held parsed."""

OF_ALL = (
    "FROM match g CROSS JOIN member m ON m.audience = g.audience AND m.back < g.n - ?1"
    " AND m.back >= g.n - ?2 WHERE g.n > ?1"
    " AND g.n <= (SELECT coalesce(min(n), ?2) FROM match WHERE n >= ?2)"
)
"""The places with numbers above the first and up to the second parameter."""


def number(place: Place) -> int:
    """The number in the log."""
    return place[0] - place[1]


def of_all(
    db: sqlite3.Connection, after: int, limit: int, upto: int = LAST, newest: bool = False
) -> list[Place]:
    """The places after a number, the oldest or the newest first."""
    order = "g.n DESC, m.back" if newest else "g.n, m.back DESC"
    sql = f"SELECT g.n, m.back {OF_ALL} ORDER BY {order} LIMIT ?3"
    return db.execute(sql, (after, upto, limit)).fetchall()


def of_subscriptions(
    db: sqlite3.Connection,
    subscriptions: Sequence[int],
    after: int,
    limit: int,
    upto: int = LAST,
    newest: bool = False,
) -> list[Place]:
    """The places of some subscriptions after a number, the oldest or the newest first."""
    found: list[Place] = []
    order = "DESC" if newest else "ASC"
    for part, marks in marked(subscriptions):
        audiences = f"SELECT audience, back FROM member WHERE subscription IN ({marks})"
        for audience, back in db.execute(audiences, part).fetchall():
            rows = db.execute(
                "SELECT n FROM match INDEXED BY match_audience WHERE audience = ? AND n > ?"
                f" AND n <= ? ORDER BY n {order} LIMIT ?",
                (audience, after + back, upto + back, limit),
            )
            found += [(n, back) for (n,) in rows]
    found.sort(key=number, reverse=newest)
    return found[:limit]


def count_of(
    db: sqlite3.Connection, subscriptions: Sequence[int], after: int, upto: int, limit: int
) -> int:
    """How many matches these subscriptions have after a number and up to another; counted up to
    `limit`, without bound if it is negative."""
    marks = ",".join("?" * len(subscriptions))
    (found,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM member m CROSS JOIN match g INDEXED BY match_audience"
        " ON g.audience = m.audience AND g.n > ? + m.back AND g.n <= ? + m.back"
        f" WHERE m.subscription IN ({marks}) LIMIT ?)",
        (after, upto, *subscriptions, limit),
    ).fetchone()
    return int(found)


def taken_since(
    db: sqlite3.Connection, subscriptions: Sequence[int], since: int, limit: int
) -> list[int]:
    """When matches of these subscriptions were taken, from a time on, in microseconds; of more than
    `limit` that many."""
    first = _first_since(db, since)
    marks = ",".join("?" * len(subscriptions))
    rows = db.execute(
        "SELECT g.taken FROM member m CROSS JOIN match g INDEXED BY match_audience"
        " ON g.audience = m.audience AND g.n >= ?"
        f" WHERE m.subscription IN ({marks}) LIMIT ?",
        (first, *subscriptions, limit),
    )
    return [taken for (taken,) in rows if taken >= since]


def _first_since(db: sqlite3.Connection, since: int) -> int:
    """A number such that all rows below it are older: rows are in the order of their times."""
    low, high = db.execute(
        "SELECT coalesce(min(n), 0), coalesce(max(n), 0) + 1 FROM match"
    ).fetchone()
    while low < high:
        middle = (low + high) // 2
        found = db.execute(
            "SELECT taken FROM match WHERE n >= ? ORDER BY n LIMIT 1", (middle,)
        ).fetchone()
        if found is None or found[0] >= since:
            high = middle
        else:
            low = middle + 1
    return int(low)


def at(db: sqlite3.Connection, numbers: Iterable[int]) -> list[Place]:
    """The places of these numbers that are still stored."""
    found: list[Place] = []
    for each in numbers:
        place = db.execute(
            "SELECT g.n, m.back FROM match g CROSS JOIN member m ON m.audience = g.audience"
            " AND m.back = g.n - ?1 WHERE g.n = (SELECT min(n) FROM match WHERE n >= ?1)",
            (each,),
        ).fetchone()
        if place is not None:
            found.append(place)
    return found


def load(db: sqlite3.Connection, places: Iterable[Place]) -> list[Delivered]:
    """The matches at places, in the given order, up to the first that is damaged; what those of one
    row share is read once, and what they publish is made of their documents here. Raises
    DamagedMatch if it is the first of all that is damaged."""
    found: list[Delivered] = []
    contents: dict[int, Content] = {}
    reader = Reader(db)
    for row, group in groupby(places, key=itemgetter(0)):
        backs = [back for _, back in group]
        taken, left_out, ids, head, result, audience, docs = db.execute(
            "SELECT taken, left_out, ids, head, result, audience, docs FROM match WHERE n = ?",
            (row,),
        ).fetchone()
        names: dict[int, str] = dict(
            db.execute(
                "SELECT m.back, s.name FROM member m JOIN subscription s"
                " ON s.number = m.subscription WHERE m.audience = ? AND m.back BETWEEN ? AND ?",
                (audience, min(backs), max(backs)),
            )
        )
        own = b"" if ids is None else _own(ids, backs)
        queries = [names[back] for back in backs]
        try:
            text = head.decode("utf-8", "surrogatepass")
            if docs is None:
                shared = SharedMatch.loads(own, queries, text, result)
            else:
                shared = whole(own, queries, text, _contents(reader, docs, contents))
        except (ValueError, LookupError, TypeError, SyntaxError) as error:
            if found:  # who asks for what follows is told
                break
            raise DamagedMatch(row, error) from error
        found += [
            Delivered(row - back, taken, match, left_out)
            for back, match in zip(backs, shared, strict=True)
        ]
    return found


def _contents(reader: Reader, docs: bytes, known: dict[int, Content]) -> list[Content]:
    """The documents of a match. LookupError if one is missing."""
    if len(known) > _PARSED:
        known.clear()
    for number in unpacked(docs):
        if number not in known:
            known[number] = Content(reader.document(number), {})
    return [known[number] for number in unpacked(docs)]


def _own(ids: bytes, backs: Sequence[int]) -> bytes:
    """The ids of some members of a row."""
    last = len(ids) // ID - 1
    return b"".join([ids[(last - back) * ID : (last - back + 1) * ID] for back in backs])
