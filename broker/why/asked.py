"""What a query asks, as `why` looks at it: blocks with readers, operators, windows, predicates.

In: a checked query of Part 1. Out: an `Asked`, against which documents are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from broker.pattern.instances import Row
from broker.state.stored_documents import StoredDocument
from broker.why.blocks import BlockReader, blocks_named, first_failing
from broker.why.joins import Between, betweens
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.check.sites import bound_in
from xscl.normal.normalize import nested_query
from xscl.normal.operators import FollowedBy, Join, Tree
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.tree import Tree as DocumentTree


@dataclass(frozen=True, slots=True)
class Judged:
    """What a block says of a document: the place of the condition at which it failed, None if it
    passed; and its rows, those before that condition if it is a predicate."""

    failed: int | None
    rows: list[Row]


class Asked:
    """A query, taken apart. `windows` are those of the operators, then that of the whole, None for
    no bound; `several` are the predicates that read more than two blocks, or none."""

    def __init__(self, resolved: ResolvedQuery) -> None:
        query = resolved.query
        self.resolved = resolved
        self.blocks: list[ast.Block] = []
        self.windows: list[int | None] = []
        self._predicates: list[ast.Expr] = []
        self.operators: Tree = self._taken(query.pattern, resolved.namespaces)
        self.windows.append(_microseconds(query.within))
        if query.where is not None:
            self._predicates += _conjuncts(query.where)
        self.home = {
            name: number
            for number, block in enumerate(self.blocks)
            for name in bound_in(block.steps)
        }
        own: dict[int, list[ast.Expr]] = {}
        between: list[ast.Expr] = []
        for predicate in self._predicates:
            named = blocks_named(predicate, self.home)
            if len(named) == 1:
                own.setdefault(min(named), []).append(predicate)
            else:
                between.append(predicate)
        self.readers = [
            BlockReader(number, block, own.get(number, ()), between, resolved.namespaces)
            for number, block in enumerate(self.blocks)
        ]
        made = betweens(self.operators, self.windows, between, self.home)
        self.betweens: list[Between] = made[0]
        self.several = made[1]
        self._offsets: list[int] = []
        self._matcher = self._edges()

    def _taken(self, pattern: ast.Pattern, namespaces: Mapping[str, str]) -> Tree:
        match pattern:
            case ast.Block():
                self.blocks.append(pattern)
                return len(self.blocks) - 1
            case ast.Nested():
                stream = nested_query(pattern, namespaces).id
                self.blocks.append(ast.Block(stream, pattern.steps, span=pattern.span))
                return len(self.blocks) - 1
            case ast.Join():
                left = self._taken(pattern.left, namespaces)
                right = self._taken(pattern.right, namespaces)
                self.windows.append(_microseconds(pattern.window))
                if pattern.predicate is not None:
                    self._predicates += _conjuncts(pattern.predicate)
                return (FollowedBy if pattern.kind == "FOLLOWED BY" else Join)(left, right)
        raise TypeError("event patterns are explained elsewhere")

    def _edges(self) -> Matcher:
        edges = []
        first = 1
        for reader in self.readers:
            self._offsets.append(first)
            edges += reader.edges(first)
            first += len(reader.conditions)
        return Matcher(edges)

    @property
    def streams(self) -> frozenset[str]:
        return frozenset([block.stream for block in self.blocks])

    def judge(self, document: StoredDocument) -> tuple[DocumentTree, dict[int, Judged]]:
        """What each block says of a document; none that reads other streams."""
        root = parse_document(document.xml)
        reached = {row[1] for row in self._matcher.match(root, document.streams)}
        tree = DocumentTree(root)
        found: dict[int, Judged] = {}
        for reader, offset in zip(self.readers, self._offsets, strict=True):
            if reader.block.stream in document.streams:
                count = len(reader.conditions)
                failed = first_failing(offset + place in reached for place in range(count))
                rows: list[Row] = []
                if failed is None:
                    place, rows = reader.judged(reader.rows(document, tree))
                    failed = None if place is None else count + place
                found[reader.number] = Judged(failed, rows)
        return tree, found


def _microseconds(duration: ast.Duration | None) -> int | None:
    return None if duration is None else duration.microseconds


def _conjuncts(expr: ast.Expr) -> Iterator[ast.Expr]:
    parts: Sequence[ast.Expr] = expr.parts if isinstance(expr, ast.And) else ()
    if not parts:
        yield expr
    for part in parts:
        yield from _conjuncts(part)
