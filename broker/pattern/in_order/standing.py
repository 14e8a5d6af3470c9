"""The queries of one form that have one watermark, and what each of them publishes.

Rows wait until the watermark is at their times; then they are taken in order, for all queries in
one pass, so that what is found is decided. Those of lists are taken as they come. It is what
`broker.pattern.standing.Standing` finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from broker.pattern.in_order.ahead import Ahead
from broker.pattern.in_order.asleep import Asleep
from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.distinct import Found, distinct, undecided
from broker.pattern.in_order.events import ALL, Candidate, Event
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.matchers import matcher_of
from broker.pattern.in_order.offering import Offering
from broker.pattern.in_order.prefixes import is_prefix
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.spending import Spending
from broker.pattern.instances import NEVER, Arrived, Instance, Row, due_from
from broker.pattern.keeping import Keeping, Known, Names, News, looks_at_several
from broker.pattern.published import Published
from broker.pattern.setting import UNCOUNTED
from broker.pattern.trying import TooMuch

Answer = dict[int, list[Published] | None]
"""What queries publish, by their numbers; None for one that has more to try than it may."""


class Together(Offering):
    """Queries of a form by their numbers. A query for which more than `budget` pairs would have to
    be tried for one document goes on with nothing. `known` and `told` are those of `Keeping`."""

    def __init__(
        self,
        shared: Shared,
        budget: int,
        known: Callable[[int], Known] = lambda _: (),
        told: Names = lambda _: (),
    ) -> None:
        self.watermark: int | None = None
        self._budget = budget
        self._spending = Spending(budget)
        self._since: dict[int, int] = {}
        self._matcher = matcher_of(shared, self._spending, self._since)
        super().__init__(shared, budget, self._matcher.owners(), self._matcher.over)
        self._future: Ahead[Offered] = Ahead()
        """Rows whose times are to come; others are noted."""
        self._gone: dict[int, int] = {}
        """Queries that have gone, and the arrival up to which there may be rows of them still."""
        self._waits: dict[int | Channel, list[Offered]] | None = None
        """The rows whose times are to come by query or channel, where somebody has asked."""
        self._takers: dict[int, list[Channel]] = {}
        """By query its channels among these."""
        self.asleep = Asleep()
        self._keeping = Keeping(shared.plan, known, told) if looks_at_several(shared.plan) else None

    def join(self, owner: int, first_doc: int) -> None:
        """A query comes that knows documents from a number on."""
        self._since[owner] = first_doc
        if self._noted is not None:
            self._noted.join(owner)

    def leave(self, owner: int) -> None:
        """A query goes, with all that waits for it. Of what is not decided nothing is looked
        through for that, as there may be days of it."""
        noted, undecided = self._noted, bool(self._rows() or self._future)
        self._matcher.drop(owner)
        if undecided:
            self._gone[owner] = self._arrival
        undecided = undecided or (noted is not None and bool(noted.ahead))
        self._deferred.forget(owner, self._arrival, undecided)
        if noted is not None:
            noted.leave(owner)
        if self._keeping is not None:
            self._keeping.drop(owner)
        self._waits = None
        del self._since[owner]

    # -- advancing -----------------------------------------------------------------------------

    def advance(self, watermark: int | None, begins: Callable[[int], bool] | None = None) -> Answer:
        """What is published now, and was not before. With `begins`, queries decide one after the
        other, and only those for which it says so."""
        return self.published(self.decided(watermark, begins), begins)

    def news(self) -> list[tuple[int, News]]:
        """What queries have kept of their matches and is not stored yet, which it is from now
        on."""
        return [] if self._keeping is None else self._keeping.news()

    def decided(
        self, watermark: int | None, begins: Callable[[int], bool] | None = None
    ) -> list[Candidate]:
        """The candidates of what is decided now; see `advance`."""
        self.advance_to(watermark)
        noted = self._noted
        ready: Sequence[Offered] = self._ready()
        if noted is not None and not ready and begins is None:
            ready = noted.decided(self._number(), self.watermark, self._waiting)
        else:
            if noted is not None:
                ready = noted.among(ready, self._number(), self.watermark)
            if ready and self._deferred.last:
                ready = self._deferred.given(ready, self._waiting, begins is not None)
        found: list[Candidate] = [] if self._noted is None else self._noted.take_paired()
        if begins is None:
            self._matcher.take(ready, found)
        else:
            paired, found = found, []
            own: dict[int, list[Event]] = {}
            for event in ready:
                own.setdefault(event[3], []).append(event)
            common = own.pop(ALL, [])
            owners = {*own, *[each[0] for each in paired]}
            if common:
                owners.update(self._matcher.owners())
            for owner in sorted(owners):
                if begins(owner):
                    found += [each for each in paired if each[0] == owner]
                    self._matcher.take(self._with(own.get(owner, []), common, owner), found)
        if self.watermark is not None:
            self._matcher.settle(self.watermark, found)
        return found

    def _with(self, own: list[Event], common: list[Event], owner: int) -> list[Event]:
        """The events of a query, with those that concern all, in the order of time."""
        if not common:
            return own
        since = self._since[owner]
        theirs = [(*e[:3], owner, owner, *e[5:]) for e in common if e[-1].base >= since]
        return sorted([*own, *theirs])

    def _ready(self) -> list[Offered]:
        """What is decided now, in order of time; of a form that decides at once what has come."""
        ready = self._decided()
        return [*self._left(ready)] if self._gone else ready

    def _left(self, events: Iterable[Offered]) -> Iterator[Offered]:
        """Those that are not of queries that have gone."""
        gone = self._gone
        return (each for each in events if gone.get(each[3], 0) < each[1])

    def _decided(self) -> list[Offered]:
        arrived, self._arrived = self._arrived, []
        if self.shared.at_once:
            return arrived
        self._waits = None
        now, future = self.watermark, self._future
        if not (arrived or future):
            return arrived  # as nearly always where what comes is noted
        arrived.sort()
        if now is None:
            future.add(arrived)
            return []
        if arrived and arrived[-1][0] <= now < future.first:
            return arrived
        future.add(arrived)
        return future.take(now)

    def published(
        self, found: Collection[Candidate], begins: Callable[[int], bool] | None = None
    ) -> Answer:
        """What the candidates are, each match once; see `advance`. What looks at several matches
        publishes what is ready of them."""
        if not found and self._keeping is None and not self._matcher.over:
            return {}  # as nearly always where few documents come at once
        made, keeping = self._made(found), self._keeping
        answer: Answer = {}
        if keeping is None:
            answer.update(made)
        else:
            for owner, decided in made.items():
                keeping.add(owner, decided)
            for owner in self._matcher.over:
                keeping.drop(owner)
            answer.update(keeping.settle(self.watermark, begins))
        answer.update(dict.fromkeys(each for each in self._matcher.over if not is_prefix(each)))
        return answer

    def _made(self, found: Iterable[Candidate]) -> dict[int, list[Published]]:
        """The matches that candidates are, by query, in order."""
        made: dict[int, list[Found]] = {}
        build, over = self._matcher.made, self._matcher.over
        for candidate in found:
            owner = candidate[0]
            if owner in over:
                continue
            try:
                instance = build(candidate)
            except TooMuch:
                over.add(owner)
                continue
            if instance is not None:
                own = made.get(owner)
                if own is None:
                    own = made[owner] = []
                own.append((instance.end, instance.start, candidate[1], len(own), instance))
        return {
            owner: distinct(self.shared, each) for owner, each in made.items() if owner not in over
        }

    def advance_to(self, watermark: int | None) -> None:
        """Take all for decided up to a watermark."""
        if watermark is not None and (self.watermark is None or self.watermark < watermark):
            self.watermark = watermark

    def again(
        self, arrived: Mapping[int, Arrived], common: Arrived, tell: bool = False
    ) -> Mapping[int, Sequence[Published]]:
        """Make the state of queries of the rows of all live documents, as it was when the watermark
        was where it is. What was published is not published again. Rows in `common` concern all
        queries; what they did to others they do not do again. With `tell` what was decided when
        the watermark came so far is returned, by query."""
        self._leave_rows(arrived.keys())
        if common:
            self._forget((ALL,))
        others, self._arrived = self._rows(), []
        everybody = Channel([ALL])
        for tap, several in common.items():
            for row in several:
                self.offer(everybody, tap, row)
        for owner, rows in arrived.items():
            for tap, several in rows.items():
                self._offer_all(owner, tap, several)
        self._spending.most = UNCOUNTED
        found = self._remembered() if self.shared.at_once else self.decided(None)
        made = self._silently([each for each in found if each[0] in arrived], arrived.keys(), tell)
        self._spending.most = self._budget
        self._arrived = others
        return made

    def begin(self, tell: bool = False) -> Mapping[int, Sequence[Published]]:
        """All rows of live documents were offered, and nothing before: what is decided of them was
        published before. See `again`."""
        self._spending.most = UNCOUNTED
        made = self._silently(self.decided(None), self._since.keys(), tell)
        self._spending.most = self._budget
        return made

    def _silently(
        self, found: Sequence[Candidate], owners: Iterable[int], tell: bool
    ) -> Mapping[int, Sequence[Published]]:
        """The matches of queries that candidates are, none of which is published, if somebody needs
        them."""
        if self._keeping is None and not tell:
            return {}
        made = self._made(found)
        if self._keeping is not None:
            for owner in owners:
                self._keeping.renew(owner, made.get(owner, ()), self.watermark)
        return made

    def wakes(self, tap: int) -> bool:
        """Whether a row of a tap, by its place in the plan, may complete a match of a query: what
        may not is noted, also for one that is asleep."""
        last = self._deferred.last
        return self.shared.at_once or not last or self.shared.readers[tap].place == last

    def wake(self, owner: int, arrived: Arrived) -> None:
        """Take the rows of a query that was asleep: what is decided of them was published before,
        and nothing else of it has been decided since."""
        others, self._arrived = self._rows(), []
        for tap, several in arrived.items():
            self._offer_all(owner, tap, several)
        rows, self._arrived, self._waits = self._arrived, others, None
        now = NEVER if self.shared.at_once else self.watermark
        rows.sort()
        decided = [event for event in rows if now is not None and event[0] <= now]
        self._future.add(rows[len(decided) :])
        self._spending.most = UNCOUNTED
        self._matcher.remember(decided)
        self._spending.most = self._budget

    def _remembered(self) -> list[Candidate]:
        """Take rows that were there before. Returns the candidates among them, if what looks at
        several matches needs them: those that it has not looked at, or all that windows reach."""
        rows, keeping, now = self._arrived, self._keeping, self.watermark
        found: list[Candidate] = []
        ends: list[Event] = []
        if keeping is not None:
            last = len(self.shared.form.leaves) - 1
            since = now if now is not None and not keeping.ranges else -NEVER
            ends = [event for event in rows if event[2] == last and event[-1].end >= since]
            rows = [event for event in rows if event[2] != last or event[-1].end < since]
        self._matcher.remember(rows)
        self._matcher.take(ends, found)
        return found

    def _offer_all(self, owner: int, tap: int, rows: Sequence[Row]) -> None:
        """Rows that one query takes, of a tap."""
        read = self.shared.readers[tap].read
        if self._noted is not None:
            self._rows()
            self._noted.go_on(owner, rows)
        if self.shared.readers[tap].place == self._deferred.last:
            self._deferred.saw(rows)
        try:
            for arrival, row in enumerate(rows, self._arrival + 1):
                event = read(owner, arrival, row)
                if event is not None:
                    self._arrived.append(event)
        except TooMuch:
            self.give_up((owner,))
        self._arrival += len(rows)

    def drop(self, owners: Collection[int]) -> list[tuple[int, Mapping[str, int]]]:
        """Forget what there is of queries. Returns what they have kept of their matches."""
        self._leave_rows(owners)
        keeping = self._keeping
        return [] if keeping is None else [(owner, keeping.drop(owner)) for owner in owners]

    def _leave_rows(self, owners: Collection[int]) -> None:
        """Forget the rows of queries, and what waits with them."""
        to = {event[3] for event in (*self._rows(), *self._future)}
        if self._noted is not None:
            channels = self._noted.takers.channels
            to.update(channels[number] for _, _, number, _ in self._noted.ahead)
        undecided: set[int] = set()
        for each in to:
            undecided.update(each.owners if isinstance(each, Channel) else (each,))
        for owner in owners:
            self._matcher.drop(owner)
            self._deferred.forget(owner, self._arrival, owner in undecided)
        self._forget(owners)

    def _forget(self, owners: Collection[int]) -> None:
        """Forget the rows that are not decided."""
        self._arrived = [event for event in self._rows() if event[3] not in owners]
        self._future.keep(sorted([event for event in self._future if event[3] not in owners]))
        self._waits = None

    # -- time ----------------------------------------------------------------------------------

    def due(self) -> int:
        """Twice the watermark at which something may be decided without a new row, or less."""
        noted = self._noted
        first = min(self._future.first, FOR_EVER if noted is None else noted.ahead.first)
        found = min(NEVER if first == FOR_EVER else due_from(first), self.asleep.due())
        deadline = self._matcher.due()
        if deadline is not None and deadline < found:
            found = deadline
        return found if self._keeping is None else min(found, self._keeping.due())

    def expire(self, watermark: int | None) -> bool:
        """Drop what no match can contain any more. Returns whether channels have other numbers than
        before."""
        noted = self._noted
        version = 0 if noted is None else noted.takers.version
        if watermark is not None:
            self._matcher.expire(watermark)
            pending = chain(self._rows(), self._future)
            for prefix in self._deferred.expire(watermark, pending):
                self._matcher.drop(prefix)
            if self._keeping is not None:
                self._keeping.expire(watermark)
            if self._gone:
                undecided = chain(self._arrived, self._future)
                since = min([event[1] for event in undecided], default=FOR_EVER)
                self._gone = {owner: at for owner, at in self._gone.items() if at >= since}
        return noted is not None and noted.takers.version != version

    def waiting(self, owner: int, spending: Spending) -> Iterator[tuple[int, Instance]]:
        """What is not decided of a query, with twice the watermark that decides it. Raises
        TooMuch."""
        rest, lends = self._deferred.rest(owner), self._deferred.lends
        if not lends:
            self._matcher.take(rest, [])
        trial = matcher_of(self.shared, spending, self._since)
        trial.borrow(self._matcher, owner)
        if lends:
            trial.take(rest, [])
        if self._waits is None:
            self._waits = {}
            ahead = () if self._noted is None else self._noted.events(self._noted.ahead)
            for event in chain(self._left(self._future), ahead):
                self._waits.setdefault(event[3], []).append(event)
            self._takers = {}
            for to in self._waits:
                if isinstance(to, Channel):
                    for each in to.owners:
                        self._takers.setdefault(each, []).append(to)
        found: list[Candidate] = []
        takers = self._takers.get(owner, ())
        own = self._deferred.own(owner, self._waits, takers)
        trial.take(self._with(own, self._waits.get(ALL, []), owner), found)
        trial.settle(NEVER, found)
        if trial.over:
            raise TooMuch
        ready = () if self._keeping is None else self._keeping.waiting(owner)
        return undecided(self.shared, found, trial.made, ready)
