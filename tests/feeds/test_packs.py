"""Documents that are published together are one row of the spool's file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from feeds.packs import MOST, Packed, pack, together, unpack
from feeds.rows import DocumentRow
from feeds.spool import Spool, SpoolError, read_rows, seq_after, sources, stored_at
from tests.feeds.spooling import A, batch, item, posted, rows

N = MOST * 2 + 5


def stored(spool: Spool) -> list[tuple[int, int]]:
    """The last number of each row of the file, and how many documents it has."""
    return spool._db.execute("SELECT seq, count FROM document ORDER BY seq").fetchall()


def many(count: int, xml: bytes = b"<a/>") -> list[DocumentRow]:
    return [posted(f"é{n}", xml)._replace(timestamp=-n) for n in range(count)]


def numbered(published: list[DocumentRow], first: int = 1) -> list[DocumentRow]:
    return [row._replace(seq=first + n) for n, row in enumerate(published)]


def test_they_are_read_as_they_were_published(spool: Spool) -> None:
    published = many(N)
    assert spool.publish(published) == range(1, N + 1)
    assert stored(spool) == [(MOST, MOST), (2 * MOST, MOST), (N, 5)]
    assert rows(spool) == numbered(published)
    assert spool.last_seq() == N
    assert sources(spool.path) == ["post:S"]
    assert spool.publish([posted("next")]) == range(N + 1, N + 2)
    assert spool.append(batch(A, item("1", 5))) == 1
    assert [row.seq for row in rows(spool)] == list(range(1, N + 3))


@pytest.mark.parametrize("start", [0, 1, MOST - 1, MOST, MOST + 1, N - 1, N])
def test_a_part_of_a_pack_can_be_read(spool: Spool, start: int) -> None:
    published = numbered(many(N))
    spool.publish(published)
    for end in (start, start + 1, MOST, MOST + 1, N, N + 9):
        found = list(spool.read(start, end))
        assert found == published[start : max(start, end)]
    for count in (1, 2, MOST, N):
        assert seq_after(spool.path, start, count) == min(N, start + count)
    assert (stored_at(spool.path, start) is None) == (start == N)


def test_rows_behind_a_gap_are_counted_and_not_numbers(spool: Spool) -> None:
    spool.publish(many(3))
    spool.skip_to(1_000)
    spool.publish(many(3))
    assert [seq_after(spool.path, 1, count) for count in (1, 2, 3, 9)] == [2, 3, 1_001, 1_003]


def test_only_what_differs_in_nothing_else_is_packed() -> None:
    plain = posted("1")
    others = [
        plain._replace(error="not well-formed"),
        plain._replace(place="elsewhere"),
        plain._replace(revision=True),
        plain._replace(dated=False),
        plain._replace(source="post:T", place="post:T/1"),
        plain._replace(streams=("S", "T")),
    ]
    given = [row for other in others for row in (plain, plain, other, other)]
    pieces = list(together(given))
    assert [row for piece in pieces for row in piece] == given
    # What has an error or another place is never packed.
    assert [len(piece) for piece in pieces] == [2, 1, 1] * 2 + [2, 2] * 4
    large = [posted("1", b"x" * 100_000)] * 5
    assert [len(piece) for piece in together(large)] == [2, 2, 1]
    assert list(together([])) == []


def test_a_number_inside_of_a_pack_is_the_end_of_nothing(spool: Spool) -> None:
    spool.publish(many(N))
    last, chain = spool.end()
    assert (last, spool.chain_at(N)) == (N, chain)
    assert [spool.chain_at(n) for n in (1, MOST - 1, N - 1, N + 1)] == [-1, -1, -1, None]
    spool.trim(MOST)
    assert spool.chain_at(1) is None


def test_a_pack_is_deleted_behind_its_last_document(spool: Spool) -> None:
    spool.publish(many(N))
    assert spool.trim(MOST - 1) == 0
    assert spool.trim(MOST + 3) == MOST
    assert [row.seq for row in spool.read(MOST + 3, N)] == list(range(MOST + 4, N + 1))
    assert spool.trim(N) == N - MOST
    assert rows(spool) == []
    assert spool.publish(many(2)) == range(N + 1, N + 3)


def test_an_id_that_cannot_be_stored_is_refused(spool: Spool) -> None:
    with pytest.raises(UnicodeEncodeError):
        spool.publish([posted("1"), posted("\ud800")])
    assert rows(spool) == []


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda body: body[:-1],
        lambda body: body + b"x",
        lambda body: body[:3],
        lambda body: b"",
        lambda body: b"\xff" * 4 + body[4:],
        lambda body: body.replace(b"[4,", b"[5,"),
        lambda body: body.replace(b'"1"', b"{{{"),
    ],
)
def test_a_pack_that_is_incomplete_is_none(spoiled: object) -> None:
    body = pack([posted("1"), posted("2")])
    assert [each[:3] for each in unpack(body)] == [("1", 7, b"<a/>"), ("2", 7, b"<a/>")]
    assert callable(spoiled)
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        unpack(spoiled(body))


# -- damage ----------------------------------------------------------------------------------------


def spoiled(path: Path, sql: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(sql)
    db.close()


def test_of_a_pack_only_the_documents_that_are_damaged_are_lost(spool: Spool) -> None:
    published = [posted(str(n), b"<a>%d</a>" % n) for n in range(5)]
    spool.publish(published)
    spool.publish([posted("6")])
    assert spool.verify(0) == ([], [])
    body = bytearray(spool._db.execute("SELECT xml FROM document WHERE count = 5").fetchone()[0])
    body[body.index(b"<a>3</a>") + 3] ^= 1
    spool._db.execute("UPDATE document SET xml = ? WHERE count = 5", (bytes(body),))
    assert spool.verify(4) == ([], [])  # it was read before
    places, missing = spool.verify(2)
    assert (places, missing) == (["post:S/3"], [])
    found = rows(spool)
    assert [row.seq for row in found] == [1, 2, 3, 4, 5, 6]
    assert [*found[:3], found[4]] == [each for each in numbered(published) if each.seq != 4]
    assert (found[3].id, found[3].xml, found[3].streams) == ("damaged:4:3", b"<a>2</a>", ())
    assert found[3].error is not None
    assert spool.verify(0) == ([], [])
    assert spool.publish([posted("7")]) == range(7, 8)
    assert spool.verify(0) == ([], [])


@pytest.mark.parametrize(
    "change",
    [
        "source = 'post:T'",
        "count = 2",
        "count = 7",
        "count = 'x'",
        "xml = x'00'",
        "xml = 'text'",
        "streams = x'ff'",
        "sum = 5",
    ],
)
def test_a_pack_whose_head_is_damaged_is_lost_and_its_numbers_are_not(
    spool: Spool, change: str
) -> None:
    spool.publish([posted("1")])
    spool.publish([posted(str(n)) for n in range(2, 6)])
    spool.publish([posted("6")])
    spool._db.execute(f"UPDATE document SET {change} WHERE count = 4")
    places, missing = spool.verify(0)
    lost = {n for numbers in missing for n in numbers}
    found = {row.seq: row for row in read_rows(spool.path, 0, 99)}
    assert lost | found.keys() == {1, 2, 3, 4, 5, 6}
    damaged = [row for row in found.values() if row.error]
    assert len(damaged) == len(places) == 4 - len(lost)
    assert (bool(lost) == change.startswith("count = ") and change != "count = 7") or not lost
    assert {1, 6} <= {n for n, row in found.items() if row.error is None}
    assert spool.verify(0)[0] == []


def test_a_damaged_pack_is_told_when_it_is_read(spool: Spool) -> None:
    spool.publish(many(3))
    spool._db.execute("UPDATE document SET xml = substr(xml, 1, 20)")
    with pytest.raises(SpoolError, match="documents 1 to 3 are damaged"):
        rows(spool)


# -- files of former versions ------------------------------------------------------------------------


def test_a_file_whose_rows_have_no_count_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    with Spool(path) as spool:
        spool.publish([posted("1")])
        spool.publish([posted("2")])
        before = rows(spool)
    spoiled(path, "ALTER TABLE document DROP COLUMN count")
    spoiled(path, "PRAGMA user_version = 4")
    assert list(read_rows(path, 0, 9)) == before  # by a reader that came first
    assert seq_after(path, 0, 1) == 1
    with Spool(path) as spool:
        assert rows(spool) == before
        assert spool.publish(many(3)) == range(3, 6)
        assert rows(spool)[2:] == numbered(many(3), 3)
        assert spool.verify(0) == ([], [])


def test_what_is_packed_has_a_checksum() -> None:
    (one, other) = unpack(pack([posted("1"), posted("2")]))
    assert one.is_sound()
    assert not Packed(other.id, other.timestamp, b"<b/>", other.sum).is_sound()
