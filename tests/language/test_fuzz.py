"""Parsing and checking any text ends soon, with a program or an `XsclError`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl import XsclError, check, format_file, parse

T = TypeVar("T")

SEEDS = (
    """LET T1 = 2 days; LET NAMESPACE atom = "http://www.w3.org/2005/Atom";
    Q1: S//book->x1[./author->x2][./title->x3]
        FOLLOWED BY {x2=x5 AND x3=x6, T1}
        S//blog->x4[./author->x5][./title->x6'] -- a comment""",
    """SELECT <pair a="{x1/@id} &amp; b">text {{ {x2} <c/> <![CDATA[x]]></pair>
    FROM feed//atom:entry->x1[not(contains(./title, 'Apple; "so"')) and ./price > -1.5]
    JOIN {url(x1/link) = url(x2) OR x1 + 1 = 2 * (x2 - 3), 1.5 h}
        (SELECT x AS y, x FROM S//*[@lang = 'en' or text()]->x WITHIN 5 s)/result/y->x2
    WHERE NOT (x1//a = x2/b) AND matches(x1, "a+") WITHIN INFINITY PUBLISH pairs""",
    """(S//a->a JOIN S//b->b) FOLLOWED BY {a = b} (S//c JOIN {3} S//d[.//e[@f]->g]/h);
    S//item[substring(./title, 1, 2) = concat('a', "b")][.->x]""",
    """S//a NEXT {p} S//b; S//a FOLD {x, y} S//b; (S//a)+; NOT S//a; S//a OR S//b;
    S//a PARTITION BY ./x USING SKIP TILL NEXT MATCH; S//a GROUP BY x OVER 5 s; S//a[1]""",
)
TOKENS = re.compile(r"\w+|\s+|->|//|--|[^\w\s]")
PIECES = tuple({token for seed in SEEDS for token in TOKENS.findall(seed)})
MORE = (
    "\x00",
    "\ud800",
    "\ufeff",
    "'",
    '"',
    "&",
    "é",
    "\u2028",
    "9" * 5000,
    ".1" + "0" * 5000,
    "-->",
    "]]>",
    "::",
    "..",
)


def survives(text: str) -> None:
    """The text is a program that prints and reads back, or all errors lie in the text."""
    file = expect(lambda: parse(text), text)
    if file is None:
        return
    printed = format_file(file)
    assert parse(printed) == file
    program = expect(lambda: check([file]), text)
    if program is None:
        return
    for query in program.queries:
        (again,) = check([parse(query.text)]).queries
        assert (again.id, again.text, again.query) == (query.id, query.text, query.query)


def expect(stage: Callable[[], T], text: str) -> T | None:
    """What the stage gives, None where it raises an `XsclError` as it should."""
    try:
        return stage()
    except XsclError as error:
        found = error.diagnostics
    assert found
    for diagnostic in found:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
        assert diagnostic.render()
    return None


@given(st.text(max_size=60))
@settings(deadline=None)
def test_any_text(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(PIECES + MORE), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_pieces(pieces: list[str]) -> None:
    survives("".join(pieces))
    survives(" ".join(pieces))


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_mutations(data: st.DataObject) -> None:
    tokens = TOKENS.findall(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(tokens) - 1))
        kind = data.draw(st.sampled_from(["delete", "double", "swap", "replace", "insert"]))
        if kind == "delete" and len(tokens) > 1:
            del tokens[at]
        elif kind == "double":
            tokens.insert(at, tokens[at])
        elif kind == "swap":
            other = data.draw(st.integers(0, len(tokens) - 1))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == "replace":
            tokens[at] = data.draw(st.sampled_from(PIECES + MORE))
        else:
            tokens.insert(at, data.draw(st.sampled_from(PIECES + MORE)))
    survives("".join(tokens))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_beginning(seed: str) -> None:
    for end in range(len(seed)):
        survives(seed[:end])


N = 10_000
DEEP = {
    "parentheses": "(" * N + "S//a" + ")" * N,
    "filters": "S//a" + "[./b" * N + "]" * N,
    "filter parentheses": "S//a[" + "(" * N + "./b" + ")" * N + "]",
    "predicate parentheses": "S//a->x WHERE " + "(" * N + "x" + ")" * N + " = 1",
    "calls": "S//a[" + "url(" * N + "./b" + ")" * N + " = 'x']",
    "not": "S//a[" + "not(" * N + "./b" + ")" * N + "]",
    "NOT": "S//a->x WHERE " + "NOT " * N + "x = 1",
    "signs": "S//a[./b = " + "- " * N + "1]",
    "elements": "SELECT " + "<a>" * N + "</a>" * N + " FROM S//a",
    "expressions in elements": "SELECT " + "<a>{" * N + "x" + "}</a>" * N + " FROM S//a->x",
    "queries": "(SELECT * FROM " * N + "S//a" + ")" * N,
    "joins": "S//a" + " JOIN S//a" * N,
    "joins to the right": "S//a JOIN (" * N + "S//a" + ")" * N,
    "sums": "S//a->x WHERE x = 1" + " + 1" * N,
    "sums on both sides": "S//a->x WHERE " + "(1" + " + (1" * N + ")" * N + ") = x",
    "comparisons": "S//a->x WHERE x" + " = 1" * N,
    "steps": "S" + "/a" * N,
    "braces": "S//a JOIN " + "{" * N + "}" * N,
    "open brackets": "S//a" + "[" * N,
    "quotes": "'" * (2 * N + 1),
    "hyphens": "S//a" + "-" * N,
    "semicolons": ";" * N,
    "bad statements": "?;" * N,
    "labels": "a:" * N,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused(text: str) -> None:
    began = time.process_time()
    survives(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "S//a[" + " and ".join(["./b = 'x'"] * N) + "]",
        "S//a->x WHERE " + " OR ".join(["x = 'x'"] * N),
        "S//a" + "[./b]" * N,
        "SELECT " + ", ".join(["x"] * N) + " FROM S//a->x",
        "SELECT <r>" + "<a>{x}</a>" * N + "</r> FROM S//a->x",
        "S//a->x WHERE concat(" + ", ".join(["x"] * N) + ") = 'x'",
    ],
    ids=["and", "OR", "filters", "items", "elements", "arguments"],
)
def test_breadth_has_no_limit(text: str) -> None:
    began = time.process_time()
    assert len(check([parse(text)]).queries) == 1
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "S//a->x WHERE " + " AND ".join(f"v{n} = {n}" for n in range(N)),
        "S" + "".join(f"//a->v{n}" for n in range(60)) + "[./b->w]" * N,
        ";".join(f"LET T{n} = 1; S//a WITHIN U{n}" for n in range(N)),
        ";".join(f"LET NAMESPACE n{n} = 'u'; S//m{n}:a" for n in range(N)),
        "S//a[" + " and ".join(f"f{n}(./b)" for n in range(N)) + "]",
        ";".join(["S//a"] * N),
        ";".join(f"p{n}//a PUBLISH p{n}" for n in range(N)),
    ],
    ids=["variables", "bindings", "windows", "prefixes", "functions", "ids", "cycles"],
)
def test_many_errors_cost_no_more_than_their_text(text: str) -> None:
    began = time.process_time()
    with pytest.raises(XsclError) as caught:
        check([parse(text)])
    assert [d.code for d in caught.value.diagnostics][-1] == "too-many-errors"
    assert time.process_time() - began < 5


def test_all_limits_can_be_reached_at_once() -> None:
    """The deepest tree that is accepted is no deeper than the passes over it can go."""
    x = "(" * 30 + "x" + ")" * 30
    sums = f"{x} = ({' + '.join(['1'] * 32)}) - ({' + '.join(['1'] * 32)})"
    filters = "[./b" * 30 + "[url(./c) = 'x']" + "]" * 30
    nested = "(SELECT * FROM " * 28 + "S//a" + " JOIN S//b" * 60 + " JOIN (S//c" * 2 + ")" * 30
    text = f"SELECT {'<a>' * 32}{'</a>' * 32} FROM {nested} JOIN S//a->x{filters} WHERE {sums}"
    file = parse(text)
    assert parse(format_file(file)) == file
    assert len(check([file]).queries) == 1
