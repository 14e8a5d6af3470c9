"""Counts how often cases use each of stage 2's code paths. A test of a path that is never used is
worthless. A test of a way never taken is worth nothing.

    python -m tests.properties.paths --cases 100 --seed 0

`counted` counts, by name, while engines run: candidates by who decided them, lists that answered,
documents that came back, and so on. It looks only; the engine works as it always does.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from broker.join.evicted import History
from broker.join.frequent import HotLists
from broker.join.joiner import Joiner
from broker.join.long_search import LongSearch
from broker.join.pair_query import Plan
from broker.join.signatures import Signatures
from broker.join.template_runner import Needed, Templates
from broker.results import matches as results
from tests.oracle.generate_hard import hard_case
from tests.properties.harness import flat, observed

Original = Callable[..., Any]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts internal events by name while engines run in the block."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        for owner, name, around in _WATCHED:
            original = getattr(owner, name)
            stack.enter_context(patch.object(owner, name, _watching(original, around, counts)))
        yield counts


def _watching(original: Original, around: Callable[..., Any], counts: Counter[str]) -> Original:
    def watching(*args: Any, **named: Any) -> Any:
        return around(counts, original, *args, **named)

    return watching


def _only(counts: Counter[str], original: Original, plan: Plan, layouts: Any) -> Any:
    found = original(plan, layouts)
    counts["memory: a pair"] += found is not None and len(layouts) == 2
    return found


def _several(counts: Counter[str], original: Original, plan: Plan, records: Any, *args: Any) -> Any:
    found = original(plan, records, *args)
    if found is None:
        counts["memory: too many"] += 1
        return None
    counts["memory: a pair"] += len(found) * (len(records) == 2)
    counts["memory: several matches of one pair"] += len(found) > 1
    return found


def _of_one(counts: Counter[str], original: Original, *args: Any) -> Any:
    found = original(*args)
    counts["memory: a block"] += len(found)
    return found


def _ran(counts: Counter[str], original: Original, self: Templates, *args: Any, some: bool) -> Any:
    (template, stored, _), pivot, _ = args
    found = original(self, *args, some=some)
    blocks, count = self.shapes[template].blocks, len(found)
    counts["template over all of RL" if stored == "rl" else f"template: {blocks} blocks"] += count
    counts["template: a later block is new"] += count * (pivot > 0)
    counts["template: a residual"] += count * bool(self.shapes[template].residuals)
    counts["template: in parts"] += some
    return found


def _met(counts: Counter[str], original: Original, self: HotLists, *args: Any) -> Any:
    values, _, right = args
    known = self._meetings.get(values)
    counts["hot: met before"] += known is not None and right in known.met
    hits, side = original(self, *args)
    common = {id(records) for lists in self._together.values() for records in lists.values()}
    for records in hits[2]:
        counts["hot: a list in common" if id(records) in common else "hot: a list"] += 1
        counts["hot: as left block"] += not right
    counts["hot: a short list"] += len(side.shorts)
    return hits, side


def _shortened(counts: Counter[str], original: Original, *args: Any) -> Any:
    counts["hot: only longer lists are long"] += 1
    return original(*args)


def _verdict(counts: Counter[str], original: Original, self: Signatures, *args: Any) -> Any:
    found = original(self, *args)
    if found is not None:
        counts["cold: with hot values" if args[1] else "cold: a pair"] += 1
    return found


def _made_hot(counts: Counter[str], original: Original, *args: Any) -> Any:
    counts["hot: a value becomes hot"] += 1
    return original(*args)


def _listed(counts: Counter[str], original: Original, self: HotLists, *args: Any) -> Any:
    original(self, *args)
    (variables,) = args
    counts["hot: listed together from what was there"] += len(self._together[variables])


def _recalled(counts: Counter[str], original: Original, *args: Any) -> Any:
    found = original(*args)
    counts["history: recalled"] += len(found)
    return found


def _found(counts: Counter[str], original: Original, *args: Any) -> Any:
    found = original(*args)
    counts["steps: a match"] += len(found)
    return found


def _handed(counts: Counter[str], original: Original, self: LongSearch, *args: Any) -> Any:
    before = len(self.own)
    original(self, *args)
    counts["steps: a template is left to SQL"] += before - len(self.own)


def _reached(counts: Counter[str], original: Original, self: Joiner, needed: Any) -> Any:
    before = len(needed.docs)
    recalled = original(self, needed)
    counts["slice: reached by a longer pattern"] += len(needed.docs) - before
    counts["slice: reached and recalled"] += len(recalled)
    return recalled


def _deferred(counts: Counter[str], original: Original, *args: Any) -> Any:
    counts["slice: a pair"] += 1
    return original(*args)


def _evicted(counts: Counter[str], original: Original, self: History, *args: Any) -> Any:
    counts["history: let go"] += len(args[0])
    counts["history: let go, out of order"] += args[1] < self.floor
    return original(self, *args)


def _replaced(counts: Counter[str], original: Original, self: Joiner, docs: Any, rows: Any) -> Any:
    counts["revised"] += len(docs)
    return original(self, docs, rows)


def _loaded(counts: Counter[str], original: Original, *args: Any) -> Any:
    found = original(*args)
    counts["documents read at a restart"] += len(found.records)
    return found


def _within(counts: Counter[str], original: Original, *args: Any) -> Any:
    groups = original(*args)
    canonical, *_ = args
    refused = len(canonical.subscribers) - sum(map(len, groups))
    counts["a subscriber's own window refuses"] += refused
    return groups


_WATCHED: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (Plan, "only", _only),
    (Plan, "several", _several),
    (Joiner, "_of_one", _of_one),
    (Templates, "_rows_of", _ran),
    (HotLists, "met", _met),
    (HotLists, "_shorten", _shortened),
    (HotLists, "make_hot", _made_hot),
    (HotLists, "_list_together", _listed),
    (Signatures, "verdict", _verdict),
    (LongSearch, "found", _found),
    (LongSearch, "hand_over", _handed),
    (Joiner, "_recall", _recalled),
    (Joiner, "_reach", _reached),
    (Needed, "add", _deferred),
    (Joiner, "replace", _replaced),
    (Joiner, "_load", _loaded),
    (History, "evict", _evicted),
    (results, "admitted", _within),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=100, help="brokers")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    matches: list[int] = []
    taken: Counter[str] = Counter()
    with counted() as counts:
        for seed in range(options.seed, options.seed + options.cases):
            before = +counts
            matches.append(len(flat(observed(hard_case(Random(seed))))))
            taken.update({name for name in counts if counts[name] > before[name]})
    matches.sort()
    print(f"{len(matches)} brokers, {sum(matches)} matches; of a broker the fewest {matches[0]}, "
          f"the median {matches[len(matches) // 2]}, the most {matches[-1]}")  # fmt: skip
    print("    times  brokers")
    for name in sorted(counts):
        print(f"{counts[name]:9} {taken[name]:8}  {name}")


if __name__ == "__main__":
    main()
