"""SQL over one connection of DuckDB, with typed answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

_ARROW_ROWS = 100_000
"""Rows of a record batch, for an answer that is read in several."""

if TYPE_CHECKING:
    # Never a name of the running module: see `broker/state/store.py`.
    from feeds.row_reader import Where

    Connection = duckdb.DuckDBPyConnection


_KNOWN = 1_000
"""Statements that are kept parsed."""

PARSED: dict[str, duckdb.Statement] = {}
"""They belong to no connection: what one has parsed, all run."""

EACH_BATCH = frozenset(
    {"documents", "rl", "outbox", "progress", "highest", "pattern_rows", "pattern_late"}
    | {"pattern_marks"}
    | {"postdated"}
)
"""The tables into which many batches insert rows."""

AMONG = "IN (SELECT unnest(?::BIGINT[]))"
"""Numbers of documents, as one parameter."""
AMONG_VALUES = "IN (SELECT unnest(?::UBIGINT[]))"
"""Codes of values or keys of identities, as one parameter."""


class _Insert:
    """An insert that is planned once, as planning takes two thirds of an insert of few rows. It
    reads other Arrow rows of the same schema each time. If the tables of the database change,
    DuckDB plans it each time again.
    """

    def __init__(self, connection: Connection, table: str, schema: pa.Schema) -> None:
        self.schema = schema
        self._rows: pa.Table | pa.RecordBatch | None = None
        # DuckDB finds the variable `self` by its name, also when it plans again.
        connection.execute(
            f"PREPARE insert_{table} AS INSERT INTO {table} BY NAME SELECT * FROM self"
        )
        (self._statement,) = connection.extract_statements(f"EXECUTE insert_{table}")

    def run(self, connection: Connection, rows: pa.Table | pa.RecordBatch) -> None:
        self._rows = rows
        try:
            connection.execute(self._statement)
        finally:
            self._rows = None

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self._rows is not None
        return self._rows.__arrow_c_stream__(requested_schema)


class Statements:
    """Queries and changes of a database, one statement at a time. Raises `DatabaseError`. Its
    tables are `fresh` from when they are made until they are loaded; `log` is the spool that keeps
    documents to which they have references, None if there is none."""

    log: Where | None = None

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.fresh = False
        self._inserts: dict[str, _Insert] = {}

    @property
    def connection(self) -> Connection:
        """The connection, for a statement that is run now."""
        return self._connection

    def _statement(self, sql: str) -> duckdb.Statement:
        """A statement parsed, which takes a tenth to a fourth of the time of a small one."""
        found = PARSED.get(sql)
        if found is None:
            if len(PARSED) >= _KNOWN:
                PARSED.clear()
            (found,) = self._connection.extract_statements(sql)
            PARSED[sql] = found
        return found

    def rows(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of an answer. Parameters are by place, or by name."""
        return self.connection.execute(self._statement(sql), parameters).fetchall()

    def rows_about(
        self, docs: Collection[int], sql: str, parameters: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """All rows of an answer that depends on nothing but the documents of these numbers."""
        return self.rows(sql, parameters)

    def stored(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The same for the rows that were there when the database was opened: none, unasked, if
        its tables were just made and are still to be loaded."""
        return [] if self.fresh else self.rows(sql, parameters)

    def chunks(
        self, sql: str, size: int, parameters: Sequence[Any] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of an answer, `size` at a time; no other statement may run meanwhile."""
        found = self.connection.execute(self._statement(sql), parameters)
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
        self.connection.execute(self._statement(sql), parameters)

    def define(self, functions: Callable[[Connection], object]) -> None:
        """Define functions of Python's, which DuckDB calls as long as their connection is open."""
        functions(self.connection)

    @contextmanager
    def unoptimized(self) -> Iterator[None]:
        """A block whose queries are run as they stand: DuckDB pushes no condition down and reorders
        no join, which takes longer than to join a few hundred rows. The end of a transaction that
        fails within the block ends it too."""
        self.run("PRAGMA disable_optimizer")
        try:
            yield
        finally:
            with suppress(duckdb.Error):  # nothing can be run until the transaction has ended
                self.run("PRAGMA enable_optimizer")

    def delete(self, table: str, key: str, numbers: Collection[int]) -> None:
        """Delete rows by a number. Planning the statement for a list costs as much as two
        statements for one number each."""
        if len(numbers) > 2:
            condition = f"{key} IN (SELECT unnest(?::BIGINT[]))"
            self.run(f"DELETE FROM {table} WHERE {condition}", [[*numbers]])
            return
        for number in numbers:
            self.run(f"DELETE FROM {table} WHERE {key} = ?", [number])

    def insert(self, table: str, arrow_input: pa.Table | pa.RecordBatch) -> None:
        """Append Arrow rows, by column name."""
        if not arrow_input.num_rows:
            return
        if table in EACH_BATCH:
            known = self._inserts.get(table)
            if known is None or known.schema != arrow_input.schema:
                known = self._inserts[table] = _Insert(self._connection, table, arrow_input.schema)
            known.run(self._connection, arrow_input)
        else:
            # DuckDB finds the variable by its name, in half the time that a view on it takes. No
            # table has the name: that would shadow it.
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM arrow_input")

    def make_temporary(self, table: str, arrow_batch: pa.Table) -> None:
        """Make a temporary table of Arrow rows, anew."""
        # DuckDB finds the variable by its name, so this module is never compiled.
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM arrow_batch"
        )
