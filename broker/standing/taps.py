"""Taps: candidates of a block's query in, rows of a pattern out.

What a pattern reads of a document is read once, when it comes, and stored with the row: so nothing
is parsed again when a match is decided, perhaps days later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from broker.join.candidates import Candidate
from broker.pattern.instances import Row, Tuples
from broker.pattern.trying import TooMuch
from broker.query.patterns import TapQuery
from broker.results.contents import Matched
from broker.state.pattern_tables import TapRow, Texts
from xscl import ast
from xscl.interruption import PENDING, check
from xscl.normal import ir
from xscl.normal.lower import Lowering
from xscl.stage1.filters import Value, compile_value, text_of
from xscl.stage1.tree import Node

Reader = Callable[[Node], list[str]]


_KNOWN = 1_000


class Places(NamedTuple):
    """The selected node, those of the variables, and those of which something is read: their texts,
    or what `readers` read from them, if there are any that are not None."""

    node: int
    nodes: tuple[int, ...]
    read: tuple[int, ...]
    readers: tuple[Reader | None, ...]


_same = lru_cache(maxsize=_KNOWN)(Places)
"""One object for what is read in the same places, so that what was read is looked up by that."""


class Written:
    """The names of a pattern for the variables of a tap, and for the paths that are read of it."""

    __slots__ = ("names", "paths")

    def __init__(self, names: tuple[str, ...], paths: tuple[str, ...]) -> None:
        self.names = names
        self.paths = paths


written = lru_cache(maxsize=_KNOWN)(Written)
"""One object for all who have the same, so that what is made of it is looked up by that."""


class TapReader:
    """Reads rows of candidates, for taps that differ in their constants: `query` is one of them,
    and `named` says where what they select is."""

    def __init__(self, query: TapQuery, named: Mapping[str, int]) -> None:
        self._of = query, named
        lowering = Lowering(query.resolved.namespaces)
        place_of = {variable: place for place, variable in enumerate(query.variables)}
        self._readers = [
            (place_of[path.variable or ""], _reader(path, lowering) if path.steps else None)
            for path in query.paths
        ]
        """The place of a variable and what reads a path from it; None: it is the variable
        itself."""
        self._partition = [_reader(path, lowering) for path in query.tap.partition]
        self._places = [named[name] for name in query.variables]
        self._node = named[query.node] if query.told_apart and query.node is not None else None
        self._plain = not self._partition and all(read is None for _, read in self._readers)
        self._known: dict[tuple[int | None, ...], Places] = {}
        bare = not self._partition and self._readers == [(0, None)] and len(self._places) == 1
        self._bare = self._places[0] if bare else None
        """The place of the variable of which the text is all that is read."""

    def rows(self, tap: str, found: Sequence[Candidate], document: Matched) -> list[TapRow]:
        """The rows of a tap for the candidates of one document, one for each choice of nodes."""
        if len(found) == 1:
            nodes: Sequence[Any] = found[0].chosen.nodes
            if self._bare is not None:
                of, at = document.stored, nodes[self._bare]
                text = document.texts.get(at)
                if text is not None:
                    node = 0 if self._node is None else nodes[self._node]
                    row = (tap, of.doc, of.base, of.key, of.start, of.end, of.id, node, (at,))
                    return [TapRow(*row, ((text,),))]
            return [self._row(tap, *self._nodes(nodes), document)]
        rows: dict[tuple[int, tuple[int, ...]], TapRow] = {}
        for candidate in found:
            chosen = self._nodes(candidate.chosen.nodes)
            if chosen not in rows:
                if PENDING:
                    check()
                rows[chosen] = self._row(tap, *chosen, document)
        return [rows[chosen] for chosen in sorted(rows)]

    @property
    def is_plain(self) -> bool:
        """Whether the texts of variables are all that is read."""
        return self._plain

    def places(self, found: Sequence[Any]) -> Places:
        """Where something is read in documents whose candidates have these nodes."""
        key = tuple(found)
        places = self._known.get(key)
        if places is None:
            node, nodes = self._nodes(found)
            read = [*[nodes[p] for p, _ in self._readers], *[node for _ in self._partition]]
            readers = [*[reader for _, reader in self._readers], *self._partition]
            if len(self._known) >= _KNOWN:
                self._known.clear()
            places = _same(node, nodes, tuple(read), () if self._plain else tuple(readers))
            self._known[key] = places
        return places

    def _nodes(self, found: Sequence[Any]) -> tuple[int, tuple[int, ...]]:
        """The selected node, 0 if nobody asks for it, and those of the variables. What is selected
        has one node in a candidate."""
        node = 0 if self._node is None else found[self._node]
        places = self._places
        # Most blocks have one variable.
        return node, (found[places[0]],) if len(places) == 1 else tuple([found[p] for p in places])

    def _row(self, tap: str, node: int, nodes: tuple[int, ...], document: Matched) -> TapRow:
        of = document.stored
        read = [(nodes[place], reader) for place, reader in self._readers]
        read += [(node, reader) for reader in self._partition]
        texts = read_of(read, document)
        return TapRow(tap, of.doc, of.base, of.key, of.start, of.end, of.id, node, nodes, texts)


def read_of(read: Iterable[tuple[int, Reader | None]], document: Matched) -> Texts:
    """What is read of a document from nodes: their texts, or what readers read."""
    return tuple(
        [
            (document.text(node),) if reader is None else tuple(reader(document.context(node)))
            for node, reader in read
        ]
    )


def row_of(query: TapQuery, stored: TapRow, most: int) -> Row:
    """A row as the pattern takes it, in its own names. Raises TooMuch where PARTITION BY gives it
    more than `most` combinations of values."""
    _, doc, base, key, start, end, id, node, chosen, texts = stored
    tuples: Tuples = None
    written = query.texts
    if query.tap.partition:
        texts, tuples = partitioned(texts, len(written), most)
    nodes, values = nodes_of(query.names, chosen), values_of(written, texts)
    return Row(doc, key, base, start, end, id, node, nodes, values, tuples)


def partitioned(texts: Texts, count: int, most: int) -> tuple[Texts, Tuples]:
    """So many texts that were read of a document, and the combinations of those behind them, of
    PARTITION BY. Raises TooMuch."""
    if len(texts) == count + 1 and len(texts[count]) == 1:
        return texts[:count], frozenset((texts[count],))
    each = [sorted(set(own)) for own in texts[count:]]
    if prod(map(len, each)) > most:
        raise TooMuch
    return texts[:count], frozenset(product(*each))


def rows_of(query: TapQuery, stored: Sequence[TapRow], most: int) -> list[Row]:
    """What `row_of` makes of several rows. Raises TooMuch."""
    written, names = query.texts, query.names
    if query.tap.partition or len(written) != 1:
        return [row_of(query, row, most) for row in stored]
    (path,) = written
    return [
        Row(doc, key, base, start, end, id, node, nodes_of(names, nodes), {path: texts[0]})
        for _, doc, base, key, start, end, id, node, nodes, texts in stored
    ]


def values_of(paths: Sequence[str], texts: Texts) -> Mapping[str, Sequence[str]]:
    """The texts of a document by path."""
    # Most blocks have one variable.
    if len(paths) == len(texts) == 1:
        return {paths[0]: texts[0]}
    return dict(zip(paths, texts, strict=True))


@lru_cache(maxsize=1_024)
def nodes_of(names: tuple[str, ...], chosen: tuple[int, ...]) -> Mapping[str, int]:
    """The nodes of variables, which documents of one kind mostly have in the same places."""
    return dict(zip(names, chosen, strict=True))


def _reader(path: ast.Path, lowering: Lowering) -> Reader:
    steps = lowering.steps(path.steps)
    if not steps:
        return lambda node: [text_of(node)]
    evaluate = compile_value(ir.VariablePath("node", steps))

    def read(node: Node) -> list[str]:
        value: Value = evaluate({"node": node})
        assert isinstance(value, list)
        return [*map(text_of, value)]

    return read
