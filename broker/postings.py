"""Posting lists: which live documents have a value? The view cache of the dissertation, in memory.

Algorithm 5 keeps, for a string value, the slice of RL that holds it. Here a value's code leads to
the records of the documents that have it, in order of time. They are a cache of RL and can be made
from it at any time.

A value that very many documents have (one byline, the address of a channel) would make every new
document look at all of them. Such a *hot* value keeps a list of its documents for each variable
that has it. What a new document satisfies with all of a long list is worked out once, not per
document, and the answer refers to the list. What needs two long lists refers to a list of what is
in both, kept from then on. Documents of short lists are compared one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter, itemgetter

from broker.records import Layout, Record
from broker.signatures import Part, Signatures, Verdict
from broker.sql import UNBOUNDED

HOT = 8
"""Documents from which on a value is hot."""

MOST_TOGETHER = 64
"""Sets of variables for which lists in common are kept; with more, only longer lists are long."""

_KNOWN = 100_000

_END = attrgetter("end")
_VARIABLE = itemgetter(1)
_NOTHING: Part = frozenset()

Posting = tuple[int, int]
"""A value's code, and a variable that has it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Older documents whose signature with a new one has a verdict.

    `right`: the new document is the right block. Of `records`, in order of their end, those in the
    window still have to be picked where they are more than one.
    """

    verdict: Verdict
    right: bool
    records: Sequence[Record]


class Hot:
    """A value of very many documents: lists of them by variable, and which of these are `long`.

    `meetings` are what has been worked out for documents with the value.
    """

    __slots__ = ("lists", "long", "meetings")

    def __init__(self) -> None:
        self.lists: dict[int, list[Record]] = {}
        self.long: set[int] = set()
        self.meetings: dict[MeetingKey, None] = {}


Entry = Record | list[Record] | Hot
"""The documents of a value: one, several in order of their end, or very many."""

MeetingKey = tuple[Layout, tuple[int, ...]]
"""A document's layout, and row and code of each of its hot values."""


@dataclass(frozen=True, slots=True)
class Side:
    """What all documents of a long list, or of several at once, satisfy with a document; the short
    lists whose documents have to be compared with it; and the long ones. Lists come with the link
    that the document makes with them."""

    hits: Sequence[Hit]
    shorts: Sequence[tuple[int, list[Record]]]
    longs: Sequence[tuple[Posting, int]]


_NO_SIDE = Side((), (), ())


@dataclass(slots=True)
class Meeting:
    """What a document has to do with the lists of its hot values; the same for all like it.

    `postings` are its hot values, `own` the lists of these, `together` the lists in common that it
    belongs to. `sides`, as right and as left block, are worked out when asked for.
    """

    postings: list[Posting]
    own: list[list[Record]]
    together: list[list[Record]]
    sides: dict[bool, Side]


class Postings:
    """The records of live documents, by the codes of their values."""

    def __init__(self, signatures: Signatures) -> None:
        self.signatures = signatures
        self.records: dict[int, Record] = {}
        self._of: dict[int, Entry] = {}
        self._hots: dict[int, Hot] = {}
        self._together: dict[tuple[Posting, ...], list[Record]] = {}
        """What several lists have in common, in order of the variables."""
        self._wanted: dict[int, set[tuple[int, ...]]] = {}
        """For which sets of variables there are such lists, by the first variable."""
        self._meetings: dict[MeetingKey, Meeting] = {}
        self._version = -1
        self._long_at = 1
        self._crowded = False
        self.latest = -(2**63)
        """The highest end of any document that was ever there."""
        self._look_at = 1_000

    # -- documents come and go ---------------------------------------------------------------

    def insert(self, record: Record) -> None:
        of, codes = self._of, record.codes
        hot: list[int] = []
        heated: set[int] = set()
        for row, code in enumerate(codes):
            if not code:
                continue
            entry = of.get(code)
            if entry is None:
                of[code] = record
            elif isinstance(entry, Hot):
                if code not in heated:
                    hot.append(row)
                    hot.append(code)
            elif isinstance(entry, list):
                if record not in entry:
                    _insert(entry, record)
                    if len(entry) >= HOT:
                        self._heat(code, entry)
                        heated.add(code)
            elif entry is not record:
                of[code] = [entry, record] if entry.end <= record.end else [record, entry]
        if hot:
            meeting = self._meeting((record.layout, tuple(hot)))
            # Taken first: a list that becomes long puts the document into what it has in common.
            together = list(meeting.together)
            for posting, records in zip(meeting.postings, meeting.own, strict=True):
                _insert(records, record)
                if len(records) == self._long_at and posting[1] not in self._hots[posting[0]].long:
                    self._lengthen(posting, records)
            for records in together:
                _insert(records, record)
            if self._crowded:
                self._shorten()
        self.latest = max(self.latest, record.end)
        self.records[record.doc] = record

    def _heat(self, code: int, records: list[Record]) -> None:
        """A value has become hot."""
        entry = self._of[code] = self._hots[code] = Hot()
        for record in records:
            for variable in record.having(code):
                self._list(entry, variable).append(record)
        for variable, own in entry.lists.items():
            if len(own) >= self._long_at:
                self._lengthen((code, variable), own)

    def _lengthen(self, posting: Posting, records: list[Record]) -> None:
        """A list has become long."""
        code, variable = posting
        self._hots[code].long.add(variable)
        self._invalidate(self._hots[code])
        for record in records:
            for key in self._keys(self._postings(record)):
                if posting in key:
                    _insert(self._together.setdefault(key, []), record)

    def _shorten(self) -> None:
        """Let only longer lists be long. Lists in common pay off where they spare walking through
        very long ones; where very many are asked for, keeping them would cost more than it spares."""
        self._crowded = False
        self._long_at *= 8
        for entry in self._hots.values():
            entry.long = {v for v, own in entry.lists.items() if len(own) >= self._long_at}
        self._together.clear()
        self._wanted.clear()
        self._meetings.clear()

    def _invalidate(self, entry: Hot) -> None:
        for key in entry.meetings:
            self._meetings.pop(key, None)
        entry.meetings.clear()

    def _list(self, entry: Hot, variable: int) -> list[Record]:
        """A list, made where it is new; then what was worked out without it does not hold."""
        records = entry.lists.get(variable)
        if records is None:
            records = entry.lists[variable] = []
            self._invalidate(entry)
        return records

    def _postings(self, record: Record) -> list[Posting]:
        """The long lists that a record is in."""
        hots = {code: self._hots[code] for code in record.codes if code in self._hots}
        return [(c, v) for c, hot in hots.items() for v in record.having(c) if v in hot.long]

    def _keys(self, postings: list[Posting]) -> Iterator[tuple[Posting, ...]]:
        """The lists in common that a document in these long lists belongs to."""
        if not self._wanted:
            return
        codes: dict[int, list[int]] = {}
        for code, variable in postings:
            codes.setdefault(variable, []).append(code)
        for first in codes:
            for variables in self._wanted.get(first, ()):
                if codes.keys() >= set(variables):
                    for chosen in product(*(codes[v] for v in variables)):
                        yield tuple(zip(chosen, variables, strict=True))

    def remove(self, docs: Iterable[int]) -> None:
        """Forget documents; those that are not there do not matter."""
        gone = {id(r): r for doc in docs if (r := self.records.pop(doc, None)) is not None}
        if not gone:
            return
        keys = {key for record in gone.values() for key in self._keys(self._postings(record))}
        for key in keys:
            if not _keep(self._together.get(key, []), gone):
                self._together.pop(key, None)
        for code in {code for record in gone.values() for code in record.codes}:
            entry = self._of.get(code)
            if isinstance(entry, Hot):
                for variable in [v for v, own in entry.lists.items() if not _keep(own, gone)]:
                    del entry.lists[variable]
                    entry.long.discard(variable)
                left = bool(entry.lists)
            elif isinstance(entry, list):
                left = bool(_keep(entry, gone))
            else:
                left = entry is None or id(entry) not in gone
            if not left:
                del self._of[code]
                self._hots.pop(code, None)
        self._meetings.clear()

    def expire(self, horizon: int) -> None:
        """Forget documents that ended before the horizon, once it is worth looking for them."""
        if len(self.records) >= self._look_at:
            self.remove([doc for doc, record in self.records.items() if record.end < horizon])
            self._look_at = 2 * len(self.records) + 1_000

    # -- candidates --------------------------------------------------------------------------

    def probe(self, new: Record) -> list[Hit]:
        """What a document and others satisfy together. A query may be told twice for a pair only
        if one of them has several values for one variable."""
        of = self._of
        cold: list[tuple[int, int, Sequence[Record]]] = []
        hot: list[int] = []
        for row, code in enumerate(new.codes):
            if code:
                entry = of.get(code)
                if entry is not None:
                    if isinstance(entry, Hot):
                        hot.append(row)
                        hot.append(code)
                    else:
                        cold.append((code, row, entry if isinstance(entry, list) else (entry,)))
        # As left block only what comes later can follow; mostly nothing does.
        both = self.signatures.both_orders
        sides = (True, False) if both or self.latest > new.end else (True,)
        hits: list[Hit] = []
        meeting = self._meeting((new.layout, tuple(hot))) if hot else None
        for right in sides:
            side = self._side(meeting, right) if meeting is not None else _NO_SIDE
            hits += side.hits
            if cold or side.shorts:
                self._compare(new, cold, side, right, hits)
        return hits

    def _compare(
        self,
        new: Record,
        cold: list[tuple[int, int, Sequence[Record]]],
        side: Side,
        right: bool,
        hits: list[Hit],
    ) -> None:
        """Compare a document with others one by one, by the values that are not hot and in short
        lists. Of what it has in common with long lists counts only what that adds."""
        signatures = self.signatures
        by_variable = signatures.right if right else signatures.left
        both = signatures.both_orders
        agreed: dict[Record, list[int]] = {}
        for code, row, olds in cold:
            links = by_variable.get(new.layout.variables[row])
            if not links:
                continue
            for old in olds:
                if not both and not (old.end < new.start if right else new.end < old.start):
                    continue
                if old is not new:
                    for variable in old.having(code):
                        link = links.get(variable)
                        if link is not None:
                            agreed.setdefault(old, []).append(link)
        for link, olds in side.shorts:
            for old in olds:
                if not both and not (old.end < new.start if right else new.end < old.start):
                    continue
                if old is not new:
                    agreed.setdefault(old, []).append(link)
        for old, found in agreed.items():
            also = _NOTHING
            if side.longs:
                values = old.codes
                also = frozenset(
                    [
                        link
                        for (code, variable), link in side.longs
                        if code in values and variable in old.having(code)
                    ]
                )
            verdict = signatures.verdict(frozenset(found), also)
            if verdict is not None:
                hits.append(Hit(verdict, right, (old,)))

    def _meeting(self, key: MeetingKey) -> Meeting:
        """What documents like this one have to do with the lists of their hot values."""
        if self._version != self.signatures.version or len(self._meetings) > _KNOWN:
            self._version = self.signatures.version
            self._meetings.clear()
        meeting = self._meetings.get(key)
        if meeting is None:
            layout, hot = key
            pairs = zip(hot[::2], hot[1::2], strict=True)
            postings = list(dict.fromkeys((code, layout.variables[row]) for row, code in pairs))
            own = [self._list(self._hots[code], variable) for code, variable in postings]
            long = [(code, v) for code, v in postings if v in self._hots[code].long]
            together = [self._together.setdefault(key, []) for key in self._keys(long)]
            meeting = self._meetings[key] = Meeting(postings, own, together, {})
            for code, _ in postings:
                self._hots[code].meetings[key] = None
        return meeting

    def _side(self, meeting: Meeting, right: bool) -> Side:
        found = meeting.sides.get(right)
        if found is None:
            by_variable = self.signatures.right if right else self.signatures.left
            long: dict[int, list[Posting]] = {}
            shorts: list[tuple[int, list[Record]]] = []
            for code, own in meeting.postings:
                links, hot = by_variable.get(own, {}), self._hots[code]
                for variable in hot.lists if len(hot.lists) < len(links) else links:
                    if variable not in hot.lists or variable not in links:
                        continue
                    if variable in hot.long:
                        long.setdefault(links[variable], []).append((code, variable))
                    else:
                        shorts.append((links[variable], hot.lists[variable]))
            hits = [
                Hit(verdict, right, self._having_all(chosen))
                for part, verdict in self.signatures.needs(frozenset(long))
                for chosen in product(*(long[link] for link in part))
            ]
            longs = [(posting, link) for link, own in long.items() for posting in own]
            found = meeting.sides[right] = Side(hits, shorts, longs)
        return found

    def _having_all(self, chosen: Iterable[Posting]) -> list[Record]:
        """The documents of several lists at once, a list that is kept up to date."""
        key = tuple(sorted(set(chosen), key=_VARIABLE))
        if len(key) == 1:
            ((code, variable),) = key
            return self._hots[code].lists[variable]
        variables = tuple([variable for _, variable in key])
        wanted = self._wanted.setdefault(variables[0], set())
        if variables not in wanted:
            wanted.add(variables)
            self._crowded |= sum(map(len, self._wanted.values())) > MOST_TOGETHER
            self._meetings.clear()
            self._list_together(variables)
        return self._together.setdefault(key, [])

    def _list_together(self, variables: tuple[int, ...]) -> None:
        """List what long lists of these variables have in common."""
        lists = [
            [entry.lists[variable] for entry in self._hots.values() if variable in entry.long]
            for variable in variables
        ]
        fewest = min(lists, key=_documents)
        for record in {id(r): r for records in fewest for r in records}.values():
            for key in self._keys(self._postings(record)):
                if tuple([variable for _, variable in key]) == variables:
                    _insert(self._together.setdefault(key, []), record)


def _documents(lists: list[list[Record]]) -> int:
    return sum(map(len, lists))


def _insert(records: list[Record], record: Record) -> None:
    """In order of the end; documents mostly arrive in it."""
    if not records or records[-1].end <= record.end:
        records.append(record)
    else:
        insort(records, record, key=_END)


def _keep(records: list[Record], gone: dict[int, Record]) -> list[Record]:
    """Take out what is gone, in place, since the list is known elsewhere."""
    records[:] = [record for record in records if id(record) not in gone]
    return records


def within(hit: Hit, new: Record, window: int, kind: str) -> Sequence[Record]:
    """The records of a hit in a window and, for FOLLOWED BY, in its order; others: any order.

    What has an interval of its own may begin too early to be in the window.
    """
    records = hit.records
    if not records:
        return records
    low, high = 0, len(records)
    if kind != "FOLLOWED BY":
        if records[0].end < new.end - window:
            low = bisect_left(records, new.end - window, key=_END)
        if records[-1].end > new.start + window:
            high = bisect_right(records, new.start + window, key=_END)
    elif hit.right:
        # Where there is no bound to look for, a long list is not even touched at its beginning.
        if window < UNBOUNDED and records[0].end < new.end - window:
            low = bisect_left(records, new.end - window, key=_END)
        if records[-1].end >= new.start:
            high = bisect_left(records, new.start, key=_END)
    else:
        if records[0].end <= new.end:
            low = bisect_right(records, new.end, key=_END)
        if records[-1].end > new.start + window:
            high = bisect_right(records, new.start + window, key=_END)
    return records[low:high] if low or high < len(records) else records
