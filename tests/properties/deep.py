"""The long run of the engine against the oracle, a command of its own.

    python -m tests.properties.deep --cases 20000 --seed 1 --level core

A case is one query put to one stream; several share a broker. Every failure prints a seed that
`--only SEED` runs again, the reduced case, and both answers. Exit code 1 if anything failed.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import cast

from tests.deep import Outcome, long_run
from tests.oracle.generate import Case, case
from tests.oracle.generate_documents import Level
from tests.oracle.generate_hard import hard_case
from tests.oracle.generate_patterns import pattern_case
from tests.oracle.generate_wild import wild_case
from tests.properties.harness import disagreement, expected, flat, reduced


def one(seed: int, level: str) -> Outcome:
    random = Random(seed)
    of = _case(random, level)
    failed = disagreement(of) is not None
    counts = Counter({"brokers": 1, "matches": _matches(of)})
    return Outcome(of.queries, counts, partial(reduced, of) if failed else None)


def _case(random: Random, level: str) -> Case:
    if level in ("patterns", "several"):
        return pattern_case(random, tied=level == "several", several=level == "several")
    if level == "wild":
        return wild_case(random)
    return hard_case(random) if level == "hard" else case(random, cast(Level, level))


def _matches(of: Case) -> int:
    try:
        return len(flat(expected(of)))
    except Exception:  # then it is among the failures
        return 0


if __name__ == "__main__":
    raise SystemExit(
        long_run(__doc__, "level", ("core", "full", "hard", "patterns", "several", "wild"), one)
    )
