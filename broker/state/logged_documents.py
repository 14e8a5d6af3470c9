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
from feeds.references import Reference, is_reference

IS_REFERENCE = "(xml >= '\\x01'::BLOB AND xml < '\\x02'::BLOB)"
"""Whether there is one, in SQL. A document may begin with the byte 0, in UTF-16 or UTF-32."""
SIZE = (
    f"CASE WHEN {IS_REFERENCE} THEN ('0x' || substr(hex(xml), 27, 8))::UINTEGER"
    " ELSE octet_length(xml) END"
)
"""The bytes of a document, in SQL; a reference has the number at its fourteenth byte."""

_AT_ONCE = 2_000
"""Documents among which the first reference is looked for at first."""


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


def first_needed(sql: Statements, since: int = 0) -> tuple[int | None, int]:
    """The number of the first pack to a document of which there is a reference, None for none; and
    the number of a document before which none has one, as none before number `since` had any."""
    first, last = _numbers(sql, since)
    own = _nearest(sql, first, last, "ASC")
    ((kept,),) = sql.rows(f"SELECT min(xml) FROM kept WHERE {IS_REFERENCE}")
    found = [xml for xml in (own and own[1], kept) if xml is not None]
    return Reference.of(min(found)).seq if found else None, own[0] if own else last + 1


def ends(sql: Statements) -> list[bytes]:
    """The first and the last reference that a document has; nothing if there are none."""
    first, last = _numbers(sql, 0)
    own = _nearest(sql, first, last, "ASC")
    behind = own and _nearest(sql, own[0], last, "DESC")
    return [each[1] for each in (own, behind) if each]


def _numbers(sql: Statements, since: int) -> tuple[int, int]:
    """The lowest and the highest number of a document from number `since` on."""
    ((first, last),) = sql.rows("SELECT min(doc), max(doc) FROM documents WHERE doc >= ?", [since])
    return (since, since - 1) if first is None else (first, last)


def _nearest(sql: Statements, first: int, last: int, order: str) -> tuple[int, bytes] | None:
    """The first or the last document with a reference between two numbers, and that one. References
    grow with the numbers of documents, and to look at all of them would take seconds where there
    are long documents in between."""
    size = 0  # mostly it is the first that is looked at
    while first <= last:
        low, high = (first, first + size) if order == "ASC" else (last - size, last)
        found = sql.rows(
            f"SELECT doc, xml FROM documents WHERE doc BETWEEN ? AND ? AND {IS_REFERENCE}"
            f" ORDER BY doc {order} LIMIT 1",
            [max(low, first), min(high, last)],
        )
        if found:
            return found[0][0], found[0][1]
        first, last = (high + 1, last) if order == "ASC" else (first, low - 1)
        size = 2 * size or _AT_ONCE
    return None


def all_references(sql: Statements) -> list[bytes]:
    """All references, some of them twice."""
    return [
        xml
        for table in ("documents", "kept")
        for (xml,) in sql.rows(f"SELECT xml FROM {table} WHERE {IS_REFERENCE}")
    ]


def take_in(sql: Statements, since: int, most: int) -> None:
    """Store the bytes of at most so many documents with references that end after a time: they may
    outlive what came after them."""
    rows = sql.rows(
        f'SELECT doc, xml FROM documents WHERE "end" > ? AND {IS_REFERENCE} ORDER BY doc LIMIT ?',
        [since, most],
    )
    if rows:
        docs, xml = zip(*with_bytes(sql, rows, 1), strict=True)
        sql.run(
            "UPDATE documents SET xml = own.xml FROM (SELECT unnest(?::BIGINT[]) AS doc,"
            " unnest(?::BLOB[]) AS xml) AS own WHERE documents.doc = own.doc",
            [[*docs], [*xml]],
        )


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
