"""Rows of a spool as those read them who do not write it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from feeds.row_reader import Reader
from feeds.spool import Spool, last_seq, read_rows, seq_after
from tests.feeds.data import ROOT
from tests.feeds.spooling import A, batch, item, posted


def test_reading_from_elsewhere(spool: Spool) -> None:
    spool.append(batch(A, *(item(str(n), n) for n in range(1, 10))))
    assert [row.seq for row in read_rows(spool.path, 3, 6)] == [4, 5, 6]
    assert [row.seq for row in spool.read(8, 100)] == [9]
    assert last_seq(spool.path) == spool.last_seq() == 9
    code = "import sys; from feeds.spool import *; print(sum(1 for _ in read_rows(sys.argv[1], 0, 99)))"
    out = subprocess.check_output([sys.executable, "-c", code, str(spool.path)], cwd=ROOT)
    assert out == b"9\n"


def test_who_stops_reading_keeps_the_connection_and_holds_up_nobody(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    with Spool(path) as spool:
        spool.publish([posted(str(n)) for n in range(200)])
        own = Reader(path)
        db = own.take()
        assert db is not None
        own.put(db)
        for row in read_rows(own, 0, 300):
            assert row.seq == 1
            break
        spool.publish([posted("200")])
        # All of the log can go into the file, since nobody reads an older state of it.
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        assert [row.seq for row in read_rows(own, 199, 300)] == [200, 201]
        assert own.take() is db
        own.close()
        db.close()


def test_a_spool_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite"
    assert (list(read_rows(path, 0, 9)), last_seq(path), seq_after(path, 0, 9)) == ([], 0, 0)
    assert not path.exists()
