"""The match relations of the dissertation: the only module that writes their tables.

    rl          the witness rows of all live documents (Rbin joined with the values of Rdoc)
    documents   the documents, their intervals and their bytes (RdocTS)
    versions    the revision numbers of documents that are revisions and flow by themselves

In: documents with their witness rows, in the transaction of their batch. Out: documents by number.
Numbers of documents grow with their arrival; times are in microseconds. Documents are read too by
`kept_documents.py` for the outbox, by `stream_counts.py`, and together with rl by the queries that
`queried_relations.py` runs; rl is read by `witness_rows.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from broker.model import UNBOUNDED
from broker.state.kept_documents import KeptDocuments
from broker.state.logged_documents import SIZE, take_in, with_bytes
from broker.state.queried_relations import QueriedRelations
from broker.state.statements import AMONG, AMONG_VALUES, Statements
from broker.state.stored_documents import (
    COLUMNS,
    XML,
    Identity,
    Interval,
    Newest,
    StoredDocument,
    columns_of,
)
from broker.state.witness_rows import WitnessRows

_DOCUMENT = ", ".join(f'"{name}"' for name in COLUMNS)
_VERSIONED = "documents LEFT JOIN versions USING (doc)"


class MatchRelations:
    """The match relations of a store, or as a snapshot of it shows them."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements
        self._versioned: bool | None = None
        self._oldest = -UNBOUNDED
        """No document that has rows or bytes ended before this time."""
        self._oldest_gone = -UNBOUNDED
        """No expired document, of which there is the identity alone, ended before this time."""
        self._deletions = 0
        self.kept = KeptDocuments(statements)
        self.rows = WitnessRows(statements)
        self.queried = QueriedRelations(statements)

    @property
    def versioned(self) -> bool:
        """Whether documents may be versions of each other."""
        if self._versioned is None:
            self._versioned = bool(self._sql.rows("SELECT 1 FROM versions LIMIT 1"))
        return self._versioned

    def _from(self) -> tuple[str, str]:
        """The FROM clause for documents with their versions, and the SQL of the version."""
        return (_VERSIONED, "coalesce(version, 0)") if self.versioned else ("documents", "0")

    @property
    def deletions(self) -> int:
        """How often references may have been deleted, or bytes, those that were kept included."""
        return self._deletions + self.kept.released

    # -- documents come and go ---------------------------------------------------------------

    def insert(
        self,
        documents: Sequence[StoredDocument],
        rows: pa.Table,
        outlines: Sequence[int] | None = None,
    ) -> None:
        """Documents with their witness rows, which have the columns of `rl`, and the outlines of
        the documents, see `broker/statistics`."""
        if documents:
            self._oldest = min(self._oldest, *[document.end for document in documents])
            columns = columns_of(documents)
            columns.append(pa.array(outlines or [0] * len(documents), pa.uint64()))
            names = [*COLUMNS, "outline"]
            self._sql.insert("documents", pa.RecordBatch.from_arrays(columns, names))
            revised = [d for d in documents if d.version]
            if revised:
                self._insert_versions(revised)
        self._sql.insert("rl", rows)

    def _insert_versions(self, documents: Sequence[StoredDocument]) -> None:
        self._versioned = True
        columns = {
            "doc": pa.array([d.doc for d in documents], pa.int64()),
            "version": pa.array([d.version for d in documents], pa.int64()),
        }
        self._sql.insert("versions", pa.table(columns))

    def insert_rows(self, rows: pa.Table) -> None:
        """Add witness rows to documents that are stored."""
        if rows.num_rows:
            self._oldest = min(self._oldest, pc.min(rows.column("end")).as_py())
        self._sql.insert("rl", rows)

    def delete(self, docs: Collection[int]) -> None:
        """Documents and their rows, by number. Matches in the outbox that refer to them still find
        their bytes (`kept`)."""
        self._deletions += 1
        self.kept.keep(f"doc {AMONG}", [[*docs]])
        for table in ("rl", "documents", *(("versions",) if self.versioned else ())):
            self._sql.delete(table, "doc", docs)

    def delete_edges(self, edges: Sequence[tuple[int, int]], first: int) -> None:
        """The rows of edges, each given by its two variables, of documents from number `first`
        on."""
        self._sql.run(
            "DELETE FROM rl USING (SELECT unnest(?::INTEGER[]) AS a, unnest(?::INTEGER[]) AS b)"
            " WHERE rl.doc >= ? AND var1 = a AND var2 = b",
            [[a for a, _ in edges], [b for _, b in edges], first],
        )

    def expire(self, horizon: int) -> int:
        """Delete the witness rows and the bytes of documents that ended before the horizon, but not
        their identities; returns the number of these documents. Matches in the outbox that refer to
        them still find their bytes (`kept`). Where all are younger, nothing is asked of the tables,
        which small batches hardly ever ask. After a rollback see `rolled_back`."""
        if horizon <= self._oldest:
            return 0
        self._deletions += 1
        self.kept.keep('"end" < ?', [horizon])
        self._sql.run('DELETE FROM rl WHERE "end" < ?', [horizon])
        expired = self._sql.count(
            'UPDATE documents SET xml = NULL, outline = NULL WHERE "end" < ? AND xml IS NOT NULL',
            [horizon],
        )
        self._oldest_gone = min(self._oldest_gone, self._oldest)
        self._oldest = self._first_end(
            '(SELECT "end" FROM documents WHERE xml IS NOT NULL UNION ALL SELECT "end" FROM rl)'
        )
        return expired

    def take_in(self, since: int, most: int) -> None:
        """Have the bytes of at most so many documents that end after a time in the table, where it
        has references; these go."""
        self._deletions += 1
        take_in(self._sql, since, most)

    def _first_end(self, of: str) -> int:
        """The lowest end, UNBOUNDED for none."""
        ((found,),) = self._sql.rows(f'SELECT min("end") FROM {of}')
        return UNBOUNDED if found is None else int(found)

    def rolled_back(self) -> None:
        """What has expired or was forgotten in a transaction is there again."""
        self._oldest = self._oldest_gone = -UNBOUNDED

    def expire_each(self, docs: Collection[int]) -> int:
        """The same for these documents, by number."""
        if not docs:
            return 0
        self._deletions += 1
        which, parameters = f"doc {AMONG}", [[*docs]]
        self._oldest_gone = min(self._oldest_gone, self._oldest)
        self.kept.keep(which, parameters)
        self._sql.run(f"DELETE FROM rl WHERE {which}", parameters)
        return self._sql.count(
            f"UPDATE documents SET xml = NULL, outline = NULL WHERE {which} AND xml IS NOT NULL",
            parameters,
        )

    def forget(self, horizon: int, more: Collection[int] = ()) -> int:
        """Delete the identities of expired documents that ended before the horizon, and of more;
        returns how many. Where all are younger, nothing is asked of the tables. After a rollback
        see `rolled_back`."""
        if horizon <= self._oldest_gone and not more:
            return 0
        gone = self._sql.count(
            f'DELETE FROM documents WHERE ("end" < ? OR doc {AMONG}) AND xml IS NULL',
            [horizon, [*more]],
        )
        self._sql.run("DELETE FROM versions WHERE doc NOT IN (SELECT doc FROM documents)")
        self._oldest_gone = self._first_end("documents WHERE xml IS NULL")
        return gone

    # -- documents ---------------------------------------------------------------------------

    def documents(self, docs: Sequence[int]) -> dict[int, StoredDocument]:
        """The documents of these numbers that are stored, by number."""
        if not docs:
            return {}
        table, version = self._from()
        rows = self._sql.rows_about(
            docs, f"SELECT {_DOCUMENT}, {version} FROM {table} WHERE doc {AMONG}", [docs]
        )
        return {document.doc: document for document in self._documents(rows)}

    def _documents(self, rows: Sequence[tuple[Any, ...]]) -> list[StoredDocument]:
        return [
            StoredDocument(*(*row[:5], tuple(row[5]), *row[6:]))
            for row in with_bytes(self._sql, rows, XML)
        ]

    def unexpired(self, docs: Collection[int]) -> set[int]:
        """Those of these documents that have not expired."""
        if not docs:
            return set()
        sql = f"SELECT doc FROM documents WHERE doc {AMONG} AND xml IS NOT NULL"
        return {doc for (doc,) in self._sql.rows(sql, [[*docs]])}

    def intervals(self, docs: Collection[int]) -> dict[int, Interval]:
        """Their intervals, by number."""
        if not docs:
            return {}
        rows = self._sql.rows(
            f'SELECT doc, base, "start", "end" FROM documents WHERE doc {AMONG}', [[*docs]]
        )
        return {doc: Interval(*interval) for doc, *interval in rows}

    def first_since(self, time: int) -> int | None:
        """The number of the first unexpired document that ended at `time` or later."""
        ((found,),) = self._sql.rows(
            'SELECT min(doc) FROM documents WHERE "end" >= ? AND xml IS NOT NULL', [time]
        )
        return None if found is None else int(found)

    def highest_before(self, doc: int) -> int | None:
        """The end of the youngest document that came before this number, None for none."""
        ((found,),) = self._sql.rows('SELECT max("end") FROM documents WHERE doc < ?', [doc])
        return None if found is None else int(found)

    def stored_since(self, first: int) -> int:
        """How many documents `history` brings from number `first` on."""
        return self._sql.count(
            "SELECT count(*) FROM documents WHERE doc >= ? AND xml IS NOT NULL", [first]
        )

    def history(self, first: int, size: int) -> Iterator[list[StoredDocument]]:
        """The unexpired documents from number `first` on, in order of arrival, in lists of at most
        `size`."""
        table, version = self._from()
        sql = f"SELECT {_DOCUMENT}, {version} FROM {table} WHERE doc >= ? AND xml IS NOT NULL"
        while rows := self._sql.rows(f"{sql} ORDER BY doc LIMIT ?", [first, size]):
            first = rows[-1][0] + 1
            yield self._documents(rows)

    def streams(self) -> dict[str, int]:
        """The streams of the unexpired documents, with how many flow through each."""
        return dict(
            self._sql.rows(
                "SELECT stream, count(*) FROM (SELECT unnest(streams) AS stream FROM documents"
                " WHERE xml IS NOT NULL) GROUP BY stream ORDER BY stream"
            )
        )

    def count_of(self, streams: Collection[str]) -> int:
        """How many unexpired documents flow through one of these streams."""
        return self._sql.count(
            "SELECT count(*) FROM documents WHERE xml IS NOT NULL AND list_has_any(streams, ?)",
            [[*streams]],
        )

    def newest_of(
        self, streams: Collection[str], most: int, size: int
    ) -> Iterator[list[StoredDocument]]:
        """The unexpired documents of these streams, the last that came first, `most` at most, in
        lists of at most `size`."""
        table, version = self._from()
        sql = (
            f"SELECT {_DOCUMENT}, {version} FROM {table} WHERE doc < ? AND xml IS NOT NULL"
            " AND list_has_any(streams, ?) ORDER BY doc DESC LIMIT ?"
        )
        before = UNBOUNDED
        while most > 0 and (rows := self._sql.rows(sql, [before, [*streams], min(size, most)])):
            before = rows[-1][0]
            most -= len(rows)
            yield self._documents(rows)

    def first_of_newest(self, most: int) -> int:
        """The number of the first of the newest `most` unexpired documents; 0 if there are no
        more."""
        rows = self._sql.rows(
            "SELECT doc FROM documents WHERE xml IS NOT NULL ORDER BY doc DESC LIMIT 1 OFFSET ?",
            [most],
        )
        return rows[0][0] + 1 if rows else 0

    def named(self, id: str) -> list[StoredDocument]:
        """The unexpired documents of an id, whatever their source, the last that came first."""
        table, version = self._from()
        rows = self._sql.rows(
            f"SELECT {_DOCUMENT}, {version} FROM {table} WHERE id = ? AND xml IS NOT NULL"
            " ORDER BY doc DESC",
            [id],
        )
        return self._documents(rows)

    def identities(self, docs: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Their sources and ids, by number."""
        rows = self._sql.rows(f"SELECT doc, source, id FROM documents WHERE doc {AMONG}", [[*docs]])
        return {doc: (source, id) for doc, source, id in rows}

    def newest(self, keys: Collection[int], said: bool = False) -> dict[Identity, Newest]:
        """The newest versions of the documents whose identities have one of these keys, expired
        ones too; with time and bytes if `said` is set."""
        table, version = self._from()
        what = '"end", xml' if said else "0, NULL"
        rows = self._sql.rows(
            f"SELECT key, source, id, doc, {version}, {what} FROM {table}"
            f" WHERE key {AMONG_VALUES} ORDER BY doc",
            [[*keys]],
        )
        return {
            Identity(key, source, id): Newest(doc, number, None if xml is None else (end, xml))
            for key, source, id, doc, number, end, xml in with_bytes(self._sql, rows, 6)
        }

    def stored_bytes(self, source: str) -> int:
        """The bytes of the unexpired documents whose source begins so."""
        return self._sql.count(
            f"SELECT coalesce(sum({SIZE}), 0)::BIGINT FROM documents WHERE starts_with(source, ?)",
            [source],
        )

    def keys(self) -> npt.NDArray[np.uint64]:
        """The keys of all identities."""
        if self._sql.fresh:
            return np.empty(0, np.uint64)
        found: npt.NDArray[np.uint64] = (
            self._sql.table("SELECT key FROM documents").column("key").to_numpy()
        )
        return found

    def count(self) -> int:
        """How many documents are stored, those included of which only the identity is left."""
        return self._sql.count("SELECT count(*) FROM documents")
