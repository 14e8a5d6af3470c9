"""Documents that are published a few at a time are stored beside the tables of a spool, and nobody
can tell that from outside."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from feeds import spool_file
from feeds.packs import MOST
from feeds.recent import file_of
from feeds.rows import DocumentRow
from feeds.spool import (
    Reader,
    Spool,
    SpoolError,
    SpoolFull,
    last_seq,
    read_rows,
    seq_after,
    sources,
    stored_at,
)
from tests.feeds.spooling import A, batch, item, posted
from tests.seeds import seeds

SECTOR = 512
END = 2**62


def opened(path: Path, *, beside: bool = True) -> Spool:
    return Spool(path, beside=beside, now=lambda: 12.0)


def in_tables(path: Path) -> list[int]:
    with sqlite3.connect(path) as db:
        return [seq for (seq,) in db.execute("SELECT seq FROM document ORDER BY seq")]


def ids(path: Path) -> list[str]:
    return [row.id for row in read_rows(path, 0, END)]


def killed(path: Path, to: Path) -> Path:
    """The spool as it is when its process is killed now."""
    to.mkdir()
    for each in path.parent.glob(f"{path.name}*"):
        if not each.name.endswith("-shm"):
            shutil.copy(each, to)
    return to / path.name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.sqlite"


def test_a_few_documents_are_not_in_the_tables_and_are_read_by_all(path: Path) -> None:
    with opened(path) as spool:
        assert spool.publish([posted("1")]) == range(1, 2)
        assert spool.publish([posted("2"), posted("3")]) == range(2, 4)
        assert in_tables(path) == []
        own = Reader(path)
        own.recent = spool.recent
        for where in (path, own):
            assert [row.seq for row in read_rows(where, 1, 2)] == [2]
            assert [row.id for row in read_rows(where, 0, END)] == ["1", "2", "3"]
            assert last_seq(where) == seq_after(where, 0, 9) == 3
            assert sources(where) == ["post:S"]
            assert stored_at(where, 2) == 12_000_000
            assert stored_at(where, 3) is None
        own.close()
    assert in_tables(path) == [1, 3]
    assert not file_of(path).exists()


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_it_is_as_if_all_were_in_the_tables(seed: int, path: Path, tmp_path: Path) -> None:
    r = Random(seed)
    (tmp_path / "plain").mkdir()
    other = tmp_path / "plain" / "spool.sqlite"
    spools = [opened(path), opened(other, beside=False)]
    trimmed = given = 0

    def few(count: int, size: int = 1) -> list[DocumentRow]:
        return [posted(f"{given}/{n}", b"<a/>" * size) for n in range(count)]

    for step in range(60):
        given += 1
        match r.choice(
            ("one", "one", "few", "many", "large", "wave", "trim", "open", "kill", "copy")
        ):
            case "one":
                found = [spool.publish(few(1)) for spool in spools]
            case "few":
                found = [spool.publish(few(r.randint(2, 5))[:2]) for spool in spools]
            case "many":
                found = [spool.publish(few(3 * MOST)) for spool in spools]
            case "large":
                found = [spool.publish(few(1, 300_000)) for spool in spools]
            case "wave":
                found = [range(spool.append(batch(A, item(str(given), given)))) for spool in spools]
            case "trim":
                trimmed = r.randint(trimmed, spools[1].last_seq())
                # A pack is there until its last document is trimmed.
                for spool in spools:
                    spool.trim(trimmed)
                found = [range(0), range(0)]
            case "open":
                for spool in spools:
                    spool.close()
                spools = [opened(path), opened(other, beside=False)]
                found = [range(0), range(0)]
            case "kill":
                path = killed(path, tmp_path / f"{step}")
                spools[0].close()
                spools[0] = opened(path)
                found = [range(0), range(0)]
            case _:
                spools[0].backup(tmp_path / f"copy{step}.sqlite")
                with opened(tmp_path / f"copy{step}.sqlite") as copy:
                    assert [*copy.read(trimmed, END)] == [*spools[1].read(trimmed, END)]
                    assert copy.last_seq() == spools[1].last_seq()
                found = [range(0), range(0)]
        assert found[0] == found[1]
        own = Reader(path)
        own.recent = spools[0].recent
        for where in (own, path):
            begin = r.randint(trimmed, spools[1].last_seq())
            expected = [*read_rows(other, begin, END)]
            assert [*read_rows(where, begin, END)] == expected
            assert last_seq(where) == spools[0].last_seq() == spools[1].last_seq()
            assert seq_after(where, begin, 3) == seq_after(other, begin, 3)
            assert stored_at(where, begin) == stored_at(other, begin)
        own.close()
        assert spools[0].end()[0] == spools[1].end()[0]
        assert spools[0].backlog(begin) == spools[1].backlog(begin)
        assert spools[0].missing == []
    assert spools[0].verify(trimmed) == spools[1].verify(trimmed) == ([], [])
    for spool in spools:
        spool.close()


def test_what_was_trimmed_never_comes_into_the_tables(path: Path, tmp_path: Path) -> None:
    with opened(path) as spool:
        for n in range(400):
            spool.publish([posted(str(n), b"<a/>" * 2_000)])
            if n % 100 == 99:
                assert spool.trim(n - 4) == (95 if n == 99 else 100)
        assert len(in_tables(path)) < 10
        assert file_of(path).stat().st_size < 12 << 20
        assert ids(path)[-5:] == [str(n) for n in range(395, 400)]
        assert spool.publish([posted("next")]) == range(401, 402)
        path = killed(path, tmp_path / "killed")
    with opened(path) as spool:
        assert spool.last_seq() == 401
        assert ids(path)[-1] == "next"


# -- damage --------------------------------------------------------------------------------------


@pytest.fixture
def dead(path: Path, tmp_path: Path, plain_files: None) -> tuple[Path, list[int]]:
    """A spool that was killed with five documents beside the tables, and where the record of each
    ends."""
    ends = []
    with opened(path) as spool:
        for n in range(5):
            spool.publish([posted(str(n), b"<a/>" * (300 + n))])
            ends.append(file_of(path).stat().st_size)
        return killed(path, tmp_path / "killed"), ends


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_one_damaged_place_does_not_matter(seed: int, dead: tuple[Path, list[int]]) -> None:
    path, ends = dead
    content = file_of(path).read_bytes()
    r = Random(seed)
    for _ in range(20):
        damaged = bytearray(content)
        at = r.randrange(len(content))
        damaged[at : at + 200] = r.randbytes(len(damaged[at : at + 200]))
        second = [(a + b) // 2 for a, b in zip([0, *ends], ends, strict=False)]
        if any(at < each < at + 200 for each in second):
            continue  # both copies of one
        file_of(path).write_bytes(damaged)
        assert ids(path) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_record_that_was_cut_off_was_not_stored(seed: int, dead: tuple[Path, list[int]]) -> None:
    """Whichever sectors of it are on the disk."""
    path, ends = dead
    content = file_of(path).read_bytes()
    r = Random(seed)
    for _ in range(20):
        written = bytearray(content)
        sectors = range(ends[-2], ends[-1], SECTOR)
        half = len(sectors) // 2
        lost = {r.choice(sectors[:half]), r.choice(sectors[half:]), *r.sample(sectors, 2)}
        for at in lost:
            written[at : at + SECTOR] = bytes(SECTOR)
        file_of(path).write_bytes(written)
        assert ids(path) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("which", range(4))
def test_a_record_of_which_nothing_is_whole_is_told(
    dead: tuple[Path, list[int]], which: int
) -> None:
    path, ends = dead
    content = bytearray(file_of(path).read_bytes())
    begin = [0, *ends][which]
    content[begin : ends[which]] = bytes(ends[which] - begin)
    file_of(path).write_bytes(content)
    with opened(path) as spool:
        assert spool.missing == [range(which + 1, which + 2)]
        assert ids(path) == [str(n) for n in range(5) if n != which]
        assert spool.publish([posted("next")]) == range(6, 7)


def test_what_is_of_another_spool_is_not_read(dead: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, _ = dead
    path.unlink()
    for each in path.parent.glob("*-wal"):
        each.unlink()
    with opened(path) as spool:  # a new one with a number of its own
        assert spool.last_seq() == 0
        assert ids(path) == []


def test_tables_of_an_earlier_time_get_what_is_beside_them(path: Path, tmp_path: Path) -> None:
    with opened(path) as spool:
        spool.publish([posted("1")])
        older = killed(path, tmp_path / "older")
        newer = killed(path, tmp_path / "newer")
        spool.publish([posted("2", b"x" * 2_000_000)])
        spool.publish([posted("3")])
        newest = killed(path, tmp_path / "newest")
    for newer_log, missing, found in (
        (newer, [], ["1"]),
        (newest, [range(1, 3)], ["3"]),
    ):
        shutil.copytree(older.parent, tmp_path / f"of {newer_log.parent.name}")
        tables = tmp_path / f"of {newer_log.parent.name}" / older.name
        shutil.copy(file_of(newer_log), file_of(tables))
        with opened(tables) as spool:
            assert spool.missing == missing
            assert ids(tables) == found


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_is_told_and_the_next_one_goes_on(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    if name == "fdatasync":  # which a write past the system's cache does without
        monkeypatch.setattr(os, "O_DIRECT", 0, raising=False)

    def failing(*_: object) -> int:
        raise OSError(code, "the disk")

    with opened(path) as spool:
        spool.publish([posted("1")])
        with monkeypatch.context() as patched:
            patched.setattr(os, name, failing)
            with pytest.raises(SpoolFull if code == errno.ENOSPC else SpoolError):
                spool.publish([posted("failed")])
        after = killed(path, tmp_path / "after")
        assert spool.publish([posted("2")]) == range(2, 3)
        assert spool.publish([posted("3")]) == range(3, 4)
        assert spool.end() == (3, spool.end()[1])
        later = killed(path, tmp_path / "later")
    # What somebody was told to have failed may be there, or not.
    with opened(after) as spool:
        assert ids(after) in (["1"], ["1", "failed"])
    with opened(later) as spool:
        assert ids(later) == ["1", "2", "3"]
        assert spool.verify(0) == ([], [])


def test_what_cannot_be_brought_into_the_tables_at_the_end_stays_beside_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def failing(db: sqlite3.Connection) -> Iterator[None]:
        with transaction(db):
            yield
            raise sqlite3.OperationalError("database or disk is full")  # as the commit may

    transaction = spool_file.transaction
    with monkeypatch.context() as patched, opened(path) as spool:
        spool.publish([posted("1")])
        patched.setattr(spool_file, "transaction", failing)
        spool.close()
        assert file_of(path).exists()
    assert in_tables(path) == []
    with opened(path):
        assert ids(path) == ["1"]


def test_another_process_leaves_it_alone(path: Path) -> None:
    with opened(path) as spool:
        spool.publish([posted("1")])
        with opened(path, beside=False) as manager:
            manager.add("http://a.example/feed")
            assert in_tables(path) == []
            assert manager.recent is None
        assert spool.publish([posted("2")]) == range(2, 3)
        assert ids(path) == ["1", "2"]
    assert ids(path) == ["1", "2"]
    with opened(path, beside=False) as spool:
        assert spool.publish([posted("3")]) == range(3, 4)


def test_a_spool_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    with opened(path, beside=False) as spool:
        spool.publish([posted("1")])
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 5")
        db.execute("PRAGMA application_id = 0")
    db.close()
    assert ids(path) == ["1"]
    with opened(path) as spool:
        assert spool.publish([posted("2")]) == range(2, 3)
        assert ids(path) == ["1", "2"]
