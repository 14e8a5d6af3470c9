"""The in-memory form of a document in stage 2: its interval, its witnessed nodes, its values.

In: witness rows of the match relations. Out: `Record`s, one per document. Documents of one
kind (the items of a feed) have the same rows up to their values, so those are kept once, as a
`Layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FOUR = Struct("=4q")
"""A row in the key of a layout: var1, var2, node1, node2."""
_ROW = _FOUR.size

_KNOWN_LAYOUTS = 100_000

_FEW_ROWS = 8
"""Rows of a layout that are looked through faster than their nodes are sorted."""


class Layout:
    """The rows of a document's witness without their values.

    `variables` are var2 by row. A layout is *regular* if each variable that is the parent (var1) of
    others stands for one node. Then the nodes of a tree pattern are independent of each other, and
    value joins that hold one by one hold together. It is *distinct* if no variable has two rows.
    `no_codes` are those of a document without a value that joins.
    `again` is whether it was met before, and is kept for the documents that come: others are not
    worth to be remembered.
    """

    __slots__ = (
        *("_nodes", "_rows", "_single", "again", "distinct", "no_codes", "regular", "variables"),
    )

    def __init__(self, rows: Iterable[tuple[int, int, int, int]], again: bool = False) -> None:
        self.again = again
        self._single: dict[int, int] | None = None
        self._rows: Final = tuple(rows)
        self._nodes: dict[int, tuple[tuple[int, tuple[int, ...]], ...]] | None = None
        self.variables: Final = tuple([row[1] for row in self._rows])
        self.no_codes: Final = (0,) * len(self._rows)
        self.distinct: Final = len(set(self.variables)) == len(self.variables)
        tops: dict[int, int] = {}
        regular = True
        for var1, _, node1, _ in self._rows:
            if var1 and tops.setdefault(var1, node1) != node1:
                regular = False
        if tops and regular:
            for _, var2, _, node2 in self._rows:
                if tops.get(var2, node2) != node2:
                    regular = False
        self.regular: Final = regular

    @property
    def nodes(self) -> dict[int, tuple[tuple[int, tuple[int, ...]], ...]]:
        """By variable its nodes, each with the rows that may carry its value. Computed when needed:
        where queries have different constants nearly each document has a layout of its own."""
        if self._nodes is None:
            found: dict[int, dict[int, list[int]]] = {}
            tops: dict[int, dict[int, list[int]]] = {}
            for row, (var1, var2, node1, node2) in enumerate(self._rows):
                found.setdefault(var2, {}).setdefault(node2, []).append(row)
                if var1:
                    tops.setdefault(var1, {})[node1] = []
            self._nodes = {
                variable: tuple([(node, tuple(own)) for node, own in nodes.items()])
                for variable, nodes in (tops | found).items()
            }
        return self._nodes

    @property
    def is_single(self) -> bool:
        """Whether each variable has one node."""
        return self.regular and self.distinct

    @property
    def single(self) -> dict[int, int] | None:
        """By variable its node, where each has one; None otherwise."""
        if self._single is None and self.is_single:
            found = {var1: node1 for var1, _, node1, _ in self._rows if var1}
            for _, var2, _, node2 in self._rows:
                found[var2] = node2
            self._single = found
        return self._single

    def only(self, variable: int) -> int | None:
        """The node of a variable; None if it has none or several."""
        if self._nodes is None and self.distinct and self.regular and len(self._rows) <= _FEW_ROWS:
            for _, var2, _, node2 in self._rows:
                if var2 == variable:
                    return node2
            for var1, _, node1, _ in self._rows:
                if var1 == variable:
                    return node1
            return None
        found = self.nodes.get(variable, ())
        return found[0][0] if len(found) == 1 else None


class Record:
    """A live document. `codes` are the values by row, 0 where a row has none that joins."""

    __slots__ = ("base", "codes", "doc", "end", "layout", "start")

    def __init__(
        self, doc: int, base: int, start: int, end: int, layout: Layout, codes: tuple[int, ...]
    ) -> None:
        self.doc = doc
        self.base = base
        self.start = start
        self.end = end
        self.layout = layout
        self.codes = codes

    def variables_with(self, code: int) -> tuple[int, ...]:
        """The variables with a value."""
        codes, layout = self.codes, self.layout
        if codes.count(code) == 1:
            return (layout.variables[codes.index(code)],)
        found = [v for own, v in zip(codes, layout.variables, strict=True) if own == code]
        return tuple(dict.fromkeys(found))

    def code(self, rows: tuple[int, ...]) -> int:
        """The value code of the node that these rows are about, 0 if it joins nothing."""
        return next((code for row in rows if (code := self.codes[row])), 0)


class Reader:
    """Converts witness rows to records; caches layouts. `wanted` are the rows that count."""

    def __init__(self, wanted: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        self._wanted = wanted
        self._layouts: dict[bytes, Layout] = {}
        self._met: set[int] = set()
        """The hashes of layouts that were met, most of which do not come again where queries have
        different constants."""

    def read(self, rows: pa.Table) -> list[Record]:
        """The records of match-relation rows in which each document's rows stand together."""
        rows = self._wanted(rows)
        if not rows.num_rows:
            return []
        bounds = bounds_of(_numbers(rows, "doc"))
        own = [_numbers(rows, name) for name in ("doc", "base", "start", "end")]
        if len(bounds) <= rows.num_rows:  # mostly documents have several rows, or all have one
            first = np.array(bounds[:-1])
            own = [each[first] for each in own]
        edges = packed([_numbers(rows, name) for name in ("var1", "var2", "node1", "node2")])
        values = rows.column("value")
        nulls = values.null_count
        if 0 < nulls < rows.num_rows:  # to fill them takes as long as the rest
            values = pc.fill_null(values, 0)
        codes = values.to_numpy().tolist() if nulls < rows.num_rows else None
        return self.records([each.tolist() for each in own], edges, codes, bounds)

    def records(
        self, own: list[list[int]], raw: bytes, codes: list[int] | None, bounds: list[int]
    ) -> list[Record]:
        """Records from columns: `own` are doc, base, start, end by document, `bounds` where each
        document's rows begin, and the end of the last (`bounds_of`), `raw` the rows themselves
        (`packed`). The `codes` are by row, None where no row has any."""
        known, met = self._layouts, self._met
        if len(known) > _KNOWN_LAYOUTS:
            known.clear()
        if len(met) > _KNOWN_LAYOUTS:
            met.clear()
        result = []
        low = bounds[0]
        for doc, base, start, end, high in zip(*own, bounds[1:], strict=True):
            key = raw[low * _ROW : high * _ROW]
            layout = known.get(key)
            if layout is None:
                number = hash(key)
                layout = Layout(_rows(key), number in met)
                if layout.again:
                    known[key] = layout
                else:
                    met.add(number)
            of = layout.no_codes if codes is None else tuple(codes[low:high])
            result.append(Record(doc, base, start, end, layout, of))
            low = high
        return result


def bounds_of(doc: npt.NDArray[np.int64]) -> list[int]:
    """Where each document's rows begin, and the end of the last."""
    if doc[0] == doc[-1]:
        return [0, len(doc)]
    return [0, *(np.flatnonzero(np.diff(doc)) + 1).tolist(), len(doc)]


def packed(columns: Sequence[npt.NDArray[np.int64]]) -> bytes:
    """var1, var2, node1, node2 row by row."""
    return np.array(columns, np.int64, order="F").tobytes(order="F")


def whole_documents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in order of their documents, cut anew so that no document is cut."""
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        rows = table if rest is None else pa.concat_tables([rest, table])
        doc = _numbers(rows, "doc")
        cut = int(np.searchsorted(doc, doc[-1])) if len(doc) else 0
        yield rows.slice(0, cut)
        rest = rows.slice(cut)
    if rest is not None:
        yield rest


def _numbers(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = rows.column(name).to_numpy()
    return numbers


def _rows(key: bytes) -> Iterable[tuple[int, int, int, int]]:
    rows: Iterable[tuple[int, int, int, int]] = _FOUR.iter_unpack(key)
    return rows
