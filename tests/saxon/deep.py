"""The long run of the engine against Saxon, a command of its own.

    python -m tests.saxon.deep --cases 20000 --seed 1 --kind flat

A case is one query put to one stream; several share a broker. Every failure prints a seed that
`--only SEED` runs again, the reduced case, and both answers. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random

from tests.saxon.cases import Kind, make
from tests.saxon.harness import compare, reduced


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=2000, help="queries to put to streams")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--only", type=int, help="this seed and no other")
    parser.add_argument("--kind", choices=("flat", "derived", "wild"), default="flat",
                        help="queries alone, reading each other's results, or wilder ones")  # fmt: skip
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--reduce", type=int, default=200, help="trials to make a failure small")
    options = parser.parse_args()
    kind: Kind = options.kind

    done = matches = failures = 0
    left_out: Counter[str] = Counter()
    seed = options.seed if options.only is None else options.only
    began = said = time.monotonic()
    while done < options.cases and failures < options.failures:
        case = make(Random(seed), kind)
        found = compare(case)
        done += found.answered
        matches += found.matches
        left_out.update(reason.partition("(")[0] for reason in found.left_out)
        if found.kind is not None:
            failures += 1
            print(f"--- seed {seed} (--kind {kind} --only {seed}), reduced:")
            print(reduced(case, options.reduce), flush=True)
        if options.only is not None:
            break
        seed += 1
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"{done} cases, {matches} matches, {failures} failures, {left_out.total()} left "
                  f"out; {done / (said - began):.0f} cases/s; next seed {seed}", flush=True)  # fmt: skip
    print(f"{done} cases, {matches} matches, {failures} failures in {time.monotonic() - began:.0f} s;"
          f" left out: {dict(left_out) or 'none'}; seeds up to {seed}")  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
