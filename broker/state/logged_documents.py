"""Documents whose bytes are in packs of the spool: the tables have references in their place.

In: the rows of a statement, with documents or references in one column. Out: the same with
documents; which references there are. The columns `xml` of `documents` and of `kept` hold either,
as `feeds/references.py` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from broker.state.statements import Statements
from feeds.kept_packs import documents
from feeds.references import BEHIND, Reference, is_reference

SIZE = (
    "CASE WHEN xml < '\\x02'::BLOB THEN ('0x' || substr(hex(xml), 27, 8))::UINTEGER"
    " ELSE octet_length(xml) END"
)
"""The bytes of a document, in SQL."""

_ALL = (
    "(SELECT xml FROM documents WHERE xml < $behind"
    " UNION ALL SELECT xml FROM kept WHERE xml < $behind)"
)


def with_bytes(
    sql: Statements, rows: Sequence[tuple[Any, ...]], column: int
) -> list[tuple[Any, ...]]:
    """The rows with documents in this column, which may have references. Raises SpoolError."""
    references = [row[column] for row in rows if is_reference(row[column])]
    if not references:
        return [*rows]
    assert sql.log is not None
    known = documents(sql.log, references)
    return [
        (*row[:column], known.get(row[column], row[column]), *row[column + 1 :]) for row in rows
    ]


def first_needed(sql: Statements) -> int | None:
    """The number of the first pack to a document of which there is a reference; None for none."""
    found = ends(sql)
    return Reference.of(found[0]).seq if found else None


def ends(sql: Statements) -> list[bytes]:
    """The first and the last reference; nothing if there are none."""
    found = sql.rows(f"SELECT min(xml), max(xml) FROM {_ALL}", {"behind": BEHIND})
    return [xml for xml in found[0] if xml is not None]


def all_references(sql: Statements) -> list[bytes]:
    """All references, some of them twice."""
    return [xml for (xml,) in sql.rows(f"SELECT xml FROM {_ALL}", {"behind": BEHIND})]


def numbers_of(sql: Statements, references: Collection[bytes]) -> tuple[list[int], list[int]]:
    """The documents that have these references, and those that had them for matches in the
    outbox."""
    documents, kept = (
        [
            doc
            for (doc,) in sql.rows(
                f"SELECT doc FROM {table} WHERE xml IN (SELECT unnest(?::BLOB[]))", [[*references]]
            )
        ]
        for table in ("documents", "kept")
    )
    return documents, kept
