"""The log of matches: durable, in order, each match once; readers with cursors; damaged files."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection
from itertools import count
from pathlib import Path

import pytest

from broker.delivery import Mailbox, MailboxError
from broker.delivery.tables import VERSION
from broker.model import Match
from tests.delivery.support import DAY, START, Clock, match, open_mailbox
from tests.waiting import PATIENCE, until


def test_matches_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    matches = [match(0), match(1, "other"), match(2, title="É ✓ \U0001f600")]
    with open_mailbox(tmp_path) as mailbox:
        assert mailbox.take(matches, START) == 3
    with open_mailbox(tmp_path) as mailbox:
        found = mailbox.matches(None, 0, 10)
        assert [d.match for d in found] == matches
        assert [d.n for d in found] == [1, 2, 3] == [*range(1, mailbox.last() + 1)]
        assert {d.taken for d in found} == {START}
        assert [d.n for d in mailbox.matches("tides", 0, 10)] == [1, 3]
        assert [d.n for d in mailbox.matches(["tides", "other"], 1, 10)] == [2, 3]
        assert [d.n for d in mailbox.matches(None, 1, 1)] == [2]
        assert [d.n for d in mailbox.latest("tides", 5)] == [3, 1]
        assert mailbox.matches("nobody", 0, 10) == mailbox.latest("nobody", 10) == []


def test_a_thread_writes_the_write_ahead_log_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While matches go on coming, which makes the file no longer than that."""
    monkeypatch.setattr("broker.delivery.tables._CHANGES", 20)
    with open_mailbox(tmp_path) as mailbox:
        before = mailbox.path.stat().st_size
        for n in count():
            mailbox.take([match(n)], START)
            if mailbox.path.stat().st_size > before:
                break
        taken = [match(k) for k in range(n + 1)]
        assert [d.match for d in mailbox.matches(None, 0, n + 1)] == taken
        log = Path(f"{mailbox.path}-wal")
        mailbox.db.checkpoint()
        size = log.stat().st_size
        mailbox.db.checkpoint()
        mailbox.take([match(n + 1)], START)
        assert log.stat().st_size == size  # written over from its begin


def test_an_empty_log_has_no_number_yet(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        _, last, newest = mailbox.proof()
        assert (mailbox.last(), last, newest) == (0, 0, (0, 0))


def test_half_characters_survive(tmp_path: Path) -> None:
    odd = match(0, values={"title": ["half \ud83d"]})
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([odd])
        assert mailbox.matches(None, 0, 1)[0].match == odd


def test_a_match_is_taken_once_also_in_another_process_and_beside_new_ones(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        assert mailbox.take([match(0), match(1), match(0)]) == 2
        assert mailbox.take([match(1), match(2)]) == 1
    with open_mailbox(tmp_path) as mailbox:
        assert mailbox.take([match(0), match(1), match(2)]) == 0
        assert mailbox.figures().repeated == 5
        assert mailbox.last() == 3


@pytest.mark.parametrize("together", [1, 60])
@pytest.mark.parametrize("read_again", [False, True])
def test_a_match_is_known_however_many_come_with_it(
    tmp_path: Path, together: int, read_again: bool
) -> None:
    """Of few and of many matches what is remembered is computed in different ways."""
    found = [match(n, f"q{n % 7}") for n in range(60)]
    mailbox = open_mailbox(tmp_path)
    for begin in range(0, 60, together):
        assert mailbox.take(found[begin : begin + together]) == together
    if read_again:
        mailbox.close()
        mailbox = open_mailbox(tmp_path)
    with mailbox:
        assert mailbox.take(found) == 0
        assert [mailbox.take([each]) for each in found] == [0] * 60


def test_a_match_is_known_after_its_row_has_gone(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(n) for n in range(10)], START)
        assert mailbox.retain(delivered=DAY, now=START + 2 * DAY) == 10
        assert mailbox.matches(None, 0, 10) == []
    with open_mailbox(tmp_path) as mailbox:
        assert mailbox.take([match(n) for n in range(11)], START + 2 * DAY) == 1
        assert mailbox.matches(None, 0, 10)[0].n == 11, "a number is never given twice"


def test_ids_of_any_form(tmp_path: Path) -> None:
    """Ids that are not ours (32 hexadecimal digits) are told apart as well."""
    plain = match(0)
    ids = ["a", "b", "g" * 32, "A" * 32, "a" * 32, "ø" * 40]
    matches = [Match(id, *(getattr(plain, f) for f in Match.__slots__ if f != "id")) for id in ids]
    with open_mailbox(tmp_path) as mailbox:
        assert mailbox.take(matches) == len(ids) - 1  # hexadecimal digits in two cases
        assert mailbox.take(matches) == 0
        found = mailbox.find("ø" * 40)
        assert found is not None
        assert found.match.id == "ø" * 40
        assert mailbox.find("c") is None


def test_what_a_dropped_subscription_found_is_new_for_its_successor(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)])
        mailbox.drop("tides", "drop")
        assert mailbox.matches(None, 0, 10) == []
        assert mailbox.take([match(0)]) == 1
        assert mailbox.take([match(0)]) == 0
        mailbox.drop("tides", "deliver")
        assert mailbox.take([match(0)]) == 1
        assert [d.n for d in mailbox.matches("tides", 0, 10)] == [2, 3]


def test_a_failed_drop_changes_nothing(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)])
        mailbox.db.maintain(
            "CREATE TRIGGER full BEFORE INSERT ON subscription "
            "BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        with pytest.raises(MailboxError, match="full"):
            mailbox.drop("tides", "drop")
        assert mailbox.take([match(0)]) == 0
        assert [d.n for d in mailbox.matches("tides", 0, 10)] == [1]


def test_a_failed_take_leaves_nothing_behind(tmp_path: Path) -> None:
    """The file is full in the middle: nothing is in it, nothing in memory says that it is."""
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)])
        mailbox.db.maintain("PRAGMA max_page_count = 1")  # as small as it is now
        many = [match(n, f"q{n}", result=f"<r>{'x' * 20_000}</r>") for n in range(1, 100)]
        with pytest.raises(MailboxError, match="full"):
            mailbox.take(many)
        assert mailbox.last() == 1
        mailbox.db.maintain("PRAGMA max_page_count = 1000000")
        assert mailbox.take(many) == 99
        assert mailbox.matches("q5", 0, 1)[0].n == 6


def test_who_watches_is_told_what_has_something_new(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        told: list[Collection[str] | None] = []
        stop = mailbox.watch(told.append)
        mailbox.take([match(0, "other")])
        assert told == [{"other"}]
        mailbox.put_channel("reader", "pull")
        assert told == [{"other"}, None]
        mailbox.take([match(0, "other")])
        assert len(told) == 2, "taken before"
        stop()
        mailbox.take([match(1)])
        assert len(told) == 2


def test_a_closed_mailbox_says_so(tmp_path: Path) -> None:
    mailbox = open_mailbox(tmp_path)
    mailbox.close()
    with pytest.raises(MailboxError, match="closed"):
        mailbox.matches(None, 0, 1)


def test_reads_go_on_while_something_is_written(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)])
        inside, done = threading.Event(), threading.Event()

        def write() -> None:
            with mailbox.db.transaction() as db:
                db.execute("UPDATE match SET left_out = 7")
                inside.set()
                done.wait(PATIENCE)

        writing = threading.Thread(target=write)
        writing.start()
        inside.wait(PATIENCE)
        assert mailbox.matches(None, 0, 1)[0].left_out == 0
        done.set()
        writing.join()
        assert mailbox.matches(None, 0, 1)[0].left_out == 7


def test_find_by_id(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(n) for n in range(50)])
        mailbox.take([match(50)])
        for n in (0, 17, 49, 50):
            found = mailbox.find(match(n).id)
            assert found is not None
            assert found.n == n + 1


# -- the file ------------------------------------------------------------------------------------


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(0)])
        modes = [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()]
        assert modes == [0o600] * len(modes)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mailbox.sqlite"
    path.write_bytes(b"These are the tides of the week.\n" * 100)
    with pytest.raises(MailboxError, match=r"not a database.*Restore the state from a backup"):
        Mailbox(path)
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE tides (height REAL)")
    with pytest.raises(MailboxError, match="a database, but not a mailbox"):
        Mailbox(path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.db.maintain(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(MailboxError, match=f"version {VERSION + 1}.* up to {VERSION}"):
        open_mailbox(tmp_path)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_a_damaged_file_is_refused_with_a_way_out(tmp_path: Path, place: float) -> None:
    path = tmp_path / "mailbox.sqlite"
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([match(n) for n in range(2_000)])
        mailbox.compact()  # all of it into the file itself
    with path.open("r+b") as file:
        file.seek(int(path.stat().st_size * place) // 4096 * 4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(MailboxError, match=r"mailbox\.sqlite: .*broker restore"):
        open_mailbox(tmp_path)


def test_a_torn_write_ahead_log_loses_only_what_was_not_committed(tmp_path: Path) -> None:
    """As a power failure leaves it: copied while open, its last record cut in two."""
    mailbox = open_mailbox(tmp_path)
    for n in range(5):
        mailbox.take([match(n)])
    copied = tmp_path / "copy"
    copied.mkdir()
    for name in ("mailbox.sqlite", "mailbox.sqlite-wal"):
        (copied / name).write_bytes((tmp_path / name).read_bytes())
    mailbox.close()
    log = copied / "mailbox.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-2_000])
    with open_mailbox(copied) as mailbox:
        assert [d.match for d in mailbox.matches(None, 0, 10)] == [match(n) for n in range(4)]
        assert mailbox.take([match(4)]) == 1


def test_backup_while_it_is_written(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.put_channel("reader", "pull")
        mailbox.take([match(n) for n in range(1_000)])
        stop = threading.Event()
        taken: list[int] = []

        def write() -> None:
            n = 1_000
            while not stop.is_set():
                mailbox.take([match(n)])
                n += 1
                taken.append(n)

        writing = threading.Thread(target=write)
        writing.start()
        until(lambda: len(taken) > 5)
        for copy in range(3):
            mailbox.backup(tmp_path / f"backup-{copy}.sqlite")
        stop.set()
        writing.join()
        with pytest.raises(MailboxError, match="exists already"):
            mailbox.backup(tmp_path / "backup-0.sqlite")
    with Mailbox(tmp_path / "backup-2.sqlite") as restored:
        restored.check()
        last = restored.last()
        assert last >= 1_005
        assert [d.n for d in restored.matches(None, 0, 10_000)] == [*range(1, last + 1)]
        assert restored.channel("reader").cursor == 0
        assert restored.take([match(n) for n in range(last + 1)]) == 1, "the others are known"


def test_the_clock_is_the_mailboxs_own(tmp_path: Path) -> None:
    clock = Clock()
    with open_mailbox(tmp_path, clock) as mailbox:
        mailbox.take([match(0)])
        assert mailbox.matches(None, 0, 1)[0].taken == clock.now


class _Slow(Mailbox):
    """Takes long to note the last place after it has committed what is there."""

    noting = threading.Event()
    go = threading.Event()
    _noted = 0

    @property
    def _last(self) -> int:
        return self._noted

    @_last.setter
    def _last(self, last: int) -> None:
        if last:
            self.noting.set()
            assert self.go.wait(PATIENCE)
        self._noted = last


def test_what_can_be_read_can_be_acknowledged(tmp_path: Path) -> None:
    mailbox = _Slow(tmp_path / "mailbox.sqlite")
    with mailbox:
        mailbox.put_channel("puller", "pull")
        taking = threading.Thread(target=mailbox.take, args=([match(0), match(1)],))
        taking.start()
        assert mailbox.noting.wait(PATIENCE)
        assert [delivered.n for delivered in mailbox.pull("puller", 10)] == [1, 2]
        assert mailbox.ack("puller", 2) == 2
        with pytest.raises(ValueError, match="3 is no place in the log, which goes up to 2"):
            mailbox.ack("puller", 3)
        mailbox.go.set()
        taking.join()
        assert mailbox.last() == 2
