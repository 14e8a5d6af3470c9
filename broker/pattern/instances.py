"""What comes in and what is put together: rows, and instances.

A *row* is a document as a block takes it, with one node for each variable. An *instance* is a match
of a unit of a pattern. All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Tuples = frozenset[tuple[str, ...]] | None
"""What a match may have in PARTITION BY; None where nothing is asked."""

AT_ONCE = -(2**62)
"""The `due` of what waits for nothing."""

END = 2**60
"""A watermark beyond all documents."""
NEVER = 2**62
"""The `due` where nothing waits."""


def due_from(time: int) -> int:
    """Decided when the watermark is at this time, or beyond."""
    return 2 * time


def due_beyond(time: int) -> int:
    """Decided when the watermark is beyond this time."""
    return 2 * time + 1


@dataclass(slots=True, eq=False)
class Row:
    """A document as a block takes it.

    `key` identifies the document, whichever its version; `base` is the number of the oldest
    document that it is made of. `node` is the selected one, `nodes` are those of variables.
    `values` are the texts at paths, as these are written: from variables, those of PARTITION BY
    from the node.
    """

    doc: int
    key: int
    base: int
    start: int
    end: int
    id: str
    node: int
    nodes: Mapping[str, int]
    values: Mapping[str, Sequence[str]]
    tuples: Tuples = None

    @property
    def order(self) -> tuple[int, int, str]:
        return (self.end, self.start, self.id)


Arrived = Mapping[int, Sequence[Row]]
"""New rows by tap."""

Part = Row | tuple["Instance", ...] | None
"""What fills a slot of a match: a document, the elements of a group or of FOLD, or nothing."""


_NO: Mapping[str, Any] = {}
"""The variables of what has none."""


@dataclass(slots=True, eq=False)
class Instance:
    """A match of a unit. [start, end] is the hull of its documents and deadlines, [first, last]
    that of its documents. It is decided when twice the watermark is at `due`, see `due_from`.
    `single` and `several` are the variables of its documents and of its elements, `computed` the
    values of FOLD."""

    start: int
    end: int
    first: int
    last: int
    due: int
    _parts: Mapping[int, Part] | None
    _keys: frozenset[int] | None
    tuples: Tuples = None
    _single: Mapping[str, Row] | None = field(default_factory=dict)
    several: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    computed: Mapping[str, Any] = field(default_factory=dict)
    _order: tuple[Any, ...] | None = None
    _rows: Sequence[Row] | None = None
    _slots: Sequence[int] = ()

    # With a document for each of its blocks, of these slots, it is made very often, and little of
    # it is read mostly. The rest is made when it is.

    @property
    def parts(self) -> Mapping[int, Part]:
        """What fills its slots."""
        if self._parts is None:
            self._parts = dict(zip(self._slots, self.rows, strict=False))
        return self._parts

    @property
    def keys(self) -> frozenset[int]:
        """What identifies its documents."""
        if self._keys is None:
            self._keys = frozenset([row.key for row in self.rows])
        return self._keys

    @property
    def single(self) -> Mapping[str, Row]:
        """Its documents by the variables of single items."""
        if self._single is None:
            self._single = by_variable(self.rows)
        return self._single

    @property
    def rows(self) -> Sequence[Row]:
        """Its documents, in the order of the pattern."""
        if self._rows is not None:
            return self._rows
        found: list[Row] = []
        for slot in sorted(self.parts):
            part = self.parts[slot]
            if isinstance(part, Row):
                found.append(part)
            elif part is not None:
                found += rows_of(part)
        return found

    @property
    def order(self) -> tuple[Any, ...]:
        """The order of documents: it arranges lists, and breaks ties."""
        if self._order is None:
            self._order = (self.last, self.first, [row.order for row in self.rows])
        return self._order

    @property
    def span(self) -> int:
        return self.end - self.start


def of_blocks(
    slots: Sequence[int], rows: Sequence[Row], due: int, tuples: Tuples, end: int | None = None
) -> Instance:
    """The match of a document for each of these slots, in their order. It ends with the last one,
    or at a deadline."""
    start, last = rows[0].start, rows[-1].end
    span = (start, last if end is None else end, start, last)
    return Instance(*span, due, None, None, tuples, None, _NO, _NO, None, rows, slots)


def rows_of(part: Part) -> Sequence[Row]:
    if part is None:
        return []
    if isinstance(part, Row):
        return [part]
    return [row for each in part for row in each.rows]


def of_row(slot: int, row: Row) -> Instance:
    """The match of a block."""
    return of_blocks((slot,), (row,), AT_ONCE, row.tuples)


def by_variable(rows: Iterable[Row]) -> dict[str, Row]:
    """The documents of single items by the variables that they have nodes for."""
    found: dict[str, Row] = {}
    for row in rows:
        for name in row.nodes:
            found[name] = row
    return found


def common(one: Tuples, other: Tuples) -> Tuples:
    """The tuples of PARTITION BY that two parts agree on."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def several_of(elements: Iterable[Instance]) -> dict[str, list[Row | None]]:
    """The variables of the elements of a group: for each element its document, or None."""
    bound = [each.single for each in elements]
    names = {name: None for each in bound for name in each}
    return {name: [each.get(name) for each in bound] for name in names}


def together(
    instances: Sequence[Instance], tuples: Tuples, due: int, extra: Mapping[str, Any] | None = None
) -> Instance:
    """One instance of several that share no document."""
    single: dict[str, Row] = {}
    several: dict[str, Sequence[Row | None]] = {}
    computed: dict[str, Any] = {}
    parts: dict[int, Part] = {}
    for each in instances:
        parts.update(each.parts)
        single.update(each.single)
        several.update(each.several)
        computed.update(each.computed)
    computed.update(extra or {})
    return Instance(
        min([each.start for each in instances]),
        max([each.end for each in instances]),
        min([each.first for each in instances]),
        max([each.last for each in instances]),
        max(due, *[each.due for each in instances]),
        parts,
        frozenset().union(*[each.keys for each in instances]),
        tuples,
        single,
        several,
        computed,
    )
