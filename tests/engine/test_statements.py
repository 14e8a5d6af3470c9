"""Statements of a store: inserts that are planned once, and queries without DuckDB's optimizer."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from broker.state.store import DatabaseError, Store


def of_documents(*numbers: int) -> pa.Table:
    return pa.table({"doc": pa.array(numbers, pa.int64())})


def kept(store: Store) -> list[int]:
    return [doc for (doc,) in store.rows("SELECT doc FROM rl ORDER BY doc")]


def test_a_planned_insert_is_repeated_after_a_rollback(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def insert_and_fail() -> None:
        with store.transaction():
            store.insert("rl", of_documents(1))
            store.rows("SELECT error('no')")

    with pytest.raises(DatabaseError):
        insert_and_fail()
    assert kept(store) == []
    store.insert("rl", of_documents(2))
    with store.transaction():
        store.insert("rl", of_documents(3, 4))
        store.insert("rl", of_documents())
    assert kept(store) == [2, 3, 4]
    store.close()


def test_a_planned_insert_is_repeated_after_the_file_was_reopened(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.insert("rl", of_documents(1))
    store.reopen()
    store.insert("rl", of_documents(2))
    assert kept(store) == [1, 2]
    store.close()


def test_a_planned_insert_follows_the_columns_and_the_tables() -> None:
    store = Store(None)
    store.insert("rl", of_documents(1))
    store.insert("rl", pa.table({"text": ["b"], "doc": pa.array([2], pa.int64())}))
    store.run("CREATE TABLE other (n BIGINT)")
    store.run("ALTER TABLE rl ADD COLUMN more BIGINT")
    store.insert("rl", pa.table({"text": ["c"], "doc": pa.array([3], pa.int64())}))
    assert store.rows("SELECT doc, text, more FROM rl ORDER BY doc") == [
        (1, None, None),
        (2, "b", None),
        (3, "c", None),
    ]
    store.close()


def test_a_planned_insert_that_fails_inserts_nothing_and_keeps_no_rows() -> None:
    store = Store(None)
    with pytest.raises(DatabaseError):
        store.insert("rl", pa.table({"doc": ["no number"]}))
    with pytest.raises(DatabaseError):
        store.insert("rl", pa.table({"unknown": [1]}))
    store.insert("rl", of_documents(1))
    assert kept(store) == [1]
    store.close()


def optimized(store: Store) -> bool:
    """Whether DuckDB sees that no row can be found, and does not join."""
    ((_, plan),) = store.rows("EXPLAIN SELECT doc FROM rl JOIN documents USING (doc) WHERE 1 = 2")
    return "EMPTY" in plan.upper()


def test_only_the_queries_of_a_block_are_not_optimized() -> None:
    store = Store(None)
    assert optimized(store)
    with store.unoptimized():
        assert not optimized(store)
    assert optimized(store)


@pytest.mark.parametrize("within", [True, False])
def test_queries_are_optimized_again_after_one_that_failed(within: bool) -> None:
    store = Store(None)
    around = store.transaction() if within else nullcontext()
    with pytest.raises(DatabaseError), around, store.unoptimized():
        store.rows("SELECT error('no')")
    assert optimized(store)
