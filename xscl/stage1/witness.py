"""The input and the output of stage 1: edges of tree patterns, and the witness of a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xscl.normal.bind import Literals, binder
from xscl.normal.treepattern import Definition
from xscl.stage1.outlines import Outline


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of tree patterns: `var1` is the first `depth` steps of `var2`'s definition.

    `depth` is 0 for an edge from the document. `valued`: the value of var2 joins others, by its
    code; `read`: predicates read its text and number. Definitions of one `form` differ in the
    constants of their filters only; None where it is not known.
    """

    id: int
    var1: int
    var2: int
    definition: Definition
    depth: int
    valued: bool
    read: bool = False
    form: object = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        # Forms are known to one process.
        return Edge, (
            *(self.id, self.var1, self.var2, self.definition, self.depth, self.valued, self.read),
        )

    @property
    def evaluated(self) -> bool:
        return self.valued or self.read


@dataclass(frozen=True, slots=True)
class AlikeEdges:
    """Edges of one form, given by their ids and the literals of their queries: the first `depth`
    steps and the definition of all, with parameters for the literals."""

    definition: Definition
    depth: int
    valued: bool
    read: bool
    form: object
    ids: Sequence[int]
    literals: Sequence[Literals]

    @property
    def kind(self) -> object:
        """What `Matcher` knows them by."""
        return (self.form, self.depth, self.valued, self.read)

    def edge(self, place: int) -> Edge:
        """One of them by itself."""
        definition, id = self.definition, self.ids[place]
        bind = binder((definition.steps, definition.value))
        if bind is not None:
            definition = Definition(definition.stream, *bind(self.literals[place]))
        return Edge(
            *(id, id >> 32, id & 0xFFFF_FFFF, definition, self.depth, self.valued, self.read),
            self.form,
        )


WIDTH = 5
"""Integers of a row of a witness."""


@dataclass(slots=True, init=False)
class Witness:
    """Rows of one document: var1, var2, node1, node2 and value, `WIDTH` unsigned integers of 64
    bits, one after the other. So the document's own node, -1, is 2**64 - 1.

    The value is the code of node2's value, 0 if no query joins it or if it is NaN, which equals
    nothing. `text` and `num` map row numbers to the value itself and its number, if predicates read
    them; NaN is left out. Rows are in one flat list, since filling a list per column would cost
    more than all the rest.

    `texts` are the string values that were made for codes anyway, and those of nodes without
    children, by node2, so that whoever publishes a match need not parse the document again.
    `outline` is that of the document.
    """

    flat: list[int]
    text: dict[int, str]
    num: dict[int, float]
    texts: dict[int, str]
    outline: Outline | None

    def __init__(self) -> None:
        # One is made for each document; a factory for each field would take twice as long.
        self.flat = []
        self.text = {}
        self.num = {}
        self.texts = {}
        self.outline = None

    def __len__(self) -> int:
        return len(self.flat) // WIDTH

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """The rows as tuples, with signed nodes."""
        for at in range(0, len(self.flat), WIDTH):
            var1, var2, node1, node2, value = self.flat[at : at + WIDTH]
            yield var1, var2, node1 if node1 < 2**63 else node1 - 2**64, node2, value
