"""What comes to many queries is one event for all of them, and is only noted before their last
block.

A document for the first blocks of a query says nothing until one for its last block comes, to most
of very many queries never. So it stands once in the log of a *channel*, which are the queries that
take it, as RUMOR shares prefixes. A query has what is in its logs only before a document of its own
that may complete something, in the order in which it would have had it. What no match can contain
by then is never given to anybody. A document for the last block comes to those of its channel
alone for which something waits, or is in a log and came before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from operator import itemgetter

from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.events import Event, Reader, tie_of
from broker.pattern.in_order.forms import Form, Iterated, Lacking
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.run_forms import Running
from broker.pattern.instances import Row
from broker.pattern.plan import Window


def last_place(form: Form, kept: Window) -> int:
    """The place without which there is no match, and nothing is decided: what comes before it may
    be deferred. 0 if nothing may."""
    if kept is None or isinstance(form, Running):
        return 0
    if isinstance(form, Lacking | Grouping) and form.right is None:
        return 0
    return len(form.leaves) - 1


def is_by_value(form: Form) -> bool:
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


_TO = itemgetter(3)


class Deferred:
    """What is in the logs of channels, and what of it each query has had."""

    shares = False
    """It makes nothing once for several queries."""
    lends = False
    """What a query has not had is given to it when somebody asks what it waits for."""

    def __init__(self, form: Form, kept: Window, readers: Iterable[Reader]) -> None:
        self.last = last_place(form, kept)
        self._kept = kept
        self._readers = {reader.place: reader for reader in readers}
        self._by_value = is_by_value(form)
        self._at_once = isinstance(form, Listed)
        self._latest = -FOR_EVER
        """The latest beginning of a document for the last block; of lists, which look both ways."""
        self._of: dict[int, Channel | list[Channel]] = {}
        """By query the channels with something in their logs; of most queries one."""
        self._from: dict[int, int] = {}
        """By query, the arrival up to which it has had everything."""
        self._first = FOR_EVER
        """Nothing that is noted ended before."""

    def forget(self, owner: int, arrival: int, undecided: bool) -> None:
        """A query has had, in another way, all that came up to now, also what is `undecided`."""
        if self.last:
            self._from[owner] = arrival

    def given(
        self, ready: Sequence[Offered], waiting: Container[int], one_by_one: bool = False
    ) -> list[Event]:
        """What is decided now, of which logged events come only to queries to which others come,
        and before them; `waiting` are those for which something waits."""
        last, at_once = self.last, self._at_once
        if not self._of and {*map(type, map(_TO, ready))} == {int}:
            found = [*ready]
        else:
            found = []
            gave: set[int] = set()
            for event in sorted(ready) if at_once else ready:
                if type(event[3]) is int:
                    if event[3] in self._of:
                        found += self._before(event)
                    gave.add(event[3])
                    found.append(event)
                elif event[2] < last:
                    self._note(event)
                    if at_once and event[-1].end < self._latest:
                        for owner in event[3].owners:  # it may be what completes a match
                            found += self._not_had(owner, event[4])
                else:
                    self._complete(event, waiting, gave, found)
        if at_once:
            self.saw([event[-1] for event in ready if event[2] == last])
        return found

    def _complete(
        self, event: Offered, waiting: Container[int], gave: set[int], found: list[Event]
    ) -> None:
        """A document for the last block: give it to the queries of its channel for which it may
        complete something, those for which something waits and those to which something was given
        now among them."""
        at_once, of, since, row = self._at_once, self._of, self._from, event[-1]
        for owner in event[3].owners:
            goes_on = at_once or owner in waiting or owner in gave
            if not goes_on and owner not in of:
                continue  # nothing has come to it
            before = self._not_had(owner, event[4], FOR_EVER if goes_on else row.start)
            if not goes_on and not before:
                continue
            gave.add(owner)
            found += before
            if not since or event[1] > since.get(owner, 0):
                found.append(self._readers[event[2]].for_owner(event, owner))

    def _before(self, event: Offered) -> list[Event]:
        """What a query has not had before an event of its own."""
        owner, key = event[3], event[4]
        return self._not_had(owner, key[1] if isinstance(key, tuple) else None)

    def _note(self, event: Offered) -> None:
        """Add an event to the log of its channel."""
        channel: Channel = event[3]
        if not (channel.events or channel.by):
            of = self._of
            for owner in channel.owners:
                known = of.get(owner)
                if known is None:
                    of[owner] = channel
                elif isinstance(known, list):
                    known.append(channel)
                else:
                    of[owner] = [known, channel]
        log = channel.log(event[4]) if self._by_value else channel
        if log.events is None:
            log.events = [event]
        else:
            log.events.append(event)
        end = event[-1].end
        if end < self._first:
            self._first = end

    def _channels(self, owner: int) -> Sequence[Channel]:
        known = self._of.get(owner, ())
        return (known,) if isinstance(known, Channel) else known

    def saw(self, rows: Iterable[Row]) -> None:
        """Documents come for the last block."""
        self._latest = max([self._latest, *[row.start for row in rows]])

    def rest(self, owner: int) -> list[Event]:
        """All that a query has not had, which it has then."""
        values = {value for channel in self._channels(owner) for value in channel.by or (None,)}
        every = [self._not_had(owner, value) for value in values]
        return sorted([event for events in every for event in events])

    def own(
        self,
        owner: int,
        events: Mapping[int | Channel, Sequence[Offered]],
        channels: Iterable[Channel],
    ) -> list[Event]:
        """The events of a query among these by query and channel, of which it is in some; they are
        not noted yet."""
        return own_of(owner, events, channels, self._readers, self._from.get(owner, 0))

    def _not_had(self, owner: int, value: object, start: int = FOR_EVER) -> list[Event]:
        """What there is of a value in the logs of a query that it has not had, which it has then;
        nothing if none of it ended before a time."""
        known = self._of.get(owner)
        if known is None:
            return []
        found: Sequence[Offered]
        if isinstance(known, Channel) and not self._by_value:
            found = known.not_had(owner, start)
            if found:
                known.has_had(owner)
        else:
            found = self._of_several(owner, value, start)
        since = self._from.get(owner, 0) if self._from else 0
        readers = self._readers
        return [readers[each[2]].for_owner(each, owner) for each in found if each[1] > since]

    def _of_several(self, owner: int, value: object, start: int) -> list[Offered]:
        """The same of several logs, as they came."""
        logs: Iterable[Channel | None] = self._channels(owner)
        if self._by_value:
            logs = [each.by.get(value) if each.by else None for each in self._channels(owner)]
        several = [log for log in logs if log and log.not_had(owner)]
        if not any(log.not_had(owner, start) for log in several):
            return []
        found: list[Offered] = []
        for log in several:
            found += log.not_had(owner)
            log.has_had(owner)
        if len(several) > 1:
            found.sort()
        return found

    def expire(self, watermark: int, pending: Iterable[Offered]) -> Sequence[int]:
        """Drop what no match can contain any more; `pending` are not noted yet."""
        horizon = -FOR_EVER if self._kept is None else watermark - self._kept
        if horizon > self._first:
            self._first = horizon
            for channel in {channel for owner in self._of for channel in self._channels(owner)}:
                channel.expire(horizon)
            for owner in [*self._of]:
                left = [channel for channel in self._channels(owner) if channel]
                if left:
                    self._of[owner] = left[0] if len(left) == 1 else left
                else:
                    del self._of[owner]
        if self._from:
            since = min([event[1] for event in pending], default=FOR_EVER)
            self._from = {o: at for o, at in self._from.items() if o in self._of or at >= since}
        return ()


def own_of(
    owner: int,
    events: Mapping[int | Channel, Sequence[Offered]],
    channels: Iterable[Channel],
    readers: Mapping[int, Reader],
    since: int,
) -> list[Event]:
    """The events of a query among these by query and channel, of which it is in some, that came
    behind an arrival."""
    found: list[Event] = [*events.get(owner, ())]
    for channel in channels:
        for event in events[channel]:
            if event[1] > since:
                found.append(readers[event[2]].for_owner(event, owner))
    found.sort()
    return found
