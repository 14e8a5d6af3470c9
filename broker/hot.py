"""Hot values: what very many documents have, such as one byline or the address of a channel.

Such a value would make every new document look at all of them. It keeps a list of its documents for
each variable that has it. What a new document satisfies with all of a long list is worked out once,
not per document, and the answer refers to the list. What needs two long lists refers to a list of
what is in both, kept from then on. Documents of short lists are compared one by one.

Documents and their values come in and go; out come `Side`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter

from broker.hits import Hit, keep, put
from broker.records import Layout, Record
from broker.signatures import Signatures

MOST_TOGETHER = 64
"""Sets of variables for which lists in common are kept; with more, only longer lists are long."""

_KNOWN = 100_000
_VARIABLE = itemgetter(1)

Posting = tuple[int, int]
"""A value's code, and a variable that has it."""


class Hot:
    """A value of very many documents: lists of them by variable, and which of these are `long`.

    `meetings` are what has been worked out for documents with the value.
    """

    __slots__ = ("lists", "long", "meetings")

    def __init__(self) -> None:
        self.lists: dict[int, list[Record]] = {}
        self.long: set[int] = set()
        self.meetings: dict[MeetingKey, None] = {}


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


class HotLists:
    """The lists of all hot values, by code."""

    def __init__(self, signatures: Signatures) -> None:
        self.signatures = signatures
        self._hots: dict[int, Hot] = {}
        self._together: dict[tuple[Posting, ...], list[Record]] = {}
        """What several lists have in common, in order of the variables."""
        self._wanted: dict[int, set[tuple[int, ...]]] = {}
        """For which sets of variables there are such lists, by the first variable."""
        self._meetings: dict[MeetingKey, Meeting] = {}
        self._version = -1
        self._long_at = 1
        self._crowded = False

    # -- documents come and go ---------------------------------------------------------------

    def heat(self, code: int, records: list[Record]) -> Hot:
        """A value has become hot."""
        entry = self._hots[code] = Hot()
        for record in records:
            for variable in record.having(code):
                self._list(entry, variable).append(record)
        for variable, own in entry.lists.items():
            if len(own) >= self._long_at:
                self._lengthen((code, variable), own)
        return entry

    def insert(self, record: Record, hot: tuple[int, ...]) -> None:
        """A document with these hot values, as in `MeetingKey`."""
        meeting = self._meeting((record.layout, hot))
        # Taken first: a list that becomes long puts the document into what it has in common.
        together = list(meeting.together)
        for posting, records in zip(meeting.postings, meeting.own, strict=True):
            put(records, record)
            if len(records) == self._long_at and posting[1] not in self._hots[posting[0]].long:
                self._lengthen(posting, records)
        for records in together:
            put(records, record)
        if self._crowded:
            self._shorten()

    def remove(self, gone: dict[int, Record]) -> None:
        """Forget documents, given by their id in memory."""
        keys = {key for record in gone.values() for key in self._keys(self._postings(record))}
        for key in keys:
            if not keep(self._together.get(key, []), gone):
                self._together.pop(key, None)
        for code in {code for record in gone.values() for code in record.codes}:
            entry = self._hots.get(code)
            if entry is None:
                continue
            for variable in [v for v, own in entry.lists.items() if not keep(own, gone)]:
                del entry.lists[variable]
                entry.long.discard(variable)
            if not entry.lists:
                del self._hots[code]
        self._meetings.clear()

    def _lengthen(self, posting: Posting, records: list[Record]) -> None:
        """A list has become long."""
        code, variable = posting
        self._hots[code].long.add(variable)
        self._invalidate(self._hots[code])
        for record in records:
            for key in self._keys(self._postings(record)):
                if posting in key:
                    put(self._together.setdefault(key, []), record)

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

    # -- what a document has to do with them -------------------------------------------------

    def side(self, layout: Layout, hot: tuple[int, ...], right: bool) -> Side:
        """What a document with these hot values meets as right or as left block."""
        meeting = self._meeting((layout, hot))
        found = meeting.sides.get(right)
        if found is None:
            by_variable = self.signatures.right if right else self.signatures.left
            long: dict[int, list[Posting]] = {}
            shorts: list[tuple[int, list[Record]]] = []
            for code, own in meeting.postings:
                links, entry = by_variable.get(own, {}), self._hots[code]
                for variable in entry.lists if len(entry.lists) < len(links) else links:
                    if variable not in entry.lists or variable not in links:
                        continue
                    if variable in entry.long:
                        long.setdefault(links[variable], []).append((code, variable))
                    else:
                        shorts.append((links[variable], entry.lists[variable]))
            hits = [
                Hit(verdict, right, self._having_all(chosen))
                for part, verdict in self.signatures.needs(frozenset(long))
                for chosen in product(*(long[link] for link in part))
            ]
            longs = [(posting, link) for link, own in long.items() for posting in own]
            found = meeting.sides[right] = Side(hits, shorts, longs)
        return found

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
                    put(self._together.setdefault(key, []), record)


def _documents(lists: list[list[Record]]) -> int:
    return sum(map(len, lists))
