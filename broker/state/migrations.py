"""The tables of a state, and the migrations from older versions.

The table `meta` holds the version of a state. Each step converts a state from the version before;
all steps run in one transaction, so that a state is never between two versions. A state of a newer
version is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

VERSION = 14
JOURNALED = 10
"""The first version with a journal (`broker/state/behind.py`); what it holds is brought into the
tables before they are migrated."""

META = "CREATE TABLE IF NOT EXISTS meta (key VARCHAR PRIMARY KEY, value BIGINT)"

SCHEMA = """
CREATE TABLE IF NOT EXISTS subscriptions (
    number BIGINT, id VARCHAR, text VARCHAR, first_doc BIGINT, since BIGINT, shape INTEGER,
    literals VARCHAR[], publish VARCHAR);
CREATE TABLE IF NOT EXISTS shapes (
    number INTEGER, compiler INTEGER, form VARCHAR, compiled VARCHAR);
CREATE TABLE IF NOT EXISTS gaps (
    number BIGINT, status VARCHAR, reason VARCHAR, first_doc BIGINT, from_time BIGINT,
    to_doc BIGINT, to_time BIGINT, told BOOLEAN);
CREATE TABLE IF NOT EXISTS limits (number BIGINT, matches BIGINT, period BIGINT);
CREATE TABLE IF NOT EXISTS variables (id INTEGER, definition VARCHAR);
CREATE TABLE IF NOT EXISTS documents (
    doc BIGINT, base BIGINT, key UBIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[],
    "start" BIGINT, "end" BIGINT, dated BOOLEAN, xml BLOB, outline UBIGINT);
CREATE TABLE IF NOT EXISTS outlines (id UBIGINT, source VARCHAR, paths VARCHAR[]);
CREATE TABLE IF NOT EXISTS versions (doc BIGINT, version BIGINT);
CREATE TABLE IF NOT EXISTS rl (
    doc BIGINT, base BIGINT, "start" BIGINT, "end" BIGINT, var1 INTEGER, var2 INTEGER,
    node1 BIGINT, node2 BIGINT, value UBIGINT, text VARCHAR, num DOUBLE);
CREATE TABLE IF NOT EXISTS progress (
    next_doc BIGINT, highest BIGINT, position BIGINT, journal BIGINT);
CREATE TABLE IF NOT EXISTS highest (kind VARCHAR, name VARCHAR, number BIGINT);
CREATE TABLE IF NOT EXISTS outbox (
    n BIGINT, ids BLOB, queries VARCHAR[], match VARCHAR,
    result BLOB USING COMPRESSION uncompressed, docs BIGINT[]);
CREATE TABLE IF NOT EXISTS kept (doc BIGINT, before BIGINT, xml BLOB);
CREATE TABLE IF NOT EXISTS dead_letters (
    n BIGINT, kept BIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[], place VARCHAR,
    reason VARCHAR, "timestamp" BIGINT, xml BLOB);
CREATE TABLE IF NOT EXISTS patterns (
    number BIGINT, first_doc BIGINT, registered BIGINT, lateness BIGINT, "floor" BIGINT);
CREATE TABLE IF NOT EXISTS pattern_rows (
    tap VARCHAR, doc BIGINT, base BIGINT, key UBIGINT, "start" BIGINT, "end" BIGINT, id VARCHAR,
    node BIGINT, nodes BIGINT[], texts VARCHAR[][]);
CREATE TABLE IF NOT EXISTS pattern_marks (number BIGINT, key VARCHAR, "end" BIGINT);
CREATE TABLE IF NOT EXISTS pattern_late (doc BIGINT, "end" BIGINT, seen BIGINT);
CREATE TABLE IF NOT EXISTS postdated (doc BIGINT, seen BIGINT);
"""
"""The tables of this version. A document has the number of its `outline`, 0 if its label paths are
not known, NULL once it has expired. `versions` counts the revisions that flow as documents of
their own; a state written before there were any has none. A match in the outbox is that of all
`queries` that share it, whose own have the `ids`; it has a `result`, or refers to `docs`. `kept`
holds the bytes that these had for the matches with numbers below `before`, where the documents
have changed or expired since. `progress` has the number of the last record of the journal, too,
that the tables hold. The tables of event patterns are described where they are read and
written, in `broker/state/pattern_tables.py`. Every time is in microseconds; `since`, `from_time`,
`to_time` and `kept` are of the wall clock, and NULL where it is unknown."""


class Connection(Protocol):
    """The part of a DuckDB connection that steps use."""

    def execute(self, query: str, parameters: object = None, /) -> Connection: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


def in_order(definition: str) -> str:
    """The text of a definition with the filters of each step in the order of their texts, none
    twice. A text that cannot be read so (by a namespace name with brackets) is left as it is."""
    try:
        text, end = _in_order(definition, 0)
    except (IndexError, ValueError):
        return definition
    return text if end == len(definition) else definition


def _in_order(text: str, at: int) -> tuple[str, int]:
    """The ordered text from index `at` to the closing bracket or the end, and the index of that."""
    pieces: list[str] = []
    filters: set[str] = set()
    while at < len(text) and text[at] != "]":
        if text[at] == "[":
            inner, at = _in_order(text, at + 1)
            if text[at] != "]":
                raise ValueError(text)
            filters.add(inner)
            at += 1
            continue
        pieces += [f"[{each}]" for each in sorted(filters)]
        filters.clear()
        end = text.index(text[at], at + 1) if text[at] in "'\"" else at
        pieces.append(text[at : end + 1])
        at = end + 1
    pieces += [f"[{each}]" for each in sorted(filters)]
    return "".join(pieces), at


def _store_compiled(connection: Connection) -> None:
    """Before this version subscriptions were compiled from their texts at each start. The new
    columns are empty, so they are compiled once more at the next start, which fills them. The
    filters of a definition had an arbitrary order; they are sorted, and definitions that are then
    equal are merged into the one of the lowest number."""
    for column in ("shape INTEGER", "literals VARCHAR[]", "publish VARCHAR"):
        connection.execute(f"ALTER TABLE subscriptions ADD COLUMN {column}")
    numbers: dict[str, int] = {}
    changed: dict[int, str] = {}
    merged: dict[int, int] = {}
    rows = connection.execute("SELECT id, definition FROM variables ORDER BY id").fetchall()
    for number, definition in rows:
        text = in_order(definition)
        known = numbers.setdefault(text, number)
        if known != number:
            merged[number] = known
        elif text != definition:
            changed[number] = text
    if changed:
        connection.execute(
            "UPDATE variables SET definition = new.text"
            " FROM (SELECT unnest(?::INTEGER[]) AS id, unnest(?::VARCHAR[]) AS text) new"
            " WHERE variables.id = new.id",
            [[*changed], [*changed.values()]],
        )
    for number, known in merged.items():
        connection.execute("DELETE FROM variables WHERE id = ?", [number])
        for column in ("var1", "var2"):
            connection.execute(f"UPDATE rl SET {column} = ? WHERE {column} = ?", [known, number])
    if merged:
        connection.execute("CREATE TEMP TABLE rl_once AS SELECT DISTINCT * FROM rl")
        connection.execute("DELETE FROM rl")
        connection.execute("INSERT INTO rl SELECT * FROM rl_once")
        connection.execute("DROP TABLE rl_once")


_REMAKE_ROWS = """
DELETE FROM meta WHERE key = 'pattern_rows_lack';
INSERT INTO meta VALUES ('pattern_rows_lack', 1);
"""

STEPS: dict[int, str | Callable[[Connection], None]] = {
    2: """
ALTER TABLE outbox RENAME TO outbox_1;
CREATE TABLE outbox (
    n BIGINT, id VARCHAR, match VARCHAR, result BLOB USING COMPRESSION uncompressed);
INSERT INTO outbox SELECT n, id, match, encode(match ->> 'result') FROM outbox_1;
DROP TABLE outbox_1;
""",
    3: """
ALTER TABLE subscriptions ADD COLUMN since BIGINT;
ALTER TABLE dead_letters RENAME TO dead_letters_2;
CREATE TABLE dead_letters (
    n BIGINT, kept BIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[], place VARCHAR,
    reason VARCHAR, "timestamp" BIGINT, xml BLOB);
INSERT INTO dead_letters
    SELECT row_number() OVER (ORDER BY rowid), epoch_us(now()), source, id, [], place,
        reason, "timestamp", xml
    FROM dead_letters_2;
DROP TABLE dead_letters_2;
INSERT INTO meta SELECT 'next_letter', count(*) + 1 FROM dead_letters;
""",
    4: _store_compiled,
    5: "ALTER TABLE outbox ADD COLUMN IF NOT EXISTS docs BIGINT[]",
    6: """
ALTER TABLE outbox RENAME TO outbox_5;
CREATE TABLE outbox (
    n BIGINT, ids BLOB, queries VARCHAR[], match VARCHAR,
    result BLOB USING COMPRESSION uncompressed, docs BIGINT[]);
INSERT INTO outbox SELECT n, unhex(id), [match ->> '$.query'], match, result, docs FROM outbox_5;
DROP TABLE outbox_5;
""",
    7: """
CREATE TABLE progress (next_doc BIGINT, highest BIGINT, position BIGINT);
INSERT INTO progress
    SELECT max(value) FILTER (key = 'next_doc'), max(value) FILTER (key = 'highest_timestamp'),
        max(value) FILTER (key = 'position')
    FROM meta;
DELETE FROM meta WHERE key IN ('next_doc', 'highest_timestamp', 'position');
""",
    8: "SELECT 1",
    9: """
ALTER TABLE documents ADD COLUMN outline UBIGINT;
UPDATE documents SET outline = 0 WHERE xml IS NOT NULL;
""",
    10: "ALTER TABLE progress ADD COLUMN journal BIGINT",
    11: _REMAKE_ROWS,
    12: """
CREATE TABLE highest (kind VARCHAR, name VARCHAR, number BIGINT);
INSERT INTO highest SELECT 'applied', source, seq FROM applied;
INSERT INTO highest SELECT 'decided', '', value FROM meta WHERE key = 'pattern_highest';
DROP TABLE applied;
DELETE FROM meta WHERE key = 'pattern_highest';
""",
    13: "SELECT 1",
    14: _REMAKE_ROWS,
}
"""The migration to each version from the one before. Version 8 has more tables, and from version 13
on tables may have references in place of documents (`broker/state/logged_documents.py`). Before
version 3 dead letters had neither streams nor a date; their retention counts from the day of the
migration.
Before version 11, and before version 14 again, the taps of event patterns had other ids, so their
rows are made of the stored documents again."""
