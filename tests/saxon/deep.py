"""The long run of the engine against Saxon, a command of its own.

    python -m tests.saxon.deep --cases 20000 --seed 1 --kind flat

A case is one query put to one stream; several share a broker. Of the kinds, `flat` are queries
alone, `derived` ones that read each other's results, `wild` wilder ones. Every failure prints a
seed that `--only SEED` runs again, the reduced case, and both answers. Exit code 1 if anything
failed.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import cast

from tests.deep import Outcome, long_run
from tests.saxon.cases import Kind, make
from tests.saxon.harness import compare, reduced


def one(seed: int, kind: str) -> Outcome:
    case = make(Random(seed), cast(Kind, kind))
    found = compare(case)
    counts = Counter({"matches": found.matches})
    counts.update(f"left out: {reason.partition('(')[0]}" for reason in found.left_out)
    failed = found.kind is not None
    return Outcome(found.answered, counts, partial(reduced, case) if failed else None)


if __name__ == "__main__":
    raise SystemExit(long_run(__doc__, "kind", ("flat", "derived", "wild"), one))
