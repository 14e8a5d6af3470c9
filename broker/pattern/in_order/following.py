"""NEXT in the order of time: what comes is what those seek that were there before.

Of a chain what one link finds waits for the next: in a part of its own, by the tie and the bounds
of that one.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

from broker.pattern.in_order.asking import all_hold, beyond
from broker.pattern.in_order.chain_forms import Following, Link
from broker.pattern.in_order.events import Candidate, Event, Key, key_of
from broker.pattern.in_order.held import BLOCK, FOR_EVER, Entry
from broker.pattern.in_order.owned import Owned
from broker.pattern.in_order.partitions import agreed, first_in, keys_in
from broker.pattern.in_order.prefixes import is_prefix
from broker.pattern.in_order.seeking import NEVER, At, Pairs, Part
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import Instance, OfRows, Row, by_variable, due_from
from broker.pattern.plan import Window
from broker.pattern.trying import TooMuch
from broker.pattern.values import Scope
from xscl.interruption import PENDING, check

_ALL = (inf,)
"""Behind all entries."""

_LAST = 3
"""The place, in what waits, of the latest end of what may follow."""


class Follows(Owned[Part]):
    """NEXT for all queries of a form. Rows come in the order of their ends.

    With `pulls`, what a prefix finds is pulled by each of its queries before a document of its own,
    which consumes for it alone what it follows."""

    def __init__(
        self, form: Following, spending: Spending, kept: Window, *, pulls: bool = False
    ) -> None:
        super().__init__(spending)
        self._form = form
        self._pulls = pulls
        self._kept = kept or 0
        self._slots = [leaf.slot for leaf in form.leaves]
        self._number = 0
        """That of the last one that waits behind the first link."""
        self._first = FOR_EVER
        """Nothing that waits ends before."""
        self._left = 0
        """So many parts were there when they were looked through last."""
        self._pulled: dict[int, At] = {}
        """By query of a chain, its last document for the last link: what was found up to then it
        has had."""
        self._behind = [
            inf if link.asked.bounds and link.asked.bounds[0].inclusive else -1
            for link in form.links
        ]
        """What stands, at each link, behind a number to find the place of those that it is
        beyond."""
        self._plain = not any(link.asked.rest or len(link.asked.bounds) > 1 for link in form.links)
        """Whether nothing is asked of two documents but one tie, one bound, a partition and the
        window."""

    def take(self, events: Iterable[Event], found: list[Candidate]) -> None:
        """Rows in the order of time. Adds the matches that they complete."""
        if not events:
            return  # as nearly always where few of very many queries take anything
        if self._plain:
            self._take_plain(events, found)
        else:
            self._take_any(events, found)

    def _take_plain(  # noqa: C901  # written out, as it is run for nearly each document
        self, events: Iterable[Event], found: list[Candidate]
    ) -> None:
        """The same where nothing else is asked; what is seldom is left to `_take_any`."""
        parts, over, spending, behind = self.parts, self.over, self._spending, self._behind
        links = self._form.links
        count, extent, pulls = len(links), links[0].extent, self._pulls
        partitioned = self._form.partitioned
        after = links[0].window if links[0].after else None
        for event in events:
            time, arrival, place, owner, key, number, row = event
            if PENDING:
                check()
            if partitioned and place <= count:
                own = keys_in(key, row.tuples)
                if len(own) != 1:
                    self._take_any((event,), found)
                    continue
                (key,) = own
            if pulls and place >= count:
                self._pull(place, owner, event[4], (time, arrival))
                if place > count:
                    continue
            part = parts.get(key)
            if not place:
                if number != number:
                    continue  # nothing is beyond what is no number
                last = FOR_EVER if extent is None else row.start + extent
                if after is not None and row.end + after < last:
                    last = row.end + after
                if last < self._first:
                    self._first = last
                if part is None:
                    part = self.open(owner, key, Part(patient=count > 1))
                begun: Entry = (number, arrival, (row,), last, None)
                blocks = part.blocks
                if not blocks:
                    blocks.append([begun])
                elif len(blocks) == 1 and len(blocks[0]) < BLOCK:
                    insort(blocks[0], begun)
                else:
                    part.add(begun)
                continue
            if part is None:
                continue
            if part.fed:
                if part.at >= time:
                    self._take_any((event,), found)
                    continue
                part.fed = ()
            blocks = part.blocks
            most = (number, behind[place - 1]) if links[place - 1].asked.bounds else _ALL
            if not blocks or not blocks[0][0] < most or owner in over:
                continue
            spending.renew()
            hungry = part.take_below(most)
            if len(hungry) > spending.left:
                for entry in hungry:
                    part.add(entry)
                self._take_any((event,), found)
                continue
            fed = self._feed_plain(part, hungry, row)
            if not fed:
                continue
            part.at, part.fed = time, (*fed,)
            if partitioned:
                self._feed_twins(key, fed, time)
            if place == count:
                for entry in fed:
                    found.append((owner, entry[1], (*entry[2], row)))
            else:
                for entry in fed:
                    self._go_on(place, owner, (*entry[2], row), (time, arrival))

    def _feed_plain(self, part: Part, hungry: list[Entry], row: Row) -> list[Entry]:
        """Feed a document to those of a part that are hungry, of which none is more than may be
        tried. Returns those that take it."""
        end, start, key, fed, tried = row.end, row.start, row.key, [], 0
        for entry in hungry:
            if entry[3] < end:
                continue  # nothing that comes is in its window
            rows = entry[2]
            if rows[-1].end >= start:
                part.add(entry)
                continue
            tried += 1
            for each in rows:
                if each.key == key:
                    part.add(entry)
                    break
            else:
                fed.append(entry)
        self._spending.left -= tried
        return fed

    def _take_any(self, events: Iterable[Event], found: list[Candidate]) -> None:
        parts, over, links = self.parts, self.over, self._form.links
        partitioned = self._form.partitioned
        for time, arrival, place, owner, key, number, row in self._pulling(events):
            if PENDING:
                check()
            if not place:
                if number == number:  # nothing is beyond what is no number
                    self._wait(links[0], owner, key, (number, arrival, (row,)))
                continue
            link = links[place - 1]
            for own in keys_in(key, row.tuples) if partitioned else (key,):
                part = parts.get(own)
                if part is None:
                    continue
                if part.fed:
                    part.forget(time)
                most = (number, self._behind[place - 1]) if link.asked.bounds else _ALL
                hungry = part.take_below(most)
                if not (hungry or part.fed) or owner in over:
                    continue
                self._spending.renew()
                try:
                    fed = self._feed(link, own, hungry, most, row)
                except TooMuch:
                    over.add(owner)
                    break
                if place == len(links):
                    found += [(owner, entry[1], (*entry[2], row)) for entry in fed]
                else:
                    for entry in fed:
                        self._go_on(place, owner, (*entry[2], row), (time, arrival))

    def _pulling(self, events: Iterable[Event]) -> Iterator[Event]:
        """Events, before which queries pull what is found for them."""
        count = len(self._form.links)
        for event in events:
            place = event[2]
            if self._pulls and place >= count:
                self._pull(place, event[3], event[4], event[:2])
            if place <= count:
                yield event

    def _pull(self, place: int, owner: int, prefix: Key, at: At) -> None:
        """A document for the last link comes to a query; or in front of it, behind the last place,
        what its prefix has found and it has not had."""
        links = self._form.links
        if place > len(links) and not self.is_over(owner, prefix):
            pairs = self.parts.get((prefix,))
            if isinstance(pairs, Pairs):
                for _, rows, last in pairs.behind(self._pulled.get(owner, NEVER)):
                    if last >= at[0]:
                        self._go_on(len(links) - 1, owner, rows, at)
        self._pulled[owner] = at

    def _find(self, prefix: int, rows: Sequence[Row], at: At) -> None:
        """A prefix has found something for the last link."""
        pairs = self.parts.get((prefix,))
        if pairs is None:
            pairs = self.open(prefix, (prefix,), Pairs())
        assert isinstance(pairs, Pairs)
        last = self._form.links[-1].last(rows)
        pairs.found.append((at, rows, last))
        self._first = min(self._first, last)

    def _go_on(self, stage: int, owner: int, rows: Sequence[Row], at: At) -> None:
        """Have what a link has found, when that document came, wait for the next one."""
        if stage == len(self._form.links) - 1:
            if is_prefix(owner):
                self._find(owner, rows, at)
                return
            if self._pulled and at <= self._pulled.get(owner, NEVER):
                return
        link = self._form.links[stage]
        asked = link.asked
        number = asked.held[0](rows[link.places[0]]) if asked.held else 0.0
        if number != number:
            return
        value = None if asked.tie is None else rows[link.tied].values[asked.tie.waits][0]
        self._number += 1
        self._wait(link, owner, key_of(owner, value, stage), (number, self._number, rows))

    def _wait(
        self, link: Link, owner: int, key: Key, begun: tuple[float, int, Sequence[Row]]
    ) -> None:
        """Have documents wait for a link, with the number that its first bound compares, and one
        that no other entry has."""
        rows, held, rest = begun[2], link.asked.held, None
        if len(held) > 1:
            rest = [of(rows[place]) for of, place in zip(held, link.places, strict=True)]
        last = link.last(rows)
        if last < self._first:
            self._first = last
        entry = (*begun, last, rest)
        for own in keys_in(key, agreed(rows)) if self._form.partitioned else (key,):
            part = self.parts.get(own)
            if part is None:
                part = self.open(owner, own, Part(patient=link is not self._form.links[-1]))
            part.add(entry)

    def _feed(
        self, link: Link, key: Key, hungry: list[Entry], most: tuple[float, ...], row: Row
    ) -> list[Entry]:
        """Feed a document to those of a part that are hungry, and to those below `most` that were
        fed at the same time. Returns those that take it."""
        part, end, start, spending = self.parts[key], row.end, row.start, self._spending
        several = self._form.partitioned and len(row.tuples or ()) > 1
        bounds = link.asked.bounds if len(link.asked.bounds) > 1 else ()
        numbers = [bound.comes(row) for bound in bounds]
        found = []
        for entry in part.fed:
            if not entry < most or entry[2][-1].end >= start or entry[3] < end:
                continue
            if several and not first_in(key, agreed(entry[2]), row.tuples):
                continue
            if _agree(link, entry, row, numbers):
                spending.spend()
                found.append(entry)
        fed = []
        for entry in hungry:
            if entry[3] < end:
                continue  # nothing that comes is in its window
            if entry[2][-1].end >= start:
                part.add(entry)
                continue
            spending.spend()
            if _agree(link, entry, row, numbers):
                fed.append(entry)
            else:
                part.add(entry)
        if fed:
            part.at = end
            part.fed += (*fed,)
            if self._form.partitioned:
                self._feed_twins(key, fed, end)
        return found + fed

    def _feed_twins(self, key: Key, fed: Iterable[Entry], end: int) -> None:
        """Those that wait in several partitions are fed in all of them."""
        for entry in fed:
            for own in keys_in(key[0], agreed(entry[2])):
                if own != key:
                    part = self.parts[own]
                    part.forget(end)
                    part.remove(entry)
                    part.at = end
                    part.fed += (entry,)

    def made(self, candidate: Candidate) -> Instance | None:
        """The match that a candidate is, if it is one."""
        form, rows = self._form, candidate[2]
        tuples = agreed(rows) if form.partitioned else None
        made = OfRows(self._slots, rows, due_from(rows[-1].end), tuples)
        if form.where and not all_hold(form.where, Scope(made.single, length=made.span)):
            return None
        return made

    def expire(self, watermark: int) -> None:
        """Drop what nothing can follow any more; parts are looked through if something is over, or
        if there are twice as many as were left then."""
        if self._first >= watermark and len(self.parts) <= 2 * self._left:
            return
        first, kept = FOR_EVER, self._kept
        for part in self.parts.values():
            patience = kept if part.patient else 0
            if part.fed and part.at < watermark - patience:
                part.fed = ()
            end = part.expire(watermark - patience, _LAST) + patience
            if end < first:
                first = end
        self.sweep()
        self._first, self._left = first, len(self.parts)

    def borrow(self, other: Owned[Any], owner: int) -> None:
        assert isinstance(other, Follows)
        super().borrow(other, owner)
        self._number = other._number
        if owner in other._pulled:
            self._pulled[owner] = other._pulled[owner]

    def drop(self, owner: int) -> None:
        super().drop(owner)
        self._pulled.pop(owner, None)

    def copied(self, part: Part) -> Part:
        found = Part(patient=part.patient)
        found.at, found.fed = part.at, part.fed
        for entry in part:
            found.add(entry)
        return found


def _agree(link: Link, entry: Entry, row: Row, numbers: list[float]) -> bool:
    """Whether the braces hold for what waits and a document, beside the first bound and the
    window."""
    rows, key = entry[2], row.key
    for each in rows:
        if each.key == key:
            return False
    if numbers and not beyond(link.asked.bounds, numbers, entry[4]):
        return False
    if link.asked.rest:
        scope = Scope(by_variable((*rows, row)), length=row.end - rows[0].start)
        return all_hold(link.asked.rest, scope)
    return True
