"""What comes in and what is put together: rows, and instances.

A *row* is a document as a block takes it, with one node for each variable. An *instance* is a match
of a unit of a pattern. All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    `parts` are what fills its slots, `keys` identify its documents. `single` and `several` are the
    variables of its documents and of its elements, `computed` the values of FOLD."""

    start: int
    end: int
    first: int
    last: int
    due: int
    _parts: Mapping[int, Part] | None
    _keys: frozenset[int]
    tuples: Tuples = None
    _single: Mapping[str, Row] = field(default_factory=dict)
    _several: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    _computed: Mapping[str, Any] = field(default_factory=dict)
    _order: tuple[Any, ...] | None = None

    def _make(self) -> None:
        """Make what is read seldom, where `_parts` are None."""
        raise NotImplementedError

    @property
    def parts(self) -> Mapping[int, Part]:
        if self._parts is None:
            self._make()
        assert self._parts is not None
        return self._parts

    @property
    def keys(self) -> frozenset[int]:
        if self._parts is None:
            self._make()
        return self._keys

    @property
    def single(self) -> Mapping[str, Row]:
        if self._parts is None:
            self._make()
        return self._single

    @property
    def several(self) -> Mapping[str, Sequence[Row | None]]:
        if self._parts is None:
            self._make()
        return self._several

    @property
    def computed(self) -> Mapping[str, Any]:
        if self._parts is None:
            self._make()
        return self._computed

    @property
    def rows(self) -> Sequence[Row]:
        """Its documents, in the order of the pattern."""
        parts = self.parts
        return [row for slot in sorted(parts) for row in rows_of(parts[slot])]

    @property
    def blocks(self) -> Sequence[Row]:
        """Those of its documents that stand for a block and not for an element, in that order."""
        parts = [self.parts[slot] for slot in sorted(self.parts)]
        return [part for part in parts if isinstance(part, Row)]

    @property
    def order(self) -> tuple[Any, ...]:
        """The order of documents: it arranges lists, and breaks ties."""
        if self._parts is None:
            self._make()
        if self._order is None:
            self._order = (self.last, self.first, [row.order for row in self.rows])
        return self._order

    @property
    def span(self) -> int:
        return self.end - self.start


class OfRows(Instance):
    """The match of a document for each of these slots, in their order. It ends with the last one,
    or at a deadline. Such are made very often, and little of them is read mostly; the rest is made
    when it is."""

    __slots__ = ("_rows", "_slots")

    def __init__(
        self,
        slots: Sequence[int],
        rows: Sequence[Row],
        due: int,
        tuples: Tuples,
        end: int | None = None,
    ) -> None:
        self.start = self.first = rows[0].start
        self.last = self.end = rows[-1].end
        if end is not None:
            self.end = end
        self.due = due
        self.tuples = tuples
        self._slots = slots
        self._rows = rows
        self._parts = None

    def _make(self) -> None:
        rows = self._rows
        self._parts = dict(zip(self._slots, rows, strict=False))
        self._keys = frozenset([row.key for row in rows])
        self._single, self._several, self._computed = by_variable(rows), _NO, _NO
        self._order = None

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    @property
    def blocks(self) -> Sequence[Row]:
        return self._rows


Elements = tuple[Row, ...]


class OfGroups(Instance):
    """The same with groups: `filled` has a document for each slot, or the documents of elements.
    Each slot is given with that of its elements, -1 for a block, and their variables."""

    __slots__ = ("_filled", "_slots")

    def __init__(
        self,
        slots: Sequence[Filled],
        filled: Sequence[Row | Elements],
        due: int,
        tuples: Tuples,
        times: tuple[int, int, int],
    ) -> None:
        self.start, self.end, self.last = times
        self.first = self.start
        self.due = due
        self.tuples = tuples
        self._slots = slots
        self._filled = filled
        self._parts = None

    def _make(self) -> None:
        parts: dict[int, Part] = {}
        single: dict[str, Row] = {}
        several: dict[str, Sequence[Row | None]] = {}
        for (slot, element, names), one in zip(self._slots, self._filled, strict=True):
            if isinstance(one, Row):
                parts[slot] = one
                single.update(dict.fromkeys(one.nodes, one))
            else:
                parts[slot] = tuple([of_row(element, row) for row in one])
                several.update(dict.fromkeys(names, one))
        self._parts, self._keys = parts, frozenset([row.key for row in self.rows])
        self._single, self._several, self._computed = single, several, _NO
        self._order = None

    @property
    def rows(self) -> Sequence[Row]:
        found: list[Row] = []
        for one in self._filled:
            if isinstance(one, Row):
                found.append(one)
            else:
                found += one
        return found

    @property
    def blocks(self) -> Sequence[Row]:
        return [one for one in self._filled if isinstance(one, Row)]


Filled = tuple[int, int, Collection[str]]
"""A slot, that of its elements or -1, and its variables."""


def rows_of(part: Part) -> Sequence[Row]:
    if part is None:
        return []
    if isinstance(part, Row):
        return [part]
    return [row for each in part for row in each.rows]


def of_row(slot: int, row: Row) -> Instance:
    """The match of a block."""
    return OfRows((slot,), (row,), AT_ONCE, row.tuples)


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
