"""Canonical text: what is printed is read back as the same tree, and there is one way to write it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.language import strategies
from xscl import ast, format_file, parse
from xscl.syntax.printer import format_number

CANONICAL = {
    # layout, comments, the default stream, arrows, relative paths, the case of keywords
    "//blog  -- all of them": "S//blog",
    "S // blog AS x [ title as t ] [ @lang ]": "S//blog->x[./title->t][./@lang]",
    "S//a[ .//b[.]/. ][.]": "S//a[.//b[.]/.][.]",
    "S//a[.->x[./b]/c]": "S//a[.->x[./b]/c]",
    "S//a[./.->x]": "S//a[.->x]",
    "S//a[ text( ) = 'x' ]/text()": "S//a[./text() = 'x']/text()",
    "s//*[@*]": "s//*[./@*]",
    "S//a[NOT(b) AND (c OR d)]": "S//a[not(./b) and (./c or ./d)]",
    "S//a[((b and c) and d)]": "S//a[./b and ./c and ./d]",
    "select * from S//a": "S//a",
    # joins and braces
    "S//a->x followed by {x = y 2 d} S//b->y": "S//a->x\nFOLLOWED BY {x = y, 2 days} S//b->y",
    "S//a JOIN {,T} S//b": "S//a\nJOIN {T} S//b",
    "S//a JOIN {} S//b": "S//a\nJOIN S//b",
    "(S//a JOIN S//b) JOIN S//c": "S//a\nJOIN S//b\nJOIN S//c",
    "S//a JOIN (S//b JOIN S//c)": "S//a\nJOIN (S//b\nJOIN S//c)",
    "((S//a))": "S//a",
    "S//a JOIN ( select * from S//b within 1h ) // c": (
        "S//a\nJOIN (SELECT * FROM S//b WITHIN 1 h)//c"
    ),
    # predicates
    "S//a->x WHERE not x=1 and x!=2": "S//a->x\nWHERE NOT (x = 1) AND x != 2",
    "S//a->x WHERE (x+1)*2-(3-x) = x-1": "S//a->x\nWHERE (x + 1) * 2 - (3 - x) = x - 1",
    "S//a->x WHERE x-(2) = x-number(x)": "S//a->x\nWHERE x - 2 = x - number(x)",
    "S//a->x WHERE x DIV 2 MOD 3 = -1.50": "S//a->x\nWHERE x div 2 mod 3 = -1.5",
    "S//a->x WHERE x//b/@c = \"it's\"": "S//a->x\nWHERE x//b/@c = \"it's\"",
    'S//a->x WHERE x = "so"': "S//a->x\nWHERE x = 'so'",
    # durations
    "S//a WITHIN 36 hours": "S//a\nWITHIN 36 h",
    "S//a WITHIN 0.5 min": "S//a\nWITHIN 30 s",
    "S//a WITHIN 14 d": "S//a\nWITHIN 2 weeks",
    "S//a WITHIN 7 days": "S//a\nWITHIN 1 week",
    "S//a WITHIN 90": "S//a\nWITHIN 90 s",
    "S//a WITHIN 1.0005 s": "S//a\nWITHIN 1000.5 ms",
    "S//a WITHIN 0": "S//a\nWITHIN 0 s",
    "S//a WITHIN infinity": "S//a\nWITHIN INFINITY",
    # SELECT
    "SELECT x as y, x/b FROM S//a->x PUBLISH n": "SELECT x AS y, x/b\nFROM S//a->x\nPUBLISH n",
    "SELECT <r  a='1\"'>\n <b> {x} </b>\n</r> FROM S//a->x": (
        'SELECT <r a="1&quot;"><b>{x}</b></r>\nFROM S//a->x'
    ),
    "SELECT <r>{{ &#32; <![CDATA[<&]]><!-- no --> </r> FROM S//a": (
        "SELECT <r>{{   &lt;&amp; </r>\nFROM S//a"
    ),
    "SELECT <r> <![CDATA[ ]]> </r> FROM S//a": "SELECT <r>&#32;  </r>\nFROM S//a",
    "SELECT <r></r> FROM S//a": "SELECT <r/>\nFROM S//a",
}  # fmt: skip


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical(text: str) -> None:
    file = parse(text)
    printed = format_file(file)
    assert printed == f"{CANONICAL[text]};\n"
    assert parse(printed) == file


def test_statements_keep_their_order() -> None:
    text = """
        LET T1 = 90 s;
        Q1: S//a->x JOIN {T1} S//b PUBLISH n;   -- a comment
        LET NAMESPACE atom = 'http://www.w3.org/2005/Atom'; n//atom:entry
    """
    assert format_file(parse(text)) == (
        "LET T1 = 90 s;\n"
        "Q1: S//a->x\n    JOIN {T1} S//b\n    PUBLISH n;\n"
        "LET NAMESPACE atom = 'http://www.w3.org/2005/Atom';\n"
        "n//atom:entry;\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (5.0, "5"),
        (-2.5, "-2.5"),
        (5e-324, "0." + "0" * 323 + "5"),
    ],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert format_number(value) == text
    assert float(text) == value


@given(strategies.files)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_printed_is_read_back(file: ast.File) -> None:
    printed = format_file(file)
    again = parse(printed)
    assert again == file
    assert format_file(again) == printed
