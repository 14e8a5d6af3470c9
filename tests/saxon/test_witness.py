"""Tests of the second oracle itself: values by hand, and results for simple documents."""

from __future__ import annotations

import math

import pytest

import xscl
from tests.oracle.asking import doc
from tests.oracle.oracle import Arrival
from tests.oracle.trees import Tree
from tests.saxon.expressions import literal
from tests.saxon.rows import Row, canonical, node_paths
from tests.saxon.translate import FUNCTIONS
from tests.saxon.witness import Answer, Saxon, processor
from xscl import ast


def evaluate(expression: str) -> str:
    """An XQuery expression over the functions of the witness."""
    xquery = processor().new_xquery_processor()
    (value,) = xquery.run_query_to_value(query_text=f"{FUNCTIONS}\nstring({expression})")
    return str(value)


def ask(text: str, *documents: Arrival) -> Answer:
    return Saxon(documents).ask(xscl.check([xscl.parse(text)]).queries)


def found(answer: Answer) -> list[tuple[str, ...]]:
    return [row.documents for row in answer.rows]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", "1"), (" 1.50\n", "1.5"), ("-.5", "-0.5"), ("5.", "5"), ("-0", "-0"), ("007", "7")]
    + [(text, "NaN") for text in ("", "+1", "1e3", "1 2", "--1", ".", "INF", "\u00a01", "NaN")],
)
def test_numbers(text: str, number: str) -> None:
    assert evaluate(f"xscl:number({literal(text)})") == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1", "1"), ("-0", "0"), ("0.1", "0.1"), ("1234567.875", "1234567.875"), ("NaN", "NaN"),
        ("1e21", "1000000000000000000000"), ("-1.5e-7", "-0.00000015"), ("-INF", "-Infinity"),
    ],
)  # fmt: skip
def test_numbers_as_strings(number: str, text: str) -> None:
    assert evaluate(f"xscl:string(xs:double('{number}'))") == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("2", "bcd"), ("1.5", "bcd"), ("0.4", "abcd"), ("0, 3", "ab"), ("1.5, 2.6", "bcd"),
        ("-42, xs:double('INF')", "abcd"), ("xs:double('NaN')", ""),
        ("xs:double('-INF'), xs:double('INF')", ""),
    ],
)  # fmt: skip
def test_substrings(arguments: str, text: str) -> None:
    assert evaluate(f"xscl:substring('abcd', {arguments})") == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86400),
        (" 2024-01-02T03:04:05Z ", 1704164645),
        ("2024-01-02T05:04:05.5+02:00", 1704164645.5),
        ("2024-01-02T03:04", 1704164640),
        ("Tue, 02 Jan 2024 03:04:05 GMT", 1704164645),
        ("2 Jan 2024 03:04:05 +0100", 1704161045),
        ("2024-02-30", math.nan),
        ("soon", math.nan),
        ("12", math.nan),
    ],
)
def test_dates(text: str, seconds: float) -> None:
    value = float(evaluate(f"xscl:date({literal(text)})"))
    assert value == seconds or (math.isnan(value) and math.isnan(seconds))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("HTTPS://Ex.org/A/?utm_source=q&k=1&gclid=2#f", "https://ex.org/A?k=1"),
        ("https://ex.org/?b=1&utm=2&a=", "https://ex.org?b=1&utm=2&a="),
        (" https://ex.org/a b ", "https://ex.org/a b"),
        ("mailto:a", "mailto:a"),
    ],
)
def test_urls(text: str, url: str) -> None:
    assert evaluate(f"xscl:url({literal(text)})") == url


def test_words() -> None:
    assert evaluate("xscl:words(' X,  y! STRASSE ')") == "x y strasse"
    assert evaluate("xscl:words('Straße')") == "strasse"


@pytest.mark.parametrize(
    "text", ["2024", "20240102", "2024-W01-2", "1 jan 24", "2024-01-02T03", "\u00a01"]
)
def test_unusual_dates_are_left_out(text: str) -> None:
    answer = ask("q: S/a[date(.) > 0]; r: S/a", doc("d1", 0, f"<a>{text}</a>"))
    assert answer.left_out == {"q": f"date({text})"}
    assert [row.query for row in answer.rows] == ["r"]


def test_regular_expressions_of_other_dialects_are_left_out() -> None:
    answer = ask(
        r"q: S/a[matches(., '\bx')]; r: S/a[matches(., '(?i)^X+')]", doc("d1", 0, "<a>xx</a>")
    )
    assert list(answer.left_out) == ["q"]
    assert [row.query for row in answer.rows] == ["r"]


def test_what_reads_a_query_that_is_left_out_is_left_out() -> None:
    text = r"q: S/a[matches(., '\d')] PUBLISH n; r: n/result"
    assert list(ask(text, doc("d1", 0, "<a>1</a>")).left_out) == ["q", "r"]


BOOK = "<book><author>A</author><author>B</author><title>T</title></book>"
BLOG = "<blog><author>B</author><author>A</author><title>T</title></blog>"


def test_a_match_is_a_combination_of_documents_and_selected_nodes() -> None:
    pattern = """S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 60 s}
        S//blog->x4[./author->x5][./title->x6]"""
    text = f"q: {pattern}; r: SELECT x2 FROM {pattern}; s: {pattern} WITHIN 59 s"
    rows = ask(text, doc("d1", 0, BOOK), doc("d2", 60, BLOG)).rows
    assert [(row.query, row.nodes) for row in rows] == [
        ("q", ("/Q{}book[1]", "/Q{}blog[1]")),
        ("r", ("/Q{}book[1]/Q{}author[1]",)),
        ("r", ("/Q{}book[1]/Q{}author[2]",)),
    ]
    assert rows[1] == Row(
        "r", 0, 60_000_000, ("d1", "d2"), ("/Q{}book[1]/Q{}author[1]",),
        canonical('<result query="r" start="1970-01-01T00:00:00Z" end="1970-01-01T00:01:00Z">'
                  "<author>A</author></result>"),
    )  # fmt: skip


def test_order_windows_and_identity() -> None:
    documents = [doc("d1", 1, "<a/>"), doc("d2", 1, "<a/>"), doc("d3", 2.5, "<a/>")]
    assert found(ask("S/a FOLLOWED BY {1.5 s} S/a", *documents)) == [("d1", "d3"), ("d2", "d3")]
    assert found(ask("S/a JOIN {1.4 s} S/a", *documents)) == [("d1", "d2"), ("d2", "d1")]
    assert len(ask("S/a JOIN S/a JOIN S/a", *documents).rows) == 6


def test_comparisons_follow_the_language_and_not_xquery() -> None:
    documents = [doc("d1", 0, "<a>1</a>"), doc("d2", 1, "<b>1.0</b>"), doc("d3", 2, "<b>x</b>")]

    def pairs(condition: str) -> list[str]:
        answer = ask(f"S/a->x JOIN {{{condition}}} S/b->y", *documents)
        return ["".join(row.documents) for row in answer.rows]

    assert pairs("x = y") == []
    assert pairs("x = y * 1") == ["d1d2"]
    assert pairs("x != y * 1") == ["d1d3"]  # NaN is unequal
    assert pairs("x >= y") == ["d1d2"]
    assert pairs("NOT (x >= y)") == ["d1d3"]
    assert pairs("number(y) = number(y)") == ["d1d2"]


def test_a_path_in_a_predicate_is_some_such_node() -> None:
    documents = [
        doc("d1", 0, "<a><k>x</k><k>Y</k></a>"),
        doc("d2", 1, "<b><k>y</k></b>"),
        doc("d3", 2, "<b/>"),
    ]
    inside = "lower-case(x/k) = lower-case(y/k)"
    assert found(ask(f"S/a->x JOIN {{{inside}}} S/b->y", *documents)) == [("d1", "d2")]
    assert found(ask(f"S/a->x JOIN {{NOT ({inside})}} S/b->y", *documents)) == [("d1", "d3")]
    # In a filter a function takes the first.
    assert found(ask("S/a[lower-case(./k) = 'y']", *documents)) == []


def test_streams_of_results() -> None:
    documents = [doc("d1", 1, "<a><k>x</k></a>"), doc("d2", 2, "<b><k>x</k></b>", "R")]
    text = """
        q: SELECT x AS v FROM S/a/k->x JOIN {x = y} R/b/k->y PUBLISH n;
        r: n/result[./@query = 'q']/v->w JOIN {w = z} R//k->z;
        s: (SELECT <o i="{x}">{x}</o> FROM S//k->x)/o/@i;
        """
    rows = ask(text, *documents).rows
    published = canonical(
        '<result query="q" start="1970-01-01T00:00:01Z" '
        'end="1970-01-01T00:00:02Z"><v>x</v></result>'
    )
    assert [(row.query, row.start, row.end, row.documents) for row in rows] == [
        ("q", 1_000_000, 2_000_000, ("d1", "d2")),
        ("r", 1_000_000, 2_000_000, (f"1000000-2000000 {published}", "d2")),
        ("s", 1_000_000, 1_000_000, ("1000000-1000000 <o i='x'><k>x</></>",)),
    ]


def test_paths_of_nodes_are_those_of_saxon() -> None:
    xml = """<!-- 0 --><r xmlns="u" xmlns:p="v" i="1" p:i="2" xml:lang="en">t<!-- 1 --><?x y?><?z y?>
        <a/><p:a>u<![CDATA[v]]><a j=""/>w</p:a><?x?><a><![CDATA[]]></a></r>"""
    paths = node_paths(xml)
    every = """declare variable $xml external; let $r := parse-xml($xml)/*
        return ($r/descendant-or-self::node(), $r/descendant-or-self::*/@*) ! path(.)"""
    xquery = processor().new_xquery_processor()
    xquery.set_parameter("xml", processor().make_string_value(xml))
    by_saxon = [str(path) for path in xquery.run_query_to_value(query_text=every)]
    assert sorted(paths.values()) == sorted(by_saxon)


def test_paths_of_nodes_have_the_numbers_of_the_oracle() -> None:
    xml = '<r i="1" xmlns:p="v" p:i="2">t<!-- 1 --><a>u<b/>v</a>w<a p:j=""/></r>'
    paths = node_paths(xml)
    tree = Tree(xml)
    steps = ["/r", "/r/a", "/r//b", "/r/@i", "/r//@j", "/r/text()", "/r//a/text()"]
    for text in steps:
        (query,) = xscl.check([xscl.parse(f"S{text}")]).queries
        assert isinstance(query.query.pattern, ast.Block)
        nodes = tree.walk(tree.document, query.query.pattern.steps, {})
        answer = ask(f"q: S{text}", doc("d1", 0, xml))
        assert sorted(paths[n.number] for n in nodes) == sorted(row.nodes[0] for row in answer.rows)
        assert nodes


def test_any_characters_go_in_and_come_out() -> None:
    text = """q: S/a->x[. = '"&<{}\n\t'] JOIN {contains(y, '{x}&amp;"')} S/b->y"""
    documents = [doc("d1", 0, '<a>"&amp;&lt;{}\n\t</a>'), doc("d 2", 1, '<b>{x}&amp;amp;"</b>')]
    (row,) = ask(text, *documents).rows
    assert row.documents == ("d1", "d 2")
    assert "{x}&amp;amp;" in row.result
