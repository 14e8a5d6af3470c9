"""Posting lists: from a value to the live documents that have it. The view cache of the
dissertation, in memory.

Algorithm 5 keeps, for a string value, the slice of RL that holds it. Here a value's code leads to
the records of the documents that have it, in order of time; values that very many documents have
are kept in `hot` (`broker/join/frequent.py`). Posting lists are a cache of RL and can be rebuilt
from it at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.join.frequent import SIZES, HotLists, Sizes
from broker.join.frequent_lookup import Hot, HotValues, Side
from broker.join.records import Record
from broker.join.signatures import Part, Signatures, Verdict
from broker.join.time_lists import Hits, discard, insert

_NOTHING: Part = frozenset()
_NO_SIDE = Side()

Entry = Record | list[Record] | Hot
"""The documents of a value: one, several in order of their end, or very many."""


LookedUp = tuple[list[int], list[tuple[int, int, Sequence[Record]]], HotValues]
"""A document's values: the rows of new ones; code, row and documents of those that are not hot; and
the hot ones."""


class Postings:
    """The records of live documents, by the codes of their values."""

    def __init__(self, signatures: Signatures, sizes: Sizes = SIZES) -> None:
        self._hot_from = sizes.hot
        self.signatures = signatures
        self.records: dict[int, Record] = {}
        self.latest = -(2**63)
        """The highest end of any document that was ever inserted."""
        self._of: dict[int, Entry] = {}
        self._hot = HotLists(signatures, sizes)
        self._looked_up: tuple[Record, LookedUp] | None = None
        """Of the document that was probed with last, which is mostly inserted next."""
        self._look_at = 1_000

    # -- documents come and go ---------------------------------------------------------------

    def insert(self, record: Record) -> None:
        """Insert a document; cheapest in order of the documents' ends."""
        if not any(record.codes):
            self._come(record)
            return
        of, looked_up = self._of, self._looked_up
        if looked_up is None or looked_up[0] is not record:
            looked_up = (record, self._look_up(record))
        fresh, cold, hot = looked_up[1]
        self._looked_up = None
        heated: list[int] = []
        for code, _, olds in cold:
            entry = of[code]
            if isinstance(entry, list):
                if record not in entry:
                    insert(entry, record)
                    if len(entry) >= self._hot_from:
                        heated.append(code)
            elif entry is not record:
                old = olds[0]
                of[code] = [old, record] if old.end <= record.end else [record, old]
        for code in fresh:
            of[code] = record
        if hot:
            self._hot.insert(record, hot, record.end >= self.latest)
        for code in heated:
            entry = of[code]
            assert isinstance(entry, list)
            of[code] = self._hot.make_hot(code, entry)
        self._come(record)

    def _come(self, record: Record) -> None:
        if record.end > self.latest:
            self.latest = record.end
        self.records[record.doc] = record

    def remove(self, docs: Iterable[int]) -> None:
        """Remove documents; numbers that are not present are ignored."""
        self._looked_up = None
        gone = {id(r): r for doc in docs if (r := self.records.pop(doc, None)) is not None}
        if not gone:
            return
        self._hot.remove(gone)
        for code in {code for record in gone.values() for code in record.codes}:
            entry = self._of.get(code)
            if isinstance(entry, Hot):
                left = bool(entry.variables)
            elif isinstance(entry, list):
                left = bool(discard(entry, gone))
            else:
                left = entry is None or id(entry) not in gone
            if not left:
                del self._of[code]

    def expire(self, horizon: int) -> None:
        """Remove documents that ended before the horizon, if there are twice as many documents as
        after the last removal; then the scan pays off."""
        if len(self.records) >= self._look_at:
            self.remove([doc for doc, record in self.records.items() if record.end < horizon])
            self._look_at = 2 * len(self.records) + 1_000

    # -- candidates --------------------------------------------------------------------------

    def entry(self, code: int) -> Entry | None:
        """The documents of a value."""
        return self._of.get(code)

    def listed(self, variable: int, code: int) -> Sequence[Record]:
        """The documents that have a value at a variable, in order of their end; where few have the
        value, with those that have it at others."""
        entry = self._of.get(code)
        if entry is None:
            return ()
        if isinstance(entry, Record):
            return (entry,)
        return self._hot.listed(variable, code) if isinstance(entry, Hot) else entry

    def probe(self, new: Record) -> list[Hits]:
        """The hits of a document with the documents in the lists. A query occurs twice for a pair
        only if one of the two has several values for one variable."""
        looked_up = self._look_up(new)
        self._looked_up = (new, looked_up)
        _, cold, hot = looked_up
        # As left block of FOLLOWED BY it needs a later document; mostly there is none.
        both = self.signatures.both_orders or self.latest > new.end
        found = []
        for right in (True, False) if both else (True,):
            side = _NO_SIDE
            if hot:
                hits, side = self._hot.met(hot, new.codes, right)
                if hits[1]:
                    found.append(hits)
            if cold or side.shorts:
                hits = self._compare(new, cold, side, right)
                if hits[1]:
                    found.append(hits)
        return found

    def _look_up(self, record: Record) -> LookedUp:
        """The entries of a document's values."""
        of = self._of
        fresh: list[int] = []
        cold: list[tuple[int, int, Sequence[Record]]] = []
        hot: list[int] = []
        variables = record.layout.variables
        for row, code in enumerate(record.codes):
            if not code:
                continue
            entry = of.get(code)
            if entry is None:
                fresh.append(code)
            elif isinstance(entry, Hot):
                hot += (row, variables[row], entry.kind, code)
            else:
                cold.append((code, row, entry if isinstance(entry, list) else (entry,)))
        return fresh, cold, tuple(hot)

    def _compare(
        self,
        new: Record,
        cold: list[tuple[int, int, Sequence[Record]]],
        side: Side,
        right: bool,
    ) -> Hits:
        """Compare a document one by one with those that share a value that is not hot or is in a
        short list. A hot value in a long list only counts here in combination with these."""
        signatures = self.signatures
        by_variable = signatures.right if right else signatures.left
        agreed: dict[Record, list[int]] = {}
        for code, row, olds in cold:
            links = by_variable.get(new.layout.variables[row])
            if links:
                for old in self._in_order(new, olds, right):
                    for variable in old.variables_with(code):
                        link = links.get(variable)
                        if link is not None:
                            agreed.setdefault(old, []).append(link)
        codes = new.codes
        for link, lists, row in side.shorts:
            for old in self._in_order(new, lists[codes[row]], right):
                agreed.setdefault(old, []).append(link)
        verdicts: list[Verdict] = []
        met: list[tuple[Record]] = []
        for old, found in agreed.items():
            also = _NOTHING
            if side.longs:
                values = old.codes
                also = frozenset(
                    [
                        link
                        for row, variable, link in side.longs
                        if codes[row] in values and variable in old.variables_with(codes[row])
                    ]
                )
            verdict = signatures.verdict(frozenset(found), also)
            if verdict is not None:
                verdicts.append(verdict)
                met.append((old,))
        return right, verdicts, met

    def _in_order(self, new: Record, olds: Sequence[Record], right: bool) -> list[Record]:
        """The documents that can be in the other block, if the new one is the right or left one."""
        if self.signatures.both_orders:
            return [old for old in olds if old is not new]
        if right:
            return [old for old in olds if old.end < new.start]
        return [old for old in olds if new.end < old.start]
