"""The journal: small transactions are in it before the tables hold them, and nobody sees that."""

from __future__ import annotations

import base64
import resource
import shutil
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from broker import Broker
from broker.results.contents import Contents
from broker.state import migrations
from broker.state.journal import DamagedJournal, Journal, Record
from broker.state.migrations import VERSION
from broker.state.store import StateError, Store
from tests.engine.test_state import PAIR, item, pairs
from tests.seeds import seeds
from tests.waiting import PATIENCE, until

SECRET = 12_345
SECTOR = 512


KEPT = (
    "eNqLcPIK8vMxMGRngIAcJgjNxNAAJFdARYty/gNBBZAlAOZzMfAwsDGwMnAAWUDAyALkMwB5HECSBUoChYFYBKxH"
    "BCjGxsAOViUANYORCUTLQNWCADMQp+QnA9XyADE72ByQQgcgAbK/A2oeCPAwiEFdwAM2lYGZhUECSEkwwAAXkM0D"
    "dg3IjTZQtzMzIAATA24ggcRmRNMHAuw4aDYGkCtnQHn5pSVJ+RUgtzfQIOxUkMIOpC8vtaIkHhSAYD75YchBIAwZ"
    "iQxDDrQwZMQRhjuus2kBAPicJm4="
)
"""A journal with the record of number 7, as the first version with journals wrote it."""


def record(number: int, size: int = 3) -> Record:
    return Record(
        number, [("rl", pa.table({"doc": [number] * size})), ("outbox", progress(number))]
    )


def progress(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"next_doc": pa.array([number], pa.int64())})


def numbers(records: list[Record]) -> list[int]:
    """Their numbers; the rows are those of these numbers."""
    for number, inserts in records:
        (first, rows), (second, row) = inserts
        assert (first, second) == ("rl", "outbox")
        assert set(rows["doc"].to_pylist()) == {*row["next_doc"].to_pylist()} == {number}
    return [number for number, _ in records]


def written(path: Path, *records: Record) -> bytes:
    journal = Journal(path, SECRET)
    assert journal.read(records[0].number - 1) == []
    for each in records:
        journal.append(each)
    journal.close()
    return path.read_bytes()


def read(path: Path, after: int) -> list[int]:
    journal = Journal(path, SECRET)
    try:
        return numbers(journal.read(after))
    finally:
        journal.close()


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    written(tmp_path / "j", record(7), record(8, 5_000), record(9))
    assert read(tmp_path / "j", 6) == [7, 8, 9]
    assert read(tmp_path / "j", 9) == []


def test_a_journal_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(zlib.decompress(base64.b64decode(KEPT)))
    assert read(tmp_path / "j", 6) == [7]


def test_records_go_on_behind_those_that_were_read(tmp_path: Path) -> None:
    written(tmp_path / "j", record(1), record(2))
    journal = Journal(tmp_path / "j", SECRET)
    assert numbers(journal.read(0)) == [1, 2]
    journal.append(record(3))
    journal.close()
    assert read(tmp_path / "j", 0) == [1, 2, 3]


def test_older_records_behind_newer_ones_are_none(tmp_path: Path) -> None:
    """Also where a new record ends just before an old one, which was once behind another."""
    journal = Journal(tmp_path / "j", SECRET)
    for round in range(4):
        for number in range(5 * round + 1, 5 * round + 6):
            journal.append(record(number, 1 + number % 2))
        journal.rewind()
    size = (tmp_path / "j").stat().st_size
    journal.append(record(21))
    journal.append(record(22, 2))
    journal.close()
    assert read(tmp_path / "j", 20) == [21, 22]
    assert (tmp_path / "j").stat().st_size == size


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_torn_last_record_was_not_committed(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    before = written(tmp_path / "j", record(1), record(2))
    whole = written(tmp_path / "j2", record(1), record(2), record(3, 400))
    for _ in range(20):
        sectors = [whole[at : at + SECTOR] for at in range(0, len(whole), SECTOR)]
        first = -(-len(before) // SECTOR)
        lost = r.sample(range(first, len(sectors)), r.randint(1, len(sectors) - first))
        for each in lost:
            sectors[each] = bytes(len(sectors[each]))
        (tmp_path / "j").write_bytes(b"".join(sectors))
        assert read(tmp_path / "j", 0) == [1, 2]
        (tmp_path / "j").write_bytes(whole[: r.randrange(len(before), len(whole))])
        assert read(tmp_path / "j", 0) == [1, 2]


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_damage_before_the_last_record_is_noticed(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    ends = [len(written(tmp_path / str(n), *map(record, range(1, n + 1)))) for n in (1, 2)]
    whole = written(tmp_path / "whole", record(1), record(2), record(3))
    between = [range(end, -(-end // SECTOR) * SECTOR) for end in ends]
    for _ in range(100):
        content = bytearray(whole)
        at = r.randrange(ends[-1])
        content[at] ^= 1 << r.randrange(8)
        (tmp_path / "j").write_bytes(content)
        if any(at in unused for unused in between):
            assert read(tmp_path / "j", 0) == [1, 2, 3]
        else:
            with pytest.raises(DamagedJournal):
                read(tmp_path / "j", 0)


def test_a_journal_of_another_point_in_time_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "j", record(5), record(6))
    with pytest.raises(DamagedJournal):
        read(tmp_path / "j", 3)


def test_what_looks_like_a_record_is_none(tmp_path: Path) -> None:
    """A document may hold any bytes, but does not know the secret."""
    written(tmp_path / "forged", record(99))
    forged = (tmp_path / "forged").read_bytes()
    journal = Journal(tmp_path / "j", SECRET + 1)
    journal.append(Record(1, [("documents", pa.table({"xml": [forged.ljust(2 * SECTOR) * 9]}))]))
    journal.close()
    content = bytearray((tmp_path / "j").read_bytes())
    at = content.index(forged)
    # Wherever it comes to stand, and also where the record before it is not whole.
    content[:at] = bytes(-(-at // SECTOR) * SECTOR)
    (tmp_path / "j").write_bytes(content)
    journal = Journal(tmp_path / "j", SECRET + 1)
    assert journal.read(0) == []
    journal.close()


# -- a store with a journal ----------------------------------------------------------------------


def insert(store: Store, n: int, size: int = 1) -> None:
    """A transaction as a batch makes it."""
    with store.transaction():
        store.insert("rl", pa.table({"doc": [n] * size}))
        store.insert("progress", pa.table({"next_doc": [n]}))


def insert_and_fail(store: Store, n: int) -> None:
    with store.transaction():
        insert(store, n)
        raise ZeroDivisionError


def kept(store: Store) -> list[int]:
    return [n for (n,) in store.rows("SELECT doc FROM rl ORDER BY doc")]


def unread(store: Store) -> bool:
    """Whether the tables lack something."""
    return store.behind is not None and store.behind.waits


def copied(state: Path, to: Path) -> Path:
    """The state as it would be had the process been killed now."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(state, to)
    return to


@contextmanager
def no_space(beyond: int) -> Iterator[None]:
    """No file grows beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_small_transaction_is_durable_before_the_tables_hold_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    insert(store, 1)
    insert(store, 2)
    assert unread(store)
    again = Store(copied(tmp_path / "state", tmp_path / "killed"))
    assert kept(again) == [1, 2]
    again.close()
    assert kept(store) == [1, 2]
    assert not unread(store)
    insert(store, 3)
    store.close()
    assert not (tmp_path / "state" / "journal").exists()
    again = Store(tmp_path / "state")
    assert kept(again) == [1, 2, 3]
    again.close()


def test_many_small_ones_and_a_large_one_go_to_the_tables(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sizes = set()
    for n in range(200):
        insert(store, n)
        sizes.add((tmp_path / "journal").stat().st_size)
    assert max(sizes) < 200_000
    insert(store, 200, size=100_000)
    assert not unread(store)
    assert len(kept(store)) == 100_200
    store.close()


def test_a_transaction_sees_what_it_has_inserted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    insert(store, 1)
    with store.transaction():
        store.insert("rl", pa.table({"doc": [2]}))
        assert kept(store) == [1, 2]
        store.insert("rl", pa.table({"doc": [3]}))
        assert kept(store) == [1, 2, 3]
        with store.snapshot() as statements:
            assert statements.count("SELECT count(*) FROM rl") == 1
    store.close()


def test_who_asks_about_older_documents_does_not_wait_for_the_tables(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def add(doc: int) -> None:
        store.insert("documents", pa.table({"doc": [doc]}))
        insert(store, doc)

    def known(docs: list[int]) -> list[int]:
        sql = "SELECT doc FROM documents WHERE doc IN (SELECT unnest(?::BIGINT[])) ORDER BY doc"
        return [doc for (doc,) in store.rows_about(docs, sql, [docs])]

    for doc in range(1, 4):
        with store.transaction():
            add(doc)
    assert known([3, 1]) == [1, 3]
    for doc in (5, 4):
        with store.transaction():
            add(doc)
            assert known([2, 3]) == [2, 3]
    assert unread(store)
    with store.transaction():
        add(6)
        assert known([3]) == [3]
    assert unread(store)
    assert known([4]) == [4]
    assert not unread(store)
    with store.transaction():
        add(7)
        assert known([7, 8]) == [7]
    store.close()
    again = Store(copied(tmp_path, tmp_path / "killed"))
    assert kept(again) == [*range(1, 8)]
    again.close()


def test_matches_with_documents_that_memory_has_forgotten_stay_in_the_journal(
    tmp_path: Path,
) -> None:
    found = []
    for name, remembered in (("one", 2_000), ("all", 64 << 20)):
        with Broker(tmp_path / name) as broker:
            engine = broker.engine
            engine.contents = Contents(engine.relations, remembered)
            broker.subscribe(PAIR)
            matches = broker.process([item(n, f"text {n % 5}") for n in range(-1, 5)])
            assert len(broker.undelivered()) == 1
            for n in range(5):
                matches += broker.process([item(n + 5, f"text {n}")])
                assert unread(engine.store)
            # This one is in the journal itself.
            matches += broker.process([item(10, "text 2")])
            found.append([(m.id, m.result) for m in matches])
    assert found[0] == found[1]
    assert len(found[0]) == 1 + 5 + 1 + 2


def test_a_snapshot_in_another_thread_sees_what_was_committed(tmp_path: Path) -> None:
    """While transactions are committed, of both kinds."""
    store = Store(tmp_path)
    committed = count()
    upto = 0

    def look() -> int:
        before = upto
        with store.snapshot() as statements:
            seen = statements.count("SELECT count(*) FROM rl")
        assert before <= seen
        return seen

    def looking() -> list[int]:
        seen = [look()]
        while upto < 300:
            seen.append(look())
        return seen

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(looking) for _ in range(2)]
        for n in committed:
            insert(store, n)
            upto = n + 1
            if n % 7 == 0:
                with store.transaction():
                    store.set_numbers(other=n)
            if upto == 300:
                break
        for each in found:
            seen = each.result(PATIENCE)
            assert seen == sorted(seen)
            assert seen[-1] <= 300
    assert kept(store) == [*range(300)]
    store.close()
    until(lambda: not unread(store))


def test_no_space_for_a_record_is_as_if_it_had_not_been_tried(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    for n in range(3):
        insert(store, n)
    for _ in range(2):
        with no_space(100), pytest.raises(duckdb.Error, match="File too large"):
            insert(store, 9)
        again = Store(copied(tmp_path / "state", tmp_path / "killed"))
        assert kept(again) == [0, 1, 2]
        again.close()
    insert(store, 3)
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(store, 9)
    insert(store, 4)
    assert kept(store) == [0, 1, 2, 3, 4]
    store.close()


def test_a_record_that_failed_does_not_come_back(tmp_path: Path) -> None:
    """It may be on the disk, as when a sync fails; once anything else was committed, it is void."""
    store = Store(tmp_path / "state")
    insert(store, 1)
    journal = tmp_path / "state" / "journal"
    insert(store, 2)
    as_if_written = journal.read_bytes()
    assert kept(store) == [1, 2]
    with no_space(100), pytest.raises(duckdb.IOException):
        insert(store, 3)
    insert(store, 4)
    insert(store, 5)
    later = Store(copied(tmp_path / "state", tmp_path / "killed"))
    assert kept(later) == [1, 2, 4, 5]
    later.close()
    assert kept(store) == [1, 2, 4, 5]
    (tmp_path / "state" / "journal").write_bytes(as_if_written)
    later = Store(copied(tmp_path / "state", tmp_path / "killed"))
    assert kept(later) == [1, 2, 4, 5]
    later.close()
    store.close()


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_whatever_happens_what_was_committed_is_there(seed: int, tmp_path: Path) -> None:
    """Transactions of all kinds, some of which fail, among reads, kills and restarts."""
    r = Random(seed)
    state = tmp_path / "first"
    store = Store(state)
    model: list[int] = []
    numbered = count(1)
    for step in range(120):
        n = next(numbered)
        what = r.choice(
            ["small"] * 5 + ["large", "read", "kill", "close", "fail", "full", "reopen"]
        )
        if what == "small":
            insert(store, n, r.randint(1, 5))
            model = [*model, n]
        elif what == "large":
            insert(store, n, 66_000)
            model = [*model, n]
        elif what == "read":
            with store.transaction():
                store.insert("rl", pa.table({"doc": [n]}))
                store.run("DELETE FROM rl WHERE doc = ?", [model[0] if model else 0])
            model = [*model[1:], n]
        elif what == "fail":
            with pytest.raises(ZeroDivisionError):
                insert_and_fail(store, n)
        elif what == "full":
            try:
                with no_space(r.choice((50, 5_000, 50_000))):
                    insert(store, n)
                model = [*model, n]
            except duckdb.Error:
                pass
        elif what == "kill":
            state = copied(state, tmp_path / str(step))
            store.close()
            store = Store(state)
        elif what == "close":
            store.close()
            store = Store(state)
        else:
            store.reopen()
        if r.random() < 0.3:
            found = store.rows("SELECT DISTINCT doc FROM rl ORDER BY doc")
            assert [n for (n,) in found] == model, what
    found = store.rows("SELECT DISTINCT doc FROM rl ORDER BY doc")
    assert [n for (n,) in found] == model
    store.close()


def test_a_later_version_migrates_what_the_journal_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "state")
    insert(store, 1)
    state = copied(tmp_path / "state", tmp_path / "killed")
    store.close()
    step = "ALTER TABLE rl ADD COLUMN more BIGINT; UPDATE rl SET more = doc + 1"
    monkeypatch.setitem(migrations.STEPS, VERSION + 1, step)
    monkeypatch.setattr("broker.state.store.VERSION", VERSION + 1)
    for _ in range(2):
        store = Store(state)
        assert store.rows("SELECT doc, more FROM rl") == [(1, 2)]
        store.close()


# -- a broker ------------------------------------------------------------------------------------


def killed(state: Path) -> Path:
    """A state whose last two documents only the journal has."""
    copy = state.with_name("killed")
    with Broker(state) as broker:
        broker.subscribe(PAIR)
        for n in (1, 2, 3, 4):  # at first some things are read
            assert len(broker.process([item(n)])) == n - 1
        copied(state, copy)
    return copy


def test_a_killed_broker_goes_on_where_it_was(tmp_path: Path) -> None:
    with Broker(killed(tmp_path / "state")) as broker:
        assert len(pairs(broker.undelivered())) == 6
        assert broker.process([item(4)]) == []
        assert pairs(broker.process([item(5)])) == {(str(n), "5") for n in (1, 2, 3, 4)}


def test_a_torn_last_record_is_a_batch_that_has_not_happened(tmp_path: Path) -> None:
    state = killed(tmp_path / "state")
    journal = state / "journal"
    journal.write_bytes(journal.read_bytes()[:-20])
    with Broker(state) as broker:
        assert pairs(broker.undelivered()) == {("1", "2"), ("1", "3"), ("2", "3")}
        assert pairs(broker.process([item(3), item(4)])) == {(str(n), "4") for n in (1, 2, 3)}


def test_a_journal_that_is_damaged_before_its_end_is_refused(tmp_path: Path) -> None:
    state = killed(tmp_path / "state")
    content = bytearray((state / "journal").read_bytes())
    content[100] ^= 1
    (state / "journal").write_bytes(content)
    for _ in range(2):
        with pytest.raises(StateError, match=r"journal: the state is damaged: .*Restore the last"):
            Broker(state)
    assert (state / "journal").read_bytes() == content


def test_a_backup_holds_what_only_the_journal_had(tmp_path: Path) -> None:
    with Broker(tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        broker.process([item(1)])
        (tmp_path / "copy").mkdir()
        broker.engine.store.backup(tmp_path / "copy")
        broker.process([item(2)])
    with Broker(tmp_path / "copy") as broker:
        assert pairs(broker.process([item(3)])) == {("1", "3")}
