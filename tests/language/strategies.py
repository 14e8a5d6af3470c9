"""Random syntax trees of every form that the parser can produce, valid queries or not.

They obey what `xscl.ast` says of its nodes (conjunctions are flat, and so on) and what text cannot
say otherwise: no string holds both quotation marks, no name two hyphens in a row, and a stream or
window is not named by a keyword.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

from hypothesis import strategies as st

from xscl import ast
from xscl.errors import Source, Span
from xscl.syntax.durations import LONGEST
from xscl.syntax.parser_braces import RESERVED

NOWHERE = Span(Source("<generated>", ""), 0, 0)

T = TypeVar("T")

_test = ast.Test
_step = partial(ast.Step, span=NOWHERE)
_path = partial(ast.Path, span=NOWHERE)

# -- words and literals ----------------------------------------------------------------------

#: Words that are something else in other places, next to plain and to strange ones.
_WORDS = (
    *("a", "b", "item", "title", "x1", "or", "AND", "not", "div", "mod", "as", "from", "Select"),
    *(
        "text",
        "contains",
        "starts-with",
        "s",
        "days",
        "INFINITY",
        "NAMESPACE",
        "é-x",
        "naïve",
        "日",
    ),
    *("a-1", "a.b", "a-", "_", "T1", "T.2", "xml-lang", "where", "join", "LET"),
)
names = st.one_of(
    st.sampled_from(_WORDS),
    st.from_regex(r"[A-Za-z_é日][A-Za-z0-9_.·é]{0,3}(-[a-z0-9.]{1,2})?-?", fullmatch=True),
)
not_keywords = names.filter(lambda name: name.upper() not in RESERVED)
variables = st.one_of(
    st.sampled_from(["x1", "x2", "x4'", "x5''", "x", "title", "or", "and", "from", "as", "div"]),
    st.from_regex(r"[A-Za-z_é][A-Za-z0-9_é]{0,3}'{0,2}", fullmatch=True),
).filter(lambda name: name.upper() != "NOT")

_characters = st.characters(
    categories=("L", "M", "N", "P", "S", "Z", "Cf", "Co"),
    include_characters="\t\n\r",
)
texts = st.one_of(
    st.sampled_from(["Apple", "it's", '"so"', "", " ", "--", ";", "a;b", "{x}", "<a>", "]", "\n"]),
    st.text(_characters, max_size=6),
)
strings = st.builds(
    lambda value: ast.String(value, span=NOWHERE),
    texts.map(lambda text: text.replace('"', "") if "'" in text else text),
)
numbers = st.builds(
    lambda value: ast.Number(value, span=NOWHERE),
    st.one_of(
        st.integers(0, 1000).map(float),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
)
durations = st.builds(
    partial(ast.Duration, span=NOWHERE),
    st.one_of(
        st.none(),
        st.sampled_from([0, 1, 500, 1_000_000, 90_000_000, 3_600_000_000, 86_400_000_000 * 14]),
        st.integers(0, LONGEST),
    ),
) | st.builds(lambda name: ast.Duration(None, name, span=NOWHERE), not_keywords)


# -- steps and expressions -------------------------------------------------------------------

tests = st.one_of(
    st.builds(_test, st.just("element"), names),
    st.builds(_test, st.just("element"), names, names),
    st.builds(_test, st.sampled_from(["element", "attribute"])),
    st.builds(_test, st.just("attribute"), names),
    st.builds(_test, st.just("attribute"), names, names),
    st.sampled_from([ast.Test("text"), ast.Test("self")]),
)
axes = st.sampled_from(["/", "/", "//"])


@cache
def steps(depth: int, bound: bool, least: int = 1) -> st.SearchStrategy[tuple[ast.Step, ...]]:
    filters = st.just(()) if depth == 0 else some(expressions(depth - 1, in_filter=True), 0, 2)
    variable = st.none() | variables if bound else st.none()
    step = st.builds(_step, axes, tests, variable, filters)
    return some(step, least, 3)


@cache
def expressions(depth: int, in_filter: bool) -> st.SearchStrategy[ast.Expr]:
    """Any expression, a value or a condition alike: what fits where is not the parser's
    business."""
    if in_filter:
        paths = st.builds(_path, st.none(), steps(depth, bound=True, least=0))
    else:
        paths = st.builds(_path, variables, st.just(()) | steps(depth, bound=False))
    leaves: st.SearchStrategy[ast.Expr] = paths | strings | numbers
    if depth == 0:
        return leaves
    inner = expressions(depth - 1, in_filter)
    choices: list[st.SearchStrategy[ast.Expr]] = [
        leaves,
        st.builds(
            partial(ast.Comparison, span=NOWHERE),
            st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
            inner,
            inner,
        ),
        st.builds(
            partial(ast.Call, span=NOWHERE),
            names.filter(
                lambda name: name[-1] != "-" and name.upper() not in ("TEXT", "NOT", "NODE")
            ),
            some(inner, 0, 3),
        ),
        st.builds(
            partial(ast.And, span=NOWHERE),
            some(inner.filter(lambda e: type(e) is not ast.And), 2, 3),
        ),
        st.builds(
            partial(ast.Or, span=NOWHERE), some(inner.filter(lambda e: type(e) is not ast.Or), 2, 3)
        ),
        st.builds(partial(ast.Not, span=NOWHERE), inner),
    ]
    if not in_filter:
        operators = st.sampled_from(["+", "-", "*", "div", "mod"])
        choices.append(st.builds(partial(ast.Arithmetic, span=NOWHERE), operators, inner, inner))
    return st.one_of(choices)


def some(one: st.SearchStrategy[T], least: int, most: int) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(one, min_size=least, max_size=most).map(tuple)


# -- patterns and queries --------------------------------------------------------------------


@cache
def patterns(depth: int) -> st.SearchStrategy[ast.Pattern]:
    blocks: st.SearchStrategy[ast.Pattern] = st.builds(
        partial(ast.Block, span=NOWHERE), st.just("S") | not_keywords, steps(2, bound=True)
    )
    if depth == 0:
        return blocks
    inner = patterns(depth - 1)
    predicates = st.none() | expressions(2, in_filter=False)
    windows = st.none() | durations
    return st.one_of(
        blocks,
        st.builds(
            partial(ast.Join, span=NOWHERE),
            st.sampled_from(["JOIN", "FOLLOWED BY"]),
            inner.map(_left),
            inner.map(_term),
            predicates,
            windows,
        ),
        st.builds(
            partial(ast.Join, span=NOWHERE),
            st.sampled_from(["NEXT", "FOLLOWED BY"]),
            inner.map(_left),
            inner.map(_term),
            predicates,
            durations,
            st.booleans(),
        ),
        st.builds(
            partial(ast.Fold, span=NOWHERE),
            inner.map(_left),
            inner.map(_term),
            predicates,
            predicates,
            some(_iterations(), 0, 2),
        ),
        st.builds(partial(ast.Alternatives, span=NOWHERE), some(inner.map(_left), 2, 3)),
        st.builds(partial(ast.Negation, span=NOWHERE), inner.map(_term).filter(_not_negated)),
        st.builds(_group, inner, st.integers(0, 1_000), st.none() | st.integers(1, 1_000)),
        st.builds(_parenthesis, inner, predicates, windows),
        st.builds(
            partial(ast.Nested, span=NOWHERE),
            queries(depth - 1, labels=st.none()),
            st.just(()) | steps(1, bound=True),
        ),
    )


def _iterations() -> st.SearchStrategy[ast.Iteration]:
    value = expressions(1, in_filter=False)
    return st.builds(partial(ast.Iteration, span=NOWHERE), value, variables, value)


def _is_plain(pattern: ast.Pattern) -> bool:
    """Whether the tree keeps no parentheses around it."""
    if isinstance(pattern, ast.Join):
        plain = pattern.kind != "NEXT" and not pattern.after
        return plain and _is_plain(pattern.left) and _is_plain(pattern.right)
    return isinstance(pattern, ast.Block | ast.Nested)


def _left(pattern: ast.Pattern) -> ast.Pattern:
    """As it stands left of an operator, or as a branch."""
    wrapped = isinstance(pattern, ast.Alternatives)
    return ast.Parenthesis(pattern, span=NOWHERE) if wrapped else pattern


def _term(pattern: ast.Pattern) -> ast.Pattern:
    """As it stands right of an operator, or behind NOT."""
    if isinstance(pattern, ast.Alternatives | ast.Fold) or (
        isinstance(pattern, ast.Join) and not _is_plain(pattern)
    ):
        return ast.Parenthesis(pattern, span=NOWHERE)
    return pattern


def _not_negated(pattern: ast.Pattern) -> bool:
    return not isinstance(pattern, ast.Negation)


def _bare(pattern: ast.Pattern) -> ast.Pattern:
    """Without parentheses that hold no clause."""
    if isinstance(pattern, ast.Parenthesis) and not (pattern.where or pattern.within):
        return pattern.pattern
    return pattern


def _group(pattern: ast.Pattern, least: int, most: int | None) -> ast.Group:
    return ast.Group(
        _bare(pattern), least, None if most is None else max(least, most), span=NOWHERE
    )


def _parenthesis(
    pattern: ast.Pattern, where: ast.Expr | None, within: ast.Duration | None
) -> ast.Pattern:
    """With clauses, or around what keeps parentheses."""
    if where is None and within is None:
        return pattern
    return ast.Parenthesis(pattern, where, within, span=NOWHERE)


selections = st.sampled_from(
    [
        None,
        "SKIP TILL ANY MATCH",
        "SKIP TILL NEXT MATCH",
        "STRICT CONTIGUITY",
        "PARTITION CONTIGUITY",
    ]
)
choosing = st.sampled_from([None, "NON OVERLAPPING", "ONE PER START"])


@cache
def clauses() -> st.SearchStrategy[dict[str, Any]]:
    """The clauses of Part 2."""
    strategies = st.builds(partial(ast.Strategy, span=NOWHERE), selections, choosing)
    having = st.none() | expressions(1, in_filter=False)
    keys = some(expressions(1, in_filter=False), 0, 2)
    return st.fixed_dictionaries(
        {},
        optional={
            "partition": some(st.builds(_path, st.none(), steps(1, bound=False, least=0)), 1, 2),
            "strategy": strategies.filter(lambda s: bool(s.selection or s.choosing)),
            "wait": durations,
            "over": st.builds(partial(ast.Over, span=NOWHERE), keys, durations, having),
        },
    )


@cache
def queries(
    depth: int, labels: st.SearchStrategy[str | None] | None = None
) -> st.SearchStrategy[ast.Query]:
    items = st.builds(
        partial(ast.SelectItem, span=NOWHERE),
        expressions(2, in_filter=False),
        st.none() | names,
    )
    return st.builds(
        _query,
        st.booleans() | st.just(False),
        clauses(),
        patterns(depth).map(_bare),
        st.none() | some(items, 1, 3) | elements(2),
        st.none() | expressions(3, in_filter=False),
        st.none() | durations,
        st.none() | not_keywords,
        st.none() | names if labels is None else labels,
    )


def _query(at_end: bool, extension: dict[str, Any], *parts: Any) -> ast.Query:
    made = partial(ast.Query, span=NOWHERE)(*parts)
    return replace(made, **extension, at_end=at_end and made.publish is not None)


# -- constructors ----------------------------------------------------------------------------


@cache
def elements(depth: int) -> st.SearchStrategy[ast.Element]:
    qualified = names | st.builds("{}:{}".format, names, names)
    xml_names = qualified.filter(lambda name: not name.startswith("xmlns"))
    values = st.lists(texts | expressions(1, in_filter=False), max_size=3).map(_parts)
    content: st.SearchStrategy[str | ast.Expr | ast.Element]
    content = texts | expressions(1, in_filter=False)
    if depth:
        content |= elements(depth - 1)
    return st.builds(
        partial(ast.Element, span=NOWHERE),
        xml_names,
        st.dictionaries(xml_names, values, max_size=2).map(lambda found: tuple(found.items())),
        st.lists(content, max_size=3).map(_parts),
    )


def _parts(parts: Sequence[str | T]) -> tuple[str | T, ...]:
    """Neighbouring texts are one text, and an empty one is none."""
    merged: list[str | T] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        elif part != "":
            merged.append(part)
    return tuple(merged)


# -- files -----------------------------------------------------------------------------------

statements: st.SearchStrategy[ast.Statement] = st.one_of(
    queries(2),
    st.builds(partial(ast.LetDuration, span=NOWHERE), not_keywords, durations),
    st.builds(
        partial(ast.LetNamespace, span=NOWHERE), names, strings.map(lambda string: string.value)
    ),
)
files = st.builds(partial(ast.File, span=NOWHERE), some(statements, 0, 3))
