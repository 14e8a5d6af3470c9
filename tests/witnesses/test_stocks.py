"""Minute bars of real stocks: event patterns agree with SQL that is written by hand.

DuckDB answers the same questions over a table of the bars: moving windows by window functions, what
came next by LEAD and ASOF joins, absences by NOT EXISTS.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa
import pytest

from broker import Broker, Document, Match
from tests.feeds.data import DATA

BARS = DATA / "events_lean_ticks" / "derived" / "minute.csv.gz"
SYMBOLS = ("AIG", "BAC", "IBM")
DAYS = ("2013-10-04", "2013-10-07", "2013-10-08")
BATCH = 250

pytestmark = pytest.mark.skipif(not BARS.is_file(), reason=f"{BARS} is missing")

BAR = "S/bar[./symbol->{0}s][./close->{0}p]"
X, Y = BAR.format("x"), BAR.format("y")


@dataclass(frozen=True, slots=True)
class Question:
    """`sql` gives the numbers of a match's bars in pattern order and, where the query selects a
    number, that as its last column."""

    name: str
    text: str
    sql: str
    number: str | None = None


QUESTIONS = (
    Question(
        "average",
        f"SELECT avg(xp) AS a FROM {X} GROUP BY xs OVER 5 min",
        """SELECT n, avg(close) OVER (PARTITION BY symbol ORDER BY t
           RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW) FROM bars""",
        "a",
    ),
    Question(
        "highest",
        f"SELECT xp FROM {X} GROUP BY xs OVER 30 min HAVING xp = max(xp) AND count(xp) >= 20",
        """SELECT n FROM bars
           WINDOW w AS (PARTITION BY symbol ORDER BY t
                        RANGE BETWEEN INTERVAL 30 MINUTE PRECEDING AND CURRENT ROW)
           QUALIFY close = max(close) OVER w AND count(*) OVER w >= 20""",
    ),
    Question(
        "market",
        "SELECT count(v) AS c FROM S/bar[./volume->v] OVER 2 min HAVING sum(v) > 100000",
        """SELECT n, count(*) OVER w FROM bars
           WINDOW w AS (ORDER BY t RANGE BETWEEN INTERVAL 2 MINUTE PRECEDING AND CURRENT ROW)
           QUALIFY sum(volume) OVER w > 100000""",
        "c",
    ),
    Question(
        "jump",
        f"{X} NEXT {{ys = xs}} {Y} WHERE yp > 1.003 * xp",
        """SELECT a.n, b.n FROM
             (SELECT *, lead(n) OVER (PARTITION BY symbol ORDER BY t) AS after FROM bars) a
             JOIN bars b ON b.n = a.after WHERE b.close > 1.003::DOUBLE * a.close""",
    ),
    Question(
        "soonest",
        f"{X} NEXT {{xs = 'AIG' AND ys = 'IBM' AND yp > 183.5, 20 min}} {Y}",
        """SELECT a.n, b.n FROM (FROM bars WHERE symbol = 'AIG') a
           ASOF JOIN (FROM bars WHERE symbol = 'IBM' AND close > 183.5) b ON a.t < b.t
           WHERE b.t <= a.t + INTERVAL 20 MINUTE""",
    ),
    Question(
        "holds",
        f"S/bar[./symbol->xs][./open->o][./close->xp] FOLLOWED BY {{10 min}} NOT {Y}"
        " WHERE ys = xs AND yp < o AND xp > 1.001 * o",
        """SELECT n FROM bars a WHERE close > 1.001::DOUBLE * open AND NOT EXISTS
             (FROM bars b WHERE b.symbol = a.symbol AND b.t > a.t
              AND b.t <= a.t + INTERVAL 10 MINUTE AND b.close < a.open)""",
    ),
    Question(
        "unparted",
        f"{X} FOLLOWED BY NOT S/bar[./symbol = 'BAC'] FOLLOWED BY {Y}"
        " WHERE xs = 'AIG' AND ys = 'IBM' WITHIN 15 min",
        """SELECT a.n, c.n FROM bars a JOIN bars c
             ON a.symbol = 'AIG' AND c.symbol = 'IBM' AND c.t > a.t
             AND c.t <= a.t + INTERVAL 15 MINUTE
           WHERE NOT EXISTS (FROM bars b WHERE b.symbol = 'BAC' AND b.t > a.t AND b.t < c.t)""",
    ),
    Question(
        "first",
        f"NOT S/bar[./symbol->ys] FOLLOWED BY {{ys = xs, 2 h}} {X}",
        """SELECT n FROM bars a WHERE NOT EXISTS (FROM bars b WHERE b.symbol = a.symbol
             AND b.t < a.t AND b.t >= a.t - INTERVAL 2 HOUR)""",
    ),
    Question(
        "between",
        f"SELECT count(gp) AS c FROM {X}"
        " FOLLOWED BY (S/bar[./symbol = 'BAC'][./close->gp])+"
        f" FOLLOWED BY {Y} WHERE xs = 'AIG' AND ys = 'IBM' WITHIN 5 min",
        """SELECT a.n, b.n, c.n, count(*) OVER (PARTITION BY a.n, c.n)
           FROM bars a JOIN bars b ON b.symbol = 'BAC' AND b.t > a.t
           JOIN bars c ON c.symbol = 'IBM' AND c.t > b.t AND c.t <= a.t + INTERVAL 5 MINUTE
           WHERE a.symbol = 'AIG'""",
        "c",
    ),
)


@pytest.fixture(scope="module")
def bars() -> list[tuple[object, ...]]:
    with gzip.open(BARS, "rt", encoding="utf-8") as file:
        header, *lines = [line.rstrip("\n").split(",") for line in file]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    rows = [row for row in rows if row["symbol"] in SYMBOLS and row["ts"][:10] in DAYS]
    rows.sort(key=lambda row: row["ts"])
    names = ("symbol", "open", "close", "volume")
    return [(n, row["ts"], *[row[name] for name in names]) for n, row in enumerate(rows)]


@pytest.fixture(scope="module")
def found(bars: list[tuple[object, ...]]) -> dict[str, list[Match]]:
    """The matches of all questions, of one broker."""
    by_query: dict[str, list[Match]] = defaultdict(list)
    with Broker(lateness=0) as broker:
        broker.subscribe(";".join(f"{each.name}: {each.text}" for each in QUESTIONS))
        documents = [
            Document(
                str(n),
                timestamp=datetime.fromisoformat(str(at)),
                xml=f"<bar><symbol>{symbol}</symbol><open>{opened}</open><close>{closed}</close>"
                f"<volume>{volume}</volume></bar>",
            )
            for n, at, symbol, opened, closed, volume in bars
        ]
        batches = [documents[n : n + BATCH] for n in range(0, len(documents), BATCH)]
        for matches in (*map(broker.process, batches), broker.decide()):
            for match in matches:
                by_query[match.query].append(match)
        assert not broker.engine.take_suspensions()
    return by_query


@pytest.fixture(scope="module")
def table(bars: list[tuple[object, ...]]) -> duckdb.DuckDBPyConnection:
    names = ("n", "t", "symbol", "open", "close", "volume")
    columns = pa.table(dict(zip(names, map(list, zip(*bars, strict=True)), strict=True)))
    connection = duckdb.connect()
    connection.register("columns", columns)
    connection.execute(
        "CREATE TABLE bars AS SELECT n, t::TIMESTAMP AS t, symbol, open::DOUBLE AS open,"
        " close::DOUBLE AS close, volume::DOUBLE AS volume FROM columns"
    )
    return connection


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.name)
def test_patterns_agree_with_sql(
    question: Question, table: duckdb.DuckDBPyConnection, found: dict[str, list[Match]]
) -> None:
    wanted: dict[tuple[int, ...], float | None] = {}
    for row in table.sql(question.sql).fetchall():
        numbers, number = (row[:-1], row[-1]) if question.number else (row, None)
        wanted[tuple(numbers)] = number
    got = {
        tuple([int(document.id) for document in match.documents]): (
            float(match.values[question.number][0]) if question.number else None
        )
        for match in found[question.name]
    }
    assert len(found[question.name]) == len(got) > 5
    if question.name == "between":  # SQL has a row for each element
        wanted = _gathered(wanted)
    assert got.keys() == wanted.keys()
    assert got == {key: number and pytest.approx(number) for key, number in wanted.items()}


def _gathered(rows: dict[tuple[int, ...], float | None]) -> dict[tuple[int, ...], float | None]:
    """Rows of three bars, of which those with the same ends are one match."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    counts: dict[tuple[int, int], float | None] = {}
    for (first, element, last), count in sorted(rows.items()):
        groups[first, last].append(element)
        counts[first, last] = count
    return {(a, *elements, c): counts[a, c] for (a, c), elements in groups.items()}
