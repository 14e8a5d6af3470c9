"""Heavy hitters ("hot" values): values that very many documents share, such as a byline or the
address of a channel.

Comparing a new document with all documents that share such a value would take too long. So a hot
value has a list of its documents for each variable that has it. A verdict that holds for all
documents of a long list refers to the list as a whole; one that needs two long lists refers to
their intersection, which is kept up to date from then on. Documents of short lists are compared one
by one.

Which lists matter to a document depends on the rows in which its hot values are and on the lists
that these values have, not on the values themselves. So this is computed once for very many
documents (`Recipe`). The lists themselves are looked up once for all documents with the same hot
values (`Meeting`).

In: documents with their values, inserted and removed. Out: hits, and `Side`s, which say which
documents are to be compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, product
from operator import itemgetter
from typing import Any, NamedTuple

from broker.join.frequent_lookup import (
    Hot,
    HotValues,
    Lists,
    Meeting,
    Met,
    Pattern,
    Pick,
    Posting,
    Recipe,
    Side,
    Variables,
)
from broker.join.records import Record
from broker.join.signatures import Signatures, Verdict
from broker.join.time_lists import discard, insert

_KNOWN = 100_000
"""Recipes, and kinds of values, that are cached; beyond it the cache is cleared."""

_MEETINGS = 50_000
"""Meetings that are cached, each with lists of its own; beyond it the cache is cleared."""


class Sizes(NamedTuple):
    """A value is hot from so many documents on (`hot`). Intersections are kept for so many sets of
    variables (`together`); with more, the length from which on a list is long is raised by a factor
    (`longer`)."""

    hot: int = 8
    together: int = 64
    longer: int = 8


SIZES = Sizes()


class HotLists:
    """The lists of all hot values, by code."""

    def __init__(self, signatures: Signatures, sizes: Sizes = SIZES) -> None:
        self._sizes = sizes
        self.signatures = signatures
        self._hots: dict[int, Hot] = {}
        self._lists: dict[int, Lists] = {}
        """Lists by variable, then by code."""
        self._together: dict[Variables, Lists] = {}
        """Intersections of lists, by their variables in order, then by their codes."""
        self._containing: dict[int, list[Variables]] = {}
        """The sets of variables for which there are intersections, by their first variable."""
        self._asked: tuple[HotValues, Meeting | None] = ((), None)
        self._recipes: dict[Pattern, Recipe] = {}
        self._meetings: dict[HotValues, Meeting] = {}
        self._missed: dict[tuple[int, Any], list[Meeting]] = {}
        """Meetings that would use an intersection that does not exist yet, by the id of its `Lists`
        and its codes."""
        self._kinds: dict[tuple[frozenset[int], frozenset[int]], int] = {}
        self._next_kind = count(1)
        self._version = -1
        self._long_at = 1
        self._crowded = False

    # -- documents come and go ---------------------------------------------------------------

    def make_hot(self, code: int, records: list[Record]) -> Hot:
        """Make lists for a value that has become hot, with the records that have it."""
        entry = self._hots[code] = Hot()
        for record in records:
            for variable in record.variables_with(code):
                entry.variables.add(variable)
                insert(self._list(code, variable), record)
        for variable in entry.variables:
            if len(self._lists[variable][code]) >= self._long_at:
                self._lengthen(code, variable)
        self._classify(entry)
        return entry

    def insert(self, record: Record, values: HotValues, latest: bool) -> None:
        """Insert a document with these hot values; `latest` says that no document that was ever
        inserted ended later."""
        meeting = self._meeting(values, record.codes)
        # Before the lists grow: a list that becomes long adds its documents, this one too, to the
        # intersections.
        belongs = meeting.belongs
        if belongs is None:
            belongs = meeting.belongs = self._belongs(meeting.recipe, record.codes)
        if latest:
            for records in belongs:
                records.append(record)
        else:
            for records in belongs:
                insert(records, record)
        for row, variable in meeting.recipe.growing:
            self._grow(record.codes[row], variable, record)
        if self._crowded:
            self._shorten()

    def _belongs(self, recipe: Recipe, codes: Sequence[int]) -> list[list[Record]]:
        """The lists that a document is inserted into; missing ones are made."""
        found = []
        for lists, pick in recipe.belongs:
            key = pick(codes)
            records = lists.get(key)
            if records is None:
                records = lists[key] = []
                for meeting in self._missed.pop((id(lists), key), ()):
                    meeting.met.clear()
            found.append(records)
        return found

    def remove(self, gone: dict[int, Record]) -> None:
        """Remove documents, given by their `id()`."""
        keys = {key for r in gone.values() for key in self._keys(self._postings(r), r.codes)}
        for variables, rows in keys:
            lists = self._together[variables]
            if rows in lists and not discard(lists[rows], gone):
                del lists[rows]
                self._part()
        for code in {code for record in gone.values() for code in record.codes}:
            entry = self._hots.get(code)
            if entry is None:
                continue
            for variable in tuple(entry.variables):
                if not discard(self._lists[variable][code], gone):
                    del self._lists[variable][code]
                    self._part()
                    entry.variables.discard(variable)
                    entry.long.discard(variable)
            self._classify(entry)
            if not entry.variables:
                del self._hots[code]

    def listed(self, variable: int, code: int) -> Sequence[Record]:
        """The documents that have a hot value at a variable, in order of their end."""
        lists = self._lists.get(variable)
        return () if lists is None else lists.get(code, ())

    def _list(self, code: int, variable: int) -> list[Record]:
        return self._lists.setdefault(variable, {}).setdefault(code, [])

    def _grow(self, code: int, variable: int, record: Record) -> None:
        """Insert a document into a list that is short or missing."""
        entry, records = self._hots[code], self._list(code, variable)
        insert(records, record)
        if variable not in entry.variables:
            entry.variables.add(variable)
            self._classify(entry)
        if len(records) >= self._long_at:
            self._lengthen(code, variable)
            self._classify(entry)

    def _classify(self, entry: Hot) -> None:
        """Set a value's kind after its lists have changed. Numbers of kinds are never used again,
        so recipes that were computed for a kind stay valid."""
        if len(self._kinds) > _KNOWN:
            self._kinds.clear()
        kind = (frozenset(entry.variables), frozenset(entry.long))
        entry.kind = self._kinds.get(kind) or self._kinds.setdefault(kind, next(self._next_kind))

    def _lengthen(self, code: int, variable: int) -> None:
        """Make a list long: add its documents to the intersections with other long lists."""
        self._hots[code].long.add(variable)
        for record in self._lists[variable][code]:
            for variables, codes in self._keys(self._postings(record), record.codes):
                if (code, variable) in zip(codes, variables, strict=True):
                    insert(self._together[variables].setdefault(codes, []), record)

    def _shorten(self) -> None:
        """Raise the length from which on a list is long. Intersections pay off for very long lists;
        if very many are used, maintaining them would cost more than it saves."""
        self._crowded = False
        self._long_at *= self._sizes.longer
        for code, entry in self._hots.items():
            entry.long = {v for v in entry.variables if len(self._lists[v][code]) >= self._long_at}
            self._classify(entry)
        self._together.clear()
        self._containing.clear()
        self._forget()

    def _postings(self, record: Record) -> list[tuple[int, int]]:
        """The long lists that a record is in: a row with the value, and the variable."""
        found: dict[Posting, int] = {}
        for row, code in enumerate(record.codes):
            entry = self._hots.get(code)
            if entry is not None and record.layout.variables[row] in entry.long:
                found.setdefault((code, record.layout.variables[row]), row)
        return [(row, variable) for (_, variable), row in found.items()]

    def _rows(self, long: Iterable[tuple[int, int]]) -> Iterator[tuple[Variables, tuple[int, ...]]]:
        """The intersections that a document in these long lists belongs to: variables and rows."""
        if not self._containing:
            return
        rows: dict[int, list[int]] = {}
        for row, variable in long:
            rows.setdefault(variable, []).append(row)
        for first in rows:
            for variables in self._containing.get(first, ()):
                if rows.keys() >= set(variables):
                    for chosen in product(*(rows[v] for v in variables)):
                        yield variables, chosen

    def _keys(
        self, long: list[tuple[int, int]], codes: Sequence[int]
    ) -> Iterator[tuple[Variables, tuple[int, ...]]]:
        """The intersections that a document in these long lists belongs to: variables and
        codes."""
        for variables, rows in self._rows(long):
            yield variables, tuple([codes[row] for row in rows])

    # -- what a document has to do with them -------------------------------------------------

    def met(self, values: HotValues, codes: Sequence[int], right: bool) -> Met:
        """The hits of a document with these hot values, as right or left block, and the `Side` that
        says what to compare it with."""
        meeting = self._meeting(values, codes)
        found = meeting.met.get(right)
        if found is None:
            side = meeting.recipe.sides.get(right)
            if side is None:
                side = meeting.recipe.sides[right] = self._side(meeting.recipe, codes, right)
            verdicts: list[Verdict] = []
            met: list[list[Record]] = []
            missed = []
            for verdict, (lists, pick) in zip(side.verdicts, side.places, strict=True):
                key = pick(codes)
                records = lists.get(key)
                if records is not None:
                    verdicts.append(verdict)
                    met.append(records)
                else:
                    missed.append((id(lists), key))
            found = ((right, verdicts if missed else side.verdicts, met), side)
            # Cached only after an insertion: before it the document's own lists may be missing.
            if meeting.belongs is not None:
                meeting.met[right] = found
                for each in missed:
                    self._missed.setdefault(each, []).append(meeting)
        return found

    def _meeting(self, values: HotValues, codes: Sequence[int]) -> Meeting:
        if self._version != self.signatures.version:
            self._version = self.signatures.version
            self._forget()
        # Mostly a document is inserted right after `met` was called for it.
        found: Meeting | None = self._asked[1]
        if values is self._asked[0] and found is not None:
            return found
        found = self._meetings.get(values)
        if found is None:
            if len(self._meetings) >= _MEETINGS:
                self._part()
            found = self._meetings[values] = Meeting(self._recipe(values))
        self._asked = (values, found)
        return found

    def _forget(self) -> None:
        """Clear recipes and meetings, because other lists are kept now or verdicts have changed."""
        self._recipes.clear()
        self._part()

    def _part(self) -> None:
        """Clear the meetings, because lists that they refer to were deleted."""
        self._meetings.clear()
        self._missed.clear()
        self._asked = ((), None)

    def _recipe(self, values: HotValues) -> Recipe:
        """The recipe of the pattern of these hot values."""
        rows_of, variables, hot = values[::4], values[1::4], values[3::4]
        pattern: Pattern = (*rows_of, *variables, *values[2::4])
        if len(set(hot)) < len(hot):
            pattern += (tuple(map(hot.index, hot)),)
        found = self._recipes.get(pattern)
        if found is None:
            if len(self._recipes) >= _KNOWN:
                self._recipes.clear()
            rows: dict[Posting, int] = {}
            for row, variable, code in zip(rows_of, variables, hot, strict=True):
                rows.setdefault((code, variable), row)
            long: list[tuple[int, int]] = []
            growing: list[tuple[int, int]] = []
            for (code, variable), row in rows.items():
                lasting = variable in self._hots[code].long
                (long if lasting else growing).append((row, variable))
            single = [(self._lists[variable], itemgetter(row)) for row, variable in long]
            common = [(self._together[v], itemgetter(*chosen)) for v, chosen in self._rows(long)]
            found = Recipe(tuple(long), tuple(growing), (*single, *common))
            self._recipes[pattern] = found
        return found

    def _side(self, recipe: Recipe, codes: Sequence[int], right: bool) -> Side:
        by_variable = self.signatures.right if right else self.signatures.left
        long: dict[int, list[tuple[int, int]]] = {}
        shorts: list[tuple[int, Lists, int]] = []
        for row, own in (*recipe.long, *recipe.growing):
            links, entry = by_variable.get(own, {}), self._hots[codes[row]]
            for variable in entry.variables if len(entry.variables) < len(links) else links:
                if variable not in entry.variables or variable not in links:
                    continue
                if variable in entry.long:
                    long.setdefault(links[variable], []).append((row, variable))
                else:
                    shorts.append((links[variable], self._lists[variable], row))
        hits = [
            (verdict, self._having_all(chosen, codes))
            for part, verdict in self.signatures.needs(frozenset(long))
            for chosen in product(*(long[link] for link in part))
        ]
        longs = [(row, variable, link) for link, own in long.items() for row, variable in own]
        verdicts, places = zip(*hits, strict=True) if hits else ((), ())
        return Side(verdicts, places, tuple(shorts), tuple(longs))

    def _having_all(
        self, chosen: Sequence[tuple[int, int]], codes: Sequence[int]
    ) -> tuple[Lists, Pick]:
        """The `Lists` that hold a long list, or the intersection of several, and the `Pick` of its
        key; the intersection is kept up to date from now on."""
        if len(chosen) == 1:
            ((row, variable),) = chosen
            return self._lists[variable], itemgetter(row)
        rows = {(variable, codes[row]): row for row, variable in chosen}
        key = sorted(rows)
        variables = tuple([variable for variable, _ in key])
        pick = itemgetter(*[rows[posting] for posting in key])
        if len(key) == 1:
            return self._lists[variables[0]], pick
        if variables not in self._together:
            self._list_together(variables)
        return self._together[variables], pick

    def _list_together(self, variables: Variables) -> None:
        """Keep the intersections of long lists of these variables from now on."""
        self._together[variables] = {}
        self._containing.setdefault(variables[0], []).append(variables)
        self._crowded |= len(self._together) > self._sizes.together
        self._forget()
        lists = [
            [own for code, own in self._lists[v].items() if v in self._hots[code].long]
            for v in variables
        ]
        fewest = min(lists, key=_documents)
        for record in {id(r): r for records in fewest for r in records}.values():
            for having, codes in self._keys(self._postings(record), record.codes):
                if having == variables:
                    insert(self._together[variables].setdefault(codes, []), record)


def _documents(lists: list[list[Record]]) -> int:
    return sum(map(len, lists))
