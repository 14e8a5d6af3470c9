"""XSCL to XQuery 3.1, as literally as the two languages allow.

In go resolved queries; out comes a module that answers them over `$documents`. A block is a FLWOR
expression of its own, a `for` over the documents of its stream and nested `for`s over the nodes
that its variables bind; what only filters is a predicate of a path. A query is a FLWOR expression
with a `for` per block, and everything else as `where`, each as soon as its variables are there. A
stream that a query publishes is a function that its readers call; a query in parentheses stands in
the block that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Protocol

from tests.saxon.expressions import Expressions, Unsupported, conjuncts, literal, variables
from xscl import ast
from xscl.normal.normalize import nested_query

FUNCTIONS = Path(__file__).with_name("functions.xq").read_text(encoding="utf-8")


class Resolved(Protocol):
    """What is needed of `xscl.ResolvedQuery`: durations resolved, prefixes known."""

    @property
    def id(self) -> str: ...
    @property
    def query(self) -> ast.Query: ...
    @property
    def namespaces(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Translated:
    """`homes` has the block, by number, of each node that SELECT names."""

    text: str
    homes: tuple[int, ...]


@dataclass(slots=True)
class Module:
    """The module of some queries: `text` gives the JSON answer of each in `translated`, in order.

    `left_out` has those that XQuery cannot express, with the reason.
    """

    queries: dict[str, Resolved]
    translated: dict[str, Translated] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, queries: Iterable[Resolved]) -> Module:
        made = cls({query.id: query for query in queries})
        for query_id in made.queries:
            try:
                made.function(query_id)
            except Unsupported as error:
                made.left_out[query_id] = str(error)
        return made

    @property
    def text(self) -> str:
        functions = [
            f"declare function {self._name(query_id)}() as map(*)* {{\n  {translated.text}\n}};"
            for query_id, translated in self.translated.items()
        ]
        answers = [f"xscl:answer({self._name(query_id)}#0)" for query_id in self.translated]
        return "\n\n".join([FUNCTIONS, *functions, f"({', '.join(answers)})"])

    def function(self, query_id: str) -> str:
        """The function that gives a query's matches. Raises `Unsupported`."""
        if query_id not in self.translated:
            query = self.queries[query_id]
            translation = _Translation(self, Expressions(query.namespaces))
            self.translated[query_id] = translation.query(query_id, query.query)
        return self._name(query_id)

    def _name(self, query_id: str) -> str:
        return f"local:matches-{list(self.queries).index(query_id) + 1}"

    def stream(self, name: str) -> str:
        """The documents of a stream: those that come in and those that a query publishes."""
        documents = f"$documents[?streams = {literal(name)}]"
        calls = [
            f"{self.function(query_id)}()"
            for query_id, query in self.queries.items()
            if query.query.publish == name
        ]
        return f"({', '.join([documents, *calls])})" if calls else documents


@dataclass(frozen=True, slots=True)
class _Composite:
    """The documents of a part of the pattern, as variables of XQuery."""

    documents: tuple[str, ...]

    @property
    def start(self) -> str:
        return f"min(({', '.join(f'{d}?start' for d in self.documents)}))"

    @property
    def end(self) -> str:
        return f"max(({', '.join(f'{d}?end' for d in self.documents)}))"


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's FLWOR: the document and, one `for` each, the nodes that somebody asks for."""

    clauses: list[str]
    variables: list[str]


@dataclass(slots=True)
class _Translation:
    module: Module
    expressions: Expressions
    blocks: list[str] = field(default_factory=list)
    clauses: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)  # the node that each block selects
    home: dict[str, int] = field(default_factory=dict)  # the block that binds a variable
    waiting: list[ast.Expr] = field(default_factory=list)  # conditions not yet stated
    used: frozenset[str] = frozenset()  # variables that somebody reads

    def query(self, query_id: str, query: ast.Query) -> Translated:
        conditions = [*_predicates(query.pattern), *([query.where] if query.where else [])]
        self.waiting = list(conjuncts(conditions))
        named = None if query.select is None else selected(query.select)
        read = {name for condition in self.waiting for name in variables(condition)}
        self.used = frozenset([*read, *(named or ())])
        whole = self.pattern(query.pattern, every_block=named is None)
        if query.within is not None:
            self.window(whole, query.within)
        assert not self.waiting, "every variable is bound by some block"

        bound = self.expressions.variables
        nodes = self.chosen if named is None else [bound[name] for name in named]
        homes = range(len(nodes)) if named is None else [self.home[name] for name in named]
        documents = f"({', '.join(self.documents)})"
        arguments = f"{documents}, ({', '.join(nodes)})"
        result = _Results(self.expressions, query_id, documents).result(query.select, nodes)
        lines = [
            *self.blocks,
            *self.clauses,
            f"let $key := xscl:key({literal(query_id)}, {arguments})",
            "group by $key",
            *(f"let {v} := head({v})" for v in dict.fromkeys([*self.documents, *nodes])),
            f"return xscl:match($key, {arguments}, {result})",
        ]
        return Translated("\n  ".join(lines), tuple(homes))

    # -- patterns ----------------------------------------------------------------------------

    def pattern(self, pattern: ast.Pattern, every_block: bool) -> _Composite:
        if isinstance(pattern, ast.Block):
            return self.block(self.module.stream(pattern.stream), pattern.steps, every_block)
        if isinstance(pattern, ast.Nested):
            inner = _Translation(self.module, Expressions(self.expressions.namespaces))
            # Its name, which nobody gave it, is in its results, where queries can read it.
            name = nested_query(pattern, self.expressions.namespaces).id
            documents = inner.query(name, pattern.query).text
            return self.block(f"({documents})", pattern.steps, every_block)
        assert isinstance(pattern, ast.Join), "of Part 1"
        left = self.pattern(pattern.left, every_block)
        right = self.pattern(pattern.right, every_block)
        if pattern.kind == "FOLLOWED BY":
            self.clauses.append(f"where {left.end} lt {right.start}")
        whole = _Composite((*left.documents, *right.documents))
        if pattern.window is not None:
            self.window(whole, pattern.window)
        return whole

    def window(self, whole: _Composite, window: ast.Duration) -> None:
        assert window.name is None, "durations are resolved"
        if window.microseconds is not None:
            self.clauses.append(f"where {whole.end} - {whole.start} le {window.microseconds}")

    def block(self, stream: str, steps: tuple[ast.Step, ...], select: bool) -> _Composite:
        number = len(self.documents) + 1
        document, tuples, one = f"$d{number}", f"$b{number}", f"$t{number}"
        self.documents.append(document)
        block = _Block([f"for {document} in {stream}"], [document])
        self.chosen.append(self.bind(block, f"{document}?tree", steps, select))
        nested = "\n    ".join([*block.clauses, f"return [{', '.join(block.variables)}]"])
        self.blocks.append(f"let {tuples} :=\n    {nested}")
        self.clauses.append(f"for {one} in {tuples}")
        self.clauses += [f"let {v} := {one}?{at}" for at, v in enumerate(block.variables, 1)]
        for other in self.documents[:-1]:
            self.clauses.append(f"where not(xscl:same({other}, {document}))")
        self.state()
        return _Composite((document,))

    def state(self) -> None:
        """State the conditions whose variables are all bound, one after the other.

        Of several conditions Saxon may try the dearest first, but not where one guards the other.
        """
        ready = [c for c in self.waiting if all(name in self.home for name in variables(c))]
        self.waiting = [c for c in self.waiting if c not in ready]
        stated = [self.expressions.predicate(condition) for condition in ready]
        if stated:
            guarded = reduce(lambda last, c: f"if ({c}) then {last} else false()", reversed(stated))
            self.clauses.append(f"where {guarded}")

    # -- tree patterns -----------------------------------------------------------------------

    def bind(self, block: _Block, start: str, steps: tuple[ast.Step, ...], select: bool) -> str:
        """Clauses of a block for steps from `start`; the expression of their last node.

        A step becomes a `for` where a variable or a binding filter needs its node; between such
        steps there is one path, and one at the end only has to exist, unless it is to `select`.
        """
        at = start
        for step in steps:
            filters = list(conjuncts(step.filters))
            binding = [part for part in filters if isinstance(part, ast.Path) and self.binds(part)]
            at += self.expressions.step(step, [part for part in filters if part not in binding])
            if step.variable in self.used or binding or (select and step is steps[-1]):
                node = self.expressions.fresh("v")
                block.clauses.append(f"for {node} in {at}")
                block.variables.append(node)
                at = node
                if step.variable is not None:
                    self.expressions.variables[step.variable] = node
                    self.home[step.variable] = len(self.documents) - 1
                for part in binding:
                    self.bind(block, node, part.steps, False)
        if "/" in at:
            block.clauses.append(f"where exists({at})")
        return at

    def binds(self, path: ast.Path) -> bool:
        """Does this filter bind a variable that somebody reads?"""
        return any(
            step.variable in self.used
            or any(
                isinstance(part, ast.Path) and self.binds(part) for part in conjuncts(step.filters)
            )
            for step in path.steps
        )


@dataclass(frozen=True, slots=True)
class _Results:
    """What SELECT says of the document that a match publishes."""

    expressions: Expressions
    query_id: str
    documents: str

    def result(
        self, select: tuple[ast.SelectItem, ...] | ast.Element | None, nodes: list[str]
    ) -> str:
        if isinstance(select, ast.Element):
            return self.element(select, self.expressions.namespaces)
        if select is None:
            content = f"xscl:selected(({', '.join(nodes)}))"
        else:
            content = f"({', '.join(map(self.item, select))})"
        return f"xscl:result({literal(self.query_id)}, {self.documents}, {content})"

    def item(self, item: ast.SelectItem) -> str:
        value = self.expressions.value(item.expr, {})
        name = literal(item.name or "value")
        if not isinstance(item.expr, ast.Path):
            return f"element {{ {name} }} {{ xscl:string({value}) }}"
        if item.name is None:
            return f"xscl:copies({value})"
        return f"({value} ! element {{ {name} }} {{ string(.) }})"

    def element(self, element: ast.Element, scope: Mapping[str, str]) -> str:
        """A constructor; `scope` has the namespaces by prefix, under "" the default one."""
        declared = {name: parts for name, parts in element.attributes if _declares(name)}
        scope = {
            **scope,
            **{name.partition(":")[2]: "".join(map(str, p)) for name, p in declared.items()},
        }
        attributes = [
            f"attribute {{ {_qname(name, scope, '')} }} {{ {self.text(parts)} }}"
            for name, parts in element.attributes
            if name not in declared
        ]
        content = [self.content(part, scope) for part in element.content]
        name = _qname(element.name, scope, scope.get("", ""))
        return f"element {{ {name} }} {{ {', '.join([*attributes, *content])} }}"

    def text(self, parts: Iterable[str | ast.Expr]) -> str:
        texts = []
        for part in parts:
            if isinstance(part, str):
                texts.append(literal(part))
            elif isinstance(part, ast.Path):
                texts.append(f"string-join({self.expressions.value(part, {})} ! string(.), ' ')")
            else:
                texts.append(f"xscl:string({self.expressions.value(part, {})})")
        return f"string-join(({', '.join(texts)}))"

    def content(self, part: str | ast.Expr | ast.Element, scope: Mapping[str, str]) -> str:
        if isinstance(part, ast.Element):
            return self.element(part, scope)
        if isinstance(part, ast.Path):
            return f"xscl:copies({self.expressions.value(part, {})})"
        return f"text {{ {self.text([part])} }}"


def _declares(attribute: str) -> bool:
    return attribute == "xmlns" or attribute.startswith("xmlns:")


def _qname(name: str, scope: Mapping[str, str], default: str) -> str:
    prefix, colon, _ = name.partition(":")
    return f"QName({literal(scope[prefix] if colon else default)}, {literal(name)})"


def _predicates(pattern: ast.Pattern) -> Iterator[ast.Expr]:
    if isinstance(pattern, ast.Join):
        yield from _predicates(pattern.left)
        yield from _predicates(pattern.right)
        if pattern.predicate is not None:
            yield pattern.predicate


def selected(select: tuple[ast.SelectItem, ...] | ast.Element) -> list[str]:
    """The variables that SELECT names, in order of first appearance."""
    if isinstance(select, ast.Element):
        attributes = [part for _, values in select.attributes for part in values]
        parts = [part for part in (*attributes, *select.content) if not isinstance(part, str)]
    else:
        parts = [item.expr for item in select]
    found: list[str] = []
    for part in parts:
        found += selected(part) if isinstance(part, ast.Element) else variables(part)
    return list(dict.fromkeys(found))
