"""The documents that matches in the log refer to: the table `document`.

In: the bytes of documents as matches were found with them. Out: the bytes by number, for those who
read matches. A document is stored once for all matches that come within `REACH` numbers of the log
from the first of them on. So what else refers to a document is found in a short piece of the log,
and nobody counts.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from broker.delivery.tables import marked

REACH = 2_000
"""Numbers of the log. It must not become less: an older version may have stored matches that refer
as far back."""
LARGEST = 16 << 10
"""Bytes of documents up to which a match refers to them. Of larger ones it may publish a small
part, so its text is stored."""

_REMEMBERED = 32 << 20
"""Bytes of documents that are recognised when they come again."""


class Documents:
    """Numbers of documents. To be called in a transaction; after one that failed `forget_all`."""

    def __init__(self, db: sqlite3.Connection, reach: int = REACH) -> None:
        self._reach = reach
        ((last,),) = db.execute("SELECT coalesce(max(number), 0) FROM document")
        self._last = int(last)
        self._known: dict[bytes, tuple[int, int]] = {}
        """Number and first reference of documents, by their bytes."""
        self._order: deque[bytes] = deque()
        self._bytes = 0

    def store(
        self, db: sqlite3.Connection, matches: Iterable[tuple[int, Sequence[bytes]]]
    ) -> list[bytes]:
        """The packed numbers of the documents of matches, which have these numbers in the log."""
        rows: list[tuple[int, int, bytes]] = []
        found = [
            _packed([self._number(xml, n, rows) for xml in documents]) for n, documents in matches
        ]
        db.executemany("INSERT INTO document (number, first, xml) VALUES (?, ?, ?)", rows)
        return found

    def _number(self, xml: bytes, n: int, rows: list[tuple[int, int, bytes]]) -> int:
        known = self._known.get(xml)
        if known is not None and n <= known[1] + self._reach:
            return known[0]
        self._last += 1
        rows.append((self._last, n, xml))
        if known is None:
            self._order.append(xml)
            self._bytes += len(xml)
        self._known[xml] = self._last, n
        while self._bytes > _REMEMBERED:
            gone = self._order.popleft()
            del self._known[gone]
            self._bytes -= len(gone)
        return self._last

    def delete_rows(self, db: sqlite3.Connection, rows: Sequence[int]) -> None:
        """Delete rows of the log, and the documents that nothing refers to any more."""
        referred: set[int] = set()
        for part, marks in marked(rows):
            for (docs,) in db.execute(
                f"SELECT docs FROM match WHERE n IN ({marks}) AND docs IS NOT NULL", part
            ):
                referred.update(unpacked(docs))
        db.executemany("DELETE FROM match WHERE n = ?", [(n,) for n in rows])
        gone = referred - self._referred_from_elsewhere(db, referred)
        if gone:
            db.executemany("DELETE FROM document WHERE number = ?", [(n,) for n in gone])
            self._forget(gone)

    def _referred_from_elsewhere(
        self, db: sqlite3.Connection, documents: Collection[int]
    ) -> set[int]:
        """The documents to which rows of the log refer, among them all of these that any does."""
        first = last = None
        for part, marks in marked(sorted(documents)):
            lowest, highest = db.execute(
                f"SELECT min(first), max(first) FROM document WHERE number IN ({marks})", part
            ).fetchone()
            if lowest is not None:
                first = lowest if first is None else min(first, lowest)
                last = highest if last is None else max(last, highest)
        if first is None or last is None:
            return set()
        found: set[int] = set()
        for (docs,) in db.execute(
            "SELECT docs FROM match WHERE n BETWEEN ? AND ? AND docs IS NOT NULL",
            (first, last + self._reach),
        ):
            found.update(unpacked(docs))
        return found

    def _forget(self, numbers: Collection[int]) -> None:
        gone = {xml for xml, (number, _) in self._known.items() if number in numbers}
        for xml in gone:
            del self._known[xml]
            self._bytes -= len(xml)
        if gone:
            self._order = deque([xml for xml in self._order if xml not in gone])

    def forget_all(self) -> None:
        """Recognise no document that was stored before."""
        self._known.clear()
        self._order.clear()
        self._bytes = 0


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpacked(packed: bytes) -> tuple[int, ...]:
    """The numbers of the documents of a match."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)
