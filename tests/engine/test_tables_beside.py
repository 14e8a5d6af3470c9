"""A store that brings its tables what the journal has, and makes checkpoints, in a thread beside the
transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from broker import Broker, Document
from broker.state.statements import Statements
from broker.state.store import Store
from tests.engine.test_journaled_store import copied, insert, kept, unread
from tests.waiting import PATIENCE, until

MANY = 4


class Gate:
    """What the thread waits for before it commits, and what it raises then."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.error: Exception | None = None

    def reach(self) -> None:
        assert self.reached.wait(PATIENCE)

    def refuse(self) -> None:
        assert self.error is not None
        raise self.error

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        if self.error is not None:
            raise self.error


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate()
    run = Statements.run

    def waits(self: Statements, sql: str, parameters: list[object] | tuple[()] = ()) -> None:
        if sql == "COMMIT" and threading.current_thread().name == "tables":
            found.pass_through()
        run(self, sql, parameters)

    monkeypatch.setattr(Statements, "run", waits)
    monkeypatch.setattr("broker.state.behind._MANY", 4 * MANY)
    yield found
    found.opened.set()


def filled(store: Store, numbers: range) -> None:
    for n in numbers:
        insert(store, n)


def as_killed(state: Path, to: Path) -> list[int]:
    again = Store(copied(state, to))
    found = kept(again)
    again.close()
    return found


def test_batches_go_on_while_the_tables_are_brought_what_waits(tmp_path: Path, gate: Gate) -> None:
    """And at each moment a process that is killed has lost nothing."""
    state = tmp_path / "state"
    store = Store(state, in_background=True)
    filled(store, range(MANY + 1))
    gate.reach()
    for n in range(MANY + 1, 3 * MANY):
        assert as_killed(state, tmp_path / "killed") == [*range(n)]
        insert(store, n)
    assert unread(store)
    gate.opened.set()
    assert kept(store) == [*range(3 * MANY)]
    assert not unread(store)
    filled(store, range(3 * MANY, 9 * MANY))
    assert as_killed(state, tmp_path / "killed") == [*range(9 * MANY)]
    store.close()
    assert not (state / "journal").exists()
    again = Store(state)
    assert kept(again) == [*range(9 * MANY)]
    again.close()


def test_a_process_that_is_killed_behind_the_commit_has_nothing_twice(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables hold what the journal has not been told yet."""
    state = tmp_path / "state"
    store = Store(state, in_background=True)
    gate.opened.set()
    found: list[list[int]] = []

    def brought(original: Callable[[], None]) -> Callable[[], None]:
        def killed() -> None:
            insert_now = [*range(MANY + 1)]
            assert as_killed(state, tmp_path / "killed") == insert_now
            found.append(insert_now)
            original()

        return killed

    assert store.behind is not None
    filled(store, range(MANY))
    monkeypatch.setattr(store.behind, "brought", brought(store.behind.brought))
    gate.opened.clear()
    insert(store, MANY)
    gate.opened.set()
    until(lambda: found)
    store.close()


def test_who_reads_waits_for_the_thread_and_finds_all(tmp_path: Path, gate: Gate) -> None:
    store = Store(tmp_path, in_background=True)
    filled(store, range(MANY + 2))
    gate.reach()

    def look() -> int:
        with store.snapshot() as statements:
            return statements.count("SELECT count(*) FROM rl")

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        insert(store, MANY + 2)
        assert not looking.done()
        gate.opened.set()
        assert looking.result(PATIENCE) >= MANY + 2
    with store.transaction():
        store.run("DELETE FROM rl WHERE doc = 0")
    assert kept(store) == [*range(1, MANY + 3)]
    store.close()


def test_who_asks_about_older_documents_does_not_wait_for_the_thread(
    tmp_path: Path, gate: Gate
) -> None:
    store = Store(tmp_path, in_background=True)

    def add(doc: int) -> None:
        with store.transaction():
            store.insert("documents", pa.table({"doc": [doc]}))
            insert(store, doc)

    def known(doc: int) -> list[tuple[int, ...]]:
        return store.rows_about([doc], "SELECT doc FROM documents WHERE doc = ?", [doc])

    add(1)
    assert known(1) == [(1,)]
    for doc in range(2, MANY + 4):
        add(doc)
    gate.reach()
    assert known(1) == [(1,)]
    assert unread(store)
    gate.opened.set()
    # One that is being brought there is waited for.
    assert known(2) == [(2,)]
    store.close()


def test_a_large_batch_is_committed_while_the_tables_are_busy(tmp_path: Path, gate: Gate) -> None:
    store = Store(tmp_path / "state", in_background=True)
    filled(store, range(MANY + 1))
    gate.reach()
    insert(store, MANY + 1, size=100_000)
    insert(store, MANY + 2)
    assert set(as_killed(tmp_path / "state", tmp_path / "killed")) == {*range(MANY + 3)}
    gate.opened.set()
    assert len(kept(store)) == MANY + 2 + 100_000
    store.close()


def test_large_batches_are_left_to_the_thread(tmp_path: Path, gate: Gate) -> None:
    """Who commits one does not wait for DuckDB."""
    state = tmp_path / "state"
    store = Store(state, in_background=True)
    insert(store, 0, size=100_000)
    assert unread(store)
    assert not gate.reached.is_set()
    for n in range(1, 8):
        insert(store, n, size=100_000)
    gate.reach()
    for n in range(8, 12):
        insert(store, n, size=100_000)
    assert unread(store)
    assert set(as_killed(state, tmp_path / "killed")) == {*range(12)}
    gate.opened.set()
    assert len(kept(store)) == 12 * 100_000
    store.close()


def test_who_commits_waits_where_far_too_many_do(tmp_path: Path, gate: Gate) -> None:
    store = Store(tmp_path, in_background=True)
    most = 32 * MANY

    def commit() -> int:
        # The one who commits may bring some there himself before the thread begins.
        for n in count():
            if gate.opened.is_set():
                return n
            insert(store, n)
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit)
        gate.reach()
        behind = store.behind
        assert behind is not None
        # A thread that began late may have taken all of them before it came to the gate.
        until(lambda: most in (len(behind._waiting), len(behind._moving)))
        assert not committing.done()
        gate.opened.set()
        several = committing.result(PATIENCE)
    assert several > most
    assert kept(store) == [*range(several)]
    store.close()


def test_the_next_transaction_says_why_the_thread_has_failed(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not happened, and may be tried again; nothing is lost. While it fails, all do."""
    state = tmp_path / "state"
    store = Store(state, in_background=True)
    filled(store, range(MANY + 1))
    gate.reach()
    insert(store, MANY + 1)
    gate.error = duckdb.IOException("no space")
    gate.opened.set()
    until(lambda: store._wrong is not None)
    assert as_killed(state, tmp_path / "killed") == [*range(MANY + 2)]
    with pytest.raises(duckdb.IOException, match="no space"):
        insert(store, MANY + 2)
    with monkeypatch.context() as patched:
        patched.setattr(store, "_cursor", gate.refuse)
        patched.setattr(store, "_bringing", None)
        for _ in range(2):
            with pytest.raises(duckdb.IOException, match="no space"):
                insert(store, MANY + 2)
    gate.error = None
    filled(store, range(MANY + 2, 3 * MANY))
    assert as_killed(state, tmp_path / "killed") == [*range(3 * MANY)]
    assert kept(store) == [*range(3 * MANY)]
    store.close()


def test_a_database_that_the_thread_has_broken_is_opened_again(tmp_path: Path, gate: Gate) -> None:
    store = Store(tmp_path, in_background=True)
    filled(store, range(MANY + 1))
    gate.reach()
    gate.error = duckdb.FatalException("no more")
    gate.opened.set()
    until(lambda: store.broken)
    store.reopen()
    with pytest.raises(duckdb.FatalException, match="no more"):
        insert(store, MANY + 1)
    gate.error = None
    assert not store.broken
    insert(store, MANY + 1)
    assert kept(store) == [*range(MANY + 2)]
    store.close()


def test_a_large_log_is_written_into_the_file_beside_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that go to DuckDB at once, and those of the journal."""
    monkeypatch.setattr("broker.state.checkpoints.LOG", 300_000)
    store = Store(tmp_path, in_background=True)
    log = tmp_path / "broker.duckdb.wal"

    def is_small() -> bool:
        return not log.exists() or log.stat().st_size < 300_000

    insert(store, 0, size=100_000)
    until(is_small)
    monkeypatch.setattr("broker.state.behind._MANY", 4 * MANY)
    for n in range(1, 40):
        insert(store, n, size=2_000)
    store.begin_checkpoint().result(PATIENCE)
    assert is_small()
    assert len(kept(store)) == 100_000 + 39 * 2_000
    store.close()


def test_a_copy_is_made_behind_the_thread(tmp_path: Path, gate: Gate) -> None:
    store = Store(tmp_path / "state", in_background=True)
    filled(store, range(MANY + 2))
    gate.reach()
    (tmp_path / "copy").mkdir()
    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(store.backup, tmp_path / "copy")
        gate.opened.set()
        copying.result(PATIENCE)
    store.close()
    again = Store(tmp_path / "copy")
    assert kept(again) == [*range(MANY + 2)]
    again.close()


def test_documents_expire_when_the_thread_has_brought_what_waits(
    tmp_path: Path, gate: Gate
) -> None:
    """A batch does not wait for it."""
    with Broker(tmp_path / "state", lateness=0.0) as broker:
        engine = broker.engine
        engine.store.in_background = True
        engine.expiry_every = 5 * MANY
        broker.subscribe("q: S/a->x FOLLOWED BY {x = y, 1 s} S/a->y")
        at = count(step=10)

        def batch() -> int:
            n = next(at)
            broker.process([Document(str(n), timestamp=float(n), xml="<a>1</a>")])
            return engine.retention.horizon

        begun = [batch() for _ in range(4 * MANY + 3)][-1]
        gate.reach()
        assert {batch() for _ in range(MANY)} == {begun}
        gate.opened.set()
        until(lambda: engine.store.is_near)
        assert batch() > begun
