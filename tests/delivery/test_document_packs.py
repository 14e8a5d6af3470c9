"""The documents of the log of matches, of which those that come together are stored as one."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Iterator, Sequence

import pytest

from broker.delivery.documents import LARGEST, Documents, Reader, documents_of, unpacked

TABLES = """
CREATE TABLE match (n INTEGER PRIMARY KEY, docs BLOB);
CREATE TABLE document (number INTEGER PRIMARY KEY, body BLOB NOT NULL, head BLOB);
CREATE TABLE referred (document INTEGER PRIMARY KEY, matches INTEGER NOT NULL)
"""


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(TABLES)
    yield connection
    connection.close()


def item(number: int, size: int = 0) -> bytes:
    return b"<item><title>Ferry %d</title>%b</item>" % (number, b"x" * size)


def store(
    db: sqlite3.Connection, documents: Documents, matches: Sequence[Sequence[bytes]]
) -> dict[int, Sequence[bytes]]:
    """The matches by their number in the log."""
    ((last,),) = db.execute("SELECT coalesce(max(n), 0) FROM match")
    rows = [*enumerate(documents.store(db, matches), last + 1)]
    db.executemany("INSERT INTO match VALUES (?, ?)", rows)
    return {n: match for (n, _), match in zip(rows, matches, strict=True)}


def read(db: sqlite3.Connection, numbers: Sequence[int]) -> list[list[bytes]]:
    """The documents of matches, by one reader."""
    reader = Reader(db)
    found = []
    for n in numbers:
        ((docs,),) = db.execute("SELECT docs FROM match WHERE n = ?", (n,))
        found.append([reader.document(number) for number in unpacked(docs)])
    return found


def packs(db: sqlite3.Connection) -> list[int]:
    """How many documents each pack has."""
    heads = db.execute("SELECT head FROM document ORDER BY number")
    return [documents_of(head) for (head,) in heads]


def test_those_that_come_together_are_one_row(db: sqlite3.Connection) -> None:
    documents = Documents(db)
    stored = store(db, documents, [[item(n), item(n + 1)] for n in range(40)])
    assert packs(db) == [16, 16, 9]
    stored |= store(db, documents, [[item(7), item(41)], [item(99)]])
    assert packs(db) == [16, 16, 9, 2]
    assert read(db, [*stored]) == [*map(list, stored.values())]
    assert read(db, [*reversed(stored)]) == [*map(list, reversed(stored.values()))]


def test_a_pack_has_no_more_bytes_than_are_read_soon(db: sqlite3.Connection) -> None:
    large = [[item(n, LARGEST - 60)] for n in range(9)]
    stored = store(db, Documents(db), [*large, [item(10)], [item(11)]])
    assert packs(db) == [4, 4, 3]
    assert read(db, [*stored]) == [*map(list, stored.values())]


def test_numbers_go_on_behind_the_last_of_a_pack(db: sqlite3.Connection) -> None:
    stored = store(db, Documents(db), [[item(n)] for n in range(5)])
    stored |= store(db, Documents(db), [[item(n)] for n in range(5, 12)])
    assert packs(db) == [5, 7]
    assert read(db, [*stored]) == [*map(list, stored.values())]


def test_documents_by_themselves_of_a_former_version_stay(db: sqlite3.Connection) -> None:
    for number in (1, 2, 5):
        db.execute("INSERT INTO document VALUES (?, ?, NULL)", (number, item(number)))
        db.execute("INSERT INTO referred VALUES (?, 1)", (number,))
        db.execute("INSERT INTO match VALUES (?, ?)", (number, struct.pack("<q", number)))
    documents = Documents(db)
    store(db, documents, [[item(6), item(5)]])
    assert db.execute("SELECT number FROM document").fetchall() == [(1,), (2,), (5,), (22,)]
    assert read(db, [1, 2, 5]) == [[item(1)], [item(2)], [item(5)]]
    documents.delete_rows(db, [2])
    assert db.execute("SELECT number FROM document").fetchall() == [(1,), (5,), (22,)]


@pytest.mark.parametrize("seed", range(8))
def test_packs_go_with_the_last_match_of_theirs(db: sqlite3.Connection, seed: int) -> None:
    """Whatever comes, goes and is forgotten: all matches have their documents, and a pack is there
    as long as one of them refers to it."""
    chance = random.Random(seed)
    documents = Documents(db, 3_000)
    there: dict[int, Sequence[bytes]] = {}
    for step in range(120):
        if step % 29 == 28:
            documents = Documents(db, 3_000)  # another process
        if there and chance.random() < 0.5:
            gone = chance.sample([*there], chance.randint(1, len(there)))
            documents.delete_rows(db, gone)
            for n in gone:
                del there[n]
        else:
            matches = [
                [item(chance.randrange(90)) for _ in range(chance.randint(1, 3))]
                for _ in range(chance.randint(1, 25))
            ]
            there |= store(db, documents, matches)
        assert read(db, [*there]) == [*map(list, there.values())]
        firsts = [first for (first,) in db.execute("SELECT number FROM document ORDER BY number")]
        used = {
            max(first for first in firsts if first <= number)
            for (docs,) in db.execute("SELECT docs FROM match")
            for number in unpacked(docs)
        }
        assert used == {*firsts}
        counted = dict(db.execute("SELECT document, matches FROM referred"))
        assert counted.keys() == used
        assert all(counted.values())


CHANGES = [
    "DELETE FROM document WHERE number = (SELECT max(number) FROM document)",
    "UPDATE document SET head = substr(head, 1, 12)",
    "UPDATE document SET head = substr(head, 1, 8)",
    "UPDATE document SET head = 7",
    "UPDATE document SET head = 'text'",
    "UPDATE document SET number = number + 3",
    "UPDATE document SET number = number - 3",
    "UPDATE document SET (head, body) = (SELECT head, body FROM document WHERE number < 20)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_match_ever_gets_the_documents_of_another(db: sqlite3.Connection, change: str) -> None:
    """Whatever is damaged, and also where more comes after that."""
    stored = store(db, Documents(db), [[item(n)] for n in range(33)])
    db.execute(change)
    stored |= store(db, Documents(db), [[item(n)] for n in range(50, 70)])
    whole = 0
    for n, match in stored.items():
        try:
            assert read(db, [n]) == [[*match]]
            whole += 1
        except (ValueError, LookupError):
            pass
    assert whole >= 20


@pytest.mark.parametrize("table", ["referred", "document"])
def test_what_lacks_a_row_takes_no_other_pack_with_it(db: sqlite3.Connection, table: str) -> None:
    documents = Documents(db)
    stored = store(db, documents, [[item(n)] for n in range(48)])
    key = "document" if table == "referred" else "number"
    ((gone,),) = db.execute(f"SELECT {key} FROM {table} ORDER BY 1 LIMIT 1 OFFSET 1")
    db.execute(f"DELETE FROM {table} WHERE {key} = ?", (gone,))
    documents.delete_rows(db, range(17, 33))
    assert read(db, [*range(1, 17), *range(33, 49)]) == [
        [*stored[n]] for n in (*range(1, 17), *range(33, 49))
    ]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE document SET body = x'00'",
        "UPDATE document SET body = substr(body, 1, 20)",
        "UPDATE document SET body = ''",
        "UPDATE document SET head = x'FFFFFFFFFFFFFFFF'",
        "UPDATE document SET head = x'FFFFFF'",
        "UPDATE document SET head = x'01000000'",
        "UPDATE document SET head = head || x'01000000'",
        "UPDATE document SET head = substr(head, 1, 12)",
        "UPDATE document SET body = replace(body, 'Ferry', 'Fairy')",
        "UPDATE document SET number = 0",
        "UPDATE document SET head = 'text'",
        "UPDATE document SET body = 'text'",
        "UPDATE document SET number = 100",
        "DELETE FROM document",
    ],
)
def test_what_is_damaged_is_an_error(db: sqlite3.Connection, change: str) -> None:
    store(db, Documents(db), [[item(1), item(2)]])
    db.execute(change)
    with pytest.raises((ValueError, LookupError, TypeError)):
        read(db, [1])
