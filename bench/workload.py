"""The workloads of the join benchmarks: schemas, documents, canonical queries, witness columns.

In go `Documents` (strings at the leaves of one schema) and `Query` objects; out come the columns of
the paper's RbinW with the value of node2 beside each row, in batches, as stage 1 would witness
them, but worked out directly from the strings, so that no time of a join benchmark is stage 1's. A
test holds them against stage 1 on the same documents as XML. Generators are in `generate.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.stage1.document import value_code

Integers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

UNBOUNDED = 2**62
"""The window INFINITY, in microseconds."""

DEFAULT_FILLER = "Notes on the day's tide tables, harbour works and market stalls. "


@dataclass(frozen=True, slots=True)
class Schema:
    """The tree of every document: `names` and `parents` by node in preorder, the root is node 0.

    `leaves` are the nodes with values; queries name a leaf by its index here.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    leaves: tuple[int, ...]

    def above(self, leaf: int) -> int:
        """The node that a leaf hangs from."""
        return self.parents[self.leaves[leaf]]

    def children(self, node: int) -> list[int]:
        return [n for n, parent in enumerate(self.parents) if parent == node and n]


def flat(root: str, leaves: Sequence[str]) -> Schema:
    """A two-level schema: a root and its leaves."""
    return Schema((root, *leaves), (0,) * (len(leaves) + 1), tuple(range(1, len(leaves) + 1)))


def nested(root: str, middles: int, leaves: int) -> Schema:
    """A three-level schema: a root, `middles` inner nodes, and leaves spread evenly below them."""
    names, parents, places = [root], [0], []
    for m in range(middles):
        names.append(f"m{m + 1}")
        parents.append(0)
        middle = len(names) - 1
        for leaf in range(leaves * m // middles, leaves * (m + 1) // middles):
            places.append(len(names))
            names.append(f"l{leaf + 1}")
            parents.append(middle)
    return Schema(tuple(names), tuple(parents), tuple(places))


@dataclass(frozen=True, slots=True, order=True)
class Constant:
    """A block's filter on a leaf: `op` is "=" or "contains"."""

    leaf: int
    op: str
    value: str


Constants = tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A canonical query: an item FOLLOWED BY {joins, window} an item.

    `joins` are pairs (leaf of the earlier document, leaf of the later one), in order, no leaf twice
    on one side. `window` is in microseconds, its edge included. `left` and `right` are the filters
    on the earlier and the later document.
    """

    joins: tuple[tuple[int, int], ...]
    window: int = UNBOUNDED
    left: Constants = ()
    right: Constants = ()

    def leaves(self, side: int) -> tuple[int, ...]:
        return tuple(pair[side] for pair in self.joins)

    def constants(self, side: int) -> Constants:
        return self.right if side else self.left

    def text(self, schema: Schema) -> str:
        """The query in XSCL, over stream S."""
        joins = " AND ".join(f"x{i} = y{i}" for i in range(len(self.joins)))
        window = "INFINITY" if self.window == UNBOUNDED else f"{self.window // 1_000_000} s"
        left, right = self._block(schema, 0, "x"), self._block(schema, 1, "y")
        return f"{left} FOLLOWED BY {{{joins}, {window}}} {right}"

    def _block(self, schema: Schema, side: int, letter: str) -> str:
        by_node: dict[int, list[str]] = {}
        for i, leaf in enumerate(self.leaves(side)):
            name = schema.names[schema.leaves[leaf]]
            by_node.setdefault(schema.above(leaf), []).append(f"[./{name}->{letter}{i}]")
        filters = [_filter(schema, constant) for constant in self.constants(side)]
        for node, bindings in by_node.items():
            bound = "".join(bindings)
            filters.append(f"[./{schema.names[node]}{bound}]" if node else bound)
        return f"S//{schema.names[0]}->{letter}{''.join(filters)}"


def _filter(schema: Schema, constant: Constant) -> str:
    name, value = schema.names[schema.leaves[constant.leaf]], f"'{constant.value}'"
    if constant.op == "=":
        return f"[./{name} = {value}]"
    return f"[contains(./{name}, {value})]"


class Documents:
    """Documents of one schema. `ids` (documents x leaves) are indexes into `strings`.

    `timestamps` are microseconds, never falling; the document's number is its row.
    """

    def __init__(
        self, schema: Schema, strings: list[str], ids: Integers, timestamps: Integers
    ) -> None:
        self.schema = schema
        self.strings = strings
        self.ids = ids
        self.timestamps = timestamps
        self._satisfying: dict[Constant, Integers] = {}
        self._ordered: dict[int, tuple[Integers, Integers]] = {}

    def __len__(self) -> int:
        return len(self.timestamps)

    def head(self, count: int) -> Documents:
        return Documents(self.schema, self.strings, self.ids[:count], self.timestamps[:count])

    @cached_property
    def codes(self) -> Codes:
        """The codes of the values, as stage 1 has them (documents x leaves)."""
        codes = np.fromiter(map(value_code, self.strings), np.uint64, len(self.strings))
        return np.asarray(codes[self.ids], np.uint64)

    def xml(self, document: int, size: int = 0) -> str:
        """A document as XML; `size` bytes or so with a description after the leaves, which joins
        nothing."""
        values = dict(zip(self.schema.leaves, self.ids[document], strict=True))
        body = self._element(0, {node: self.strings[i] for node, i in values.items()})
        if size > len(body):
            filler = DEFAULT_FILLER * ((size - len(body)) // len(DEFAULT_FILLER) + 1)
            end = f"</{self.schema.names[0]}>"
            body = f"{body.removesuffix(end)}<description>{filler}</description>{end}"
        return body

    def _element(self, node: int, values: dict[int, str]) -> str:
        name = self.schema.names[node]
        if node in values:
            return f"<{name}>{escape(values[node], quote=False)}</{name}>"
        inner = "".join(self._element(child, values) for child in self.schema.children(node))
        return f"<{name}>{inner}</{name}>"

    def satisfying(self, constants: Constants) -> Integers:
        """The documents that satisfy all of the filters, in order."""
        if not constants:
            return np.arange(len(self), dtype=np.int64)
        found = self._one(constants[0])
        for constant in constants[1:]:
            found = np.intersect1d(found, self._one(constant), assume_unique=True)
        return found

    def _one(self, constant: Constant) -> Integers:
        known = self._satisfying.get(constant)
        if known is None:
            if constant.op == "=":
                order, values = self._by_value(constant.leaf)
                number = self._numbers.get(constant.value, -1)
                known = order[slice(*np.searchsorted(values, (number, number + 1)))]
            else:
                found = pc.match_substring(self._texts[constant.leaf], constant.value)
                known = np.flatnonzero(found.to_numpy(zero_copy_only=False)).astype(np.int64)
            self._satisfying[constant] = known
        return known

    def _by_value(self, leaf: int) -> tuple[Integers, Integers]:
        """The documents in order of what they have at a leaf, and that."""
        known = self._ordered.get(leaf)
        if known is None:
            order = np.argsort(self.ids[:, leaf], kind="stable").astype(np.int64)
            known = self._ordered[leaf] = (order, self.ids[order, leaf])
        return known

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.strings)}

    @cached_property
    def _texts(self) -> list[pa.Array]:
        strings = pa.array(self.strings, pa.large_string())
        return [strings.take(pa.array(column)) for column in self.ids.T]


Variable = tuple[Constants, int]
"""A variable, by its definition: the filters on the root above it, and the node of the schema."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Witness rows of consecutive documents as parallel columns, in order of documents.

    Documents are numbered from `first`; `timestamps` is by document, all else by row. A `value` of
    0 is none: nobody joins that node.
    """

    first: int
    timestamps: Integers
    doc: Integers
    var1: Integers
    var2: Integers
    node1: Integers
    node2: Integers
    value: Codes

    def table(self) -> pa.Table:
        """The rows with `ts`, the document's timestamp, in Arrow; no value is null."""
        value = pa.array(self.value, pa.uint64(), mask=self.value == 0)
        ts = self.timestamps[self.doc - self.first]
        columns = {"doc": self.doc, "ts": ts, "var1": self.var1, "var2": self.var2}
        columns |= {"node1": self.node1, "node2": self.node2}
        return pa.table({name: pa.array(c) for name, c in columns.items()} | {"value": value})


class Workload:
    """Documents under subscriptions, which may repeat a canonical query.

    Numbers the variables of the queries' join graphs, and knows the edges that stage 1 has to
    witness: those of the graph minors (dissertation, section 6.4), where an inner node stays only
    if it ties two leaves of one block together.
    """

    def __init__(self, documents: Documents, queries: Sequence[Query]) -> None:
        self.documents = documents
        self.queries = queries
        self.distinct: dict[Query, int] = dict(Counter(queries))
        """The canonical queries, and how many subscribe to each."""
        self.variables: dict[Variable, int] = {}
        self._edges: dict[tuple[Constants, int, int], None] = {}
        for query in self.distinct:
            for side in (0, 1):
                for edge in self.edges(query, side):
                    self._edges.setdefault((query.constants(side), *edge))
                    for node in edge:
                        key = (query.constants(side), node)
                        self.variables.setdefault(key, len(self.variables) + 1)

    def variable(self, query: Query, side: int, node: int) -> int:
        """The number of the variable of a node of the schema in a block of a query."""
        return self.variables[query.constants(side), node]

    def parents(self, query: Query, side: int) -> list[int]:
        """For each join, the node that its leaf hangs from in the minor: an inner node, if leaves
        of two joins hang from it, else the root."""
        above = [self.documents.schema.above(leaf) for leaf in query.leaves(side)]
        return [node if above.count(node) > 1 else 0 for node in above]

    def edges(self, query: Query, side: int) -> list[tuple[int, int]]:
        """A block's edges in the minor, as pairs of nodes of the schema."""
        parents = self.parents(query, side)
        tied = [(0, node) for node in dict.fromkeys(parents) if node]
        leaves = [self.documents.schema.leaves[leaf] for leaf in query.leaves(side)]
        return tied + list(zip(parents, leaves, strict=True))

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """The witness rows of all documents, in order of documents."""
        documents, places = self.documents, self.documents.schema.leaves
        leaf_of = {node: leaf for leaf, node in enumerate(places)}
        docs: list[Integers] = []
        values: list[Codes] = []
        constant: list[tuple[int, int, int, int]] = []
        satisfying: dict[Constants, Integers] = {}
        for constants, above, node in self._edges:
            if constants not in satisfying:
                satisfying[constants] = documents.satisfying(constants)
            found = satisfying[constants]
            docs.append(found)
            if node in leaf_of:
                values.append(documents.codes[found, leaf_of[node]])
            else:
                values.append(np.zeros(len(found), np.uint64))
            var1, var2 = self.variables[constants, above], self.variables[constants, node]
            constant.append((var1, var2, above, node))
        sizes = [len(found) for found in docs]
        doc = np.concatenate(docs)
        order = np.argsort(doc, kind="stable")
        columns: dict[str, npt.NDArray[np.generic]] = {
            "doc": doc[order],
            "value": np.concatenate(values)[order],
        }
        for i, name in enumerate(("var1", "var2", "node1", "node2")):
            column = np.array([row[i] for row in constant], np.int64)
            columns[name] = np.repeat(column, sizes)[order]
        return columns

    def batches(self, size: int) -> Iterator[Batch]:
        """The witness columns of all documents, `size` documents at a time."""
        columns, timestamps = self._columns, self.documents.timestamps
        starts = np.arange(0, len(timestamps) + size, size)
        cuts = np.searchsorted(columns["doc"], starts)
        for i in range(len(starts) - 1):
            first, last = int(starts[i]), int(starts[i + 1])
            if first < len(timestamps):
                rows = {name: c[cuts[i] : cuts[i + 1]] for name, c in columns.items()}
                yield Batch(first=first, timestamps=timestamps[first:last], **rows)  # type: ignore[arg-type]
