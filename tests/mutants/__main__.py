"""Draws mutants, and runs on each the tests that execute its line.

    python -m tests.mutants --seed 20261122 --count 200              some hours of one core
    python -m tests.mutants --seed 20261122 --count 200 --list       which these are
    python -m tests.mutants --seed 20261122 --count 200 --only 17,42 --tests tests/feeds/test_seen.py

First all tests run once, to see which lines they execute; `--map FOLDER` keeps that, and uses it when
it is there. One seed draws the same mutants as long as the code stays. Each gets a line: its number,
what became of it, where it is and what was changed, and the test that failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import operators
from tests.mutants.operators import Mutant
from tests.mutants.reach import Reach
from tests.mutants.running import ROOT, Copy

_STEPS = (5.0, 30.0)
"""Seconds of tests that run in the first process for a mutant, and with those of the second."""
_HOURS = 4 * 3600.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seed", type=int, default=int(time.time()) % 1_000_000, help="what draws them")
    add("--count", type=int, default=200, help="how many")
    add("--list", action="store_true", help="show them, and run nothing")
    add("--only", type=_numbers, metavar="N,N", help="those of them with these numbers")
    add("--map", type=Path, metavar="FOLDER", help="which tests execute which lines")
    add("--tests", nargs="+", metavar="TEST", help="put these to them, instead of those by the map")
    add("--budget", type=float, default=300.0, metavar="SECONDS", help="of tests for each mutant")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the tests of now as well
    drawn = dict(enumerate(operators.draw(ROOT, options.seed, options.count), 1))
    chosen = {number: drawn[number] for number in options.only or drawn}
    if options.list:
        for number, mutant in chosen.items():
            print(_line(number, "", mutant))
        return 0
    print(f"seed {options.seed}, {len(chosen)} of {len(drawn)} mutants", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = Copy(Path(scratch) / "copy")
        if options.tests:
            reach = Reach({}, dict.fromkeys(options.tests, 0.0))
        else:
            reach = _mapped(copy, options.map or Path(scratch) / "map")
        return 1 if _run(copy, reach, chosen, options.tests, options.budget) else 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _mapped(copy: Copy, folder: Path) -> Reach:
    if not folder.exists():
        folder.mkdir(parents=True)
        print("first all tests without a mutant …", flush=True)
        workers = ["-n", str(os.cpu_count() or 1), "--dist", "loadfile"]
        plugins = ["-p", "tests.mutants.plugin", "-p", "no:cacheprovider"]
        marks = ["-m", "not spark and not browser"]
        copy.pytest([*plugins, *workers, *marks], {"MUTANTS_MAP": str(folder.resolve())}, _HOURS)
    reach = Reach.read(folder)
    print(f"{len(reach.seconds)} tests, {sum(reach.seconds.values()):.0f} s", flush=True)
    return reach


def _run(
    copy: Copy, reach: Reach, chosen: dict[int, Mutant], given: list[str] | None, budget: float
) -> int:
    """How many live. In the end the tests that killed pass without a mutant, or it says which do not."""
    living, killing = 0, set[str]()
    for number, mutant in chosen.items():
        tests = given or reach.tests(mutant, (copy.folder / mutant.path).read_text("utf-8"))
        failed = ""
        with copy.with_mutant(mutant):
            steps = [step for step in _STEPS if step < budget]
            for batch in reach.batches(tests, [*steps, budget]):
                took = budget if given else sum(map(reach.seconds.__getitem__, batch))
                failed = copy.run(batch, seconds=took)
                if failed:
                    break
        verdict = "killed" if failed else "lives" if tests else "lives, no test executes it"
        living += not failed
        killing |= {test for test in failed.splitlines() if "::" in test}
        print(_line(number, verdict, mutant), f"[{failed.partition(chr(10))[0]}]", flush=True)
    print(f"{len(chosen) - living} of {len(chosen)} killed", flush=True)
    if killing:
        took = sum(reach.seconds.get(test, budget) for test in killing)
        wrong = copy.run(sorted(killing), seconds=took, first=False)
        print(f"without a mutant fail: {wrong}" if wrong else "without a mutant they pass")
    return living


def _line(number: int, verdict: str, mutant: Mutant) -> str:
    change = f"{mutant.before}  ->  {mutant.after}"
    return f"{number:4} {verdict:7} {mutant.path}:{mutant.line} ({mutant.kind}) {change}"


if __name__ == "__main__":
    sys.exit(main())
