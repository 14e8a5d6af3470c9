"""Which queries take what, in columns: queries have slots, and channels have numbers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from broker.pattern.in_order.channels import Channel

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

_STALE = 1_000
"""So many channels are known beside two of each query and block, though nothing may come to them
any more."""

LARGE = 48
"""So many queries of a channel are looked at in columns, and only where that may change them."""

_PAIRS = 1 << 20
"""Not more queries for channels are looked at at once."""


class Takers:
    """The *slot* of a query is a number that no other has after it. Of a channel, which has a
    number when something comes to it for the block at a place, the slots are those of `_slots` from
    its place in `_starts` on."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.version = 0
        """Another one when channels have other numbers than before."""
        self.slot: dict[int, int] = {}
        """By query."""
        self.owners: list[int] = []
        """By slot."""
        self.channels: list[Channel] = []
        """By number, as all that follows."""
        self.places = array("q")
        self._starts = array("q", [0])
        self._slots = array("q")
        self.one_earlier = array("q")
        """By slot the number of the channel that a query has for blocks before the last one; -1 for
        none, and -2 for several, which are in `_several`."""
        self._several: dict[int, list[int]] = {}
        self.one_last = array("q")
        """The same for the last one."""
        self._several_last: dict[int, list[int]] = {}

    def join(self, owner: int) -> None:
        """A query comes."""
        self.slot[owner] = len(self.owners)
        self.owners.append(owner)
        self.one_earlier.append(-1)
        self.one_last.append(-1)

    def enter(self, channel: Channel, place: int) -> None:
        """A channel is new, for the block at a place. Some of its queries may have gone."""
        own = map(self.slot.get, channel.owners)
        self._add(channel, place, [slot for slot in own if slot is not None])

    def _add(self, channel: Channel, place: int, slots: Sequence[int]) -> None:
        number = channel.number = len(self.channels)
        self.channels.append(channel)
        self.places.append(place)
        self._slots.extend(slots)
        self._starts.append(len(self._slots))
        one, several = self.one_earlier, self._several
        if place == self._last:
            one, several = self.one_last, self._several_last
        for slot in slots:
            known = one[slot]
            if known == -1:
                one[slot] = number
            elif known == -2:
                several[slot].append(number)
            else:
                one[slot] = -2
                several[slot] = [known, number]

    def slots(self, number: int) -> array[int]:
        """The slots of the queries of a channel."""
        return self._slots[self._starts[number] : self._starts[number + 1]]

    def large(self, numbers: Numbers) -> list[int]:
        """Those channels that have so many queries that each of them is not looked at for
        nothing."""
        starts = np.frombuffer(self._starts, np.int64)
        found: list[int] = numbers[starts[numbers + 1] - starts[numbers] >= LARGE].tolist()
        return found

    def is_alone(self, number: int) -> bool:
        """Whether a channel has but one query."""
        return self._starts[number + 1] - self._starts[number] < 2

    def earlier(self, slot: int) -> Sequence[int]:
        """The numbers of the channels that a query has for blocks before the last one."""
        known = self.one_earlier[slot]
        return (known,) if known >= 0 else self._several.get(slot, ())

    def all_of(self, slot: int) -> Sequence[int]:
        """The numbers of the channels that a query has for all blocks."""
        known = self.one_last[slot]
        return [
            *self.earlier(slot),
            *((known,) if known >= 0 else self._several_last.get(slot, ())),
        ]

    def expanded(self, numbers: Numbers) -> tuple[Numbers, Numbers] | None:
        """The slots of channels by their numbers, and for each slot the place of its channel among
        these; None if they are too many."""
        starts = np.frombuffer(self._starts, np.int64)
        since = starts[numbers]
        counts = starts[numbers + 1] - since
        ends = counts.cumsum()
        if not len(ends):
            return ends, ends
        if ends[-1] > _PAIRS:
            return None
        at = np.arange(ends[-1]) + (since - ends + counts).repeat(counts)
        return np.frombuffer(self._slots, np.int64)[at], np.arange(len(numbers)).repeat(counts)

    @property
    def crowded(self) -> bool:
        """Whether so many channels are known that most of them are for nothing."""
        return len(self.channels) > 2 * (self._last + 1) * len(self.slot) + _STALE

    def keep(self, kept: Sequence[int]) -> None:
        """Forget the channels but for those of these numbers, which have their places among these
        then; the others are new when something comes to them."""
        self.version += 1
        old = [(self.channels[n], self.places[n], self.slots(n)) for n in kept]
        for channel in self.channels:
            channel.number = -1
        self.channels, self.places = [], array("q")
        self._starts, self._slots = array("q", [0]), array("q")
        self.one_earlier, self._several = array("q", [-1] * len(self.owners)), {}
        self.one_last, self._several_last = array("q", [-1] * len(self.owners)), {}
        for each in old:
            self._add(*each)
