"""Hot values: what very many documents have, such as one byline or the address of a channel.

Such a value would make every new document look at all of them. It keeps a list of its documents for
each variable that has it. What a new document satisfies with all of a long list is told by referring
to the list; what needs two long lists refers to a list of what is in both, kept from then on.
Documents of short lists are compared one by one.

Which lists matter to a document depends on where its hot values stand and on which lists those have,
not on the values themselves. So that is worked out once for very many documents (`Recipe`), and a
document only looks its own values up.

Documents and their values come in and go; out come `Recipe`s and their `Side`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from operator import itemgetter
from typing import Any

from broker.hits import Hit, keep, put
from broker.records import Record
from broker.signatures import Signatures, Verdict

MOST_TOGETHER = 64
"""Sets of variables for which lists in common are kept; with more, only longer lists are long."""

_LONGER = 8
"""How many times longer a list must be from then on to be long."""

_KNOWN = 100_000

Posting = tuple[int, int]
"""A value's code, and a variable that has it."""

Variables = tuple[int, ...]

Pattern = tuple[Any, ...]
"""A document's layout; row and `Hot.kind` of each of its hot values; and, where some of them are
equal, which."""

Lists = dict[Any, list[Record]]
"""Lists of documents by the code of a value, or by several codes."""


class Hot:
    """A value of very many documents: for which variables it has lists, and which are `long`.

    Values that agree in both are of one `kind`.
    """

    __slots__ = ("kind", "long", "variables")

    def __init__(self) -> None:
        self.kind = 0
        self.variables: set[int] = set()
        self.long: set[int] = set()


Pick = Callable[[Sequence[int]], Any]
"""Picks out of a document's codes those by which a list is found."""


@dataclass(frozen=True, slots=True)
class Side:
    """What documents have to do with the lists as right, or as left block; lists are found by their
    own values.

    `hits` are what they satisfy with all of a long list, or of several at once. `shorts` are short
    lists, whose documents have to be compared with them, with the link that they make and the row of
    their own value; `longs` the long ones, by row and variable, with the link.
    """

    hits: tuple[tuple[Verdict, Lists, Pick], ...] = ()
    shorts: tuple[tuple[int, Lists, int], ...] = ()
    longs: tuple[tuple[int, int, int], ...] = ()

    def met(self, codes: Sequence[int], right: bool) -> list[Hit]:
        """What a document with these values satisfies with all of a long list, or of several."""
        return [
            (verdict, right, records)
            for verdict, lists, pick in self.hits
            if (records := lists.get(pick(codes)))
        ]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What documents of one pattern have to do with the lists of their hot values.

    `long` are the rows and variables of their postings that are long lists, `growing` of the others,
    `belongs` the lists that a new one goes into. `sides`, as right and as left block, are worked out
    when asked for.
    """

    long: tuple[tuple[int, int], ...]
    growing: tuple[tuple[int, int], ...]
    belongs: tuple[tuple[Lists, Pick], ...]
    sides: dict[bool, Side] = field(default_factory=dict)


class HotLists:
    """The lists of all hot values, by code."""

    def __init__(self, signatures: Signatures) -> None:
        self.signatures = signatures
        self._hots: dict[int, Hot] = {}
        self._lists: dict[int, Lists] = {}
        """Lists by variable, then by code."""
        self._together: dict[Variables, Lists] = {}
        """What several lists have in common: by their variables in order, then by their codes."""
        self._containing: dict[int, list[Variables]] = {}
        """For which sets of variables there are such lists, by the first variable."""
        self._recipes: dict[Pattern, Recipe] = {}
        self._kinds: dict[tuple[frozenset[int], frozenset[int]], int] = {}
        self._next_kind = count(1)
        self._version = -1
        self._long_at = 1
        self._crowded = False

    # -- documents come and go ---------------------------------------------------------------

    def heat(self, code: int, records: list[Record]) -> Hot:
        """A value has become hot."""
        entry = self._hots[code] = Hot()
        for record in records:
            for variable in record.having(code):
                entry.variables.add(variable)
                put(self._list(code, variable), record)
        for variable in entry.variables:
            if len(self._lists[variable][code]) >= self._long_at:
                self._lengthen(code, variable)
        self._classify(entry)
        return entry

    def insert(self, record: Record, pattern: Pattern) -> None:
        """A document with hot values in this pattern."""
        codes, end = record.codes, record.end
        recipe = self.recipe(pattern, codes)
        # First, since a list that becomes long puts the document into what it has in common.
        for lists, pick in recipe.belongs:
            key = pick(codes)
            records = lists.get(key)
            if records is None:
                lists[key] = [record]
            elif records[-1].end <= end:
                records.append(record)
            else:
                put(records, record)
        for row, variable in recipe.growing:
            self._grow(codes[row], variable, record)
        if self._crowded:
            self._shorten()

    def remove(self, gone: dict[int, Record]) -> None:
        """Forget documents, given by their id in memory."""
        keys = {key for r in gone.values() for key in self._keys(self._postings(r), r.codes)}
        for variables, rows in keys:
            lists = self._together[variables]
            if rows in lists and not keep(lists[rows], gone):
                del lists[rows]
        for code in {code for record in gone.values() for code in record.codes}:
            entry = self._hots.get(code)
            if entry is None:
                continue
            for variable in tuple(entry.variables):
                if not keep(self._lists[variable][code], gone):
                    del self._lists[variable][code]
                    entry.variables.discard(variable)
                    entry.long.discard(variable)
            self._classify(entry)
            if not entry.variables:
                del self._hots[code]

    def _list(self, code: int, variable: int) -> list[Record]:
        return self._lists.setdefault(variable, {}).setdefault(code, [])

    def _grow(self, code: int, variable: int, record: Record) -> None:
        """A document for a list that is not long, or not there yet."""
        entry, records = self._hots[code], self._list(code, variable)
        put(records, record)
        if variable not in entry.variables:
            entry.variables.add(variable)
            self._classify(entry)
        if len(records) >= self._long_at:
            self._lengthen(code, variable)
            self._classify(entry)

    def _classify(self, entry: Hot) -> None:
        """The lists of a value have changed. Numbers are never used again, so what was worked out
        for a kind always holds."""
        if len(self._kinds) > _KNOWN:
            self._kinds.clear()
        kind = (frozenset(entry.variables), frozenset(entry.long))
        entry.kind = self._kinds.get(kind) or self._kinds.setdefault(kind, next(self._next_kind))

    def _lengthen(self, code: int, variable: int) -> None:
        """A list has become long."""
        self._hots[code].long.add(variable)
        for record in self._lists[variable][code]:
            for variables, codes in self._keys(self._postings(record), record.codes):
                if (code, variable) in zip(codes, variables, strict=True):
                    put(self._together[variables].setdefault(codes, []), record)

    def _shorten(self) -> None:
        """Let only longer lists be long. Lists in common pay off where they spare walking through
        very long ones; where very many are asked for, keeping them would cost more than it spares."""
        self._crowded = False
        self._long_at *= _LONGER
        for code, entry in self._hots.items():
            entry.long = {v for v in entry.variables if len(self._lists[v][code]) >= self._long_at}
            self._classify(entry)
        self._together.clear()
        self._containing.clear()
        self._recipes.clear()

    def _postings(self, record: Record) -> list[tuple[int, int]]:
        """The long lists that a record is in: a row with the value, and the variable."""
        found: dict[Posting, int] = {}
        for row, code in enumerate(record.codes):
            entry = self._hots.get(code)
            if entry is not None and record.layout.variables[row] in entry.long:
                found.setdefault((code, record.layout.variables[row]), row)
        return [(row, variable) for (_, variable), row in found.items()]

    def _rows(self, long: Iterable[tuple[int, int]]) -> Iterator[tuple[Variables, tuple[int, ...]]]:
        """The lists in common that a document in these long lists belongs to, with its rows."""
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
        """The same with the values."""
        for variables, rows in self._rows(long):
            yield variables, tuple([codes[row] for row in rows])

    # -- what a document has to do with them -------------------------------------------------

    def recipe(self, pattern: Pattern, codes: Sequence[int]) -> Recipe:
        """What documents with hot values in this pattern have to do with the lists."""
        if self._version != self.signatures.version or len(self._recipes) > _KNOWN:
            self._version = self.signatures.version
            self._recipes.clear()
        found = self._recipes.get(pattern)
        if found is None:
            variables = pattern[0].variables
            rows: dict[Posting, int] = {}
            for row, code in enumerate(codes):
                if code in self._hots:
                    rows.setdefault((code, variables[row]), row)
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

    def side(self, recipe: Recipe, codes: Sequence[int], right: bool) -> Side:
        """What documents meet as right or as left block."""
        found = recipe.sides.get(right)
        if found is None:
            found = recipe.sides[right] = self._side(recipe, codes, right)
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
            (verdict, *self._having_all(chosen, codes))
            for part, verdict in self.signatures.needs(frozenset(long))
            for chosen in product(*(long[link] for link in part))
        ]
        longs = [(row, variable, link) for link, own in long.items() for row, variable in own]
        return Side(tuple(hits), tuple(shorts), tuple(longs))

    def _having_all(
        self, chosen: Sequence[tuple[int, int]], codes: Sequence[int]
    ) -> tuple[Lists, Pick]:
        """Where the documents of a list are, or of several at once, which are kept up to date."""
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
        """List what long lists of these variables have in common, from now on."""
        self._together[variables] = {}
        self._containing.setdefault(variables[0], []).append(variables)
        self._crowded |= len(self._together) > MOST_TOGETHER
        self._recipes.clear()
        lists = [
            [own for code, own in self._lists[v].items() if v in self._hots[code].long]
            for v in variables
        ]
        fewest = min(lists, key=_documents)
        for record in {id(r): r for records in fewest for r in records}.values():
            for having, codes in self._keys(self._postings(record), record.codes):
                if having == variables:
                    put(self._together[variables].setdefault(codes, []), record)


def _documents(lists: list[list[Record]]) -> int:
    return sum(map(len, lists))
