"""Brute force over the combinations of documents: the matches of one query that hold a new one.

In go a standing query and stored documents, out come matches with what they publish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Protocol

from lxml import etree

from tests.oracle import queries, results
from tests.oracle.patterns import Embedding, embeddings, path_nodes
from tests.oracle.trees import Node, Tree, canonical
from tests.oracle.values import Paths, truth
from xscl import ast
from xscl.normal.normalize import nested_query


class Resolved(Protocol):
    """What the oracle needs of `xscl.ResolvedQuery`: durations resolved, prefixes known."""

    @property
    def id(self) -> str: ...
    @property
    def query(self) -> ast.Query: ...
    @property
    def namespaces(self) -> Mapping[str, str]: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A match. `documents` are (id, timestamp), in pattern order; a derived one has its match's end
    and the id that `derived_id` gives it.

    `values` has every variable that a predicate or SELECT reads, and what SELECT names with AS.
    Those that join (in an equality of two variables) or are selected are `reported`; of the others
    a broker need not speak. `result` is the document that the match publishes, as `canonical` has
    it.
    """

    query: str
    documents: tuple[tuple[str, int], ...]
    nodes: tuple[int, ...]
    start: int
    end: int
    values: tuple[tuple[str, tuple[str, ...]], ...]  # by variable: the distinct texts, sorted
    result: str = field(default="", repr=False)
    reported: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


def derived_id(query: str, documents: Iterable[str], nodes: Iterable[int]) -> str:
    """The id of a result as a document: its match, down to the ids of base documents."""
    return f"{query}({', '.join(documents)}; {' '.join(map(str, nodes))})"


@dataclass(frozen=True, slots=True)
class Stored:
    """The version of a document that counts now. `id` is for people, `key` identifies it.

    `arrived` numbers first arrivals; of a derived document it is that of the oldest one which it is
    made of, so that who came later than that does not see it.
    """

    key: object
    id: str
    streams: tuple[str, ...]
    start: int
    end: int
    tree: Tree
    arrived: int


@dataclass(frozen=True, slots=True)
class Match:
    """What was found, between which documents, and the XML that it publishes.

    `hidden`: by a query in parentheses, so that only the query around it hears of it.
    """

    found: Found
    documents: tuple[Stored, ...]
    xml: str
    hidden: bool

    def document(self, query: Standing) -> Stored:
        """The result as a document of the query's stream."""
        assert query.stream is not None
        found = self.found
        return Stored(
            (query.stream, found.query, tuple(d.key for d in self.documents), found.nodes),
            derived_id(found.query, (d.id for d in self.documents), found.nodes),
            (query.stream,),
            found.start,
            found.end,
            Tree(self.xml),
            min(d.arrived for d in self.documents),
        )


@dataclass(slots=True)
class Standing:
    """A query that sees documents from arrival number `since` on; `stream` is where its results go.

    `anonymous` names the streams of nested queries, by their own names.
    """

    resolved: Resolved
    since: int
    stream: str | None
    anonymous: Mapping[str, str]
    hidden: bool = False  # whether it is nested in another, so that nobody else hears of it
    blocks: tuple[ast.Block, ...] = field(init=False)
    predicates: tuple[ast.Expr, ...] = field(init=False)
    used: tuple[str, ...] = field(init=False)  # variables of predicates and of SELECT
    named: tuple[str, ...] | None = field(init=False)  # variables of SELECT; None: `*`
    reported: frozenset[str] = field(init=False)
    home: dict[str, int] = field(init=False)  # the block that binds a variable
    due: list[list[ast.Expr]] = field(init=False)
    """By block the predicates that can be checked once it is bound."""
    memory: dict[tuple[int, Tree], list[Embedding]] = field(default_factory=dict)
    _read: dict[int, list[ast.Path]] = field(default_factory=dict)

    def derived(self, match: Match) -> Stored:
        return match.document(self)

    def __post_init__(self) -> None:
        query = self.resolved.query
        self.blocks = tuple(map(self._block, queries.terms(query.pattern)))
        where = () if query.where is None else (query.where,)
        self.predicates = tuple(queries.conjuncts((*queries.predicates(query.pattern), *where)))
        self.named = None if query.select is None else queries.selected(query.select)
        used = [v for p in self.predicates for v in queries.variables(p)]
        self.used = tuple(dict.fromkeys([*used, *(self.named or ())]))
        select = query.select if isinstance(query.select, tuple) else ()
        renamed = [item.name for item in select if item.name is not None]
        self.reported = frozenset(
            [
                *(self.named or ()),
                *renamed,
                *(v for p in self.predicates for v in queries.joined(p)),
            ]
        )
        self.home = {v: i for i, b in enumerate(self.blocks) for v in queries.bound_in(b.steps)}
        self.due = [[] for _ in self.blocks]
        for predicate in self.predicates:
            names = queries.variables(predicate)
            self.due[max((self.home[name] for name in names), default=0)].append(predicate)

    def read(self, predicate: ast.Expr) -> list[ast.Path]:
        """The paths in one of the predicates or a part of it."""
        known = self._read.get(id(predicate))
        if known is None:
            known = [path for path in queries.paths(predicate) if path.variable is not None]
            self._read[id(predicate)] = known
        return known

    def _block(self, term: ast.Block | ast.Nested) -> ast.Block:
        if isinstance(term, ast.Block):
            return term
        stream = self.anonymous[nested_query(term, self.resolved.namespaces).id]
        return ast.Block(stream, term.steps, span=term.span)

    def embedded(self, at: int, document: Stored) -> list[Embedding]:
        """All embeddings of the block at position `at`; none where the stream is another one."""
        block = self.blocks[at]
        if block.stream not in document.streams:
            return []
        if (at, document.tree) not in self.memory:
            every = embeddings(document.tree, block, self.resolved.namespaces)
            distinct = {_projected(self, embedding) for embedding in every}
            self.memory[at, document.tree] = sorted(distinct, key=_numbers)
        return self.memory[at, document.tree]


def matches(query: Standing, stored: Iterable[Stored], new: Stored) -> Iterator[Match]:
    """All matches of a query that hold `new` and otherwise what is stored."""
    if not any(query.embedded(at, new) for at in range(len(query.blocks))):
        return
    alive = [d for d in stored if d.arrived >= query.since]
    candidates = [[d for d in alive if query.embedded(at, d)] for at in range(len(query.blocks))]
    for documents in _combinations(candidates, new):
        interval = _interval(query.resolved.query, iter(documents))
        if interval is not None:
            choices = [query.embedded(at, d) for at, d in enumerate(documents)]
            yield from _distinct(query, documents, choices, interval)


def _combinations(candidates: Sequence[Sequence[Stored]], new: Stored) -> Iterator[list[Stored]]:
    """One document per block, all different, `new` among them."""

    def extend(chosen: list[Stored], place: int) -> Iterator[list[Stored]]:
        at = len(chosen)
        if at == len(candidates):
            yield chosen
        elif at == place:
            yield from extend([*chosen, new], place)
        else:
            for document in candidates[at]:
                if document is not new and document not in chosen:
                    yield from extend([*chosen, document], place)

    for place, documents in enumerate(candidates):
        if new in documents:
            yield from extend([], place)


def _interval(query: ast.Query, documents: Iterator[Stored]) -> tuple[int, int] | None:
    """From the first to the last timestamp of the composite, None where a time condition fails."""

    def inside(start: int, end: int, window: ast.Duration | None) -> bool:
        if window is None or window.microseconds is None:
            assert window is None or window.name is None, "durations are resolved"
            return True
        return end - start <= window.microseconds

    def over(pattern: ast.Pattern) -> tuple[int, int] | None:
        if not isinstance(pattern, ast.Join):
            document = next(documents)
            return document.start, document.end
        left, right = over(pattern.left), over(pattern.right)
        if left is None or right is None:
            return None
        if pattern.kind == "FOLLOWED BY" and not left[1] < right[0]:
            return None
        start, end = min(left[0], right[0]), max(left[1], right[1])
        return (start, end) if inside(start, end, pattern.window) else None

    whole = over(query.pattern)
    return whole if whole is not None and inside(*whole, query.within) else None


def _distinct(
    query: Standing,
    documents: Sequence[Stored],
    choices: Sequence[Sequence[Embedding]],
    interval: tuple[int, int],
) -> Iterator[Match]:
    """The matches between these documents: one per distinct tuple of SELECTed nodes."""
    texts: dict[tuple[int, ...], dict[str, set[str]]] = {}
    published: dict[tuple[int, ...], str] = {}
    for chosen in _assignments(query, documents, choices):
        bound = _bound(chosen)
        if query.named is None:
            nodes = tuple(node.number for node, _ in chosen)
        else:
            nodes = tuple(bound[name].number for name in query.named)
        if nodes not in texts:
            select = query.resolved.query.select
            texts[nodes] = results.named(select, _reached(query, documents, chosen))
            texts[nodes] |= {name: set() for name in query.used}
            published[nodes] = _published(query, documents, chosen, interval)
        for name in query.used:
            texts[nodes][name].add(bound[name].text)
    refs = tuple((d.id, d.end) for d in documents)
    for nodes, values in texts.items():
        found = Found(
            query.resolved.id,
            refs,
            nodes,
            *interval,
            tuple((name, tuple(sorted(values[name]))) for name in sorted(values)),
            canonical(etree.fromstring(published[nodes])),
            query.reported,
        )
        yield Match(found, tuple(documents), published[nodes], query.hidden)


def _reached(
    query: Standing, documents: Sequence[Stored], chosen: Sequence[Embedding]
) -> Callable[[ast.Path], list[Node]]:
    """The nodes that a path of SELECT leads to from those of `chosen`."""
    bound, namespaces = _bound(chosen), query.resolved.namespaces

    def nodes(path: ast.Path) -> list[Node]:
        assert path.variable is not None
        tree = documents[query.home[path.variable]].tree
        return path_nodes(tree, bound[path.variable], path.steps, namespaces)

    return nodes


def _published(
    query: Standing,
    documents: Sequence[Stored],
    chosen: Sequence[Embedding],
    interval: tuple[int, int],
) -> str:
    """The XML of a match, whose SELECTed nodes are those of `chosen`."""
    namespaces, nodes = query.resolved.namespaces, _reached(query, documents, chosen)
    match query.resolved.query.select:
        case None:
            return results.star(query.resolved.id, interval, (node for node, _ in chosen))
        case ast.Element() as made:
            return results.constructed(made, nodes, namespaces)
        case select:
            return results.items(query.resolved.id, interval, select, nodes)


def _assignments(
    query: Standing, documents: Sequence[Stored], choices: Sequence[Sequence[Embedding]]
) -> Iterator[list[Embedding]]:
    """One embedding per block, all predicates satisfied; each is checked once it is bound."""
    home = query.home

    def holds(predicate: ast.Expr, bound: Mapping[str, Node]) -> bool:
        match predicate:
            case ast.And(parts=parts):
                return all(holds(part, bound) for part in parts)
            case ast.Or(parts=parts):
                return any(holds(part, bound) for part in parts)
            case ast.Not(part=part):
                return not holds(part, bound)
        # A path means "some such node", within functions too: each occurrence on its own.
        read = query.read(predicate)
        choices = product(*(texts(path, bound) for path in read))
        return any(truth(predicate, _picked(read, choice)) for choice in choices)

    def texts(path: ast.Path, bound: Mapping[str, Node]) -> list[str]:
        assert path.variable is not None
        tree, start = documents[home[path.variable]].tree, bound[path.variable]
        if not path.steps:
            return [start.text]
        nodes = path_nodes(tree, start, path.steps, query.resolved.namespaces)
        return [node.text for node in nodes]

    def extend(chosen: list[Embedding]) -> Iterator[list[Embedding]]:
        at = len(chosen)
        if at == len(choices):
            yield chosen
            return
        for embedding in choices[at]:
            bound = _bound([*chosen, embedding])
            if all(holds(predicate, bound) for predicate in query.due[at]):
                yield from extend([*chosen, embedding])

    return extend([])


def _picked(read: Sequence[ast.Path], choice: Sequence[str]) -> Paths:
    """Paths as the one node that was chosen for each; two alike are two, so they go by identity."""
    some = {id(path): [text] for path, text in zip(read, choice, strict=True)}
    return lambda path: some[id(path)]


def _bound(chosen: Iterable[Embedding]) -> dict[str, Node]:
    return {name: node for _, pairs in chosen for name, node in pairs}


def _projected(query: Standing, embedding: Embedding) -> Embedding:
    """Without what neither SELECT nor a predicate asks for: it would only multiply the work."""
    node, pairs = embedding
    if query.named is not None:
        node = replace(node, number=0, text="")
    return node, tuple(pair for pair in pairs if pair[0] in query.used)


def _numbers(embedding: Embedding) -> tuple[int, ...]:
    return (embedding[0].number, *(node.number for _, node in embedding[1]))
