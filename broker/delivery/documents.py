"""The documents that matches in the log refer to: the tables `document` and `referred`.

In: the bytes of documents as matches were found with them. Out: the bytes by number, for those who
read matches. A document is stored once for all matches that come while it is remembered, and counts
the rows of the log that refer to it. The counts are apart from the bytes: changing one changes a
small row.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence

from broker.delivery.tables import insert, marked

LARGEST = 16 << 10
"""Bytes of documents up to which a match refers to them. Of larger ones it may publish a small
part, so its text is stored."""

REMEMBERED = 32 << 20
"""Bytes of documents that are recognised when they come again."""


class Documents:
    """Numbers of documents, of which the newest `remembered` bytes are recognised. To be called in
    a transaction; after one that failed `forget_all`."""

    def __init__(self, db: sqlite3.Connection, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        ((last,),) = db.execute("SELECT coalesce(max(number), 0) FROM document")
        self._last = int(last)
        self._known: dict[bytes, int] = {}
        """The numbers of documents by their bytes."""
        self._order: deque[bytes] = deque()
        self._bytes = 0

    def store(self, db: sqlite3.Connection, matches: Iterable[Sequence[bytes]]) -> list[bytes]:
        """The packed numbers of the documents of each of these matches, which are stored next."""
        rows: list[tuple[int, bytes]] = []
        numbers = [[self._number(xml, rows) for xml in documents] for documents in matches]
        insert(db, "document (number, xml)", rows)
        more = Counter([number for each in numbers for number in {*each}])
        insert(
            db,
            "referred (document, matches)",
            [*more.items()],
            "ON CONFLICT DO UPDATE SET matches = matches + excluded.matches",
        )
        return [*map(_packed, numbers)]

    def _number(self, xml: bytes, rows: list[tuple[int, bytes]]) -> int:
        known = self._known.get(xml)
        if known is not None:
            return known
        self._last += 1
        rows.append((self._last, xml))
        self._known[xml] = self._last
        self._order.append(xml)
        self._bytes += len(xml)
        while self._bytes > self._remembered:
            gone = self._order.popleft()
            del self._known[gone]
            self._bytes -= len(gone)
        return self._last

    def delete_rows(self, db: sqlite3.Connection, rows: Sequence[int]) -> None:
        """Delete rows of the log, and the documents that nothing refers to any more."""
        less: Counter[int] = Counter()
        for part, marks in marked(rows):
            for (docs,) in db.execute(
                f"SELECT docs FROM match WHERE n IN ({marks}) AND docs IS NOT NULL", part
            ):
                less.update({*unpacked(docs)})
        db.executemany("DELETE FROM match WHERE n = ?", [(n,) for n in rows])
        db.executemany(
            "UPDATE referred SET matches = matches - ?2 WHERE document = ?1", less.items()
        )
        gone: set[int] = set()
        for part, marks in marked([*less]):
            gone.update(
                number
                for (number,) in db.execute(
                    f"SELECT document FROM referred WHERE matches <= 0 AND document IN ({marks})",
                    part,
                )
            )
        for table, key in (("referred", "document"), ("document", "number")):
            db.executemany(f"DELETE FROM {table} WHERE {key} = ?", [(each,) for each in gone])
        self._forget(gone)

    def _forget(self, numbers: Collection[int]) -> None:
        if not numbers:
            return
        gone = {xml for xml, number in self._known.items() if number in numbers}
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
