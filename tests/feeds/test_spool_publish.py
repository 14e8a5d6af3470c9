"""Published documents in the spool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from feeds.packs import MOST
from feeds.spool import Spool, SpoolFull, read_rows
from feeds.spool_file import give_back
from tests.feeds.data import ROOT
from tests.feeds.spooling import A, batch, item, posted, rows
from tests.waiting import until


def meet(spool: Spool, count: int, work: Callable[[int], None]) -> None:
    """Threads that publish while something else is being written, so that they all wait."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    with spool._lock:
        for thread in threads:
            thread.start()
        until(lambda: len(spool._waiting) >= count)
    for thread in threads:
        thread.join()


def test_what_is_published_is_a_row_as_it_was(spool: Spool) -> None:
    first = posted("1", b"<a>\xc3\xa9</a>")
    assert list(spool.publish([first, posted("2")])) == [1, 2]
    spool.append(batch(A, item("x", 5)))
    assert list(spool.publish([posted("1")._replace(revision=True, dated=False)])) == [4]
    found = rows(spool)
    assert found[0] == first._replace(seq=1)
    assert [(row.id, row.seq, row.revision, row.dated) for row in found] == [
        ("1", 1, False, True),
        ("2", 2, False, True),
        ("x", 3, False, True),
        ("1", 4, True, False),
    ]
    assert spool.backlog(1) == 3


def test_calls_that_meet_are_one_transaction_and_each_has_its_numbers(tmp_path: Path) -> None:
    calls: list[str] = []
    spool = Spool(tmp_path / "spool.sqlite", on_rows=lambda: calls.append("rows"))
    commits: list[str] = []
    spool._db.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    got: dict[int, range] = {}

    def work(number: int) -> None:
        got[number] = spool.publish([posted(f"{number}-{n}") for n in range(3)])

    meet(spool, 9, work)
    assert len(commits) == 1
    assert calls == ["rows"]
    by_number = {row.seq: row.id for row in rows(spool)}
    assert len(by_number) == 27
    for number, numbers in got.items():
        assert [by_number[n] for n in numbers] == [f"{number}-{n}" for n in range(3)]


def test_the_backlog_knows_of_whatever_has_been_accepted(spool: Spool) -> None:
    """Who has an answer is in the backlog, whoever else publishes meanwhile; it never falls."""
    seen: list[bool] = []

    def work(number: int) -> None:
        before = 0
        for n in range(20):
            (given,) = spool.publish([posted(f"{number}-{n}")])
            now = spool.backlog(0)
            seen.append(now >= given and now >= before)
            before = now

    meet(spool, 6, work)
    assert len(seen) == 120
    assert all(seen)
    assert spool.backlog(0) == 120
    assert spool.backlog(100) == 20
    assert spool.backlog(500) == 0


def test_a_full_disk_refuses_all_that_met_and_keeps_what_was_there(spool: Spool) -> None:
    spool.publish([posted("1")])
    (pages,) = spool._db.execute("PRAGMA page_count").fetchone()
    spool._db.execute(f"PRAGMA max_page_count = {pages}")
    refused: list[str] = []

    def work(number: int) -> None:
        try:
            spool.publish([posted(str(number), b"x" * 9_000)])
        except SpoolFull as error:
            refused.append(str(error))

    meet(spool, 3, work)
    assert len(refused) == 3
    assert "full" in refused[0]
    spool._db.execute("PRAGMA max_page_count = 1000000")
    assert list(spool.publish([posted("2")])) == [2]
    assert [row.id for row in rows(spool)] == ["1", "2"]


def test_text_that_cannot_be_stored_is_the_caller_s_own_problem(spool: Spool) -> None:
    with pytest.raises(UnicodeEncodeError):
        spool.publish([posted("1"), posted("\ud83d")])
    assert list(spool.publish([posted("2")])) == [1]


PUBLISHER = """
import sys, threading
from pathlib import Path
from feeds.packs import MOST
from feeds.spool import Spool
from tests.feeds.spooling import posted

spool = Spool(sys.argv[1])
lock = threading.Lock()

def work(name):
    for n in range(100_000):
        ids = [f"{sys.argv[2]}-{name}-{n}-{k}" for k in range(n % 3 + 1)]
        numbers = spool.publish([posted(id, b"<a>" + id.encode() * 50 + b"</a>") for id in ids])
        with lock:
            print(*[f"{seq}={id}" for seq, id in zip(numbers, ids)], flush=True)
        if n % 50 == 49:
            spool.trim(numbers[0] - 400)

for name in range(8):
    threading.Thread(target=work, args=(name,)).start()
"""


def test_what_a_killed_process_has_accepted_is_there(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    accepted: dict[int, str] = {}
    for kill in range(4):
        command = [sys.executable, "-c", PUBLISHER, str(path), str(kill)]
        publisher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert publisher.stdout is not None
        lines = [publisher.stdout.readline() for _ in range(40 + 37 * kill)]
        os.kill(publisher.pid, signal.SIGKILL)
        *whole, _ = publisher.stdout.read().split("\n")  # the last may be torn
        publisher.wait()
        publisher.stdout.close()
        for line in [*lines, *whole]:
            for pair in line.split():
                seq, id = pair.split("=")
                assert int(seq) not in accepted
                accepted[int(seq)] = id
        found = {row.seq: row.id for row in read_rows(path, 0, 2**62) if row.seq is not None}
        left = min(found)
        assert {seq: id for seq, id in accepted.items() if seq >= left}.items() <= found.items()
        assert sorted(found) == list(range(left, max(found) + 1))
    assert len(accepted) > 300


def test_numbers_go_on_where_a_lost_spool_was(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    with Spool(path) as spool:
        spool.skip_to(500)
        assert spool.last_seq() == 500
        assert list(spool.publish([posted("1")])) == [501]
        spool.skip_to(20)
        assert list(spool.publish([posted("2")])) == [502]
        spool.trim(600)
    with Spool(path) as spool:
        assert list(spool.publish([posted("3")])) == [503]


def test_what_was_let_go_is_given_back(spool: Spool) -> None:
    for start in range(0, 5_000, 500):
        spool.publish([posted(str(n), b"x" * 8_000) for n in range(start, start + 500)])
    spool._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = spool.path.stat().st_size
    assert 4_900 - MOST < spool.trim(4_900) <= 4_900
    assert spool.compact() > 1_000
    spool._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert spool.path.stat().st_size < before / 2
    assert [row.seq for row in spool.read(4_900, 9_999)] == list(range(4_901, 5_001))


def test_publishers_do_not_wait_until_all_is_given_back(spool: Spool) -> None:
    for start in range(0, 2_000, 500):
        spool.publish([posted(str(n), b"x" * 8_000) for n in range(start, start + 500)])
    assert spool.trim(2_000)
    between = Between(spool)
    give_back(spool.path, between, 200)
    assert len(between.published) > 4
    assert [row.seq for row in spool.read(2_000, 9_999)] == between.published


class Between:
    """A lock, behind each holding of which something is published."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.published: list[int] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.published += self.spool.publish([posted(f"between {len(self.published)}")])


def test_a_copy_holds_what_was_there(spool: Spool, tmp_path: Path) -> None:
    spool.append(batch(A, item("1", 5)))
    spool.publish([posted("2")])
    spool.trim(1)
    copy = tmp_path / "copy.sqlite"
    spool.backup(copy)
    spool.publish([posted("3")])
    with Spool(copy) as copied:
        assert [row.id for row in rows(copied)] == ["2"]
        assert [state.url for state in copied.feeds()] == [A]
        assert list(copied.publish([posted("4")])) == [3]
        assert copied.append(batch(A, item("1", 5))) == 0  # what was seen is known
