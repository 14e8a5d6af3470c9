"""The long run of `why` against the oracle, a command of its own.

    python -m tests.why.deep --cases 2000 --seed 1 --level full

A case is one random query and some random documents.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import cast

import xscl
from broker import Broker, Document
from broker.why.explaining import explain
from broker.why.history import history
from broker.why.model import Explanation
from tests.deep import Outcome, long_run
from tests.oracle.generate_documents import Level, documents
from tests.oracle.generate_queries import PREAMBLE, Maker
from tests.oracle.oracle import Arrival
from tests.why.reasons import Reasons, reasons, stored


def case(seed: int, level: str) -> tuple[str, list[Arrival]]:
    """A query and documents with distinct ids."""
    r = Random(seed)
    fresh = documents(r, cast(Level, level), r.randint(3, 9))
    maker = Maker(r, cast(Level, level), fresh)
    return PREAMBLE + maker.query("q"), fresh


def difference(text: str, arrivals: list[Arrival]) -> str | None:
    """What differs between what `why` tells and the oracle's reasons, None for nothing."""
    (resolved,) = xscl.check([xscl.parse(text)]).queries
    expected = reasons(resolved, stored(arrivals))
    found = told(resolved, arrivals)
    wanted, got = _expected(expected, found), _got(found)
    return None if wanted == got else f"expected {wanted}\nfound    {got}"


def told(resolved: xscl.ResolvedQuery, arrivals: list[Arrival]) -> Explanation:
    with Broker(lateness=1e9) as broker:
        broker.process(
            [Document(a.id, a.streams, a.timestamp / 1_000_000, a.xml, a.source) for a in arrivals]
        )
        with history(broker.engine.store) as past:
            return explain(resolved, past)


def _expected(of: Reasons, found: Explanation) -> object:
    """The oracle's counts, for the pairs of blocks that `why` tells about."""
    blocks = [(each.documents, each.passed, sorted(each.fell.items())) for each in of.blocks]
    shown = {(join.left, join.right) for join in found.joins}
    pairs = {
        pair: (each.agree, each.ordered, each.within, each.passed)
        for pair, each in of.pairs.items()
        if pair in shown
    }
    return blocks, pairs, (of.joined, of.ordered, of.matched)


def _got(found: Explanation) -> object:
    blocks = [
        (each.documents, each.passed, [(f.place, f.documents) for f in each.fell])
        for each in found.blocks
    ]
    pairs = {(j.left, j.right): (j.agree, j.ordered, j.within, j.passed) for j in found.joins}
    whole = found.whole
    return blocks, pairs, (whole.joined, whole.ordered, whole.matched)


def one(seed: int, level: str) -> Outcome:
    text, arrivals = case(seed, level)
    failed = difference(text, arrivals)
    counts = Counter({"documents": len(arrivals)})
    return Outcome(1, counts, None if failed is None else partial(_shown, text, arrivals, failed))


def _shown(text: str, arrivals: list[Arrival], failed: str, _trials: int) -> str:
    return "\n".join([text, *map(repr, arrivals), failed])


if __name__ == "__main__":
    raise SystemExit(long_run(__doc__, "level", ("core", "full"), one))
