"""SQL over one connection of DuckDB, with typed answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

_ARROW_ROWS = 100_000
"""Rows of a record batch, for an answer that is read in several."""

if TYPE_CHECKING:
    # Never a name of the running module: see `broker/state/store.py`.
    Connection = duckdb.DuckDBPyConnection


class Statements:
    """Queries and changes of a database, one statement at a time. Raises
    `DatabaseError`."""

    connection: Connection

    def rows(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of an answer. Parameters are by place, or by name."""
        return self.connection.execute(sql, parameters).fetchall()

    def chunks(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of an answer, `size` at a time; no other statement may run meanwhile."""
        found = self.connection.execute(sql)
        while rows := found.fetchmany(size):
            yield rows

    def table(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The rows of an answer as an Arrow table."""
        return self.connection.sql(sql, params=list(parameters)).to_arrow_table()

    def batches(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of an answer as Arrow record batches of a bounded size."""
        return iter(self.table(sql, parameters).to_batches(_ARROW_ROWS))

    def count(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """An answer of one number."""
        ((found,),) = self.rows(sql, parameters)
        return int(found)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement that returns no rows."""
        self.connection.execute(sql, parameters)

    def delete(self, table: str, key: str, numbers: Collection[int]) -> None:
        """Delete rows by a number. Planning the statement for a list costs as much as two
        statements for one number each."""
        if len(numbers) > 2:
            condition = f"{key} IN (SELECT unnest(?::BIGINT[]))"
            self.run(f"DELETE FROM {table} WHERE {condition}", [[*numbers]])
            return
        for number in numbers:
            self.run(f"DELETE FROM {table} WHERE {key} = ?", [number])

    def insert(self, table: str, arrow_input: pa.Table) -> None:
        """Append an Arrow table, by column name."""
        if arrow_input.num_rows:
            # DuckDB finds the variable by its name, in half the time that a view on it takes. No
            # table has the name: that would shadow it.
            self.connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM arrow_input")


class Snapshot(Statements):
    """Statements over a connection that is already open."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
