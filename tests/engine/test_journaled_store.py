"""A store with a journal: what was committed is there, whatever happens."""

from __future__ import annotations

import resource
import shutil
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
from broker.state.migrations import VERSION
from broker.state.store import Store
from tests.engine.test_state import PAIR, item
from tests.seeds import seeds
from tests.waiting import PATIENCE, until


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


def test_a_store_in_memory_brings_many_to_its_tables_at_once() -> None:
    store = Store(None)
    for n in range(100):
        insert(store, n)
    assert unread(store)
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(store, 100)
    store.reopen()
    assert unread(store), "what waits is not lost with a connection"
    with store.snapshot() as statements:
        assert statements.count("SELECT count(*) FROM rl") == 100
    assert kept(store) == [*range(100)]
    assert not unread(store)
    store.close()


def test_many_small_ones_and_a_large_one_go_to_the_tables(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sizes = set()
    for n in range(600):
        insert(store, n)
        sizes.add((tmp_path / "journal").stat().st_size)
    assert max(sizes) < 500_000
    insert(store, 600, size=100_000)
    assert not unread(store)
    assert len(kept(store)) == 100_600
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


@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_whatever_happens_what_was_committed_is_there(
    seed: int, in_background: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions of all kinds, some of which fail, among reads, kills and restarts."""
    r = Random(seed)
    if in_background:
        monkeypatch.setattr("broker.state.behind._MANY", 4 * r.choice((2, 5)))
        monkeypatch.setattr("broker.state.checkpoints.LOG", r.choice((1_000, 100_000)))
    state = tmp_path / "first"
    store = Store(state, in_background=in_background)
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
            store = Store(state, in_background=in_background)
        elif what == "close":
            store.close()
            store = Store(state, in_background=in_background)
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
