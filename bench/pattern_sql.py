"""Event patterns by hand in SQL: a statement of DuckDB for each batch, for all queries at once.

The quotes of the last window are a table, each with its place among those of its symbol. What a
query asks of its blocks is a row of another table, so that one statement serves any number of
queries. A statement gives the matches that end in the batch, as lists of times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from bench.pattern_rows import Asked, Match, Quote, head

_SELECT = """
WITH RECURSIVE {blocks}
{rest}
"""
_PAIR = """{y}.n = {x}.n AND {y}.s = {x}.s AND {y}.t > {x}.t AND {y}.t <= {x}.t + $window"""
_AB = _PAIR.format(x="a", y="b")
_AC = _PAIR.format(x="a", y="c")

STATEMENTS = {
    "sequence": f"""
        SELECT a.n, [a.t, b.t, c.t] FROM c JOIN a ON {_AC} JOIN b ON {_AB} AND b.t < c.t
        WHERE c.t >= $first""",
    "next, next": f"""
        , ab AS (SELECT a.n, a.s, a.t, min(b.t) AS u FROM a JOIN b ON {_AB} GROUP BY ALL)
        , abc AS (SELECT ab.n, ab.s, ab.t, ab.u, min(c.t) AS v FROM ab JOIN c
                  ON c.n = ab.n AND c.s = ab.s AND c.t > ab.u AND c.t <= ab.t + $window
                  GROUP BY ALL)
        SELECT n, [t, u, v] FROM abc WHERE v >= $first""",
    "not in the middle": f"""
        SELECT a.n, [a.t, c.t] FROM c JOIN a ON {_AC} WHERE c.t >= $first AND NOT EXISTS (
            FROM b WHERE b.n = a.n AND b.s = a.s AND b.t > a.t AND b.t < c.t)""",
    "group, contiguous": """
        , runs AS (
            SELECT n, s, t, i, 0 AS size, 0 AS total, []::BIGINT[] AS taken FROM a
            UNION ALL
            SELECT r.n, r.s, r.t, b.i, r.size + 1, r.total + b.p, list_append(r.taken, b.t)
            FROM runs r JOIN b ON b.n = r.n AND b.s = r.s AND b.i = r.i + 1
            WHERE (r.size = 0 OR b.p * r.size > r.total) AND b.t <= r.t + $window)
        SELECT r.n, [r.t] || r.taken || [c.t] FROM runs r JOIN c
            ON c.n = r.n AND c.s = r.s AND c.i = r.i + 1 AND c.t <= r.t + $window
        WHERE r.size > 0 AND c.t >= $first""",
    "next, dearer": f"""
        , ab AS (SELECT a.n, a.s, a.t, min(b.t) AS u
                 FROM a JOIN b ON {_AB} AND b.p > a.p GROUP BY ALL)
        SELECT n, [t, u] FROM ab WHERE u >= $first""",
}


def _blocks(asked: Sequence[Asked]) -> str:
    """The quotes that each block of each query takes, as tables a, b and c."""
    names = "abc"[: len(asked[0].blocks)]
    if len(asked) == 1 and not asked[0].symbol:
        each = (
            f"{name} AS (SELECT 0 AS n, t, s, p, i FROM q WHERE p BETWEEN {b.low} AND {b.high})"
            for name, b in zip(names, asked[0].blocks, strict=True)
        )
    else:
        each = (
            f"{name} AS (SELECT w.n, q.t, q.s, q.p, q.i FROM q JOIN w"
            f" ON w.s = q.s AND q.p BETWEEN w.{name}_low AND w.{name}_high)"
            for name in names
        )
    return ", ".join(each)


def run(
    name: str, asked: Sequence[Asked], every: Sequence[Quote], window: int, size: int
) -> tuple[float, list[Match]]:
    """CPU seconds in batches of that size, and the matches."""
    found: list[Match] = []
    places: Counter[str] = Counter()
    with duckdb.connect() as base:
        base.execute("SET threads = 1")
        base.execute("CREATE TABLE q (t BIGINT, s VARCHAR, p BIGINT, i BIGINT)")
        names = "abc"[: len(asked[0].blocks)]
        bounds = {
            f"{name}_{end}": [getattr(each.blocks[k], end) for each in asked]
            for k, name in enumerate(names)
            for end in ("low", "high")
        }
        queries = pa.table({"n": range(len(asked)), "s": [e.symbol for e in asked], **bounds})
        base.register("queries", queries)
        base.execute("CREATE TABLE w AS FROM queries")
        text = _SELECT.format(blocks=_blocks(asked), rest=STATEMENTS[name])
        begun = time.process_time()
        left = every
        while left:
            # What is at one time is in one batch: a match is of the batch in which it ends.
            chunk = head(left, size)
            left = left[len(chunk) :]
            numbers = []
            for _, symbol, _ in chunk:
                places[symbol] += 1
                numbers.append(places[symbol])
            columns = [*map(list, zip(*chunk, strict=True)), numbers]
            base.register("new", pa.table(columns, names=["t", "s", "p", "i"]))
            base.execute("INSERT INTO q FROM new")
            given = {"first": chunk[0][0]}
            if "$window" in text:
                given["window"] = window
            found += [(n, *times) for n, times in base.execute(text, given).fetchall()]
            base.execute("DELETE FROM q WHERE t < ?", [chunk[-1][0] - window])
        return time.process_time() - begun, found
