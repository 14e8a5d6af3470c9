"""Taps: candidates of a block's query in, rows of a pattern out.

What a pattern reads of a document is read once, when it comes, and stored with the row: so nothing
is parsed again when a match is decided, perhaps days later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from broker.join.candidates import Candidate
from broker.pattern.instances import Row, Tuples
from broker.pattern.trying import TooMuch
from broker.query.canonical import Subscription
from broker.query.patterns import TapQuery
from broker.results.contents import Matched
from broker.state.pattern_tables import TapRow
from xscl import ast
from xscl.interruption import PENDING, check
from xscl.normal import ir
from xscl.normal.lower import Lowering
from xscl.stage1.filters import Value, compile_value, text_of
from xscl.stage1.tree import Node

Reader = Callable[[Node], list[str]]


class TapReader:
    """Reads rows of candidates, for one tap; `query` is that tap, but for its constants."""

    def __init__(self, name: str, query: TapQuery, subscription: Subscription) -> None:
        self.id = name
        self.variables = query.variables
        self._node = query.node if query.told_apart else None
        lowering = Lowering(query.resolved.namespaces)
        tap = query.tap
        self.paths = sorted(tap.paths)
        self._readers = [
            (
                tap.paths[text].variable or "",
                _reader(tap.paths[text], lowering) if tap.paths[text].steps else None,
            )
            for text in self.paths
        ]
        """What reads a path; None: it is the variable itself."""
        self._partition = [_reader(path, lowering) for path in tap.partition]
        named = subscription.delivery.named
        self._places = {name: named[name] for name in named}

    def rows(self, found: Sequence[Candidate], document: Matched) -> list[TapRow]:
        """The rows of the candidates of one document, one for each choice of nodes."""
        rows: dict[tuple[int, tuple[int, ...]], TapRow] = {}
        stored, content = document.stored, document.content
        for candidate in found:
            nodes = tuple([self._at(candidate, name) for name in self.variables])
            node = 0 if self._node is None else self._at(candidate, self._node)
            if (node, nodes) in rows:
                continue
            if PENDING:
                check()
            by_name = dict(zip(self.variables, nodes, strict=True))
            texts = [
                (content.text(by_name[variable]),)
                if read is None
                else tuple(read(content.context(by_name[variable])))
                for variable, read in self._readers
            ]
            if self._partition:
                at = content.context(node)
                texts += [tuple(read(at)) for read in self._partition]
            rows[node, nodes] = TapRow(
                *(self.id, stored.doc, stored.base, stored.key, stored.start, stored.end),
                *(stored.id, node, nodes, tuple(texts)),
            )
        return [rows[key] for key in sorted(rows)]

    def _at(self, candidate: Candidate, name: str) -> int:
        node = candidate.nodes[self._places[name]]
        assert node is not None, "what is selected has one node in a candidate"
        return node

    def row(self, stored: TapRow, most: int) -> Row:
        """A row as the pattern takes it. Raises TooMuch where PARTITION BY gives it more than
        `most` combinations of values."""
        size = len(self.paths)
        values = dict(zip(self.paths, stored.texts[:size], strict=True))
        tuples: Tuples = None
        if self._partition:
            each = [sorted(set(texts)) for texts in stored.texts[size:]]
            if prod(map(len, each)) > most:
                raise TooMuch
            tuples = frozenset(product(*each))
        nodes = dict(zip(self.variables, stored.nodes, strict=True))
        return Row(
            *(stored.doc, stored.key, stored.base, stored.start, stored.end, stored.id),
            *(stored.node, nodes, values, tuples),
        )


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
