"""What is handed over to the queries of one form, and nobody has looked at yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.events import Event, Reader
from broker.pattern.in_order.matchers import deferred_of
from broker.pattern.in_order.noted import Noted
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.takers import Numbers
from broker.pattern.instances import Row
from broker.pattern.trying import TooMuch


class Offering:
    """Takes rows for queries. Something may wait for those in `waiting`; those in `over` have tried
    too much."""

    def __init__(
        self, shared: Shared, budget: int, waiting: Collection[int], over: set[int]
    ) -> None:
        self.shared = shared
        self._waiting = waiting
        self._over = over
        self._arrived: list[Offered] = []
        """Rows that it has not looked at."""
        self._arrival = 0
        self._deferred = deferred_of(shared, budget)
        self._noted = self._deferred if isinstance(self._deferred, Noted) else None
        self._readers = {reader.place: reader for reader in shared.readers.values()}

    def offer(self, to: Channel, tap: int, row: Row) -> None:
        """A row that queries take, or ALL of them, of a tap by its place in the plan, which is the
        same for all rows of a channel. Those of one document come in the order of their nodes."""
        noted, reader = self._noted, self.shared.readers[tap]
        try:
            if reader.tests and not reader.passes(row):
                return
        except TooMuch:
            self.give_up(to.owners)
            return
        if noted is not None and noted.sifts:
            number = to.number
            noted.numbers.append(number if number >= 0 else noted.enter(to, reader.place))
            noted.rows.append(row)
        else:
            self._arrive(to, reader, row)

    def number_of(self, to: Channel, tap: int) -> int | None:
        """The number by which a channel is known for a tap, None if it is not known by one, or what
        comes for that has to be tested."""
        noted, reader = self._noted, self.shared.readers[tap]
        return None if noted is None or reader.tests else noted.enter(to, reader.place)

    def offer_all(self, numbers: Numbers, rows: Sequence[Row]) -> None:
        """The same as `offer` for rows, each for the channel of a number."""
        noted = self._noted
        assert noted is not None
        if noted.sifts:
            noted.numbers.frombytes(numbers.tobytes())
            noted.rows += rows
            return
        channels, places, readers = noted.takers.channels, noted.takers.places, self._readers
        for number, row in zip(numbers.tolist(), rows, strict=True):
            self._arrive(channels[number], readers[places[number]], row)

    def channels(self, numbers: Numbers) -> list[Channel]:
        """The channels of these numbers."""
        assert self._noted is not None
        channels = self._noted.takers.channels
        return [channels[number] for number in numbers.tolist()]

    def waking(self, numbers: Numbers) -> list[Channel]:
        """Those of them of which a row may complete a match."""
        noted = self._noted
        assert noted is not None
        return [to for to in self.channels(numbers) if noted.takers.places[to.number] == noted.last]

    def _arrive(self, to: Channel, reader: Reader, row: Row) -> None:
        """Take a row that is not worth noting for all queries that take it."""
        self._arrival = arrival = self._arrival + 1
        # What waits for one query that goes on anyhow is not worth noting, if it shares nothing.
        alone = len(to.owners) == 1 and not self._deferred.shares
        if alone and to.owners[0] in self._waiting:
            self._arrived.append(reader.event(to.owners[0], arrival, row))
        elif self._deferred.last:
            self._arrived.append(reader.offered(to, arrival, row))
        else:
            self._arrived += [reader.event(owner, arrival, row) for owner in to.owners]

    def _rows(self) -> list[Offered]:
        """All rows that it has not looked at, as events."""
        if self._noted is not None:
            self._arrived += self._noted.offered(self._number())
        return self._arrived

    def _number(self) -> int:
        """The place in the order of arrival of the first row that it has noted and not looked at;
        these have theirs from now on."""
        first = self._arrival + 1
        self._arrival += 0 if self._noted is None else len(self._noted.rows)
        return first

    def give_up(self, owners: Iterable[int]) -> None:
        """Queries have more to try than they may."""
        self._over.update(owners)

    def extend(self, events: Iterable[Event]) -> None:
        """Rows that were read before."""
        self._arrived.extend(events)

    def withdraw(self) -> None:
        """Forget the rows that it has not looked at."""
        self._rows().clear()

    def __bool__(self) -> bool:
        """Whether there are rows that it has not looked at."""
        return bool(self._arrived or (self._noted is not None and self._noted.rows))
