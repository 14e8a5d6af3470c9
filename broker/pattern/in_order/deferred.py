"""What comes to many queries before their last block: noted once, and given to each when it is
asked.

Where many queries of a form have their first blocks in common, a document of these says nothing
until one for the last block comes, to most of them never. So it stands once in a log of the queries
that take it, as RUMOR shares prefixes, and a query has what is in its logs only before its next
own document, in the order in which it would have had it. What no match can contain by then is never
given to anybody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from broker.pattern.in_order.events import ALL, Event, tie_of
from broker.pattern.in_order.forms import Form, Iterated, Lacking
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.run_forms import Running
from broker.pattern.instances import Row
from broker.pattern.plan import Window

_FEW = 4
"""So many are looked through as fast as they are looked up."""

_Logged = tuple[int, Event]
"""When it was noted, as a number, and the event, of which the owner is the log."""


def last_place(form: Form, kept: Window) -> int:
    """The place without which there is no match, and nothing is decided: what comes before it may
    be deferred. 0 if nothing may."""
    if kept is None or isinstance(form, Running):
        return 0
    if isinstance(form, Lacking | Grouping) and form.right is None:
        return 0
    return len(form.leaves) - 1


def _is_by_value(form: Form) -> bool:
    """Whether the documents of a match have one value, by which all of them are found."""
    match form:
        case Listed():
            return form.ties[0] is not None
        case Grouping():
            return form.keys is not None
        case Lacking():
            return tie_of(form, form.asked) is not None
        case Iterated():
            return form.asked.tie is not None
        case Running():
            return False
    ties = {
        None if link.tied or not link.asked.tie else link.asked.tie.waits for link in form.links
    }
    return len(ties) == 1 and None not in ties


class Deferred:
    """The logs, by numbers below ALL, and what of them each query has had."""

    def __init__(self, form: Form, kept: Window) -> None:
        self.last = last_place(form, kept)
        self._kept = kept
        self._by_value = _is_by_value(form)
        self._at_once = isinstance(form, Listed)
        self._latest = -FOR_EVER
        """The latest beginning of a document for the last block; of lists, which look both ways."""
        self._known: dict[tuple[int, ...], int] = {}
        self._owners: dict[int, Collection[int]] = {}
        self._logs: dict[int, dict[object, list[_Logged]]] = {}
        self._of: dict[int, list[int]] = {}
        self._from: dict[int, int] = {}
        """By query, the arrival up to which it has had everything."""
        self._had: dict[tuple[int, int, object], int] = {}
        """By query, log and value, the number of the last one that it has had."""
        self._number, self._next = 0, ALL
        self._first = FOR_EVER
        """Nothing that is noted ended before."""

    def log(self, owners: Collection[int]) -> int:
        """The number of the log of what comes to these queries."""
        key = tuple(owners)
        number = self._known.get(key)
        if number is None:
            self._next -= 1
            number = self._known[key] = self._next
            self._owners[number] = key if len(key) <= _FEW else frozenset(key)
            self._logs[number] = {}
            of = self._of
            for owner in key:
                known = of.get(owner)
                if known is None:
                    of[owner] = [number]
                else:
                    known.append(number)
        return number

    def forget(self, owner: int, arrival: int) -> None:
        """A query has had, in another way, all that came up to now."""
        if owner in self._of:
            self._from[owner] = arrival

    def _value(self, event: Event) -> object:
        key = event[4]
        return key[1] if self._by_value and isinstance(key, tuple) else None

    def given(self, ready: list[Event]) -> list[Event]:
        """What is decided now, of which logged events come only to queries to which others come;
        and before them what these have not had."""
        if not self._known:
            self._see(ready)
            return ready
        if self._at_once:
            ready = sorted(ready)
        asked = self._asked(ready)
        self._see(ready)
        found: list[Event] = []
        for owner, values in asked.items():
            found += self._not_had(owner, values)
        for event in ready:
            log = event[3]
            if log >= ALL:
                found.append(event)
                continue
            self._number += 1
            value = self._value(event)
            logged = self._logs[log]
            if value in logged:
                logged[value].append((self._number, event))
            else:
                logged[value] = [(self._number, event)]
            if event[-1].end < self._first:
                self._first = event[-1].end
            # Either may be very many: all that take it, and all that are asked.
            owners = self._owners[log]
            few, many = (owners, asked) if len(owners) < len(asked) else (asked, owners)
            for owner in few:
                if owner in many and value in asked[owner] and event[1] > self._from.get(owner, 0):
                    found.append(for_owner(event, owner))
        for owner, values in asked.items():
            self._has_had(owner, values)
        return found

    def _asked(self, ready: Iterable[Event]) -> dict[int, set[object]]:
        """The values of what is decided now of those queries that have not had something, or may
        not have."""
        found: dict[int, set[object]] = {}
        for event in ready:
            owner = event[3]
            if owner in self._of:
                value, known = self._value(event), found.get(owner)
                if known is None:
                    found[owner] = {value}
                else:
                    known.add(value)
            elif owner < ALL and self._at_once and event[-1].end < self._latest:
                for each in self._owners[owner]:  # it may be what completes a match
                    found.setdefault(each, set()).add(self._value(event))
        return found

    def _see(self, events: Iterable[Event]) -> None:
        if self._at_once:
            self.saw([event[-1] for event in events if event[2] == self.last])

    def saw(self, rows: Iterable[Row]) -> None:
        """Documents come for the last block."""
        self._latest = max([self._latest, *[row.start for row in rows]])

    def rest(self, owner: int) -> list[Event]:
        """All that a query has not had, which it has then."""
        values = {value for log in self._of.get(owner, ()) for value in self._logs[log]}
        found = [*self._not_had(owner, values)]
        self._has_had(owner, values)
        return found

    def own(self, owner: int, events: Mapping[int, Sequence[Event]]) -> list[Event]:
        """The events of a query among these by query and log, which are not noted yet."""
        found = [*events.get(owner, ())]
        for log in self._of.get(owner, ()):
            found += [for_owner(e, owner) for e in events.get(log, ()) if self._concerns(e, owner)]
        found.sort()
        return found

    def _concerns(self, event: Event, owner: int) -> bool:
        return owner in self._owners[event[3]] and event[1] > self._from.get(owner, 0)

    def _not_had(self, owner: int, values: Collection[object]) -> Iterator[Event]:
        found: list[_Logged] = []
        since = self._from.get(owner, 0)
        for log in self._of.get(owner, ()):
            logged = self._logs[log]
            for value in values if len(values) < len(logged) else [*logged]:
                known = logged.get(value)
                if known and value in values:
                    had = self._had.get((owner, log, value), 0)
                    found += known[bisect_right(known, had, key=_first) :]
        found.sort(key=_first)
        return (for_owner(event, owner) for _, event in found if event[1] > since)

    def _has_had(self, owner: int, values: Collection[object]) -> None:
        for log in self._of.get(owner, ()):
            for value in values:
                if value in self._logs[log]:
                    self._had[owner, log, value] = self._number

    def expire(self, watermark: int, pending: Collection[int]) -> None:
        """Drop what no match can contain any more, and logs in which nothing is, but for those that
        are `pending`."""
        if self._kept is None:
            return
        horizon = watermark - self._kept
        if horizon <= self._first:
            return
        self._first = horizon
        for logged in self._logs.values():
            for value, known in [*logged.items()]:
                left = [each for each in known if each[1][-1].end >= horizon]
                if left:
                    logged[value] = left
                else:
                    del logged[value]
        for key, log in [*self._known.items()]:
            if not self._logs[log] and log not in pending:
                del self._known[key], self._owners[log], self._logs[log]
        self._of = {}
        for log, owners in self._owners.items():
            for owner in owners:
                self._of.setdefault(owner, []).append(log)
        self._from = {owner: at for owner, at in self._from.items() if owner in self._of}
        self._had = {k: had for k, had in self._had.items() if k[2] in self._logs.get(k[1], ())}


def for_owner(event: Event, owner: int) -> Event:
    """The event of a log for a query."""
    time, arrival, place, _, key, number, row = event
    own = (owner, *key[1:]) if isinstance(key, tuple) else owner
    return (time, arrival, place, owner, own, number, row)


_first = itemgetter(0)
