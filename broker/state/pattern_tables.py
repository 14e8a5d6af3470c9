"""The tables of event patterns: the only module that reads and writes them.

    patterns        those registered: from which document on, the highest time seen then (NULL
                    before the first document), the lateness by which they decide, and a watermark
                    below which they have decided already, from before that was changed
    pattern_rows    the documents that their blocks take, by tap: the selected node, the nodes of
                    the variables, and the texts at the paths that the patterns read
    pattern_marks   what they have kept of their matches; of several of one key the latest counts
    pattern_late    documents that were older than others when they came, and the highest time then

All times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from broker.model import UNBOUNDED
from broker.state.highest import Highest
from broker.state.statements import Statements
from broker.state.store import Store


class Entry(NamedTuple):
    """A registered pattern."""

    number: int
    first_doc: int
    registered: int | None
    lateness: int
    floor: int | None


class Mark(NamedTuple):
    """What the pattern of an entry has kept of its matches: what it is of, as `key`, and when that
    ends."""

    number: int
    key: str
    end: int


Texts = tuple[tuple[str, ...], ...]
"""At each path that is read of a document the texts, in order."""


class TapRow(NamedTuple):
    """A document as a block takes it: its number, that of the oldest one that it is made of, the
    hash of what identifies it, its interval and id; and the `texts` at each path, in order."""

    tap: str
    doc: int
    base: int
    key: int
    start: int
    end: int
    id: str
    node: int
    nodes: tuple[int, ...]
    texts: Texts


RowValues = tuple[str, int, int, int, int, int, str, int, tuple[int, ...], Texts]
"""What a `TapRow` says. To store a row takes no more, and it is made in a third of the time."""

Arrived = tuple[TapRow, int | None]
"""A row, and the highest time when its document came, None if that was not older."""

_LACKS = "pattern_rows_lack"

_PART = 1_000
"""Rows that are read at a time."""

_MANY = 20
"""The rows of so many taps are worth 2 ms, which DuckDB takes longer to give columns."""

_FEW = 3
"""To plan a statement for a list takes as long as so many statements for one."""

_ROWS = pa.schema(
    [
        ("tap", pa.string()),
        *((name, pa.int64()) for name in ("doc", "base")),
        ("key", pa.uint64()),
        *((name, pa.int64()) for name in ("start", "end")),
        ("id", pa.string()),
        ("node", pa.int64()),
        ("nodes", pa.list_(pa.int64())),
        ("texts", pa.list_(pa.list_(pa.string()))),
    ]
)
_ENTRIES = pa.schema([(name, pa.int64()) for name in Entry._fields])
_ENTER = """
    INSERT INTO patterns (number, first_doc, registered, lateness, "floor") VALUES (?, ?, ?, ?, ?)
"""
_LATE = pa.schema([(name, pa.int64()) for name in ("doc", "end", "seen")])
_MARKS = pa.schema([("number", pa.int64()), ("key", pa.string()), ("end", pa.int64())])
_COLUMNS = ", ".join([f'r."{name}"' for name in TapRow._fields])


def _row(values: Sequence[Any]) -> TapRow:
    tap, doc, base, key, start, end, id, node, nodes, texts = values[:10]
    texts = tuple([tuple(each) for each in texts])
    return TapRow(tap, doc, base, key, start, end, id, node, tuple(nodes), texts)


def tap_rows(
    statements: Statements,
    taps: Collection[str] | None,
    first_doc: int,
    horizon: int = -UNBOUNDED,
) -> Iterator[list[Arrived]]:
    """The rows of taps, or of all for None, of documents made of none before `first_doc` that ended
    at `horizon` or later, in order of arrival, some at a time."""
    order = "r.doc, r.node, r.nodes"
    if taps is None or len(taps) > _MANY:
        found = stored_rows(statements, taps, first_doc, horizon, order)
        for low in range(0, found.num_rows, _PART):
            yield arrived(found.slice(low, _PART))
        return
    query, parameters = _query(taps, first_doc, horizon, order)
    for part in statements.chunks(query, _PART, parameters):
        yield [(_row(values), values[-1]) for values in part]


def _query(
    taps: Collection[str] | None, first_doc: int, horizon: int, order: str
) -> tuple[str, list[Any]]:
    chosen = "" if taps is None else " AND r.tap IN (SELECT unnest(?::VARCHAR[]))"
    query = (
        f"SELECT {_COLUMNS}, l.seen FROM pattern_rows r"
        f' LEFT JOIN pattern_late l ON l.doc = r.doc WHERE r.base >= ? AND r."end" >= ?{chosen}'
        f" ORDER BY {order}"
    )
    return query, [first_doc, horizon] if taps is None else [first_doc, horizon, [*taps]]


def stored_rows(
    statements: Statements, taps: Collection[str] | None, first_doc: int, horizon: int, order: str
) -> pa.Table:
    """The same as columns, ordered by those of `r`: those of TapRow, and `seen`."""
    return statements.table(*_query(taps, first_doc, horizon, order))


def arrived(columns: pa.Table) -> list[Arrived]:
    """The rows of such columns. To read columns takes a tenth of the time that rows take."""
    *plain, nodes, texts, seen = [column.to_pylist() for column in columns.columns]
    texts = [(*map(tuple, each),) for each in texts]
    rows = map(TapRow._make, zip(*plain, map(tuple, nodes), texts, strict=True))
    return [*zip(rows, seen, strict=True)]


class PatternTables:
    """Reads and writes; changes are part of the current transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._highest = Highest(store, "decided")

    def entries(self, numbers: Collection[int] | None = None) -> list[Entry]:
        """The patterns, or those of these numbers."""
        columns = 'number, first_doc, registered, lateness, "floor"'
        if numbers is None:
            rows = self._store.rows(f"SELECT {columns} FROM patterns")
        elif len(numbers) <= _FEW:
            one = f"SELECT {columns} FROM patterns WHERE number = ?"
            rows = [row for number in numbers for row in self._store.rows(one, [number])]
        else:
            condition = "number IN (SELECT unnest(?::BIGINT[]))"
            rows = self._store.rows(
                f"SELECT {columns} FROM patterns WHERE {condition}", [[*numbers]]
            )
        return [Entry(*row) for row in rows]

    def enter(self, entries: Sequence[Entry], fresh: bool = False) -> None:
        """Add patterns, or change them; `fresh`: there are none of these numbers."""
        if not fresh:
            self._store.delete("patterns", "number", [entry.number for entry in entries])
        if len(entries) <= _FEW:
            for entry in entries:
                self._store.run(_ENTER, entry)
        else:
            self._append("patterns", entries, _ENTRIES)

    def _append(self, table: str, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> None:
        if rows:
            columns = zip(*rows, strict=True)
            self._store.insert(table, pa.table([*map(list, columns)], schema=schema))

    def remove(self, numbers: Collection[int]) -> None:
        self._store.delete("patterns", "number", [*numbers])
        self._store.delete("pattern_marks", "number", [*numbers])

    def delete_taps(self, taps: Collection[str]) -> None:
        """Delete the rows of taps."""
        if len(taps) <= _FEW:
            for tap in taps:
                self._store.run("DELETE FROM pattern_rows WHERE tap = ?", [tap])
        else:
            self._store.run(
                "DELETE FROM pattern_rows WHERE tap IN (SELECT unnest(?::VARCHAR[]))", [[*taps]]
            )

    def keep_taps(self, taps: Collection[str]) -> None:
        """Delete the rows of all other taps."""
        self._store.run(
            "DELETE FROM pattern_rows WHERE tap NOT IN (SELECT unnest(?::VARCHAR[]))", [[*taps]]
        )

    # -- rows ----------------------------------------------------------------------------------

    @property
    def lacks_rows(self) -> bool:
        """Whether rows may be missing, as others have matched patterns."""
        return bool(self._store.number(_LACKS, 0))

    def lack_rows(self, lacks: bool) -> None:
        if lacks != self.lacks_rows:
            self._store.set_numbers(**{_LACKS: int(lacks)})

    def add_rows(self, rows: Sequence[RowValues]) -> None:
        self._append("pattern_rows", rows, _ROWS)

    def delete_rows(self, docs: Collection[int]) -> None:
        self._store.delete("pattern_rows", "doc", [*docs])

    def rows_of(self, docs: Collection[int]) -> set[TapRow]:
        """The rows of documents."""
        found = self._store.rows(
            f"SELECT {_COLUMNS} FROM pattern_rows r WHERE doc IN (SELECT unnest(?::BIGINT[]))",
            [[*docs]],
        )
        return {*map(_row, found)}

    def rows(
        self, taps: Collection[str] | None, first_doc: int, horizon: int = -UNBOUNDED
    ) -> list[Arrived]:
        """What `tap_rows` gives, at once."""
        return [row for part in tap_rows(self._store, taps, first_doc, horizon) for row in part]

    def by_tap(
        self, taps: Collection[str] | None, first_doc: int, horizon: int = -UNBOUNDED
    ) -> pa.Table:
        """The same as columns (`arrived`), tap by tap."""
        order = "r.tap, r.doc, r.node, r.nodes"
        return stored_rows(self._store, taps, first_doc, horizon, order)

    def taps(self) -> dict[str, int]:
        """How many rows there are of each tap that has some."""
        return dict(self._store.rows("SELECT tap, count(*) FROM pattern_rows GROUP BY tap"))

    def replace_rows(self, first_doc: int, rows: Sequence[TapRow], taps: Collection[str]) -> None:
        """Replace what is stored of taps from a document on."""
        self._store.run(
            "DELETE FROM pattern_rows WHERE tap IN (SELECT unnest(?::VARCHAR[])) AND doc >= ?",
            [[*taps], first_doc],
        )
        self.add_rows(rows)

    def late(self, first_doc: int) -> dict[int, tuple[int, int]]:
        """The documents from a number on that were older than others: their ends, and the highest
        time then."""
        found = self._store.rows(
            'SELECT doc, "end", seen FROM pattern_late WHERE doc >= ?', [first_doc]
        )
        return {doc: (end, seen) for doc, end, seen in found}

    def add_late(self, late: Sequence[tuple[int, int, int]]) -> None:
        """Documents that were older than others: their numbers and ends, and the highest time."""
        self._append("pattern_late", late, _LATE)

    def expire(self, horizon: int) -> None:
        """Delete what is of documents that ended before a time."""
        for table in ("pattern_rows", "pattern_late"):
            self._store.run(f'DELETE FROM {table} WHERE "end" < ?', [horizon])

    # -- marks ---------------------------------------------------------------------------------

    def marks(self, number: int) -> list[tuple[str, int]]:
        """The marks of a pattern: keys, and the latest time of each."""
        rows = self._store.rows(
            'SELECT key, max("end") FROM pattern_marks WHERE number = ? GROUP BY key', [number]
        )
        return [(key, end) for key, end in rows]

    def marks_like(self, beginning: str) -> list[tuple[int, str, int]]:
        """The marks whose keys begin so, of all patterns: their numbers, keys, and the latest time
        of each."""
        rows = self._store.rows(
            'SELECT number, key, max("end") FROM pattern_marks WHERE starts_with(key, ?)'
            " GROUP BY number, key",
            [beginning],
        )
        return [(number, key, end) for number, key, end in rows]

    def count_marks(self) -> int:
        """How many marks there are, with those that later ones have replaced."""
        return self._store.count("SELECT count(*) FROM pattern_marks")

    def every_mark(self) -> dict[int, dict[str, int]]:
        """The marks of all patterns, by number and key."""
        found: dict[int, dict[str, int]] = {}
        rows = 'SELECT number, key, max("end") FROM pattern_marks GROUP BY ALL'
        for number, key, end in self._store.rows(rows):
            found.setdefault(number, {})[key] = end
        return found

    def mark(self, marks: Sequence[Mark]) -> None:
        """Set marks, each of them later than what it replaces. That goes with `expire_marks`, so
        that a batch only inserts."""
        self._append("pattern_marks", marks, _MARKS)

    def expire_marks(self, horizon: int, lasting: str) -> None:
        """Delete the marks before a time, but for those whose keys begin with `lasting`, and of
        these what later ones have replaced."""
        if not self.count_marks():
            return
        self._store.run(
            'DELETE FROM pattern_marks WHERE "end" < ? AND NOT starts_with(key, ?)',
            [horizon, lasting],
        )
        self._store.run(
            "DELETE FROM pattern_marks AS mark USING ("
            ' SELECT number, key, max("end") AS latest FROM pattern_marks'
            " GROUP BY number, key HAVING count(*) > 1) AS last"
            ' WHERE mark.number = last.number AND mark.key = last.key AND mark."end" < latest'
        )

    # -- how far they are ----------------------------------------------------------------------

    def settled(self, default: int) -> int:
        """The highest time by which patterns have decided."""
        return self._highest.read().get("", default)

    def settle(self, highest: int) -> None:
        self._highest.write({"": highest})
