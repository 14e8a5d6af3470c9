"""The tables of a state, and how a state of an older version becomes one of this version.

A state says its version in the table `meta`. Each step makes a state of one version less into one of
its own, in one transaction with all other steps, so that a state is of one version or another and
never between two. A state of a newer version is refused.
"""

from __future__ import annotations

VERSION = 3

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key VARCHAR PRIMARY KEY, value BIGINT);
CREATE TABLE IF NOT EXISTS subscriptions (
    number BIGINT, id VARCHAR, text VARCHAR, first_doc BIGINT, since BIGINT);
CREATE TABLE IF NOT EXISTS gaps (
    number BIGINT, status VARCHAR, reason VARCHAR, first_doc BIGINT, from_time BIGINT,
    to_doc BIGINT, to_time BIGINT, told BOOLEAN);
CREATE TABLE IF NOT EXISTS limits (number BIGINT, matches BIGINT, period BIGINT);
CREATE TABLE IF NOT EXISTS variables (id INTEGER, definition VARCHAR);
CREATE TABLE IF NOT EXISTS documents (
    doc BIGINT, base BIGINT, key UBIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[],
    "start" BIGINT, "end" BIGINT, dated BOOLEAN, xml BLOB);
CREATE TABLE IF NOT EXISTS versions (doc BIGINT, version BIGINT);
CREATE TABLE IF NOT EXISTS rl (
    doc BIGINT, base BIGINT, "start" BIGINT, "end" BIGINT, var1 INTEGER, var2 INTEGER,
    node1 BIGINT, node2 BIGINT, value UBIGINT, text VARCHAR, num DOUBLE);
CREATE TABLE IF NOT EXISTS applied (source VARCHAR PRIMARY KEY, seq BIGINT);
CREATE TABLE IF NOT EXISTS outbox (
    n BIGINT, id VARCHAR, match VARCHAR, result BLOB USING COMPRESSION uncompressed);
CREATE TABLE IF NOT EXISTS dead_letters (
    n BIGINT, kept BIGINT, source VARCHAR, id VARCHAR, streams VARCHAR[], place VARCHAR,
    reason VARCHAR, "timestamp" BIGINT, xml BLOB);
"""
"""The tables of this version. `versions` counts the revisions that flow as documents of
their own; a state written before there were any has none. Every time is in microseconds; `since`, `from_time`, `to_time` and `kept`
are of the wall clock, and NULL where nobody told it."""

STEPS = {
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
}
"""What makes a state of one version less into one of this version. Before
version 3 dead letters had neither streams nor a date; how long they are kept counts from the day of
the change."""
