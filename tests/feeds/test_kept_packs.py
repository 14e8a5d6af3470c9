"""Packs that were matched stay in the spool as long as somebody has references to their documents."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from feeds.kept_packs import Lost, documents, lost
from feeds.packs import MOST
from feeds.references import Reference, is_reference
from feeds.rows import DocumentRow
from feeds.spool import Reader, Spool, read_rows
from tests.feeds.spooling import posted
from tests.seeds import seeds

N = 3 * MOST
pytestmark = pytest.mark.usefixtures("small_packs")
END = 2**62


@pytest.fixture(params=[False, True], ids=["tables", "beside"])
def spool(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Spool]:
    with Spool(tmp_path / "spool.sqlite", beside=request.param) as found:
        yield found


@pytest.fixture
def reader(spool: Spool) -> Iterator[Reader]:
    found = Reader(spool.path, keeps=True)
    found.recent = spool.recent
    yield found
    found.close()


def many(count: int, begin: int = 0) -> list[DocumentRow]:
    return [
        posted(f"é{n}", f"<a>{'é' * (n % 50)}</a>".encode()) for n in range(begin, begin + count)
    ]


def kept(path: Path) -> list[int]:
    with sqlite3.connect(path) as db:
        return [seq for (seq,) in db.execute("SELECT seq FROM pack ORDER BY seq")]


def test_references_are_told_from_documents_and_ordered_by_rows() -> None:
    ordered = [Reference(1, 9, 9, 9), Reference(2, 0, 2**32 - 1, 0), Reference(2**40, 0, 1, 2)]
    packed = [each.packed() for each in ordered]
    assert sorted(packed) == packed
    assert [Reference.of(each) for each in packed] == ordered
    assert all(is_reference(each) for each in packed)
    for text in ("<a/>", " <a/>", "\ufeff<a/>"):
        for code in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "cp037"):
            assert not is_reference(text.encode(code, "ignore"))
    assert not is_reference(b"")
    assert not is_reference(None)


def test_documents_of_packs_have_references_where_they_are_kept(
    spool: Spool, reader: Reader
) -> None:
    spool.publish(many(N))
    spool.publish(many(1, N))
    plain = [*read_rows(spool.path, 0, END)]
    found = [*read_rows(reader, 0, END)]
    assert [row._replace(logged=b"") for row in found] == plain
    assert not any(row.logged for row in plain)
    assert not found[-1].logged  # it came by itself
    assert documents(reader, [row.logged for row in found[:-1]]) == {
        row.logged: row.xml for row in found[:-1]
    }
    assert [*read_rows(reader, 5, 9)] == found[5:9]


def test_a_document_is_found_wherever_its_pack_has_moved(spool: Spool, reader: Reader) -> None:
    spool.publish(many(N))
    wanted = {row.logged: row.xml for row in read_rows(reader, 0, END)}
    for step in (
        lambda: None,
        lambda: spool.skip_to(N),  # what is beside the tables comes there
        lambda: spool.trim(N, 1),
        lambda: spool.trim(N, 1),
    ):
        step()
        assert documents(reader, wanted) == wanted
        assert documents(spool.path, wanted) == wanted  # as another process does
    assert [*read_rows(reader, 0, END)] == []
    assert kept(spool.path) == [MOST, 2 * MOST, N]


def test_only_what_is_needed_is_kept(spool: Spool, reader: Reader) -> None:
    spool.publish(many(N))
    found = [*read_rows(reader, 0, END)]
    assert spool.trim(2 * MOST + 1, MOST + 1) == 2 * MOST
    assert kept(spool.path) == [2 * MOST]
    assert lost(reader, [row.logged for row in found]) == [row.logged for row in found[:MOST]]
    # The last one was read in part, and waits.
    assert [row.seq for row in read_rows(reader, 2 * MOST + 1, END)] == [
        *range(2 * MOST + 2, N + 1)
    ]
    assert spool.trim(N, 3 * MOST) == MOST
    assert kept(spool.path) == [N]
    spool.publish(many(MOST))
    spool.trim(N + MOST)
    assert kept(spool.path) == []
    assert len(lost(reader, [row.logged for row in found])) == N


def test_they_take_a_part_of_the_room(spool: Spool, reader: Reader) -> None:
    text = "<item><title>{}</title><link>https://example.org/{}</link></item>"
    rows = [posted(str(n), text.format(n, n).encode() * 9) for n in range(MOST)]
    spool.publish(rows)
    spool.trim(MOST, 1)
    with sqlite3.connect(spool.path) as db:
        ((took,),) = db.execute("SELECT length(body) FROM pack").fetchall()
    assert took < sum(len(row.xml) for row in rows) / 3


@pytest.mark.parametrize("where", ["document", "pack"])
def test_what_is_damaged_is_lost(tmp_path: Path, where: str) -> None:
    with (
        Spool(tmp_path / "spool.sqlite") as spool,
        closing(Reader(spool.path, keeps=True)) as reader,
    ):
        spool.publish(many(2 * MOST))
        found = [row.logged for row in read_rows(reader, 0, END)]
        if where == "pack":
            spool.trim(2 * MOST, 1)
        column = {"document": "xml", "pack": "body"}[where]
        ((body,),) = spool._db.execute(f"SELECT {column} FROM {where} WHERE seq = ?", [MOST])
        middle = len(body) // 2
        changed = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
        spool._db.execute(f"UPDATE {where} SET {column} = ? WHERE seq = ?", [changed, MOST])
        gone = lost(reader, found)
        assert gone
        assert {Reference.of(each).seq for each in gone} == {MOST}
        assert not reader.lacks
        with pytest.raises(Lost, match=f"pack {MOST}, which was matched, is missing or damaged"):
            documents(reader, found)
        assert reader.lacks
        for nonsense in (b"", b"\0", "text", 7, None):
            spool._db.execute(
                f"UPDATE {where} SET {column} = ? WHERE seq = ?", [nonsense or "", MOST]
            )
            assert lost(reader, found) == found[:MOST]


def test_without_a_spool_all_are_lost(tmp_path: Path) -> None:
    reference = Reference(7, 0, 4, 0).packed()
    assert lost(tmp_path / "none.sqlite", [reference]) == [reference]
    assert lost(tmp_path / "none.sqlite", []) == []


def test_one_who_reads_while_they_move_finds_all(spool: Spool, reader: Reader) -> None:
    """They are trimmed step by step by another thread."""
    spool.publish(many(20 * MOST))
    wanted = {row.logged: row.xml for row in read_rows(reader, 0, END)}
    over = threading.Event()

    def work() -> None:
        for n in range(1, 21):
            spool.trim(n * MOST, 1)
        over.set()

    thread = threading.Thread(target=work)
    thread.start()
    reads = 0
    while not over.is_set() or not reads:
        assert documents(reader, wanted) == wanted
        reads += 1
    thread.join()
    assert documents(reader, wanted) == wanted


@pytest.mark.parametrize("seed", seeds(12, 200))
def test_whatever_happens_what_is_needed_is_there(tmp_path: Path, seed: int) -> None:
    """Also after the process is killed."""
    random = Random(seed)
    path, count = tmp_path / "0" / "spool.sqlite", 0
    path.parent.mkdir()
    spool = Spool(path, beside=True)
    reader = Reader(path, keeps=True)
    reader.recent = spool.recent
    known: dict[bytes, bytes] = {}
    first, position = 1, 0
    for step in range(30):
        match random.randrange(5):
            case 0 | 1:
                size = random.choice([1, 2, 5, MOST, 2 * MOST + 3])
                spool.publish(many(size, count))
                count += size
            case 2:
                position = random.randint(position, spool.last_seq())
                known |= {
                    row.logged: row.xml for row in read_rows(reader, 0, position) if row.logged
                }
                first = random.randint(first, position + 1)
                known = {
                    each: xml for each, xml in known.items() if Reference.of(each).seq >= first
                }
                spool.trim(position, first)
            case 3:
                spool.skip_to(spool.last_seq() + random.randrange(3))
            case 4:
                killed = tmp_path / str(step + 1) / path.name
                killed.parent.mkdir()
                for each in path.parent.glob(f"{path.name}*"):
                    if not each.name.endswith("-shm"):
                        shutil.copy(each, killed.parent)
                assert documents(killed, known) == known
                reader.close()
                spool.close()
                path = killed
                spool = Spool(path, beside=random.random() < 0.8)
                reader = Reader(path, keeps=True)
                reader.recent = spool.recent
        assert documents(reader, known) == known
    reader.close()
    spool.close()
