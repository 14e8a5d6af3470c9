"""Matches and lists as rows of columns: CSV for spreadsheets, a line of a table for people.

In go matches or JSON objects, out come lines without a line end. A cell of CSV is one line (control
characters are escapes), and what a spreadsheet would take for a formula has a `'` before it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence

from broker.model import DocumentRef, Match, iso_time
from broker.text.printable import visible

MATCH_COLUMNS = ("query", "start", "end", "titles", "links", "feeds", "documents", "values", "id")
"""Of the documents in pattern order: titles, links, feeds and ids, with `between` between them."""

between = " | "
_QUERY = 24
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_line(cells: Iterable[object]) -> str:
    """One row as RFC 4180 has it, without its end."""
    return csv_lines([cells])


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows as RFC 4180 has them, without the end of the last."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(
        [[_cell(cell) for cell in row] for row in rows]
    )
    return lines.getvalue().removesuffix("\n")


_to_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for each call


def _cell(value: object) -> object:
    match value:
        case str():
            # Before control characters become escapes: some begin a formula as well.
            return visible(f"'{value}" if value.startswith(_FORMULA) else value)
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case _:
            return _cell(_to_json(value))


def csv_match(match: Match) -> str:
    """A match as a row of MATCH_COLUMNS."""
    values = "; ".join(f"{name} = {', '.join(texts)}" for name, texts in match.values.items())
    documents = match.documents
    return csv_line(
        [
            match.query,
            iso_time(match.start_us),
            iso_time(match.end_us),
            _all(documents, lambda d: d.title),
            _all(documents, lambda d: d.link),
            _all(documents, lambda d: d.feed),
            _all(documents, lambda d: d.id),
            values,
            match.id,
        ]
    )


def _all(documents: Sequence[DocumentRef], of: Callable[[DocumentRef], str | None]) -> str:
    return between.join(of(document) or "" for document in documents)


MATCH_CSV_HEADER = csv_line(MATCH_COLUMNS)
MATCH_TABLE_HEADER = f"{'END':20}  {'QUERY':{_QUERY}}  DOCUMENTS"


def table_match(match: Match) -> str:
    """A match as a line of a table: the end, the query, and what its documents are called."""
    end = f"{iso_time(match.end_us).removesuffix('Z').partition('.')[0]}Z"
    query = visible(match.query)
    query = query if len(query) <= _QUERY else query[: _QUERY - 1] + "…"
    said = between.join(d.title or d.id for d in match.documents)
    return f"{end}  {query:{_QUERY}}  {visible(said)}"
