"""From decided matches of a pattern to matches for subscribers: documents, values, results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from broker.model import Blocks
from broker.pattern.instances import Part, Row
from broker.pattern.published import Published
from broker.pattern.reading import named_in
from broker.pattern.values import NotAsked, compile_value, first_or_last
from broker.query.canonical import Subscription
from broker.query.patterns import PatternQuery, shown_id
from broker.rendering.rendering import Piece, Places, Rendering, Value, places
from broker.results.construct import Evaluate, construct, item_texts, item_xml
from broker.results.contents import Matched
from broker.results.match_ids import IdsOf, id_suffix
from broker.shared_match import Shared, SharedMatch, Whole
from broker.text.meter import Meter
from xscl import ast
from xscl.functions.elements import ELEMENT_FUNCTIONS
from xscl.functions.table import FUNCTIONS
from xscl.interruption import PENDING, check
from xscl.normal import ir
from xscl.normal.lower import Lowering
from xscl.stage1 import filters
from xscl.stage1.tree import Node

_FEW = 16
_KNOWN = 1_000
"""Of so many matches of a pattern it is remembered where their parts stand."""
_same_places = lru_cache(maxsize=1_024)(places)
"""Matches of a few documents mostly have their parts in the same places."""


class Maker:
    """Makes the matches of a pattern."""

    def __init__(self, pattern: PatternQuery) -> None:
        self._query = query = pattern.plan.query
        self._names = named_in(query.select)
        self._namespaces = pattern.namespaces
        self._lowering = Lowering(pattern.namespaces)
        self._known: dict[tuple[Any, ...], Places] = {}
        self.same: dict[tuple[int, ...], tuple[Places, object]] = {}
        """Where the parts of matches stand, by the objects that say which nodes documents have;
        these are beside it, as an `id` is of nothing else while its object is there."""
        self._exprs: list[ast.Expr] = []
        self._items: list[ir.Item] = []
        self._element: ir.Element | None = None
        self._plain = True
        self._computed = {
            step.variable for fold in _folds(query.pattern) for step in fold.iterations
        }
        if isinstance(query.select, ast.Element):
            self._element = self._lowered(query.select)
            self._plain = False
        else:
            for item in query.select or ():
                name = item.name or self._name(item.expr)
                self._items.append(ir.Item(self._opaque(item.expr), name))
                bare = isinstance(item.expr, ast.Path) and not item.expr.steps
                self._plain = self._plain and bare and name is None
        self._shown = [
            (expr.name, expr.args[0].variable or "")
            for expr in self._exprs
            if isinstance(expr, ast.Call) and _is_node(expr) and isinstance(expr.args[0], ast.Path)
        ]
        """The functions that choose among documents, each with its variable."""
        if self._names is not None and self._computed.intersection(self._names):
            self._plain = False

    def _name(self, expr: ast.Expr) -> str | None:
        """The name of what has none of its own, where it is no node with one."""
        if _is_several(expr):
            return "value"
        if isinstance(expr, ast.Path) and expr.variable in self._computed:
            return expr.variable.rstrip("'")
        return None

    def _opaque(self, expr: ast.Expr) -> ir.VariablePath:
        """An expression by its number."""
        self._exprs.append(expr)
        return ir.VariablePath(str(len(self._exprs) - 1))

    def _lowered(self, element: ast.Element) -> ir.Element:
        return ir.Element(
            element.name,
            tuple(
                (name, tuple([p if isinstance(p, str) else self._opaque(p) for p in parts]))
                for name, parts in element.attributes
            ),
            tuple(
                [
                    part
                    if isinstance(part, str)
                    else self._lowered(part)
                    if isinstance(part, ast.Element)
                    else self._opaque(part)
                    for part in element.content
                ]
            ),
        )

    @property
    def plain(self) -> bool:
        """Whether a match is told by documents and nodes alone."""
        return self._plain

    def documents(self, found: Iterable[Published], rows: Iterable[Sequence[Row]]) -> set[int]:
        """The numbers of the documents that making these matches needs: of their own `rows`, and of
        the windows of OVER those that SELECT shows."""
        docs = {row.doc for own in rows for row in own}
        for each in found if self._shown else ():
            if PENDING:
                check()
            for call, name in self._shown:
                row = first_or_last(call, each.scope.several.get(name, ()))
                if row is not None:
                    docs.add(row.doc)
        return docs

    # -- matches -------------------------------------------------------------------------------

    def matches(
        self,
        published: Published,
        rows: Sequence[Row],
        audiences: Sequence[Sequence[Subscription]],
        documents: Mapping[int, Matched],
        meter: Meter,
        ids: IdsOf,
    ) -> list[SharedMatch]:
        """A match of these documents for each audience, which publishes to one stream. Raises
        TextTooLong."""
        instance = published.instance
        docs = tuple([row.doc for row in rows])
        matched = [documents[doc] for doc in docs]
        found = self._places(published, rows, docs)
        several = len(audiences) > 1 or len(audiences[0]) > 1
        rendering = Rendering(docs, matched, [each.said for each in matched], found, several)
        shared: Shared = rendering
        if not self._plain:
            evaluation = _Evaluation(self, published, documents)
            shared = self._made(evaluation, rendering, found.blocks, meter)
        else:
            for place, node, item in found.pieces:
                if len(matched[place].xml) > meter.room - meter.used:
                    meter(matched[place].copy(node, item))
            meter.used = 0  # nothing is kept of them: a match refers to its nodes
        identity = [each.identity for each in matched]
        suffix = id_suffix(identity, found.identity_json)
        return [
            SharedMatch(
                ids.of(audience, suffix),
                [shown_id(each.id) for each in audience],
                audience[0].publish,
                instance.start,
                instance.end,
                published.nodes,
                (),
                shared,
            )
            for audience in audiences
        ]

    def places(
        self,
        published: Published,
        rows: Sequence[Row],
        docs: tuple[int, ...],
        key: tuple[int, ...],
    ) -> Places:
        """Where the parts of a match stand that has a document for each block, to be remembered as
        the `same` for what has this key: of each row the `id` of its nodes, and its node."""
        if len(self.same) >= _KNOWN:
            self.same.clear()
        found = self._places(published, rows, docs)
        self.same[key] = (found, [row.nodes for row in rows])
        return found

    def _places(self, published: Published, rows: Sequence[Row], docs: tuple[int, ...]) -> Places:
        """Where the parts of a match stand in these documents."""
        instance = published.instance
        key = None
        if all(isinstance(part, Row) for part in instance.parts.values()):
            # One document for each block: where all stands is told by the blocks and the nodes. Of
            # a group or of branches it is not: as many documents may stand there in other ways.
            nodes = [(row.node, *row.nodes.values()) for row in rows]
            key = (*instance.parts, *nodes, *published.nodes)
            found = self._known.get(key)
            if found is not None:
                return found
        place_of = {doc: place for place, doc in enumerate(docs)}
        found = (_same_places if len(docs) <= _FEW else places)(
            published.nodes,
            tuple(self._values(published, place_of)),
            tuple(self._pieces(published, place_of)) if self._plain else (),
            (),
            _blocks(instance.parts, place_of),
        )
        if key is not None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _values(self, published: Published, place_of: Mapping[int, int]) -> Iterator[Value]:
        scope = published.scope
        for name in self._names or ():
            row = scope.single.get(name)
            rows = [row] if row is not None else published.instance.several.get(name, ())
            for each in rows:
                if each is not None:
                    yield name, place_of[each.doc], (each.nodes[name],)

    def _pieces(self, published: Published, place_of: Mapping[int, int]) -> Iterator[Piece]:
        if self._query.select is None:
            for row in published.instance.rows:
                yield place_of[row.doc], row.node, False
            return
        instance = published.instance
        for expr in self._exprs:
            assert isinstance(expr, ast.Path)
            name = expr.variable or ""
            single = instance.single.get(name)
            for each in [single] if single is not None else instance.several.get(name, ()):
                if each is not None:
                    yield place_of[each.doc], each.nodes[name], True

    def _made(
        self, evaluation: _Evaluation, rendering: Rendering, blocks: Blocks | None, meter: Meter
    ) -> Whole:
        """A match with what SELECT makes of it, as text. Raises TextTooLong."""
        evaluate = evaluation.value
        values = rendering.derive_values()
        if self._element is not None:
            content = construct(self._element, evaluate, self._namespaces, meter)
        else:
            content = "".join([item_xml(item, evaluate, meter) for item in self._items])
            for item in self._items:
                if item.name is not None and item.name not in values:
                    values[item.name] = [*map(meter, item_texts(item, evaluate))]
        documents = rendering.derive_documents()
        return Whole(documents, values, content, self._element is None, blocks)

    def expression(self, expr: ir.Expr) -> ast.Expr:
        assert isinstance(expr, ir.VariablePath)
        return self._exprs[int(expr.variable)]

    def nodes(
        self, path: ast.Path, name: str, row: Row, documents: Mapping[int, Matched]
    ) -> list[Node]:
        """The nodes that a path from a variable leads to in a document."""
        node = documents[row.doc].context(row.nodes[name])
        if not path.steps:
            return [node]
        steps = self._lowering.steps(path.steps)
        value = filters.compile_value(ir.VariablePath("node", steps))({"node": node})
        assert isinstance(value, list)
        return value


class _Evaluation:
    """The values of SELECT's expressions for one match. What is absent has none."""

    def __init__(
        self, maker: Maker, published: Published, documents: Mapping[int, Matched]
    ) -> None:
        self._maker = maker
        self._scope = published.scope
        self._documents = documents

    @property
    def value(self) -> Evaluate:
        return self._value

    def _value(self, opaque: ir.Expr) -> Any:
        expr = self._maker.expression(opaque)
        try:
            match expr:
                case ast.Path():
                    return self._path(expr)
                case ast.Call() if _is_node(expr):
                    return self._node(expr)
            found = compile_value(expr)(self._scope)
            return [*found] if isinstance(found, list | tuple) else found
        except NotAsked:
            return []

    def _path(self, path: ast.Path) -> Any:
        scope, name = self._scope, path.variable or ""
        if name in scope.computed:
            found = scope.computed[name]
            return [*found] if isinstance(found, list | tuple) else found
        row = scope.single.get(name)
        rows = [row] if row is not None else scope.several.get(name, ())
        if row is None and name in scope.windowed:
            rows = ()
        return [
            node
            for each in rows
            if each is not None
            for node in self._maker.nodes(path, name, each, self._documents)
        ]

    def _node(self, call: ast.Call) -> Any:
        path, *others = call.args
        assert isinstance(path, ast.Path)
        name = path.variable or ""
        if name not in self._scope.several:
            raise NotAsked
        row = first_or_last(call.name, self._scope.several[name])
        if row is None:
            return compile_value(others[0])(self._scope) if others else []
        return self._maker.nodes(path, name, row, self._documents)


def _is_several(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.Call) and expr.name in FUNCTIONS:
        return FUNCTIONS[expr.name].several
    return False


def _is_node(call: ast.Call) -> bool:
    """Whether a function chooses one of several documents."""
    return call.name in ELEMENT_FUNCTIONS and ELEMENT_FUNCTIONS[call.name].result == "node"


def _folds(pattern: ast.Pattern) -> Iterator[ast.Fold]:
    match pattern:
        case ast.Fold():
            yield pattern
            yield from _folds(pattern.left)
            yield from _folds(pattern.right)
        case ast.Join():
            yield from _folds(pattern.left)
            yield from _folds(pattern.right)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _folds(branch)
        case ast.Group() | ast.Parenthesis():
            yield from _folds(pattern.pattern)


def _blocks(parts: Mapping[int, Part], place_of: Mapping[int, int]) -> Blocks:
    """The documents of a match by block, as places."""

    def block(part: Part) -> Any:
        if part is None:
            return None
        if isinstance(part, Row):
            return place_of[part.doc]
        elements: list[Any] = []
        for each in part:
            inner = _blocks(each.parts, place_of)
            elements.append(inner[0] if len(inner) == 1 else inner)
        return tuple(elements)

    return tuple([block(parts[slot]) for slot in sorted(parts)])
