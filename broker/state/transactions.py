"""The transactions of a store, in memory and in its file at once.

Memory changes together with the file: code that changes memory within a transaction registers how
to undo the change (`on_rollback`), and a transaction that fails does so.

DuckDB takes milliseconds for a transaction, however few its rows. One that only inserts a few is
committed in a journal (`broker/state/behind.py`), and DuckDB learns of a transaction when something
else is asked of it. So who takes the connection, or a snapshot, finds all that was committed in the
tables. Those who ask about old documents only are answered at once.

When many wait they are brought into the tables before the next one is committed, or by a thread
beside those that follow (`in_background`). Who needs the tables then waits for that thread, and
brings what came meanwhile. If it fails, the next transaction does, and those after it do without
the thread until it works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import duckdb

from broker.model import UNBOUNDED
from broker.state.behind import PROGRESS, Behind, bytes_of, numbered, oldest
from broker.state.beside import beside
from broker.state.journal import Rows
from broker.state.statements import EACH_BATCH, Statements


class Transactions(Statements):
    """Statements in transactions over a connection. Raises `DatabaseError`.

    `broken` says that DuckDB has given up on the file, which it does when a checkpoint fails, of a
    full disk for instance. `behind` are the transactions that only the journal has, if there is
    one; `in_background` they are brought into the tables by a thread where they are many.
    """

    in_background = False
    _wrong: Exception | None = None
    """Why the thread has failed, until somebody is told."""
    _failed = False
    """Whether it has, and nobody has succeeded since, who does it before the transaction."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self.broken = False
        self.behind: Behind | None = None
        self._bringing: Statements | None = None
        """Over a connection of its own, as another thread may be using the other one."""
        self._task: Future[None] | None = None
        """What the thread does, or did last."""
        self._inside = self._begun = False
        self._inserted: list[tuple[str, Rows]] = []
        """What the current transaction inserts, until DuckDB knows of it (`_begun`)."""
        self._undo: list[Callable[[], object]] = []
        self.needs = 0
        """The first pack of the log that the tables need, as it was found last."""
        self._snapshots: dict[int, int] = {}
        """The snapshots that are open, each with what that was before."""

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, with all that was committed in the tables, and what the current
        transaction has inserted so far."""
        self._tell()
        return self._connection

    def _tell(self) -> None:
        """Tell DuckDB what it does not know yet."""
        if self.behind is not None and self.behind.waits:
            self._catch_up(self.behind)
        if self._inside and not self._begun:
            self._begin()

    @property
    def is_near(self) -> bool:
        """Whether the tables lack little, so that who takes the connection waits for little. It is
        so again soon where a thread brings what waits; without one it counts as so."""
        if self.behind is None or not self.in_background or self._failed:
            return True
        return not self._busy and self.behind.few

    def catch_up(self) -> None:
        """Bring into the tables what they lack, so that who takes the connection next waits for
        little; from any thread, beside transactions."""
        if self.behind is not None:
            self._catch_up(self.behind)

    def _catch_up(self, behind: Behind) -> None:
        with behind.bringing:
            if not behind.waits:
                return
            sql = self._bringing = self._bringing or Statements(self._cursor())
            try:
                sql.run("BEGIN")
                for table, rows in behind.begin().items():
                    sql.insert(table, rows)
                sql.run("COMMIT")
            except BaseException as error:
                self.broken |= isinstance(error, duckdb.FatalException)
                with suppress(duckdb.Error):
                    sql.run("ROLLBACK")
                behind.failed()
                raise
            behind.brought()
            self._failed = False

    def _make_room(self, behind: Behind, size: int) -> None:
        """See to it that not too many wait when rows of so many bytes come to them."""
        if not behind.many(size):
            return
        if not self.in_background or self._failed or behind.too_many(size):
            self._catch_up(behind)
        elif not self._busy:
            self._bring_beside(behind)

    @property
    def _busy(self) -> bool:
        """Whether the thread runs."""
        return self._task is not None and not self._task.done()

    def _bring_beside(self, behind: Behind) -> None:
        def work() -> None:
            try:
                self._bring(behind)
            except Exception as error:
                self._wrong, self._failed = error, True

        self._task = beside("tables", work)

    def _bring(self, behind: Behind) -> None:
        """What the thread does."""
        self._catch_up(behind)

    def settled(self) -> Exception | None:
        """Wait for the thread; what the next transaction is to be told of it."""
        self._rest()
        return self._wrong

    def _rest(self) -> None:
        """Wait for the thread."""
        if self._task is not None:
            wait([self._task])

    def _let_go(self) -> None:
        """Wait for the thread, and close its connection."""
        self._rest()
        self._task = None
        with self.behind.bringing if self.behind is not None else nullcontext():
            if self._bringing is not None:
                self._bringing.connection.close()
                self._bringing = None

    def _begin(self) -> None:
        """Begin the transaction in DuckDB, too."""
        self._run("BEGIN")
        self._begun = True
        for table, rows in self._inserted:
            self._into(table, rows)
        self._inserted = []

    def _commit(self) -> None:
        behind, by_thread = self.behind, self.in_background and not self._failed
        size = bytes_of(self._inserted)
        if self._inserted and not (behind is not None and behind.takes(size, by_thread)):
            self._tell()
        if self._begun:
            self._run("COMMIT")
        if behind is None or not self._inserted:
            return
        self._make_room(behind, size)
        try:
            behind.commit(self._inserted, size)
        except OSError as error:
            raise duckdb.IOException(f"cannot write the journal: {error.strerror}") from error

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """Another connection to the same database."""
        return self._connection.cursor()

    def _run(self, sql: str) -> None:
        self._connection.execute(self._statement(sql))

    def rows_about(
        self, docs: Collection[int], sql: str, parameters: Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        behind = self.behind
        if behind is not None and not self._begun and docs:
            # Mostly they are older than all that waits, which then goes on waiting.
            lacking = min(behind.oldest, oldest(self._inserted))
            if max(docs) < lacking:
                return self._connection.execute(self._statement(sql), parameters).fetchall()
        return self.rows(sql, parameters)

    def insert(self, table: str, arrow_input: Rows) -> None:
        """Append Arrow rows, by column name. What they are made of must not change afterwards."""
        if not arrow_input.num_rows:
            return
        held = self.behind is not None and self._inside and not self._begun
        if held and table in EACH_BATCH:
            self._inserted.append((table, arrow_input))
        else:
            self._tell()
            self._into(table, arrow_input)

    def _into(self, table: str, rows: Rows) -> None:
        if table == PROGRESS and self.behind is not None:
            rows = numbered(rows, self.behind.number)
        super().insert(table, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, in the file and in memory: rolled back if the block or the commit raises.
        Within another one, part of it."""
        if self._inside:
            yield
            return
        wrong, self._wrong = self._wrong, None
        if wrong is not None:
            raise wrong
        self._inside = True
        try:
            if self.behind is None:
                self._begin()
            yield
            self._commit()
        except BaseException as error:
            self.broken |= isinstance(error, duckdb.FatalException)
            # A commit that failed has ended the transaction. For the second see `unoptimized`.
            for end in ("ROLLBACK", "PRAGMA enable_optimizer"):
                with suppress(duckdb.Error):
                    self._connection.execute(end)
            for undo in reversed(self._undo):
                undo()
            raise
        finally:
            self._inside = self._begun = False
            self._inserted = []
            self._undo.clear()

    def interrupt(self) -> None:
        """End the statement that runs now, and with it its transaction; from any thread."""
        self._connection.interrupt()

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Register a function to call if the current transaction fails; the last one registered is
        called first."""
        if self._inside:
            self._undo.append(undo)

    def needed_by_snapshots(self, but: Statements | None = None) -> int:
        """The first pack of the log that may be needed by a snapshot that was opened before this
        one. Those that are opened later need none that this one does not."""
        own = None if but is None else id(but.connection)
        others = [needs for key, needs in self._snapshots.copy().items() if key != own]
        return min(others, default=UNBOUNDED)

    @contextmanager
    def snapshot(self) -> Iterator[Statements]:
        """Statements over a connection of their own that reads the state as committed now, whatever
        is committed later. May be used in another thread."""
        connection = self._cursor()
        self._snapshots[id(connection)] = self.needs
        try:
            self.catch_up()
            statements = Statements(connection)
            statements.log = self.log
            statements.run("BEGIN READ ONLY")
            # What it reads is what was committed when it read first.
            statements.run(f"SELECT 1 FROM {PROGRESS} LIMIT 0")
            yield statements
        finally:
            with suppress(duckdb.Error):
                connection.execute("ROLLBACK")
            connection.close()
            self._snapshots.pop(id(connection), None)
