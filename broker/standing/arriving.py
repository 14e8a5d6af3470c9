"""The candidates of taps become rows, and come to the patterns of their tap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.join.candidates import Candidate, Found
from broker.join.one_block import Tapping
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.events import ALL
from broker.query.catalog import Catalog
from broker.results.contents import Contents
from broker.standing.in_columns import InColumns
from broker.standing.memory import Memory
from broker.standing.tap_index import Tap
from broker.standing.ways import Ways
from broker.state.pattern_tables import TapRow
from broker.state.stored_documents import StoredDocument
from xscl.interruption import PENDING, check


class Arriving:
    """Reads candidates once for each tap, however many patterns have it."""

    def __init__(self, memory: Memory, catalog: Catalog, contents: Contents) -> None:
        self._memory = memory
        self._catalog = catalog
        self._contents = contents
        self._ways = Ways(memory, contents)
        self._in_columns = InColumns(memory, contents)

    def tapping(self) -> Tapping:
        """What takes documents of taps, for `take`."""
        if self._memory.owns is not None or not self._catalog.taps:
            return Tapping()
        columns = self._memory.members.columns
        columns.renew()
        return Tapping(columns.starts, columns.first_doc)

    def take(
        self,
        found: list[Found],
        documents: Sequence[StoredDocument],
        seen: Mapping[int, int],
        tapping: Tapping | None = None,
    ) -> list[Found]:
        """Take the candidates of taps, and the documents that were given to `tapping`; the other
        candidates are left. `seen` is the highest time when a document came, of those that came
        in."""
        taps = self._catalog.taps
        if not taps:
            return found
        if tapping is not None and tapping.rows is not None:
            columns = self._memory.members.columns
            found = self._in_columns.take(tapping.rows, columns, seen) + found
        if tapping is not None and tapping.each:
            found = self._ways.take(tapping.each, documents, seen) + found
        left: list[Found] = []
        own: dict[str, dict[int, list[Candidate]]] = {}
        for canonical, candidate in found:
            names = taps.get(canonical.number)
            if names is None:
                left.append((canonical, candidate))
                continue
            for name in names:
                docs = own.get(name)
                if docs is None:
                    docs = own[name] = {}
                docs.setdefault(candidate.docs[0], []).append(candidate)
            if len(names) < len(canonical.subscribers):
                left.append((canonical, candidate))
        if own:
            self._enter(own, documents, seen)
        return left

    def _enter(
        self,
        found: Mapping[str, Mapping[int, list[Candidate]]],
        documents: Sequence[StoredDocument],
        seen: Mapping[int, int],
    ) -> None:
        memory, taps = self._memory, self._memory.members.taps
        matched = self._contents.of({doc for docs in found.values() for doc in docs}, documents)
        for name in sorted(found):
            tap = taps.get(name)
            if tap is None:
                continue
            rows: list[TapRow] = []
            for doc, candidates in sorted(found[name].items()):
                if PENDING:
                    check()
                rows += tap.reader.rows(name, candidates, matched[doc])
            memory.rows += rows
            tap.stored = True
            if tap.shares:
                memory.share_rows(tap.shares, rows, seen)
            if tap.groups or tap.alone:
                for row in rows:
                    self._come(tap, row, seen.get(row.doc))

    def _come(self, tap: Tap, row: TapRow, seen: int | None) -> None:
        """A row of a document has come, when the highest time was `seen`, for what is no part of
        a group, and for what concerns all of one; see `Memory.offer`."""
        memory = self._memory
        late = seen if row.base == row.doc else None
        for every, block in tap.groups.values():
            if every.takes(row.end, late):
                memory.share(every, block, row, Channel([ALL]))
        for pattern in tap.alone:
            if memory.offer(pattern, row, seen, pattern.pending):
                memory.touched[pattern.number] = pattern
