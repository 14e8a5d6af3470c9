"""The write-ahead log of DuckDB, written into its file: when somebody asks for it, or by the thread
beside the transactions once it is long."""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from pathlib import Path

import duckdb

from broker.state.behind import Behind
from broker.state.beside import beside
from broker.state.disk import size, sync
from broker.state.transactions import Transactions

FILE = "broker.duckdb"

LOG = 256_000_000
"""The bytes of the write-ahead log that are written into the file. Strings make DuckDB's own
threshold checkpoint far too often."""


class Checkpoints(Transactions):
    """Transactions over the file in a directory; None for a database in memory."""

    directory: Path | None = None

    def _set_threshold(self) -> None:
        # Beside the thread this is for the case that it never finds an idle moment.
        most = 4 * LOG if self.in_background else LOG
        self._connection.execute(f"SET checkpoint_threshold = '{most // 1_000} kB'")

    def checkpoint(self, patience: float = 1.0) -> None:
        """Write the write-ahead log into the file. Raises DuckDB's error if that fails.

        DuckDB does not do it while a snapshot is read that is older than a row that was changed
        since; that is waited for, `patience` seconds at most.
        """
        self._rest()
        self._checkpoint(self.connection, patience)

    def begin_checkpoint(self) -> Future[None]:
        """Begin to do so beside the transactions that follow; the result raises what that one
        raises."""
        behind, before = self.behind, self._task
        assert behind is not None

        def work() -> None:
            wait([] if before is None else [before])
            self._bring(behind, log=0)

        self._task = beside("tables", work)
        return self._task

    def _checkpoint(self, connection: duckdb.DuckDBPyConnection, patience: float = 1.0) -> None:
        until = time.monotonic() + patience
        while True:
            try:
                connection.execute("CHECKPOINT")
                break
            except duckdb.FatalException:
                self.broken = True
                raise
            except duckdb.TransactionException:
                if time.monotonic() > until:
                    raise
            time.sleep(0.01)
        if self.directory is not None:
            # DuckDB has removed the log. One that a power cut brings back is known for an old one,
            # but not if it is two checkpoints old.
            try:
                sync(self.directory)
            except OSError as error:
                raise duckdb.IOException(f"cannot sync the directory: {error.strerror}") from error

    def _bring(self, behind: Behind, log: int = LOG) -> None:
        """What the thread does; it also writes the write-ahead log into the file, from a size
        on."""
        super()._bring(behind)
        if self._log() < log:
            return
        connection = self._cursor()
        try:
            self._checkpoint(connection)
        except duckdb.TransactionException:
            if not log:
                raise
            # Others read or write all the time: the thread tries again when it runs next.
        finally:
            connection.close()

    def _log(self) -> int:
        """The bytes of the write-ahead log."""
        return 0 if self.directory is None else size(self.directory / f"{FILE}.wal")

    def _commit(self) -> None:
        super()._commit()
        behind, large = self.behind, self.in_background and self._begun and self._log() >= LOG
        if large and behind is not None and not self._busy:
            self._bring_beside(behind)
