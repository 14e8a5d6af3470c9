"""Matches of NEXT of two blocks, for queries of which nothing is known but what is noted.

What such a query waits for is known by its channel, of whose noted documents those may be followed
that are not spent for it. So nothing has to be made for a query: documents that follow one another
are the only objects, and for a whole batch they are found in columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.events import Candidate, Reader
from broker.pattern.in_order.log import POSITIONS
from broker.pattern.in_order.takers import Mask, Numbers
from broker.pattern.instances import Row
from xscl.interruption import PENDING, check

Pair = tuple[int, int, int, int, Row, Row]
"""The slot of a query, the query, the position of what is noted and its arrival, and that document
and one that may follow it."""


class Pairing:
    """What is noted is `spent` for a query where it has been followed: by the position and the slot
    of the query, when it was."""

    def __init__(self, form: Following, readers: Sequence[Reader]) -> None:
        self._link = form.links[0]
        bounds = self._link.asked.bounds
        self._inclusive = bool(bounds) and bounds[0].inclusive
        self._waits, self._comes = (reader.number for reader in readers)
        self._spent: dict[int, int] = {}
        self._numbers = array("d")
        """Of what is noted, as far as somebody has asked."""

    def left(self, slot: int, positions: Sequence[int]) -> Sequence[int]:
        """Those of some positions that are not spent for a query."""
        spent, own = self._spent, slot << POSITIONS
        return [at for at in positions if own | at not in spent] if spent else positions

    def has_spent(self, time: int, slot: int, positions: Sequence[int]) -> bool:
        """Whether one of some positions is spent for a query since a time: what comes then may
        follow it, too."""
        spent, own = self._spent, slot << POSITIONS
        return any(spent.get(own | at) == time for at in positions)

    def is_over(self, slot: int, position: int, time: int) -> bool:
        """Whether what is noted at a position is spent for a query since before a time."""
        return self._spent.get(slot << POSITIONS | position, time) < time

    def cut(self, count: int, gone: int) -> None:
        """So many that were noted, all before a position, are dropped."""
        below = (1 << POSITIONS) - 1
        self._spent = {pair: at for pair, at in self._spent.items() if pair & below >= gone}
        del self._numbers[:count]

    def beyond(
        self, noted: Sequence[Row], places: Numbers, rows: Sequence[Row], which: Numbers
    ) -> Mask:
        """Of pairs, by their places in all that is noted and in rows, which of the rows are beyond
        the bound."""
        if self._comes is None:
            return np.ones(len(which), np.bool_)
        comes, numbers, chosen = self._comes, np.zeros(len(rows)), [*{*which.tolist()}]
        numbers[chosen] = [comes(rows[n]) for n in chosen]
        own, held = numbers[which], np.frombuffer(self._read(noted))[places]
        found: Mask = own >= held if self._inclusive else own > held
        return found

    def places_beyond(self, noted: Sequence[Row], places: Sequence[int], row: Row) -> Sequence[int]:
        """Those of some places in all that is noted that a row is beyond the bound of."""
        if self._comes is None:
            return places
        number, held = self._comes(row), self._read(noted)
        if self._inclusive:
            return [place for place in places if number >= held[place]]
        return [place for place in places if number > held[place]]

    def _read(self, noted: Sequence[Row]) -> array[float]:
        """The numbers of all that is noted."""
        numbers = self._numbers
        if len(numbers) < len(noted):
            assert self._waits is not None
            numbers.extend(map(self._waits, noted[len(numbers) :]))
        return numbers

    def take(self, pairs: Iterable[Pair], found: list[Candidate]) -> None:
        """Documents in the order of time that are beyond the bound, of which the first of a pair
        ends before the other one starts. Adds the matches."""
        last, spent = self._link.last, self._spent
        for slot, owner, at, arrival, before, row in pairs:
            if PENDING:
                check()
            end = row.end
            if before.key == row.key or last((before,)) < end:
                continue
            # All documents of one time are the next one.
            if spent.setdefault(slot << POSITIONS | at, end) == end:
                found.append((owner, arrival, (before, row)))


def pairing_of(form: object, readers: Sequence[Reader]) -> Pairing | None:
    """What finds the matches of a form; None if more is asked of two documents than one bound and
    the window."""
    if not isinstance(form, Following) or len(form.links) > 1 or form.partitioned:
        return None
    asked = form.links[0].asked
    if asked.rest or len(asked.bounds) > 1 or asked.tie is not None:
        return None
    return Pairing(form, readers)
