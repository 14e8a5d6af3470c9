"""Databases in memory: all in one DuckDB, since starting it takes 20 ms of a core, more than all
else that opening a small store takes."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import RLock
from weakref import finalize

import duckdb

from broker.state.migrations import META, SCHEMA

CONFIG: dict[str, str | bool | int | float | list[str]] = {"threads": 1}
"""Batches are small: for them a second thread costs more than it helps."""

IN_MEMORY = CONFIG | {"temp_directory": ""}
"""Without a file of its own DuckDB would put what does not fit into the working directory."""

_TEMPLATE = "template"


class SharedDatabase:
    """A database in memory with the tables of a state, from the first connection until it is
    detached, or nobody holds this."""

    def __init__(self) -> None:
        self._name = f"memory_{next(_numbers)}"
        self.detach = finalize(self, _detach, self._name)
        self.detach.atexit = False

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Another connection to it. If DuckDB has given up on all that it holds, to a new one."""
        try:
            return self._connection()
        except duckdb.FatalException:
            _running.pop(os.getpid(), None)
            return self._connection()

    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection = _duckdb().connection.cursor()
        there = "SELECT 1 FROM duckdb_databases() WHERE database_name = ?"
        if not connection.execute(there, [self._name]).fetchone():
            connection.execute(f"ATTACH ':memory:' AS {self._name}")
            connection.execute(f"COPY FROM DATABASE {_TEMPLATE} TO {self._name} (SCHEMA)")
        self.use(connection)
        return connection

    def define(self, functions: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
        """Define functions for all, if they are not yet. They belong to a connection that is never
        closed, as DuckDB would go on to call them after the end of theirs."""
        with _lock:
            shared = _duckdb()
            if functions not in shared.defined:
                functions(shared.connection)
                shared.defined.add(functions)

    def use(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make names on a connection mean the tables of this database."""
        connection.execute(f"USE {self._name}")


class _DuckDB:
    """What all are attached to. It has a database with empty tables, as copying them takes a fifth
    of the time of making them. `defined` are the functions that it knows."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config=IN_MEMORY)
        self.defined: set[object] = set()
        for statement in (f"ATTACH ':memory:' AS {_TEMPLATE}", f"USE {_TEMPLATE}", META, SCHEMA):
            self.connection.execute(statement)


_numbers = count(1)
_lock = RLock()
_running: dict[int, _DuckDB] = {}
"""By process: one that was forked begins its own."""
# Else DuckDB's binding would print at exit that this has leaked.
atexit.register(_running.clear)


def _duckdb() -> _DuckDB:
    with _lock:
        process = os.getpid()
        if process not in _running:
            _running[process] = _DuckDB()
        return _running[process]


def _detach(name: str) -> None:
    shared = _running.get(os.getpid())
    if shared is not None:
        with suppress(duckdb.Error):
            shared.connection.cursor().execute(f"DETACH DATABASE IF EXISTS {name}")
