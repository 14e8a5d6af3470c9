"""The relations that the templates' queries join, besides `rl` itself: temporary tables.

    rr      the witness rows of the current batch
    slice   those rows of rl that can take part in its matches
    part    the rows of rl or slice without some documents
    RT      the parameters of canonical queries, a table for each template

In: rows, and queries in SQL. Out: the rows that queries find.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from broker.state.statements import AMONG, Statements

if TYPE_CHECKING:
    from broker.state.statements import Connection


class QueriedRelations:
    """The match relations of a store, as generated queries see them."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def prepare(self, macros: str, define: Callable[[Connection], object]) -> None:
        """Define the macros and functions that queries call. To be called outside any transaction:
        a rollback would remove them for good."""
        self._sql.run(macros)
        self._sql.define(define)

    def create_parameters(self, definition: str) -> None:
        """Create a parameter relation RT anew, by its definition in SQL."""
        self._sql.run(definition)

    def load_parameters(self, table: str, gone: Collection[int], rows: pa.Table | None) -> None:
        """Delete the rows of the canonical queries `gone` from a parameter relation, and insert
        `rows`."""
        self._sql.delete(table, "cq", gone)
        if rows is not None:
            self._sql.insert(table, rows)

    def load_batch(self, rows: pa.Table) -> None:
        """Make rr: the witness rows of the batch."""
        self._sql.make_temporary("rr", rows)

    def load_slice(self, docs: Sequence[int]) -> None:
        """Make slice: the rows of rl of these documents."""
        self._sql.run(
            f"CREATE OR REPLACE TEMP TABLE slice AS SELECT * FROM rl WHERE doc {AMONG}", [docs]
        )

    def load_part(self, of: str, later: Collection[int]) -> None:
        """Make part: the rows of rl or slice (`of`) of all but the documents `later`."""
        self._sql.run(
            "CREATE OR REPLACE TEMP TABLE later AS SELECT unnest(?::BIGINT[]) AS doc", [[*later]]
        )
        self._sql.run(
            f"CREATE OR REPLACE TEMP VIEW part AS SELECT * FROM {of} WHERE doc NOT IN (FROM later)"
        )

    def query(
        self, query: str, parameters: dict[str, Any], *, in_order: bool = False
    ) -> list[tuple[Any, ...]]:
        """The rows of a query over rl, rr, slice and the parameter relations. With `in_order` the
        joins are run as they stand."""
        if not in_order:
            return self._sql.rows(query, parameters)
        with self._sql.unoptimized():
            return self._sql.rows(query, parameters)
