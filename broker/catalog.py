"""Subscriptions, compiled: from XSCL text to edges for stage 1 and parameter rows for stage 2.

Queries with one join graph over the same variables are one *canonical query* with many
subscribers, so that stage 2 never does the same work twice; each subscriber's windows and first
document are checked when a match is handed to it. The ids of variables are never used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from broker.sql import UNBOUNDED, has_edge
from xscl import ast
from xscl.check import ResolvedQuery
from xscl.joingraph import JoinGraph, join_graph
from xscl.normal import NormalQuery, normalize, walk_operators
from xscl.stage1 import Edge
from xscl.template import Fitted, Template, template
from xscl.treepattern import Definition, paths


@dataclass(slots=True)
class Canonical:
    """A canonical query: a template and what its parameters are.

    `variables` are by position, `quantified` the variables of paths under NOT or OR.
    """

    number: int
    template: int
    variables: tuple[int, ...]
    selected: frozenset[int]
    edges: tuple[int, ...]
    definitions: tuple[Definition, ...]
    quantified: tuple[int, ...]
    constants: tuple[str | float, ...]
    subscribers: dict[int, Subscription] = field(default_factory=dict)

    def windows(self) -> list[int]:
        """The widest window that any subscriber asks for, per operator and for the whole."""
        return [max(w) for w in zip(*(s.windows for s in self.subscribers.values()), strict=True)]

    def first_doc(self) -> int:
        return min(s.first_doc for s in self.subscribers.values())


@dataclass(slots=True)
class Subscription:
    """A registered query. `positions` are the template's positions of its graph's nodes.

    `named` maps what SELECT names to positions: variables, or for `*` the numbers of the blocks.
    """

    number: int
    resolved: ResolvedQuery
    first_doc: int
    graph: JoinGraph
    positions: tuple[int, ...]
    windows: tuple[int, ...]
    named: dict[str, int]
    nested: tuple[str, ...]
    canonical: Canonical

    @property
    def id(self) -> str:
        return self.resolved.id

    @property
    def reads(self) -> set[str]:
        """The streams that its result is derived from."""
        return {node.definition.stream for node in self.graph.nodes}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query on its way to become a subscription: everything that needs no catalog."""

    resolved: ResolvedQuery
    normal: NormalQuery
    graph: JoinGraph
    fitted: Fitted
    named: dict[str, int]
    nested: tuple[Compiled, ...]

    @property
    def reads(self) -> set[str]:
        """The streams that its result is derived from."""
        return {node.definition.stream for node in self.graph.nodes}.union(
            *(inner.reads for inner in self.nested)
        )


def compile_query(resolved: ResolvedQuery) -> Compiled:
    """All passes from a checked query to its template."""
    normal = normalize(resolved)
    names = selected_variables(resolved.query)
    graph = join_graph(normal, names)
    fitted = template(graph)
    places = [fitted.positions[i] for i in graph.selected]
    named = dict(zip(names or map(str, range(len(places))), places, strict=True))
    nested = tuple(compile_query(inner) for inner in normal.nested)
    return Compiled(resolved, normal, graph, fitted, named, nested)


def selected_variables(query: ast.Query) -> list[str]:
    """The variables that SELECT names, in order; none for `*`."""
    if query.select is None:
        return []
    select = query.select
    exprs = _expressions(select) if isinstance(select, ast.Element) else [i.expr for i in select]
    names = dict.fromkeys(path.variable for expr in exprs for path in paths(expr))
    return [name for name in names if name is not None]


def _expressions(element: ast.Element) -> Iterator[ast.Expr]:
    for part in [*(p for _, parts in element.attributes for p in parts), *element.content]:
        if isinstance(part, ast.Element):
            yield from _expressions(part)
        elif not isinstance(part, str):
            yield part


class Catalog:
    """All subscriptions of a broker, in memory; the engine keeps them in the store as text."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.canonical: dict[int, Canonical] = {}
        self.templates: dict[Template, int] = {}
        self.variables: dict[str, int] = {}
        self.edges: dict[int, Edge] = {}
        self.published: dict[str, str] = {}
        """Streams that queries publish, and the ids of those queries."""
        self.read: Counter[str] = Counter()
        """Streams that queries read, with the number of canonical queries that do."""
        self._uses: Counter[int] = Counter()
        self._edge_ids: dict[tuple[int, int], int] = {}
        self._by_key: dict[object, Canonical] = {}
        self._nested_users: Counter[str] = Counter()
        self._last_hidden = 0
        self._next_edge = 1
        self._next_canonical = 1
        self.new_variables: list[tuple[int, str]] = []
        self.dirty: set[int] = set()
        """Canonical queries whose row in RT is not up to date."""
        self.changed: set[int] = set()
        """Edges that stage 1 does not hold as they are here."""

    def add(self, compiled: Compiled, number: int, first_doc: int) -> Subscription:
        """Register a query, and with it those in its FROM, which equal ones share."""
        for inner in compiled.nested:
            self._nested_users[inner.resolved.id] += 1
            if inner.resolved.id not in self.subscriptions:
                self._last_hidden -= 1
                self.add(inner, self._last_hidden, first_doc)
        canonical = self._canonical(compiled)
        subscription = Subscription(
            number=number,
            resolved=compiled.resolved,
            first_doc=first_doc,
            graph=compiled.graph,
            positions=compiled.fitted.positions,
            windows=windows_of(compiled.graph),
            named=compiled.named,
            nested=tuple(inner.resolved.id for inner in compiled.nested),
            canonical=canonical,
        )
        canonical.subscribers[number] = subscription
        self.subscriptions[subscription.id] = subscription
        if compiled.resolved.query.publish is not None:
            self.published[compiled.resolved.query.publish] = subscription.id
        self.dirty.add(canonical.number)
        return subscription

    def remove(self, id: str) -> Subscription:
        subscription = self.subscriptions.pop(id)
        for inner in subscription.nested:
            self._nested_users[inner] -= 1
            if not self._nested_users[inner]:
                self.remove(inner)
        if subscription.resolved.query.publish is not None:
            del self.published[subscription.resolved.query.publish]
        canonical = subscription.canonical
        del canonical.subscribers[subscription.number]
        self.dirty.add(canonical.number)
        if not canonical.subscribers:
            del self.canonical[canonical.number]
            del self._by_key[self._key(canonical)]
            for edge in canonical.edges:
                self._release(edge)
            self.read.subtract({d.stream for d in canonical.definitions})
        return subscription

    def _canonical(self, compiled: Compiled) -> Canonical:
        graph, shape = compiled.graph, compiled.fitted.template
        number = self.templates.setdefault(shape, len(self.templates))
        definitions: list[Definition] = [graph.nodes[0].definition] * len(graph.nodes)
        for node, position in zip(graph.nodes, compiled.fitted.positions, strict=True):
            definitions[position] = node.definition
        variables = tuple(self.variable(d) for d in definitions)
        quantified = tuple(self.variable(d) for _, d in graph.quantified)
        selected = frozenset(compiled.fitted.positions[i] for i in graph.selected)
        constants = compiled.fitted.constants
        key = (number, variables, selected, quantified, repr(constants))
        canonical = self._by_key.get(key)
        if canonical is None:
            edges = list(self._edges(shape, variables, definitions))
            for (_, defined), base, variable in zip(
                graph.quantified, shape.quantified, quantified, strict=True
            ):
                depth = len(definitions[base].steps)
                edges.append(self._edge(variables[base], variable, defined, depth, False, True))
            self._uses.update(edges)
            self.read.update({d.stream for d in definitions})
            canonical = Canonical(
                number=self._next_canonical,
                template=number,
                variables=variables,
                selected=selected,
                edges=tuple(edges),
                definitions=tuple(definitions),
                quantified=quantified,
                constants=constants,
            )
            self._next_canonical += 1
            self._by_key[key] = canonical
            self.canonical[canonical.number] = canonical
        return canonical

    def _key(self, canonical: Canonical) -> object:
        return (
            canonical.template,
            canonical.variables,
            canonical.selected,
            canonical.quantified,
            repr(canonical.constants),
        )

    def variable(self, definition: Definition) -> int:
        """The id of a variable, by its definition; a new one is given where it is new."""
        text = definition.text()
        number = self.variables.get(text)
        if number is None:
            number = self.variables[text] = len(self.variables) + 1
            self.new_variables.append((number, text))
        return number

    def _edges(
        self, shape: Template, variables: tuple[int, ...], definitions: list[Definition]
    ) -> Iterable[int]:
        for position, (_, parent) in enumerate(shape.nodes):
            if has_edge(shape, position):
                var1 = 0 if parent is None else variables[parent]
                depth = 0 if parent is None else len(definitions[parent].steps)
                yield self._edge(
                    var1,
                    variables[position],
                    definitions[position],
                    depth,
                    shape.valued(position),
                    shape.read(position),
                )

    def _edge(
        self, var1: int, var2: int, defined: Definition, depth: int, valued: bool, read: bool
    ) -> int:
        """The id of an edge that carries at least what is asked for.

        One that is asked for more than before is upgraded, so that no edge is witnessed twice; the
        rows from before serve only queries that asked for less.
        """
        edge_id = self._edge_ids.get((var1, var2))
        if edge_id is None:
            edge_id = self._edge_ids[var1, var2] = self._next_edge
            self._next_edge += 1
            known = None
        else:
            known = self.edges[edge_id]
            valued, read = valued or known.valued, read or known.read
        edge = Edge(edge_id, var1, var2, defined, depth, valued, read)
        if edge != known:
            self.edges[edge_id] = edge
            self.changed.add(edge_id)
        return edge_id

    def _release(self, edge_id: int) -> None:
        self._uses[edge_id] -= 1
        if not self._uses[edge_id]:
            edge = self.edges.pop(edge_id)
            self.changed.add(edge_id)
            del self._uses[edge_id]
            del self._edge_ids[edge.var1, edge.var2]

    def widest_window(self) -> int:
        """The longest time that any match may span, in microseconds."""
        return max((s.windows[-1] for s in self.subscriptions.values()), default=0)


def windows_of(graph: JoinGraph) -> tuple[int, ...]:
    """Windows by operator, then WITHIN; the last also says how long a whole match may be."""
    own = [UNBOUNDED if o.window is None else o.window for o in walk_operators(graph.operators)]
    whole = UNBOUNDED if graph.within is None else graph.within
    return (*own, min([whole, *own[-1:]]))
