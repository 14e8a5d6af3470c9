from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from feeds.rows import DOCUMENTS, DocumentRow, to_batch
from feeds.seen import FORGET_AFTER
from feeds.spool import (
    Batch,
    FeedState,
    Spool,
    SpoolError,
    read_rows,
    seq_after,
    sources,
    stored_at,
)
from tests.feeds.data import ROOT
from tests.feeds.spooling import A, B, batch, broken, item, posted, rows


def test_a_row_has_what_a_document_needs(spool: Spool) -> None:
    assert spool.append(batch(A, item("1", 5))) == 1
    (row,) = rows(spool)
    assert row.xml.startswith(b'<item dated="yes"><channel_url>http://a.example/f</channel_url>')
    assert row == DocumentRow(
        source=A,
        id="1",
        streams=("News", "S"),
        timestamp=1_791_158_400_000_000,
        dated=True,
        seq=1,
        revision=False,
        xml=row.xml,
        error=None,
        place=A,
    )


def test_an_item_comes_once_and_again_when_it_changed(spool: Spool) -> None:
    assert spool.append(batch(A, item("1", 5), item("2", 6))) == 2
    assert spool.append(batch(A, item("1", 5), item("2", 6))) == 0
    assert spool.append(batch(A, item("1", 5, "edited"), item("2", 6))) == 1
    assert spool.append(batch(A, item("1", 5, "edited"), item("2", 6))) == 0
    assert [(row.id, row.revision, row.seq) for row in rows(spool)] == [
        ("1", False, 1),
        ("2", False, 2),
        ("1", True, 3),
    ]


def test_an_item_that_comes_back_unchanged_is_not_forgotten(spool: Spool) -> None:
    """Who left and came back has not gone: what is forgotten is what has been away for long."""
    both, one = (item("1", 5), item("2", 6)), (item("2", 6),)
    assert spool.append(batch(A, *both, arrival=100)) == 2
    assert spool.append(batch(A, *one, arrival=200)) == 0
    assert spool.append(batch(A, *both, arrival=300)) == 0
    for later in (1, 2):
        assert spool.append(batch(A, *both, arrival=300 + later * FORGET_AFTER)) == 0
    # Away for long, and forgotten; then it is new.
    assert spool.append(batch(A, *one, arrival=400 + 2 * FORGET_AFTER)) == 0
    assert spool.append(batch(A, *one, arrival=500 + 3 * FORGET_AFTER)) == 0
    assert spool.append(batch(A, *both, arrival=600 + 3 * FORGET_AFTER)) == 1


def test_each_feed_has_its_own_items(spool: Spool) -> None:
    spool.append([batch(A, item("1", 5)), batch(B, item("1", 5))])
    assert [(row.source, row.id) for row in rows(spool)] == [(A, "1"), (B, "1")]


def test_a_wave_is_in_order_of_time_over_its_feeds(spool: Spool) -> None:
    spool.append([batch(A, item("a3", 9), item("a1", 5)), batch(B, item("b2", 7), item("b0", 4))])
    spool.append(batch(A, item("a0", 1)))
    assert [row.id for row in rows(spool)] == ["b0", "a1", "b2", "a3", "a0"]


def test_undated_items_come_oldest_first_and_keep_their_first_arrival(spool: Spool) -> None:
    spool.append(batch(A, item("new"), item("old"), arrival=100))
    spool.append(batch(A, item("new", text="edited"), item("old"), arrival=900))
    assert [(row.id, row.timestamp, row.dated, row.revision) for row in rows(spool)] == [
        ("old", 100, False, False),
        ("new", 100, False, False),
        ("new", 100, False, True),
    ]
    assert b"<timestamp>1970-01-01T00:00:00.000100Z</timestamp>" in rows(spool)[2].xml


def test_an_item_that_left_is_remembered_for_a_while(spool: Spool) -> None:
    spool.append(batch(A, item("1", 5), item("2", 6), arrival=0))
    spool.append(batch(A, item("2", 6), arrival=10))
    assert spool.append(batch(A, item("1", 5), item("2", 6), arrival=20)) == 0
    spool.append(batch(A, item("2", 6), arrival=30))
    spool.append(batch(A, item("2", 6), arrival=31 + FORGET_AFTER))
    assert spool.append(batch(A, item("1", 5), arrival=32 + FORGET_AFTER)) == 1


def test_what_a_push_does_not_hold_has_not_left_the_feed(spool: Spool) -> None:
    spool.append(batch(A, item("1", 5), item("2", 6), arrival=0))
    for name, arrival in (("3", 10), ("4", 20 + FORGET_AFTER)):
        assert spool.append(replace(batch(A, item(name, 7), arrival=arrival), pushed=True)) == 1
    items = [item(name, day) for name, day in (("4", 7), ("3", 7), ("2", 6), ("1", 5))]
    assert spool.append(batch(A, *items, arrival=30 + FORGET_AFTER)) == 0


def test_an_unreadable_feed_is_one_dead_letter_until_it_changes_its_reason(spool: Spool) -> None:
    page = b"<html><body>1</body></html>"
    assert spool.append(broken(A, page)) == 1
    assert spool.append(broken(A, page.replace(b"1", b"2"))) == 0
    assert spool.append(broken(A, b"")) == 1
    assert spool.append(batch(A, item("1", 5))) == 1
    assert spool.append(broken(A, page)) == 1
    dead = [row for row in rows(spool) if row.error]
    assert [row.error for row in dead] == [
        "an HTML page, not a feed",
        "the document is empty",
        "an HTML page, not a feed",
    ]
    assert (dead[0].xml, dead[0].place, dead[0].streams) == (page, A, ("S",))
    assert dead[0].id.startswith("unreadable:")


def test_numbers_never_come_twice(spool: Spool) -> None:
    spool.append(batch(A, item("1", 1), item("2", 2), item("3", 3)))
    assert spool.trim(2) == 2
    assert [row.seq for row in rows(spool)] == [3]
    assert spool.trim(99) == 1
    assert spool.last_seq() == 3
    spool.close()
    again = Spool(spool.path)
    assert again.append(batch(A, item("1", 1), item("4", 4))) == 1
    assert [row.seq for row in rows(again)] == [4]
    assert seq_after(again.path, 0, 1) == 4
    assert seq_after(again.path, 4, 1) == 4


def test_the_file_and_its_directory_are_for_their_owner_only(spool: Spool) -> None:
    spool.add(A, "me:secret")
    files = list(spool.path.parent.iterdir())
    assert spool.path in files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert spool.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "spool").touch(0o640)
    (tmp_path / "spool").chmod(0o640)
    with Spool(tmp_path / "spool"):
        assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o640
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look at " * 100)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    future = tmp_path / "future.sqlite"
    Spool(future).close()
    with sqlite3.connect(future) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (8,), "are older versions read?"
        db.execute("PRAGMA user_version = 9")
    db.close()
    for path, reason in ((text, "not a database"), (other, "not a spool"), (future, "version 9")):
        with pytest.raises(SpoolError, match=reason):
            Spool(path)
        with pytest.raises(SpoolError, match=reason):
            list(read_rows(path, 0, 9))


def test_rubbish_in_any_page_is_found_when_the_file_is_opened(tmp_path: Path) -> None:
    """Also in those of documents that were matched, which are read no more before they go."""
    whole, damaged = tmp_path / "whole.sqlite", tmp_path / "damaged.sqlite"
    with Spool(whole) as spool:
        spool.append(batch(A, item("1", 5), item("2", 6)))
        spool.publish([posted("3")])
    with sqlite3.connect(whole) as db:
        ((size,), (pages,)) = (
            db.execute(f"PRAGMA page_{each}").fetchone() for each in ("size", "count")
        )
    db.close()
    assert pages > 8
    for page in range(1, pages):
        shutil.copyfile(whole, damaged)
        with damaged.open("r+b") as file:
            file.seek(page * size)
            file.write(Random(page).randbytes(size // 2))
        with pytest.raises(SpoolError, match="restore a backup"):
            Spool(damaged)


def test_a_wave_that_fails_leaves_nothing(spool: Spool) -> None:
    good = batch(A, item("1", 5))
    bad = Batch(FeedState(B, B, None), 100)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        spool.append([good, bad])
    assert (spool.last_seq(), spool.feeds()) == (0, [])
    assert spool.append(good) == 1


def test_threads_share_a_spool(spool: Spool) -> None:
    def work(number: int) -> None:
        for day in range(1, 11):
            spool.append(batch(f"http://{number}.example/", item(str(day), day)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.seq for row in rows(spool)] == list(range(1, 41))


def test_rows_as_arrow(spool: Spool) -> None:
    spool.append([batch(A, item("1", 5)), broken(B, b"")])
    table = to_batch(rows(spool))
    assert table.schema == DOCUMENTS
    assert table.column("streams").to_pylist() == [["News", "S"], ["S"]]
    assert table.column("error").to_pylist() == [None, "the document is empty"]
    assert to_batch([]).num_rows == 0


WRITER = """
import sys
from feeds.spool import Batch, FeedState, Spool
from tests.feeds.spooling import A, B, batch, item

with Spool(sys.argv[1]) as spool:
    first = int(spool.state(A).etag or 0)
    for wave in range(first + 1, 100_000):
        batches = [batch(url, *(item(f"{wave}-{n}", 1 + n) for n in range(20))) for url in (A, B)]
        spool.append([Batch(FeedState(b.state.url, b.state.url, etag=str(wave)), 1, b.channel) for b in batches])
        print(wave, flush=True)
"""


def test_a_killed_writer_leaves_whole_waves(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    reported = 0
    for kill in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(5 + kill * 7):
            reported = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        reported = max([reported, *map(int, writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()

        found = list(read_rows(path, 0, 10**9))
        waves = len(found) // 40
        # What was acknowledged is there, and what is there is whole and in step with the state.
        assert waves in (reported, reported + 1)
        assert len(found) == waves * 40
        assert [row.seq for row in found] == list(range(1, len(found) + 1))
        assert len({(row.source, row.id) for row in found}) == len(found)
        with Spool(path) as spool:
            assert {state.etag for state in spool.feeds()} == {str(waves)}
    assert reported > 20


VERSION_1 = """
CREATE TABLE document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL
);
CREATE TABLE seen (
    source TEXT NOT NULL, id TEXT NOT NULL, hash BLOB NOT NULL, timestamp INTEGER NOT NULL,
    gone INTEGER,
    PRIMARY KEY (source, id)
) WITHOUT ROWID;
CREATE TABLE feed (
    url TEXT PRIMARY KEY, address TEXT NOT NULL, title TEXT NOT NULL, etag TEXT,
    last_modified TEXT, next_fetch INTEGER NOT NULL, errors INTEGER NOT NULL, problem TEXT,
    gone INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO document VALUES (7, 'http://a.example/f', '1', '["S"]', 5, 1, 0, x'3c692f3e', NULL, 'p');
INSERT INTO seen VALUES ('http://a.example/f', '1', x'00', 5, NULL);
INSERT INTO feed VALUES ('http://a.example/f', 'http://b.example/f', 'T', 'tag', 'Mon', 9, 0, NULL, 0);
INSERT INTO feed VALUES ('http://b.example/f', 'http://b.example/f', '', NULL, NULL, 9, 1, 'gone', 1);
PRAGMA user_version = 1;
"""


def test_a_spool_of_the_first_version_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(VERSION_1)
    db.close()
    assert [row.xml for row in read_rows(path, 0, 9)] == [b"<i/>"]  # by a reader that came first
    with Spool(path) as spool:
        assert spool.feeds() == [
            FeedState(A, B, "T", "tag", "Mon", 9),
            FeedState(B, B, next_fetch=9, errors=1, problem="gone", status="gone"),
        ]
        assert spool.schedule() == [(9, A)]
        assert spool.append(batch(A, item("1", 5), item("2", 5))) == 2  # a revision, and a new one
        assert [(row.seq, row.id, row.revision) for row in rows(spool)][1:] == [
            (8, "2", False),
            (9, "1", True),
        ]
    with Spool(path) as again:
        assert len(again.feeds()) == 2


VERSION_2 = """
CREATE TABLE document (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, streams TEXT NOT NULL, timestamp INTEGER NOT NULL,
    dated INTEGER NOT NULL, revision INTEGER NOT NULL, xml BLOB NOT NULL, error TEXT,
    place TEXT NOT NULL
);
CREATE TABLE seen (
    source TEXT NOT NULL, id TEXT NOT NULL, hash BLOB NOT NULL, timestamp INTEGER NOT NULL,
    gone INTEGER, trace BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (source, id)
) WITHOUT ROWID;
CREATE TABLE feed (
    url TEXT PRIMARY KEY, address TEXT NOT NULL, title TEXT NOT NULL, etag TEXT,
    last_modified TEXT, next_fetch INTEGER NOT NULL, errors INTEGER NOT NULL, problem TEXT,
    status TEXT NOT NULL, last_fetch INTEGER, last_success INTEGER, last_full INTEGER,
    items_per_day REAL, wish INTEGER NOT NULL, body_hash BLOB, trusted INTEGER NOT NULL, login TEXT
) WITHOUT ROWID;
CREATE TABLE listing (
    url TEXT PRIMARY KEY, title TEXT NOT NULL, folder TEXT NOT NULL, typed INTEGER NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO document VALUES (41, 'http://a.example/f', '1', '["News", "S"]', 5, 1, 0, x'3c692f3e', NULL, 'p');
INSERT INTO document VALUES (42, 'http://a.example/f', '2', '["S"]', 6, 0, 0, x'3c69', 'torn', 'p');
INSERT INTO feed VALUES ('http://a.example/f', 'http://a.example/f', 'T', NULL, NULL, 9, 0, NULL,
    'paused', NULL, NULL, NULL, 2.5, 0, NULL, 1, NULL);
INSERT INTO listing VALUES ('http://a.example/f', 'Mine', 'a/b', 1, 0);
PRAGMA user_version = 2;
"""


def test_a_spool_of_the_second_version_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(VERSION_2)
    db.close()
    before = list(read_rows(path, 0, 99))  # also by a reader that comes before the writer
    with Spool(path) as spool:
        assert rows(spool) == before
        assert [(row.id, row.seq, row.error) for row in before] == [
            ("1", 41, None),
            ("2", 42, "torn"),
        ]
        assert [(f.status, f.title, f.items_per_day) for f in spool.feeds()] == [
            ("paused", "T", 2.5)
        ]
        assert stored_at(path, 0) == 0
        assert list(spool.publish([posted("3")])) == [43]
        assert sources(path) == ["http://a.example/f", "post:S"]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert db.execute("SELECT title FROM listing").fetchall() == [("Mine",)]
    db.close()
