"""The documents that matches in the log refer to: the tables `document` and `referred`.

In: the bytes of documents as matches were found with them. Out: the bytes by number, for those who
read matches. A document is stored once for all matches that come while it is remembered. Those that
come together are a pack, compressed: a row of SQLite takes several times as long to write as what
is in it, and is written twice, into the log of the file and into the file. A pack counts the rows
of the log of matches that refer to it, apart from the bytes: changing one changes a small row.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from broker.delivery.tables import insert, marked

LARGEST = 16 << 10
"""Bytes of documents up to which a match refers to them. Of larger ones it may publish a small
part, so its text is stored."""

REMEMBERED = 32 << 20
"""Bytes of documents that are recognised when they come again."""

_CODEC = pa.Codec("lz4_raw")
"""Two microseconds to compress a document, and less than one to have it again."""
_MOST, _MOST_BYTES = 16, 64 << 10
"""Documents of a pack, and bytes of them from which on another one is begun."""
_HELD = 64
"""Packs that a reader holds."""
_SUM, _LENGTH = 8, 4
"""The head of a pack: a checksum of its documents, and the length of each."""


class Documents:
    """Numbers of documents, of which the newest `remembered` bytes are recognised. To be called in
    a transaction; after one that failed `forget_all`."""

    def __init__(self, db: sqlite3.Connection, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._last = _last(db)
        self._known: dict[bytes, tuple[int, int]] = {}
        """The numbers of documents, and of the first of their packs, by their bytes."""
        self._order: deque[bytes] = deque()
        self._bytes = 0

    def store(self, db: sqlite3.Connection, matches: Iterable[Sequence[bytes]]) -> list[bytes]:
        """The packed numbers of the documents of each of these matches, which are stored next."""
        new = _New(self._last)
        places = [[self._place(xml, new) for xml in documents] for documents in matches]
        self._last = new.last
        insert(db, "document (number, head, body)", [*map(_row, new.firsts, new.packs)])
        more = Counter([pack for each in places for pack in {pack for _, pack in each}])
        insert(
            db,
            "referred (document, matches)",
            [*more.items()],
            "ON CONFLICT DO UPDATE SET matches = matches + excluded.matches",
        )
        return [_packed([number for number, _ in each]) for each in places]

    def _place(self, xml: bytes, new: _New) -> tuple[int, int]:
        """The numbers of a document and of the first of its pack."""
        known = self._known.get(xml)
        if known is not None:
            return known
        self._known[xml] = place = new.add(xml)
        self._order.append(xml)
        self._bytes += len(xml)
        while self._bytes > self._remembered:
            gone = self._order.popleft()
            del self._known[gone]
            self._bytes -= len(gone)
        return place

    def delete_rows(self, db: sqlite3.Connection, rows: Sequence[int]) -> None:
        """Delete rows of the log, and the packs that nothing refers to any more."""
        less: Counter[int] = Counter()
        first: dict[int, int | None] = {}
        for part, marks in marked(rows):
            for (docs,) in db.execute(
                f"SELECT docs FROM match WHERE n IN ({marks}) AND docs IS NOT NULL", part
            ):
                with suppress(ValueError):  # then it refers to none
                    numbers = unpacked(docs)
                    for number in numbers:
                        if number not in first:
                            first[number] = _pack_of(db, number)
                    packs = {first[number] for number in numbers}
                    less.update([pack for pack in packs if pack is not None])
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

    def _forget(self, packs: Collection[int]) -> None:
        if not packs:
            return
        gone = {xml for xml, (_, pack) in self._known.items() if pack in packs}
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


class _New:
    """Documents that are stored next, whose numbers begin behind `last`, in packs; `firsts` has the
    number of the first of each."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.packs: list[list[bytes]] = []
        self.firsts: list[int] = []
        self._bytes = 0

    def add(self, xml: bytes) -> tuple[int, int]:
        """The numbers of a document and of the first of its pack."""
        self.last += 1
        self._bytes += len(xml)
        if not self.packs or len(self.packs[-1]) == _MOST or self._bytes > _MOST_BYTES:
            self.packs.append([])
            self.firsts.append(self.last)
            self._bytes = len(xml)
        self.packs[-1].append(xml)
        return self.last, self.firsts[-1]


class Reader:
    """The documents of a file by number, within one transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._packs: dict[int, list[bytes]] = {}
        """Those that were read last, by the numbers of their first documents."""

    def document(self, number: int) -> bytes:
        """The bytes of a document. LookupError if it is missing, ValueError if its pack is
        damaged."""
        first = _pack_of(self._db, number)
        if first is None:
            raise LookupError(f"document {number} is missing")
        pack = self._packs.get(first)
        if pack is None:
            if len(self._packs) == _HELD:
                self._packs.clear()
            pack = self._packs[first] = self._read(first)
        return pack[number - first]

    def _read(self, first: int) -> list[bytes]:
        sql = "SELECT CAST(head AS BLOB), CAST(body AS BLOB) FROM document WHERE number = ?"
        found = self._db.execute(sql, (first,))
        for head, body in found:
            return [body] if head is None else _unpacked(first, head, body)
        return []


def _pack_of(db: sqlite3.Connection, number: int) -> int | None:
    """The number of the first document of the pack with this one; None if there is none."""
    for first, head in db.execute(
        "SELECT number, CAST(head AS BLOB) FROM document WHERE number <= ?"
        " ORDER BY number DESC LIMIT 1",
        (number,),
    ):
        documents = 1 if head is None else documents_of(head)
        return int(first) if number - first < documents else None
    return None


def _last(db: sqlite3.Connection) -> int:
    """A number above those of all documents, also of those whose rows are damaged or missing."""
    ((last,),) = db.execute(
        "SELECT max(number) FROM"
        " (SELECT max(number) AS number FROM document UNION SELECT max(document) FROM referred)"
    )
    return 0 if last is None else int(last) + _MOST


def documents_of(head: bytes) -> int:
    """How many documents a pack has, by its head."""
    return (len(head) - _SUM) // _LENGTH


def _row(first: int, pack: Sequence[bytes]) -> tuple[int, bytes, bytes]:
    whole = b"".join(pack)
    lengths = [*map(len, pack)]
    head = _head(len(pack)).pack(_sum(first, lengths, whole), *lengths)
    return first, head, _CODEC.compress(whole, asbytes=True)


def _sum(first: int, lengths: Sequence[int], whole: bytes) -> int:
    """The checksum of a pack: of its number, of the lengths of its documents and of these."""
    around = struct.pack(f"<q{len(lengths)}I", first, *lengths)
    return xxh3_64_intdigest(whole, xxh3_64_intdigest(around))


def _unpacked(first: int, head: bytes, body: bytes) -> list[bytes]:
    """The documents of a pack. ValueError if it is damaged."""
    try:
        sum_of_all, *sizes = _head(documents_of(head)).unpack(head)
        size = sum(sizes)
        # A size that is none must not take memory, and LZ4 notices hardly anything by itself.
        if size <= _MOST_BYTES + LARGEST:
            whole = _CODEC.decompress(body, size, asbytes=True)
            if _sum(first, sizes, whole) == sum_of_all:
                ends = accumulate(sizes)
                return [whole[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    except (OSError, TypeError, struct.error) as error:
        raise ValueError(f"its documents: {error}") from error
    raise ValueError("its documents are not as they were stored")


def _head(documents: int) -> struct.Struct:
    return struct.Struct(f"<Q{documents}I")


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpacked(packed: bytes) -> tuple[int, ...]:
    """The numbers of the documents of a match. ValueError if they are damaged."""
    try:
        return struct.unpack(f"<{len(packed) // 8}q", packed)
    except (struct.error, TypeError) as error:
        raise ValueError(f"its documents: {error}") from error
