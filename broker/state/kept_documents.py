"""The bytes that documents had when matches in the outbox were made of them: the table `kept`, with
references where the bytes are in the spool.

In: documents that are replaced, deleted or expired. Out: their bytes as the matches know them,
until these have left the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from broker.model import UNBOUNDED
from broker.state.logged_documents import with_bytes
from broker.state.statements import AMONG, Statements


class KeptDocuments:
    """What is kept of the documents of a store for its outbox."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements
        self.released = 0
        """How often any were deleted."""
        self._any: bool | None = None
        """Whether there may be rows; None until it was looked at."""

    def keep(self, which: str, parameters: list[Any]) -> None:
        """Keep the bytes that documents have now, for the matches in the outbox that refer to them;
        `which` is a condition in SQL. If what is kept already is for matches up to the last one,
        none refers to these bytes."""
        upto = "(SELECT max(n) + 1 FROM outbox)"
        kept = self._sql.count(
            f"INSERT INTO kept SELECT doc, {upto}, xml FROM documents WHERE {which}"
            " AND xml IS NOT NULL AND doc IN (SELECT unnest(docs) FROM outbox)"
            f" AND doc NOT IN (SELECT doc FROM kept WHERE before >= {upto})",
            parameters,
        )
        if kept:
            self._any = True

    def contents(self, docs: Collection[int]) -> Callable[[int, int], bytes]:
        """The bytes of these documents as the matches in the outbox know them: a function of the
        document and of the match, by their numbers."""
        return _by_match(with_bytes(self._sql, self._rows(docs), 2))

    def stored(self, docs: Collection[int]) -> Callable[[int, int], bytes]:
        """The same, with references where the tables have them."""
        return _by_match(self._rows(docs))

    def _rows(self, docs: Collection[int]) -> list[tuple[Any, ...]]:
        """The documents of these numbers, each with the match before which it is that."""
        return self._sql.rows(
            f"SELECT doc, {UNBOUNDED}, xml FROM documents"
            f" WHERE doc {AMONG} AND xml IS NOT NULL UNION ALL SELECT doc, before, xml"
            f" FROM kept WHERE doc {AMONG} ORDER BY 1, 2",
            [[*docs], [*docs]],
        )

    def drop(self, references: Collection[bytes]) -> None:
        """Delete what is kept as one of these references."""
        self._sql.run("DELETE FROM kept WHERE xml IN (SELECT unnest(?::BLOB[]))", [[*references]])

    def release(self) -> None:
        """Delete the bytes that were kept for matches that are no longer in the outbox."""
        if self._any is None:
            self._any = bool(self._sql.count("SELECT count(*) FROM kept"))
        if self._any:
            self._sql.run("DELETE FROM kept WHERE doc NOT IN (SELECT unnest(docs) FROM outbox)")
            self._any = None
            self.released += 1


def _by_match(rows: Iterable[tuple[Any, ...]]) -> Callable[[int, int], bytes]:
    found: dict[int, list[tuple[int, bytes]]] = {}
    for doc, before, xml in rows:
        found.setdefault(doc, []).append((before, xml))
    return lambda doc, n: next(xml for before, xml in found[doc] if n < before)
