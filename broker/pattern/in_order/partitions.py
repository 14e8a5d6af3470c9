"""PARTITION BY, for what waits: in a part of its own for each tuple of values that it has.

A row may have several tuples, as what a partition is made of may stand there more than once. It
waits in the part of each, and comes to what waits in the part of each; two that have several in
common meet in the first of these only, where that matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.pattern.in_order.events import Key
from broker.pattern.instances import Row, Tuples, common


def keys_in(key: Key, tuples: Tuples) -> Sequence[Key]:
    """The keys of parts by a key and each of these tuples, in their order."""
    if not tuples:
        return ()
    if len(tuples) == 1:
        (one,) = tuples
        return ((key, one),)
    return [(key, one) for one in sorted(tuples)]


def agreed(rows: Iterable[Row]) -> Tuples:
    """The tuples that rows have in common."""
    found: Tuples = None
    for row in rows:
        found = common(found, row.tuples)
    return found


def first_in(key: Key, one: Tuples, other: Tuples) -> bool:
    """Whether a key is that of the first tuple that two have in common."""
    both = common(one, other)
    return bool(both) and (len(both or ()) == 1 or key[1] == min(both or ()))
