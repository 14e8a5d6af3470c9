"""The long run of random brokers in shards against the oracle, a command of its own.

    python -m tests.cluster.deep --cases 4000 --seed 1 --level patterns

Each broker has 1 to 12 shards in this process, and is closed and opened again at random with another
number of them; values become hot at once, soon or never. A failure prints a seed that `--only SEED`
runs again, the reduced case, and both answers. Exit code 1 if anything failed.
"""

from __future__ import annotations

import tempfile
import traceback
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import cast

from tests.cluster.brokers import opening
from tests.deep import Outcome, long_run
from tests.oracle.generate import Case, case
from tests.oracle.generate_documents import Level
from tests.oracle.generate_hard import hard_case
from tests.oracle.generate_patterns import pattern_case
from tests.properties.harness import difference, expected, flat, observed
from tests.properties.reduce import reduce
from xscl import XsclError


def random_case(random: Random, level: str) -> Case:
    if level in ("patterns", "tied", "several"):
        return pattern_case(random, tied=level != "patterns", several=level == "several")
    return hard_case(random) if level == "hard" else case(random, cast(Level, level))


def failure(of: Case, seed: int) -> str | None:
    """How the answer in shards differs from that of the oracle, None if it does not."""
    coin = Random(seed)
    often = coin.choice((0.0, 0.3, 0.7))
    hot_from = coin.choice((2, 5, 1_000))
    most = coin.choice((1, 3, 5, 12))
    with tempfile.TemporaryDirectory(prefix="shards-") as shared:
        try:
            answer = observed(
                of,
                restart_before=lambda number: number > 0 and coin.random() < often,
                opening=opening(Path(shared), lambda: coin.randint(1, most), hot_from=hot_from),
            )
        except XsclError:
            return None  # a smaller case that is refused
        except Exception as error:
            return "".join(traceback.format_exception(error)[-6:])
        return difference(of, expected(of), answer)


def one(seed: int, level: str) -> Outcome:
    of = random_case(Random(seed), level)
    found = failure(of, seed)
    counts = Counter({"brokers": 1, "matches": len(flat(expected(of)))})
    return Outcome(of.queries, counts, None if found is None else partial(_reduced, of, seed))


def _reduced(of: Case, seed: int, trials: int) -> str:
    smaller = reduce(of, lambda each: failure(each, seed) is not None, trials)
    return failure(smaller, seed) or failure(of, seed) or "it does not fail again"


if __name__ == "__main__":
    LEVELS = ("core", "full", "hard", "patterns", "tied", "several")
    raise SystemExit(long_run(__doc__, "level", LEVELS, one))
