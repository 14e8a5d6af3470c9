"""The DuckDB file: the truth of a broker, and the one place that knows its tables.

Match relations of the dissertation: `rl` holds the witness rows of all live documents (Rbin joined
with the values of Rdoc), `documents` the documents and their intervals (RdocTS); `rr` holds the
rows of the current batch. The templates' parameter relations (RT) are temporary tables, made from
the subscriptions at start.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

VERSION = 2

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key VARCHAR PRIMARY KEY, value BIGINT);
CREATE TABLE IF NOT EXISTS subscriptions (
    number BIGINT, id VARCHAR, text VARCHAR, first_doc BIGINT);
CREATE TABLE IF NOT EXISTS variables (id INTEGER, definition VARCHAR);
CREATE TABLE IF NOT EXISTS documents (
    doc BIGINT, base BIGINT, key UBIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[],
    "start" BIGINT, "end" BIGINT, dated BOOLEAN, xml BLOB);
CREATE TABLE IF NOT EXISTS rl (
    doc BIGINT, base BIGINT, "start" BIGINT, "end" BIGINT, var1 INTEGER, var2 INTEGER,
    node1 BIGINT, node2 BIGINT, value UBIGINT, text VARCHAR, num DOUBLE);
CREATE TABLE IF NOT EXISTS applied (source VARCHAR PRIMARY KEY, seq BIGINT);
CREATE TABLE IF NOT EXISTS outbox (
    n BIGINT, id VARCHAR, match VARCHAR, result BLOB USING COMPRESSION uncompressed);
CREATE TABLE IF NOT EXISTS dead_letters (
    source VARCHAR, id VARCHAR, place VARCHAR, reason VARCHAR,
    "timestamp" BIGINT, xml BLOB);
"""


_TO_VERSION = {
    2: """
ALTER TABLE outbox RENAME TO outbox_1;
CREATE TABLE outbox (
    n BIGINT, id VARCHAR, match VARCHAR, result BLOB USING COMPRESSION uncompressed);
INSERT INTO outbox SELECT n, id, match, encode(match ->> 'result') FROM outbox_1;
DROP TABLE outbox_1;
"""
}
"""What makes a state of one version less into one of this version."""


class StateError(RuntimeError):
    """The state directory cannot be used; the message says why and what to do."""


class Store:
    """A DuckDB database, in memory or in a state directory."""

    def __init__(self, state: str | Path | None) -> None:
        self.durable = state is not None
        self._lock: int | None = None
        self._inside = False
        if state is None:
            self.connection = duckdb.connect(":memory:", config={"threads": 1})
        else:
            directory = Path(state)
            file = directory / "broker.duckdb"
            self._lock = _claim(directory)
            try:
                self.connection = duckdb.connect(str(file))
            except duckdb.Error as error:
                os.close(self._lock)
                raise StateError(_explain(file, error)) from None
            # Strings make the default threshold checkpoint far too often.
            self.connection.execute("SET checkpoint_threshold = '256MB'")
        # Order is asked for where it matters, and planning is what small batches spend.
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute("SET approximate_join_order_threshold = 6")
        self.connection.execute(_SCHEMA)
        found = self.number("version", VERSION)
        if found > VERSION:
            self.close()
            raise StateError(
                f"{state}: this state has version {found}, this program reads up to {VERSION}"
            )
        with self.transaction():
            for version in range(found + 1, VERSION + 1):
                self.connection.execute(_TO_VERSION[version])
            self.set_numbers(version=VERSION)

    def close(self) -> None:
        self.connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: rolled back if the block raises. Within another one, part of it."""
        if self._inside:
            yield
            return
        self.connection.execute("BEGIN")
        self._inside = True
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        finally:
            self._inside = False
        self.connection.execute("COMMIT")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, list(parameters)).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.connection.execute(sql, list(parameters))

    def insert(self, table: str, arrow_input: pa.Table) -> None:
        """Append an Arrow table, by column name."""
        if arrow_input.num_rows:
            # DuckDB finds the variable by its name, in half the time that a view on it takes. No
            # table has the name: that would shadow it.
            self.connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM arrow_input")

    def number(self, key: str, default: int) -> int:
        found = self.rows("SELECT value FROM meta WHERE key = ?", [key])
        return int(found[0][0]) if found else default

    def set_numbers(self, **numbers: int) -> None:
        # An update costs a tenth of INSERT OR REPLACE.
        cases = "".join(f" WHEN '{key}' THEN ?" for key in numbers)
        updated = self.rows(
            f"UPDATE meta SET value = CASE key{cases} END WHERE key IN (SELECT unnest(?))"
            " RETURNING key",
            [*numbers.values(), list(numbers)],
        )
        for key in numbers.keys() - {key for (key,) in updated}:
            self.run("INSERT INTO meta VALUES (?, ?)", [key, numbers[key]])


def _claim(directory: Path) -> int:
    """Make the directory and lock it; DuckDB's own lock lets the same process in twice."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StateError(f"{directory}: cannot be used as a state: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StateError(
            f"{directory}: another process uses this state; stop it, or choose another directory"
        ) from None
    return lock


def _explain(file: Path, error: duckdb.Error) -> str:
    text = str(error)
    if "lock" in text.lower():
        return f"{file}: another process uses this state; stop it, or choose another directory"
    return f"{file}: cannot open the state: {text.splitlines()[0]}"
