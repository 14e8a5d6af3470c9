"""The long run of the engine against the oracle, a command of its own.

    python -m tests.properties.deep --cases 20000 --seed 1 --level core

A case is one query put to one stream; several share a broker. Every failure prints a seed that
`--only SEED` runs again, the reduced case, and both answers. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import Literal

from tests.oracle.generate import Case, case
from tests.oracle.generate_documents import Level
from tests.oracle.generate_hard import hard_case
from tests.properties.harness import disagreement, expected, flat, reduced


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=2000, help="queries to put to streams")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--only", type=int, help="this seed and no other")
    parser.add_argument("--level", choices=("core", "full", "hard"), default="core")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--reduce", type=int, default=600, help="trials to make a failure small")
    options = parser.parse_args()

    done = matches = brokers = failures = 0
    seed = options.seed if options.only is None else options.only
    began = said = time.monotonic()
    while done < options.cases and failures < options.failures:
        of = _case(seed, options.level)
        found = disagreement(of)
        brokers, done = brokers + 1, done + of.queries
        matches += _count(of)
        if found is not None:
            failures += 1
            print(f"--- seed {seed} (--level {options.level} --only {seed}), reduced:")
            print(reduced(of, options.reduce), flush=True)
        if options.only is not None:
            break
        seed += 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{done} cases, {brokers} brokers, {matches} matches, {failures} failures; "
                  f"{done / (said - began):.0f} cases/s; next seed {seed}", flush=True)  # fmt: skip
    print(f"{done} cases, {brokers} brokers, {matches} matches, {failures} failures "
          f"in {time.monotonic() - began:.0f} s; seeds up to {seed}")  # fmt: skip
    return 1 if failures else 0


def _case(seed: int, level: Level | Literal["hard"]) -> Case:
    return hard_case(Random(seed)) if level == "hard" else case(Random(seed), level)


def _count(of: Case) -> int:
    try:
        return len(flat(expected(of)))
    except Exception:  # then it is among the failures
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
