"""Syntax trees to a program: names resolved, ids assigned, all static checks.

In: the parsed files, which share one namespace of ids and streams. Out: a `Program` of
resolved queries and warnings, or an `XsclError` with all errors found. Cost is linear in the text.
The checks of one query are in `queries` and `expressions`, the warnings about its joins in `joins`
and those about its windows in `windows`, the search for cycles in `cycles`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar

from xscl import ast
from xscl.check.cycles import find_cycles
from xscl.check.expressions import HINTED
from xscl.check.findings import Findings
from xscl.check.joins import join_warnings
from xscl.check.queries import check_query
from xscl.check.windows import window_warnings
from xscl.errors import Diagnostic, Span, XsclError
from xscl.growth import growing
from xscl.syntax import fingerprints
from xscl.syntax.durations import UNITS
from xscl.syntax.foreign import NO_NUMBER
from xscl.syntax.lexer import capped
from xscl.syntax.nearest import known_names
from xscl.syntax.printer import quoted, split_query

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

#: Hexadecimal digits of the id of a query without a name: 48 bits, so that among a million of them
#: two are equal with a probability of 1 in 500.
_HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query that no longer depends on the rest of its file.

    `id` is its label, else its PUBLISH name, else "q" and a hash of its canonical text without
    label. In `query` every duration is a number of microseconds (None: INFINITY) and has no name.
    `namespaces` maps the prefixes that it uses, and `xml`, to namespace names. `text` is canonical,
    on one line (but for line breaks in strings), and complete: parsed alone it gives the same query
    with the same id. Where the query uses prefixes, it begins with their LET NAMESPACE. `form` is
    the same for queries that differ in literals, id and PUBLISH only, not in AT END, and `literals`
    are its own as written, in order.
    """

    id: str
    query: ast.Query
    namespaces: Mapping[str, str]
    text: str
    form: str
    literals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """All queries of the files in order, and the warnings about them."""

    queries: tuple[ResolvedQuery, ...]
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _Checked:
    id: str
    query: ast.Query
    streams: Collection[str]


def check(
    files: Sequence[ast.File],
    on_statement: Callable[[ast.Statement], object] = lambda statement: None,
) -> Program:
    """Resolve and check the queries of `files`; `on_statement` is called with each statement that
    is done. Raises `XsclError` with the errors found, the first twenty in the order of the text."""
    found = Findings()
    queries: list[ResolvedQuery] = []
    checked: list[_Checked] = []
    with growing(sum(len(file.statements) for file in files)):
        for file in files:
            scope = _File(file, found)
            for statement in file.statements:
                if isinstance(statement, ast.LetDuration):
                    scope.let_duration(statement)
                elif isinstance(statement, ast.LetNamespace):
                    scope.let_namespace(statement)
                else:
                    resolved, streams = scope.query(statement)
                    queries.append(resolved)
                    checked.append(_Checked(resolved.id, resolved.query, streams))
                on_statement(statement)
    errors = found.errors + _duplicates(checked) + _cycles(checked)
    if errors:
        order = {id(file.span.source): number for number, file in enumerate(files)}
        errors.sort(key=lambda e: (order.get(id(e.span.source), 0), e.span.start))
        raise XsclError(capped(errors))
    return Program(tuple(queries), tuple(found.warnings))


# -- one file --------------------------------------------------------------------------------


class _File:
    """One file: its LET definitions so far, by which its queries are resolved."""

    def __init__(self, file: ast.File, found: Findings) -> None:
        self.file = file
        self.found = found
        self.durations: dict[str, int | None] = {}
        self.namespaces: dict[str, str] = {"xml": XML_NAMESPACE}
        self.scopes: dict[tuple[str, ...], Mapping[str, str]] = {}
        self.places: dict[tuple[str, str], Span] = {}

    def let_duration(self, let: ast.LetDuration) -> None:
        duration = self.duration(let.duration)
        if self.first("window", let.name, let.span):
            self.durations[let.name] = duration.microseconds

    def let_namespace(self, let: ast.LetNamespace) -> None:
        if let.prefix in ("xml", "xmlns") or not let.uri:
            what = "is reserved" if let.uri else "needs a namespace name that is not empty"
            self.found.error("reserved-prefix", f"the prefix {let.prefix} {what}", let.span)
        elif self.first("namespace prefix", let.prefix, let.span):
            self.namespaces[let.prefix] = let.uri

    def first(self, kind: str, name: str, span: Span) -> bool:
        """Whether this is the first LET of that name; the second is an error."""
        place = self.places.setdefault((kind, name), span)
        if place is span:
            return True
        also = (("it was first defined here:", place),)
        self.found.error("duplicate-let", f"the {kind} {name} is defined twice", span, also=also)
        return False

    def query(self, query: ast.Query) -> tuple[ResolvedQuery, Collection[str]]:
        """The query, resolved, and the streams that it reads. One that differs from a checked one
        in free literals only is not checked again."""
        like = query if isinstance(query, fingerprints.Query) else None
        known = None if like is None else like.like()
        if like is not None and known is not None and known.checked is not None:
            found = known.checked
            literals = found.literals_with(like.own)
            scope = self.scope(frozenset())
            return _resolved(query, scope, "", found.text % literals, found.form, literals), (
                found.streams
            )
        wrong = len(self.found.errors)
        noted = wrong + len(self.found.warnings)
        top, *nested = check_query(query, self.namespaces, len(self.found.errors) < HINTED)
        for each in (top, *nested):
            self.found.errors += each.errors
            self.found.warnings += each.warnings
            if not each.errors:
                self.found.warnings += join_warnings(each)
        resolved = self.resolve(query)
        if wrong == len(self.found.errors):
            self.found.warnings += window_warnings(resolved)
        scope = self.scope(top.prefixes)
        text = "".join(
            f"LET NAMESPACE {prefix} = {quoted(uri)}; "
            for prefix, uri in scope.items()
            if prefix != "xml"
        )
        body, form, literals = split_query(resolved)
        if known is not None:
            clean = noted == len(self.found.errors) + len(self.found.warnings)
            known.checks(form if clean else None, literals, top.streams)
        return _resolved(resolved, scope, text, body, form, literals), top.streams

    def scope(self, prefixes: Collection[str]) -> Mapping[str, str]:
        """The namespaces of these prefixes and of `xml`, in order. The meaning of a query must not
        depend on the rest of its file. Most queries share one such mapping."""
        used = tuple(sorted({"xml", *prefixes} & self.namespaces.keys()))
        scope = self.scopes.get(used)
        if scope is None:
            scope = self.scopes[used] = {prefix: self.namespaces[prefix] for prefix in used}
        return scope

    # -- durations ---------------------------------------------------------------------------

    def resolve(self, query: ast.Query) -> ast.Query:
        """The query with its windows as numbers and a path behind each query in parentheses, the
        same object where that changes nothing."""
        changed: dict[str, Any] = {
            "pattern": self.pattern(query.pattern),
            "within": self.window(query.within),
            "wait": self.window(query.wait),
        }
        if query.over is not None:
            changed["over"] = _with(query.over, window=self.duration(query.over.window))
        return _with(query, **changed)

    def pattern(self, pattern: ast.Pattern) -> ast.Pattern:
        match pattern:
            case ast.Block():
                return pattern
            case ast.Nested():
                # Without a path its results are taken whole.
                whole = ast.Step("/", ast.Test("element"), span=pattern.span)
                steps = pattern.steps or (whole,)
                return _with(pattern, query=self.resolve(pattern.query), steps=steps)
            case ast.Join():
                left, right = self.pattern(pattern.left), self.pattern(pattern.right)
                return _with(pattern, left=left, right=right, window=self.window(pattern.window))
            case ast.Fold():
                return _with(
                    pattern, left=self.pattern(pattern.left), right=self.pattern(pattern.right)
                )
            case ast.Alternatives():
                branches = [self.pattern(branch) for branch in pattern.branches]
                if all(map(operator.is_, branches, pattern.branches)):
                    return pattern
                return replace(pattern, branches=tuple(branches))
            case ast.Parenthesis():
                inner, within = self.pattern(pattern.pattern), self.window(pattern.within)
                return _with(pattern, pattern=inner, within=within)
            case ast.Negation():
                return _with(pattern, pattern=self.pattern(pattern.pattern))
            case ast.Group():
                return _with(pattern, pattern=self.pattern(pattern.pattern))

    def window(self, duration: ast.Duration | None) -> ast.Duration | None:
        return None if duration is None else self.duration(duration)

    def duration(self, duration: ast.Duration) -> ast.Duration:
        name = duration.name
        if name is None:
            return duration
        if name not in self.durations:
            self.unknown_duration(name, duration.span)
            return ast.Duration(None, span=duration.span)
        return ast.Duration(self.durations[name], span=duration.span)

    def unknown_duration(self, name: str, span: Span) -> None:
        message = f"the window {name} is not defined"
        if len(self.found.errors) >= HINTED:
            self.found.error("unknown-duration", message, span)
            return
        if name.lower() in UNITS:
            self.found.error("unknown-duration", message, span, NO_NUMBER)
            return
        none = f"define it above, as in LET {name} = 2 days, or write NUMBER unit"
        hint = known_names(name, self.durations, "the windows defined above are", none)
        below = tuple(
            ("it is defined only here:", let.span)
            for let in self.file.statements
            if isinstance(let, ast.LetDuration) and let.name == name and let.span.start > span.start
        )
        self.found.error("unknown-duration", message, span, hint, below)


_Node = TypeVar(
    "_Node",
    ast.Query,
    ast.Nested,
    ast.Join,
    ast.Fold,
    ast.Parenthesis,
    ast.Negation,
    ast.Group,
    ast.Over,
)


def _with(node: _Node, **parts: Any) -> _Node:
    """A node with other parts; the same object where all are its own already."""
    if all(getattr(node, name) is part for name, part in parts.items()):
        return node
    return replace(node, **parts)


def _resolved(
    query: ast.Query,
    scope: Mapping[str, str],
    declared: str,
    body: str,
    form: str,
    literals: tuple[str, ...],
) -> ResolvedQuery:
    """A checked query; `declared` are the LET NAMESPACE that stand before its text."""
    if query.publish is not None:
        body += f" PUBLISH {query.publish}" + (" AT END" if query.at_end else "")
    if query.at_end:
        form += " AT END"
    name = query.label or query.publish
    if name is None:
        name = "q" + blake2b((declared + body).encode()).hexdigest()[:_HASH_DIGITS]
    if query.label is not None:
        body = f"{query.label}: {body}"
    return ResolvedQuery(name, query, scope, declared + body, declared + form, literals)


# -- all files -------------------------------------------------------------------------------


def _duplicates(queries: list[_Checked]) -> list[Diagnostic]:
    errors = []
    ids: dict[str, ast.Query] = {}
    streams: dict[str, ast.Query] = {}
    for each in queries:
        query = each.query
        publish = query.publish
        published = query if publish is None else streams.setdefault(publish, query)
        first = ids.setdefault(each.id, query)
        if published is not query:
            errors.append(
                Diagnostic(
                    "duplicate-publish",
                    f"two queries publish the stream {publish}",
                    query.publish_span or query.span,
                    also=(("the other is here:", published.publish_span or published.span),),
                )
            )
        # Two queries whose id is the stream that both publish are reported once.
        if first is not query and (published is query or query.label or first.label):
            errors.append(_same_id(each.id, query, first))
    return errors


def _same_id(name: str, query: ast.Query, first: ast.Query) -> Diagnostic:
    if query.label is None and query.publish is None:
        message = "this query is written twice, so both would have one id"
        hint = "leave one out, or give it a label: NAME: query"
    else:
        message, hint = (
            f"two queries have the id {name}",
            "the id is the label, else the PUBLISH name",
        )
    place = query.label_span or query.publish_span or query.span
    other = first.label_span or first.publish_span or first.span
    return Diagnostic("duplicate-id", message, place, hint, also=(("the other is here:", other),))


def _cycles(queries: list[_Checked]) -> list[Diagnostic]:
    publishers = {q.query.publish: q for q in queries if q.query.publish is not None}
    errors = []
    for cycle in find_cycles({name: publishers[name].streams for name in publishers}):
        places = [publishers[name].query for name in cycle]
        first, *others = [query.publish_span or query.span for query in places]
        path = " reads ".join([*cycle, cycle[0]])
        errors.append(
            Diagnostic(
                "publish-cycle",
                f"a stream cannot be derived from itself: {path}",
                first,
                also=tuple(("a part of the cycle:", place) for place in others),
            )
        )
    return errors
