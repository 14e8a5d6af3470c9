"""The long runs, by `python -m tests --long`: more of what the tests do with a few hundred seeds.

    python -m tests --long                        all of them: hours
    python -m tests --long kills saxon-flat       these
    python -m tests --long --seed 7 --share 0.01  from another seed, a hundredth of each

Each run is a command of its own, which says how to see a failure again. What came of it is added to
tests/LONG.md, with the seed, the time that it took and the commit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "tests" / "LONG.md"


@dataclass(frozen=True, slots=True)
class Run:
    """`size` cases or kills, given by `option`; the seed is the first of them."""

    about: str
    module: str
    option: str
    size: int
    more: tuple[str, ...] = ()

    def command(self, seed: int, share: float) -> list[str]:
        size = max(1, round(self.size * share))
        return [self.module, self.option, str(size), "--seed", str(seed), *self.more]


_ORACLE = "tests.properties.deep"
_SAXON = "tests.saxon.deep"
_CRASH = "tests.crash.long"
RUNS = {
    "texts": Run("random texts and the parser", "tests.language.deep", "--cases", 100_000),
    "seeds": Run("the tests with all their random cases", "tests.seeds", "--percent", 100),
    "damages": Run("damaged files of a state", "tests.crash.damages", "--count", 500),
    "disk": Run("power cuts, and a disk that fails", "tests.disk.long", "--count", 500),
    "engine-core": Run("the engine and the oracle", _ORACLE, "--cases", 20_000),
    "engine-full": Run(
        "also queries that read each other", _ORACLE, "--cases", 20_000, ("--level", "full")
    ),
    "engine-hard": Run(
        "where nearly everything joins", _ORACLE, "--cases", 20_000, ("--level", "hard")
    ),
    "engine-patterns": Run(
        "event patterns and the oracle", _ORACLE, "--cases", 20_000, ("--level", "patterns")
    ),
    "engine-several": Run(
        "event patterns that keep some of their matches, and the oracle",
        _ORACLE,
        "--cases",
        4_000,
        ("--level", "several"),
    ),
    "engine-wild": Run(
        "queries of the whole grammar put together at random, and the oracle",
        _ORACLE,
        "--cases",
        10_000,
        ("--level", "wild"),
    ),
    "why": Run(
        "why queries match or not, and the oracle",
        "tests.why.deep",
        "--cases",
        2_000,
        ("--level", "full"),
    ),
    "why-patterns": Run(
        "why event patterns match or not, and brute force",
        "tests.why.patterns",
        "--cases",
        2_000,
    ),
    "saxon-flat": Run("the engine and Saxon", _SAXON, "--cases", 20_000),
    "saxon-derived": Run(
        "also queries that read each other", _SAXON, "--cases", 20_000, ("--kind", "derived")
    ),
    "saxon-wild": Run("wilder queries", _SAXON, "--cases", 20_000, ("--kind", "wild")),
    "kills": Run("the service, killed", _CRASH, "--kills", 200),
    "kills-apart": Run(
        "the service in two processes, killed", _CRASH, "--kills", 200, ("--apart",)
    ),
    "kills-spark": Run(
        "the service over Spark, killed", _CRASH, "--kills", 20, ("--pipeline", "spark")
    ),
    "bombs": Run("bombs beside honest subscriptions", "tests.bombs.long", "--seconds", 600),
    "sase": Run("the SASE engine's workloads", "tests.witnesses.sase", "--events", 100_000),
    "cluster": Run("a run in shards on a cluster, killed", "tests.cluster.long", "--kills", 200),
    "shards": Run(
        "random brokers in shards and the oracle", "tests.cluster.deep", "--cases", 4_000
    ),
    "shards-patterns": Run(
        "event patterns in shards and the oracle",
        "tests.cluster.deep",
        "--cases",
        4_000,
        ("--level", "patterns"),
    ),
    "shards-tied": Run(
        "event patterns divided by values and the oracle",
        "tests.cluster.deep",
        "--cases",
        4_000,
        ("--level", "tied"),
    ),
    "web": Run(
        "the page: 60,000 subscriptions, all matches", "tests.web.long", "--matches", 100_000
    ),
    "delivery-kills": Run("delivery, killed", "tests.delivery.long", "--kills", 200),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests --long",
        description="Long random runs, whose results are added to tests/LONG.md.",
        epilog="; ".join(f"{name}: {run.about} ({run.size:,})" for name, run in RUNS.items()),
    )
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], metavar="NAME", help="these only")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000, help="the first")
    parser.add_argument("--share", type=float, default=1.0, help="this part of each, such as 0.01")
    options = parser.parse_args(arguments)
    failed = []
    for name in options.names or RUNS:
        if not _run(name, RUNS[name].command(options.seed, options.share), options.seed):
            failed.append(name)
    print(f"== failed: {', '.join(failed)}" if failed else "== all long runs passed")
    return 1 if failed else 0


def _run(name: str, command: Sequence[str], seed: int) -> bool:
    """Run one, show what it says, and note what came of it."""
    print(f"== {name}: python -m {' '.join(command)}", flush=True)
    began, last = time.monotonic(), ""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": str(seed % 2**32)},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    passed = process.returncode == 0
    note(name, seed, time.monotonic() - began, last if passed else f"**failed**: {last}")
    return passed


def note(name: str, seed: int, seconds: float, outcome: str) -> None:
    """Add a row to the table."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    minutes, rest = divmod(round(seconds), 60)
    cells = (day, commit(), name, str(seed), f"{minutes}:{rest:02}", outcome.replace("|", "\\|"))
    with RESULTS.open("a", encoding="utf-8") as table:
        table.write(f"| {' | '.join(cells)} |\n")


def commit() -> str:
    """The commit that was run, with a plus if something was changed since."""

    def git(*args: str) -> str:
        result = subprocess.run(
            ["git", *args], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return result.stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!tests/LONG.md")
    return (git("rev-parse", "--short", "HEAD") or "no repository") + ("+" if changed else "")
