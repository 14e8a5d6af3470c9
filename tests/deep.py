"""The loop of the long runs, which run random queries on random streams and compare two results."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed brought: `cases` queries answered, counts of other things, and the failure, if
    there is one, which can be made small."""

    cases: int
    counts: Counter[str] = field(default_factory=Counter)
    failure: Callable[[int], str] | None = None
    """The reduced case and both answers, after at most so many trials."""


def long_run(
    about: str | None, option: str, kinds: Sequence[str], one: Callable[[int, str], Outcome]
) -> int:
    """Run seeds of the kind that the command line names until there are enough cases; the exit
    code.

    `about` is the docstring of the command, `option` the name of the kind's option, of which the
    first is the default.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000, help="queries to put to streams")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--only", type=int, help="this seed and no other")
    parser.add_argument(f"--{option}", dest="kind", choices=kinds, default=kinds[0])
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--reduce", type=int, default=400, help="trials to make a failure small")
    options = parser.parse_args()

    cases = failures = 0
    counts: Counter[str] = Counter()
    seed = options.seed if options.only is None else options.only
    began = last_report = time.monotonic()

    def told() -> str:
        others = "".join(f", {count} {name}" for name, count in counts.items())
        return f"{cases} cases{others}, {failures} failures"

    while cases < options.cases and failures < options.failures:
        found = one(seed, options.kind)
        cases += found.cases
        counts += found.counts
        if found.failure is not None:
            failures += 1
            print(f"--- seed {seed} (--{option} {options.kind} --only {seed}), reduced:")
            print(found.failure(options.reduce), flush=True)
        if options.only is not None:
            break
        seed += 1
        if time.monotonic() - last_report > 10:
            last_report = time.monotonic()
            print(
                f"{told()}; {cases / (last_report - began):.0f} cases/s; next seed {seed}",
                flush=True,
            )
    print(f"{told()} in {time.monotonic() - began:.0f} s; seeds up to {seed}")
    return 1 if failures else 0
