"""Runs jobs of Flink, in the environment that has it: what `bench.flink` starts.

Takes a file of jobs and one for the answers. Each job is run twice: once for its matches, and once
over more rows for the CPU time of this process and of its children, the JVM, with what it finds
thrown away.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu() -> float:
    """CPU seconds of this process and of all that descend from it and live."""
    spent: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rsplit(") ", 1)[1].split()
        except OSError:
            continue
        spent[int(stat.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    total, below = 0, {os.getpid()}
    while below:
        total += sum(spent[pid][1] for pid in below if pid in spent)
        below = {pid for pid, (parent, _) in spent.items() if parent in below}
    return total / _TICKS


def tables(env: Any, job: dict[str, Any]) -> None:
    """The rows, and those of the long run. What is at the watermark is late in Flink, so that it is
    a second behind: several rows have the same time."""
    columns = ", ".join(job["columns"])
    for name, file in zip(("q", "long_q"), job["files"], strict=True):
        env.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        env.execute_sql(
            f"CREATE TEMPORARY TABLE {name} ({columns}, ts AS TO_TIMESTAMP_LTZ(t * 1000, 3),"
            f" WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)"
            f" WITH ('connector' = 'filesystem', 'path' = '{file}', 'format' = 'csv')"
        )


def main() -> None:
    from pyflink.table import (  # type: ignore[import-not-found]  # here alone
        EnvironmentSettings,
        TableEnvironment,
    )

    asked, answered = map(Path, sys.argv[1:])
    jobs = json.loads(asked.read_text(encoding="utf-8"))
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    env.execute_sql(
        "CREATE TEMPORARY TABLE kept_none (n INT, a BIGINT, z BIGINT, k BIGINT, m BIGINT)"
        " WITH ('connector' = 'blackhole')"
    )
    start, answers, read = cpu(), {}, 0.0
    for name, job in jobs.items():
        tables(env, job)
        with env.execute_sql(job["select"]).collect() as rows:
            matches = [[*row] for row in rows]
        long = job["select"].replace(" FROM q ", " FROM long_q ")
        begun = cpu()
        env.execute_sql(f"INSERT INTO kept_none {long}").wait()
        answers[name] = {"matches": matches, "seconds": cpu() - begun}
        if not read:
            rows_file = Path(job["files"][1].removeprefix("file://"), "rows.csv")
            count = rows_file.read_bytes().count(b"\n")
            begun = cpu()
            env.execute_sql("INSERT INTO kept_none SELECT n, t, t, p, p FROM long_q").wait()
            read = (cpu() - begun) / count
        print(name, len(matches), f"{time.process_time():.1f}", flush=True)
    answered.write_text(
        json.dumps({"start": start, "read": read, "jobs": answers}), encoding="utf-8"
    )
