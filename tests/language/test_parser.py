"""Unclear cases of the grammar: a text, and an equivalent one. Layout and canonical forms are in
`test_printer`, what is refused in `test_errors`."""

from __future__ import annotations

import pytest

from xscl import XsclError, ast, parse
from xscl.syntax.printer import format_expression, format_file, format_pattern


def query(text: str) -> ast.Query:
    (statement,) = parse(text).statements
    assert isinstance(statement, ast.Query)
    return statement


def where(predicate: str) -> str:
    found = query(f"S//a->x WHERE {predicate}").where
    assert found is not None
    return format_expression(found)


def braces(inside: str) -> tuple[str | None, int | str | None]:
    """The predicate, and the window in microseconds or by name, of a join's braces."""
    join = query(f"S//a->x JOIN {{{inside}}} S//b->y").pattern
    assert isinstance(join, ast.Join)
    predicate = None if join.predicate is None else format_expression(join.predicate)
    if join.window is None:
        return predicate, None
    return predicate, join.window.name or join.window.microseconds


TABLE_6_2 = """
    LET T1 = 2 days; LET T2 = 3 h; LET T3 = INFINITY;
    Q1: S//book->x1[./author->x2][./title->x3]
        FOLLOWED BY {x2=x5 AND x3=x6, T1}
        S//blog->x4[./author->x5][./title->x6];
    Q2: S//book->x1[./author->x2][./category->x7]
        FOLLOWED BY {x2=x5 AND x7=x8, T2}
        S//blog->x4[./author->x5][./category->x8];
    Q3: S//blog->x4[./author->x5][./title->x6]
        FOLLOWED BY {x5=x5' AND x6=x6', T3}
        S//blog->x4'[./author->x5'][./title->x6'];
"""


def test_the_queries_of_the_paper() -> None:
    *lets, q1, q2, q3 = parse(TABLE_6_2).statements
    assert [type(let) for let in lets] == [ast.LetDuration] * 3
    assert isinstance(q1, ast.Query)
    assert isinstance(q2, ast.Query)
    assert isinstance(q3, ast.Query)
    assert [q1.label, q2.label, q3.label] == ["Q1", "Q2", "Q3"]
    join = q3.pattern
    assert isinstance(join, ast.Join)
    assert join.kind == "FOLLOWED BY"
    assert format_pattern(join.left) == "S//blog->x4[./author->x5][./title->x6]"
    assert format_pattern(join.right) == "S//blog->x4'[./author->x5'][./title->x6']"
    assert isinstance(join.predicate, ast.And)
    assert join.window == ast.Duration(None, "T3", span=join.span)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        # a keyword in the place of an element name is an element name
        ("S//from/select[./and and or or not]", "S//from/select[./and and ./or or ./not]"),
        ("S//not[not(not)]", "S//not[not(./not)]"),
        ("S//as AS as[text]", "S//as->as[./text]"),
        ("S//join JOIN S//followed", "S//join JOIN S//followed"),
        ("S//a->from WITHIN 2 days", "S//a->from"),
        ("S//a[div = 'x' or mod]", "S//a[./div = 'x' or ./mod]"),
        ("S//contains[contains(contains, 'x')]", "S//contains[contains(./contains, 'x')]"),
        # names are XML names
        ("feeds.bbc-uk//a-b.c/d--e", "feeds.bbc-uk//a-b.c/d"),
        ("S//été/日本[./μ->μ']", "S//été/日本[./μ->μ']"),
        ("S//a-->x", "S//a"),
        ("S//a->x--comment", "S//a->x"),
        ("S//a- ->x", "S//a- ->x"),
        ("S//atom:entry[@xml:lang]", "S//atom:entry[./@xml:lang]"),
        # quotation marks and primes
        ("S//a->x''[@b='c']", "S//a->x''[./@b = 'c']"),
        ("S//a[@b=\"it's\"][. = '--']", "S//a[./@b = \"it's\"][. = '--']"),
        # axes
        ("S/a//*/@*", "S/a//*/@*"),
        ("S//./a", "S//./a"),
        ("S//a[.//b/text() = 'c']", "S//a[.//b/text() = 'c']"),
        ("S//a[.5 < .]", "S//a[0.5 < .]"),
        ("S//a[. = -1.]", "S//a[. = -1]"),
        # a label is no prefix
        ("atom: entry//atom:entry", "entry//atom:entry"),
        ("LET: S//a", "S//a"),
        ("\ufeffS//a", "S//a"),
    ],
)
def test_patterns(text: str, pattern: str) -> None:
    assert format_pattern(query(text).pattern) == pattern


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("x-1 = 2", "x - 1 = 2"),
        ("x -1 = 2", "x - 1 = 2"),
        ("x- -1 = 2", "x - -1 = 2"),
        ("x/a-1 = 2", "x/a-1 = 2"),
        ("x/a - 1 = 2", "x/a - 1 = 2"),
        ("x/* * 2 = x*2", "x/* * 2 = x * 2"),
        ("x' = x''", "x' = x''"),
        ("div div mod mod and = or", "div div mod mod and = or"),
        ("from = 1 AND and = 2", "from = 1 AND and = 2"),
        ("NOT NOT x = 1", "NOT (NOT (x = 1))"),
        ("NOT x = 1 OR x = 2 AND x = 3", "NOT (x = 1) OR x = 2 AND x = 3"),
        ("(x = 1 OR x = 2) AND x = 3", "(x = 1 OR x = 2) AND x = 3"),
        ("x - 1 - 2 = x - (1 - 2)", "x - 1 - 2 = x - (1 - 2)"),
        ("x + 1 * 2 < (x + 1) * 2", "x + 1 * 2 < (x + 1) * 2"),
        ("starts-with(x, 'a')", "starts-with(x, 'a')"),
        ("x-starts-with(x) = 1", "x - starts-with(x) = 1"),
        ("x = 5and x = 6", "x = 5 AND x = 6"),
        ("x//a[./b and c]/@d = 'e'", "x//a[./b and ./c]/@d = 'e'"),
        ("x/text() = x/.", "x/text() = x/."),
    ],
)
def test_predicates(text: str, predicate: str) -> None:
    assert where(text) == predicate


@pytest.mark.parametrize(
    ("inside", "predicate", "window"),
    [
        ("", None, None),
        (",", None, None),
        ("T1", None, "T1"),
        ("x", None, "x"),
        ("two-days", None, "two-days"),
        ("INFINITY", None, None),
        ("5", None, 5_000_000),
        ("2 days", None, 172_800_000_000),
        ("0.5 ms", None, 500),
        ("1.5h", None, 5_400_000_000),
        ("1 Week", None, 604_800_000_000),
        ("2 MINUTES", None, 120_000_000),
        (", T1", None, "T1"),
        ("x=y", "x = y", None),
        ("x=y,", "x = y", None),
        ("x=y, T1", "x = y", "T1"),
        ("x=y T1", "x = y", "T1"),
        ("x=y 2 days", "x = y", 172_800_000_000),
        ("x=y-1 2", "x = y - 1", 2_000_000),
        ("x = 5 5 s", "x = 5", 5_000_000),
        ("2 < x", "2 < x", None),
        ("2 * x = y, 2", "2 * x = y", 2_000_000),
        ("2 div x = y", "2 div x = y", None),
        ("matches(x, 'a') T1", "matches(x, 'a')", "T1"),
        ("NOT x = y T1", "NOT (x = y)", "T1"),
    ],
)
def test_braces(inside: str, predicate: str | None, window: int | str | None) -> None:
    assert braces(inside) == (predicate, window)


@pytest.mark.parametrize(
    ("text", "name"), [("LET NAMESPACE = 5 s", "NAMESPACE"), ("let t-1 = t0;", "t-1")]
)
def test_let(text: str, name: str) -> None:
    (let,) = parse(text).statements
    assert isinstance(let, ast.LetDuration)
    assert let.name == name


@pytest.mark.parametrize(
    "word",
    ["next", "fold", "group", "over", "partition", "using", "wait", "after", "having", "at", "non"],
)
def test_the_words_of_event_patterns_are_names_as_well(word: str) -> None:
    block = f"{word}//a[./b->{word}]"
    text = (
        f"LET {word} = 2 days; {word}: SELECT {word} FROM {word}/{word}[./{word}->{word}]"
        f" NEXT {{{word}}} {word}//{word} FOLLOWED BY NOT {word}/x FOLLOWED BY {{1}} {word}/y"
        f" GROUP BY {word} OVER {word} PUBLISH {word};"
        f" b: {block} FOLD {{, }} {word}/z WITHIN {word}; c: {block} JOIN ({word}/a)+"
    )
    file = parse(text)
    assert format_file(parse(format_file(file))) == format_file(file)
    (block_alone,) = parse(block).statements
    assert isinstance(block_alone, ast.Query)
    assert isinstance(block_alone.pattern, ast.Block)
    assert block_alone.pattern.stream == word


def test_a_constructor() -> None:
    found = query(
        'SELECT <r xmlns:d=\'u\' a=\'{x}&lt;"\n\' b="""{{">\r\n'
        "  <d:e/> {x/b} and\r\n {{it's}} <!-- not this --><![CDATA[<&>]]>&#32;</r> FROM S//a->x"
    ).select
    assert isinstance(found, ast.Element)
    x, b = found.attributes[1][1][0], found.content[1]
    assert found.attributes == (
        ("xmlns:d", ("u",)),
        ("a", (x, '<" ')),
        ("b", ('"{',)),
    )
    assert isinstance(x, ast.Path)
    assert isinstance(b, ast.Path)
    assert (x.variable, b.variable) == ("x", "x")
    assert found.content == (
        ast.Element("d:e", (), (), span=found.span),
        b,
        " and\n {it's} <&> ",
    )


def test_parentheses() -> None:
    plain = query("(S//a->x JOIN S//b) FOLLOWED BY (S//c)").pattern
    assert isinstance(plain, ast.Join)
    assert isinstance(plain.left, ast.Join)
    nested = query("(SELECT x FROM S//a->x PUBLISH n)/a[./b->y] JOIN (SELECT * FROM S//b)").pattern
    assert isinstance(nested, ast.Join)
    assert isinstance(nested.left, ast.Nested)
    assert isinstance(nested.right, ast.Nested)
    assert nested.left.query.publish == "n"
    assert format_pattern(nested.left) == "(SELECT x FROM S//a->x PUBLISH n)/a[./b->y]"
    assert nested.right.steps == ()


def test_spans_are_the_text() -> None:
    text = "Q: S//a->x[./b = 'c'] JOIN {x = y, 2 h} S//d->y WITHIN 3 h PUBLISH p"
    found = query(text)
    assert found.span.text == text[3:]
    assert found.label_span is not None
    assert found.label_span.text == "Q"
    assert found.publish_span is not None
    assert found.publish_span.text == "p"
    join = found.pattern
    assert isinstance(join, ast.Join)
    assert join.span.text == "S//a->x[./b = 'c'] JOIN {x = y, 2 h} S//d->y"
    assert join.window is not None
    assert join.window.span.text == "2 h"
    assert isinstance(join.left, ast.Block)
    (step,) = join.left.steps
    assert step.span.text == "//a->x[./b = 'c']"
    assert step.variable_span is not None
    assert step.variable_span.text == "x"
    (part,) = step.filters
    assert isinstance(part, ast.Comparison)
    assert (part.span.text, part.left.span.text, part.right.span.text) == (
        "./b = 'c'",
        "./b",
        "'c'",
    )


@pytest.mark.parametrize("text", ["", "  ", "-- nothing\n", ";", " ; -- a\n;"])
def test_nothing_is_a_file(text: str) -> None:
    assert parse(text).statements == ()


def test_reading_goes_on_behind_an_error() -> None:
    text = """S//a[namespace::b][./c]/d['e'; S//ok;   -- ; in a comment
        S//b[./c = 'x; y' z]; S//ok JOIN {x = } S//b[1 +];
        SELECT <a>&no; <b></a> FROM S//c;
        S//"""
    with pytest.raises(XsclError) as caught:
        parse(text)
    found = [(d.code, d.span.line, d.span.text) for d in caught.value.diagnostics]
    assert found == [
        ("axis", 1, "namespace::"),
        ("syntax", 1, "["),
        ("syntax", 2, "z"),
        ("syntax", 2, "}"),
        ("syntax", 2, "]"),
        ("constructor", 3, "&"),
        ("syntax", 4, ""),
    ]


@pytest.mark.parametrize(
    "items",
    [
        "x, from",
        "x, from, x",
        "x, from/b",
        "x, from AS y, x",
        "x, from + 1",
        "x, from()",
        "from, x",
    ],
)
def test_a_variable_named_as_the_keyword_is_an_item(items: str) -> None:
    file = parse(f"SELECT {items} FROM S//a->from[./c->x]")
    assert parse(format_file(file)) == file


@pytest.mark.parametrize("rest", ["", "S//a->x", "(S//a->x)", "(S//a->x) JOIN {x = y} S//b->y"])
def test_a_comma_before_from_is_told(rest: str) -> None:
    with pytest.raises(XsclError, match="FROM follows the last item without a comma"):
        parse(f"SELECT x, FROM {rest}")
