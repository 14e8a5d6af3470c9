"""Documents of very many different taps, handed over in columns.

It is what `ways.py` does for one document at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from broker.join.candidates import Found
from broker.join.one_block import TapRows
from broker.pattern.in_order.held import FOR_EVER
from broker.pattern.in_order.takers import Numbers
from broker.pattern.instances import Row
from broker.results.contents import Contents
from broker.standing.live import Group
from broker.standing.memory import Memory
from broker.standing.tap_columns import TapColumns
from broker.standing.taps import Places, nodes_of, values_of
from broker.state.pattern_tables import Texts
from broker.state.stored_documents import StoredDocument
from xscl.interruption import PENDING, check

_Read = tuple[StoredDocument, Places, Texts]
"""What is read of a document by some of its taps."""


class InColumns:
    """Hands over the rows of a batch."""

    def __init__(self, memory: Memory, contents: Contents) -> None:
        self._memory = memory
        self._contents = contents

    def take(self, rows: TapRows, columns: TapColumns, seen: Mapping[int, int]) -> list[Found]:
        """Hand over documents; the candidates of those are left of which not all texts are known.
        `seen` is the highest time when a document came, of those that came in."""
        reads, which, left = self._read(rows, columns, seen)
        if not reads:
            return left
        queries, which = rows.queries[which >= 0], which[which >= 0]
        at, kinds, numbers = columns.expanded(queries)
        which = which[at]
        # Of what is read there is one row for all that have written the same.
        size = len(columns.written)
        made: dict[int, Row] = {}
        keys = which * size + np.array([place for _, place in columns.kinds])[kinds]
        for key in {*keys.tolist()}:
            (of, places, texts), named = reads[key // size], columns.written[key % size]
            made[key] = Row(
                *(of.doc, of.key, of.base, of.start, of.end, of.id, places.node),
                nodes_of(named.names, places.nodes),
                values_of(named.paths, texts),
            )
        groups: dict[int, list[int]] = {}
        for kind in sorted({*kinds.tolist()}):
            groups.setdefault(columns.kinds[kind][0].number, []).append(kind)
        for own in groups.values():
            group = columns.kinds[own[0]][0]
            chosen = np.flatnonzero(kinds == own[0] if len(own) == 1 else np.isin(kinds, own))
            taken = [made[key] for key in keys[chosen].tolist()]
            self._hand_over(group, numbers[chosen], taken)
        return left

    def _read(
        self, rows: TapRows, columns: TapColumns, seen: Mapping[int, int]
    ) -> tuple[list[_Read], Numbers, list[Found]]:
        """Store what is read of documents. Returns that, by row which of it that is, -1 for none,
        and the candidates of those that are old, or of which a text is not known."""
        part, of_query, stored = self._contents.part, columns.taps.of_query, self._memory.rows
        reads: list[_Read] = []
        which: list[int] = []
        left: list[Found] = []
        queries = rows.queries.tolist()
        low = 0
        for doc, high in zip(rows.docs, rows.ends, strict=True):
            if PENDING:
                check()
            mark, first = len(stored), len(reads)
            before: Places | None = None
            there = part(doc)
            try:
                if there is None or there[0].end < seen.get(doc, -FOR_EVER):
                    raise KeyError
                of, known = there
                for query, own in zip(queries[low:high], rows.nodes[low:high], strict=True):
                    (tap,) = of_query(query)
                    places = tap.reader.places(own)
                    if places is not before:
                        before, (node, nodes, read, _) = places, places
                        texts = tuple([(known[each],) for each in read])
                        reads.append((of, places, texts))
                    stored.append(
                        (
                            *(tap.name, doc, of.base, of.key, of.start, of.end, of.id),
                            *(node, nodes, texts),
                        )
                    )
                    tap.stored = True
                    which.append(len(reads) - 1)
            except KeyError:
                del stored[mark:], reads[first:], which[low:]
                which += [-1] * (high - low)
                left += rows.found(doc, low, high)
            low = high
        return reads, np.array(which, np.int64), left

    def _hand_over(self, group: Group, numbers: Numbers, rows: list[Row]) -> None:
        """Hand over rows to a group, for channels of these numbers."""
        memory, together = self._memory, group.standing
        if group.asleep:
            for channel in together.waking(numbers):
                memory.rouse(group, channel.owners)
        group.came_all(numbers, rows)
        memory.touched[group.number] = group
        together.offer_all(numbers, rows)
