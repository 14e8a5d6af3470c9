"""The DuckDB file: the truth of a broker.

The tables stand in `broker/state/migrations.py`; the match relations are read and written by
`broker/state/relations.py` alone, each other table by its own owner.

What happens in a transaction, and what is in the journal beside the file, says
`broker/state/transactions.py`.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from weakref import WeakSet

import duckdb

from broker.errors import BrokerError
from broker.state.behind import JOURNAL, PROGRESS, Behind
from broker.state.checkpoints import FILE, Checkpoints
from broker.state.in_memory import CONFIG, IN_MEMORY, SharedDatabase
from broker.state.journal import DamagedJournal, Journal, Unwritten
from broker.state.migrations import JOURNALED, META, SCHEMA, STEPS, VERSION
from broker.state.statements import PARSED

DatabaseError = duckdb.Error
"""The base class of DuckDB's errors."""

MEMORY_ERRORS = (MemoryError, duckdb.OutOfMemoryException)
"""Errors that say that there is not enough memory."""

FILE_ERRORS = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.OutOfMemoryException,
    duckdb.TransactionException,
    duckdb.ConnectionException,
)
"""Errors whose cause is the file or the machine, and not a document."""

LOG_OF_DOCUMENTS = "spool.sqlite"
"""The file of the spool, which has the documents to which the tables have references."""
_PATIENCE = 10.0
"""Seconds for which a copy waits for those who read."""
_SPILL = 4
"""What DuckDB may write to the disk that does not fit into its memory, as a multiple of that."""

_COPY = """
import os, shutil, sys
import duckdb
source, target = sys.argv[1:]
shutil.copyfile(source, target)
duckdb.connect(target, read_only=True).close()
for path in (target, os.path.dirname(target)):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
"""
"""A program that copies a file of DuckDB, and checks that the copy can be opened."""

_UNAVAILABLE = (
    *("permission denied", "no space", "read-only", "too many open", "version number"),
    "input/output error",
)
"""Parts of DuckDB's messages about files that are not damaged."""


_open: WeakSet[Store] = WeakSet()


@atexit.register
def _let_go() -> None:
    """Close the stores that are still open when Python ends: a running thread may keep them alive,
    and DuckDB's binding would print its leaked objects to standard error."""
    for store in list(_open):
        for name in ("_connection", "_inserts", "_bringing"):
            store.__dict__.pop(name, None)
    PARSED.clear()


class StateError(BrokerError, RuntimeError):
    """The state directory cannot be used; the message says why, and what to do."""


class Store(Checkpoints):
    """A DuckDB database, in memory or in a state directory. Raises `StateError`.

    `memory` are the bytes that DuckDB may take, by default four fifths of the machine's. If it is
    `broken`, what was committed is in the file; `reopen` goes on with it.

    `in_background` a thread does what takes long and is not needed at once: it brings the tables
    what the journal has, and writes the write-ahead log into the file. Batches of few documents are
    committed meanwhile, and those of many, too, by the journal.
    """

    def __init__(
        self, state: str | Path | None, memory: int | None = None, *, in_background: bool = False
    ) -> None:
        self._memory = memory
        self.in_background = in_background
        self.directory = None if state is None else Path(state)
        self.durable = state is not None
        # With a bound of its own it cannot share DuckDB, whose bound is one for all.
        in_memory = self.directory is None and memory is None
        self._shared = SharedDatabase() if in_memory else None
        self.log = None if self.directory is None else self.directory / LOG_OF_DOCUMENTS
        self._unwritten = Unwritten()
        self._lock: int | None = None
        self.behind = None
        _open.add(self)
        if self.directory is not None:
            self._lock = _claim(self.directory)
        try:
            self._open()
        except BaseException:
            self._release()
            raise

    def _open(self) -> None:
        if self._shared is not None:
            super().__init__(self._shared.connect())
        elif self.directory is None:
            super().__init__(duckdb.connect(":memory:", config=IN_MEMORY))
        else:
            super().__init__(_connect(self.directory / FILE))
            self._set_threshold()
        if self._memory is not None:
            # What does not fit goes to the disk beside the file, but not without end.
            self.connection.execute(f"SET memory_limit = '{self._memory // 1_000} kB'")
            if self.directory is not None:
                most = _SPILL * self._memory // 1_000
                self.connection.execute(f"SET max_temp_directory_size = '{most} kB'")
        # Under `python -c` DuckDB takes the program for an interactive session and shows one.
        self.connection.execute("SET enable_progress_bar = false")
        # Queries say ORDER BY where order matters; small batches spend most of their time on
        # planning.
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute("SET approximate_join_order_threshold = 6")
        try:
            self._migrate()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, duckdb.Error) and self.directory is not None:
                raise StateError(error_message(self.directory / FILE, error)) from error
            raise

    def _open_journal(self) -> Behind:
        """What the tables lack of what was committed, which only the journal has."""
        ((after,),) = self.rows(f"SELECT coalesce(max(journal), 0) FROM {PROGRESS}")
        if self.directory is None:
            return Behind(self._unwritten, after, beside=self.in_background)
        path = self.directory / JOURNAL
        journal = None
        try:
            journal = Journal(path, self.number(JOURNAL, 0))
            return Behind(journal, after, beside=self.in_background)
        except (OSError, DamagedJournal) as error:
            if journal is not None:
                journal.close()
            raise StateError(error_message(path, error)) from error

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        connection = super()._cursor()
        if self._shared is not None:
            self._shared.use(connection)
        return connection

    def _migrate(self) -> None:
        """Migrate the tables to this version, or create them, and open the journal."""
        with self.transaction():
            # DuckDB takes 10 ms to list the tables of a database for the first time.
            self.connection.execute(META)
            stored = self.number("version", 0)
            self.fresh = not stored
            if stored > VERSION:
                raise StateError(
                    f"{self.directory}: this state has version {stored}, and this program reads up"
                    f" to {VERSION}; use the program that wrote it, or a newer one"
                )
            if stored < JOURNALED:
                self._change_tables(stored or VERSION)
        # Where there is nothing to do nothing is written: what was not yet read may be damaged.
        if self.fresh:
            self._unwritten.clear()
        self.behind = self._open_journal()
        if JOURNALED <= stored < VERSION:
            with self.transaction():  # with what the journal holds of the same version
                self._change_tables(stored)

    def _change_tables(self, found: int) -> None:
        for version in range(found + 1, VERSION + 1):
            step = STEPS[version]
            if isinstance(step, str):
                self.connection.execute(step)
            else:
                step(self.connection)
        if self._shared is None:
            self.connection.execute(SCHEMA)
        numbers = {"version": VERSION, JOURNAL: secrets.randbits(32)}
        if self.fresh:
            self.run("INSERT INTO meta VALUES (?, ?), (?, ?)", list(chain(*numbers.items())))
            return
        numbers[JOURNAL] = self.number(JOURNAL, numbers[JOURNAL])
        self.set_numbers(**numbers)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """A block that reads the state into memory. Its errors are raised as `StateError`, which
        says that the state is damaged, and close the store."""
        try:
            yield
            self.fresh = False
        except duckdb.Error as error:
            self.close()
            if self.directory is None:
                raise
            raise StateError(error_message(self.directory / FILE, error)) from error

    def reopen(self) -> None:
        """Open the file again after DuckDB has given up on it (`broken`). Raises `StateError`."""
        self._let_go()
        with suppress(duckdb.Error):
            self._connection.close()
        if self.behind is not None:
            self.behind.journal.close()
        wrong, self._wrong = self._wrong, None
        self._open()
        self._wrong = wrong

    def close(self) -> None:
        if self.durable:
            with suppress(duckdb.Error):
                self._tell()
        self._let_go()
        with suppress(duckdb.Error):
            self._connection.close()
        if self.behind is not None:
            with suppress(OSError):
                self.behind.journal.close(needed=self.behind.waits)
            self.behind = None
        if self._shared is not None:
            self._shared.detach()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def define(self, functions: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
        """Define functions of Python's; those that share DuckDB share these, too."""
        if self._shared is not None:
            self._shared.define(functions)
        else:
            super().define(functions)

    def backup(self, directory: Path) -> Path:
        """Copy the file to another directory, and return the copy's path. The caller ensures that
        nothing writes meanwhile. ValueError for a store in memory; `StateError` if the copy
        fails."""
        if self.directory is None:
            raise ValueError("a broker in memory has no file to copy")
        target = directory / FILE
        try:
            self.checkpoint(_PATIENCE)  # nothing is committed meanwhile, so no thread follows
        except duckdb.TransactionException:
            raise StateError(
                f"{target}: no copy now, as an older state of the documents is still being read, "
                "by broker why or the like; try again"
            ) from None
        # This process may not even open the file: closing it would take DuckDB's lock away.
        copying = [sys.executable, "-c", _COPY, str(self.directory / FILE), str(target)]
        done = subprocess.run(copying, capture_output=True, text=True)
        if done.returncode:
            why = (done.stderr.strip() or "the copy ended early").splitlines()[-1]
            raise StateError(f"{target}: cannot copy the state: {why}")
        return target

    def stored_number(self, key: str, default: int) -> int:
        """As `stored`: the default, unasked, if the tables were just made."""
        return default if self.fresh else self.number(key, default)

    def number(self, key: str, default: int) -> int:
        found = self.rows("SELECT value FROM meta WHERE key = ?", [key])
        return int(found[0][0]) if found else default

    def set_numbers(self, **numbers: int) -> None:
        # An update costs a tenth of INSERT OR REPLACE, and half of one that looks for its few rows.
        cases = "".join(f" WHEN '{key}' THEN ?" for key in numbers)
        there = self.rows(
            f"UPDATE meta SET value = CASE key{cases} ELSE value END RETURNING key",
            [*numbers.values()],
        )
        for key in numbers.keys() - {key for (key,) in there}:
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


def _connect(file: Path) -> duckdb.DuckDBPyConnection:
    is_new = not file.exists()
    try:
        return duckdb.connect(str(file), config=CONFIG)
    except duckdb.Error as error:
        if is_new:  # half of a new file is none that could be opened the next time
            file.unlink(missing_ok=True)
        raise StateError(error_message(file, error)) from None


def error_message(file: Path, error: Exception) -> str:
    """The message for an error of DuckDB: why a state cannot be used, and what to do."""
    said = str(error).splitlines()[0]
    text = said.lower()
    if "conflicting lock" in text or "set lock" in text:
        return f"{file}: another process uses this state; stop it, or choose another directory"
    if any(reason in text for reason in _UNAVAILABLE):
        return f"{file}: cannot open the state: {said}"
    return (
        f"{file}: the state is damaged: {said}. Nothing has been changed. Restore the last backup "
        "into a new directory (broker restore), or move this one away to begin anew"
    )
