"""What comes in and what is put together: rows, and instances.

A *row* is a document as a block takes it, with one node for each variable. An *instance* is a match
of a unit of a pattern. All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Tuples = frozenset[tuple[str, ...]] | None
"""What a match may have in PARTITION BY; None where nothing is asked."""

AT_ONCE = -(2**62)
"""The `due` of what waits for nothing."""

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
    parts: Mapping[int, Part]
    keys: frozenset[int]
    tuples: Tuples = None
    single: Mapping[str, Row] = field(default_factory=dict)
    several: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    computed: Mapping[str, Any] = field(default_factory=dict)
    _order: tuple[Any, ...] | None = None

    @property
    def rows(self) -> Sequence[Row]:
        """Its documents, in the order of the pattern."""
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


class OfBlocks(Instance):
    """A match with one document for each of its blocks, of these slots, in their order. It is made
    very often, and little of it is read mostly: the rest is made when it is."""

    __slots__ = ("_rows", "_slots_of")

    def __init__(self, slots: Sequence[int], rows: Sequence[Row], due: int, tuples: Tuples) -> None:
        self.start = rows[0].start
        self.end = rows[-1].end
        self.due = due
        self.tuples = tuples
        self._rows = rows
        self._slots_of = slots

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    def __getattr__(self, name: str) -> Any:
        """What a slot of the instance is empty of."""
        made = _MADE.get(name)
        if made is None:
            raise AttributeError(name)
        value = made(self)
        setattr(self, name, value)
        return value

    @property
    def by_slot(self) -> dict[int, Row]:
        return dict(zip(self._slots_of, self._rows, strict=False))


_MADE: Mapping[str, Callable[[OfBlocks], Any]] = {
    "first": lambda each: each.start,
    "last": lambda each: each.rows[-1].end,
    "parts": lambda each: each.by_slot,
    "keys": lambda each: frozenset([row.key for row in each.rows]),
    "single": lambda each: by_variable(each.rows),
    "several": lambda _: {},
    "computed": lambda _: {},
    "_order": lambda _: None,
}


def rows_of(part: Part) -> Sequence[Row]:
    if part is None:
        return []
    if isinstance(part, Row):
        return [part]
    return [row for each in part for row in each.rows]


def of_row(slot: int, row: Row) -> Instance:
    """The match of a block."""
    return OfBlocks((slot,), (row,), AT_ONCE, row.tuples)


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
