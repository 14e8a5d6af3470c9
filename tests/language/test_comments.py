"""Formatting with comments: none is lost, each stays in its place, and formatting is idempotent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feeds import __file__ as feeds_file
from tests.language import strategies
from xscl import XsclError, ast, format_file, parse
from xscl.syntax.comments import format_with_comments

CASES = {
    "S//a -- why": "S//a; -- why",
    "S//a\n-- why": "S//a;\n-- why",
    "S//a -- why\n;": "S//a; -- why",
    "-- what\n\nS//a": "-- what\n\nS//a;",
    "S//a; -- one\nS//b; -- two": "S//a; -- one\nS//b; -- two",
    "S//a;\n\n\n-- two\nS//b": "S//a;\n\n-- two\nS//b;",
    "q: S//a -- left\n -- how\n JOIN -- here\n S//b": (
        "q: S//a -- left\n    -- how\n    JOIN -- here\n        S//b;"
    ),
    "SELECT t, -- first\n u FROM S//a->u[title AS t]": (
        "SELECT t, -- first\n    u\nFROM S//a->u[./title->t];"
    ),
    "S//a->x WHERE\n-- the same\nx = '--'": "S//a->x\nWHERE\n    -- the same\n    x = '--';",
    "S//a->x' -- no string'": "S//a->x'; -- no string'",
    "SELECT <r>-- text <!-- <no> -->{x -- x\n}</r> FROM S//a->x": (
        "SELECT <r>-- text <!-- <no> -->{x -- x\n    }</r>\nFROM S//a->x;"
    ),
    "S//a WITHIN 24 -- unit\n hours": "S//a\nWITHIN 1 day; -- unit",
    ";; -- nothing\n; S//a;; -- why\n;": "-- nothing\nS//a;\n-- why",
    "-- only comments": "-- only comments",
    "S//a->x WHERE x = (';'\n-- c\n) AND x = 1": (
        "S//a->x\nWHERE x = ';'\n    -- c\n    AND x = 1;"
    ),
}


@pytest.mark.parametrize(("text", "wanted"), CASES.items(), ids=list(CASES))
def test_where_comments_stand(text: str, wanted: str) -> None:
    formatted = format_with_comments(parse(text))
    assert formatted == wanted + "\n"
    assert format_with_comments(parse(formatted)) == formatted


def test_without_comments_it_is_the_canonical_text() -> None:
    file = parse("LET T = 2 h; q: S//a JOIN {T} S//b")
    assert format_with_comments(file) == format_file(file)


def test_the_demo_keeps_its_own() -> None:
    text = (Path(feeds_file).parent / "samples" / "demo.xscl").read_text()
    formatted = format_with_comments(parse(text))
    assert [line for line in formatted.splitlines() if line.startswith("--")] == [
        line for line in text.splitlines() if line.startswith("--")
    ]
    assert "\n-- A story moves from one section" in formatted


@given(st.data())
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=80)
def test_comments_anywhere(data: st.DataObject) -> None:
    trees = data.draw(st.lists(strategies.queries(2), min_size=1, max_size=2))
    text = format_file(ast.File(tuple(trees), span=parse("").span))
    tree = parse(text)
    written: list[str] = []
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text)))
        comment = f"-- c{len(written)} 'it"
        way = data.draw(st.sampled_from([f" {comment}\n", f"\n{comment}\n", f"\n\n{comment}\n\n"]))
        tried = text[:at] + way + text[at:]
        try:
            if parse(tried) != tree:
                continue
        except XsclError:
            continue
        text = tried
        written.append(comment)
    formatted = format_with_comments(parse(text))
    assert parse(formatted) == tree
    for comment in written:
        # Behind it there may be one that was put at its end, which is a part of it then.
        assert len(re.findall(rf"{re.escape(comment)}(?= --|$)", formatted, re.MULTILINE)) == 1
    assert format_with_comments(parse(formatted)) == formatted


_PLACES = (
    "SELECT <a>% <b>%{%x%}% t%</b>% %<c/>%</a>% FROM S//b->x",
    "SELECT <a>%\n  %<b>%\n{x}\n%</b>\n%</a> FROM S//b->x -- end\n",
    "SELECT <a>%</a> FROM S//b->x",
    "SELECT <a>{x}% %{x}%</a> FROM S//b->x",
)


@pytest.mark.parametrize(
    "comment", ["<!-- one -->", "<!---->", "<!-- of\n two -->", "\n<!-- a -->\n"]
)
@pytest.mark.parametrize("text", _PLACES)
def test_a_comment_of_xml_anywhere_in_an_element_changes_nothing(text: str, comment: str) -> None:
    """Whatever stands around it; none of its words is lost."""
    bare = format_file(parse(text.replace("%", "")))
    for chosen in range(text.count("%") + 1):
        parts = text.split("%")
        places = [comment if chosen in (n, len(parts) - 1) else "" for n in range(len(parts) - 1)]
        whole = "".join(map(str.__add__, parts, [*places, ""]))
        try:
            file = parse(whole)
        except XsclError:
            continue  # between braces it is none
        formatted = format_with_comments(file)
        assert format_file(parse(formatted)) == format_file(file)
        if comment.strip() not in bare:
            assert all(formatted.count(word) >= whole.count(word) for word in ("one", "two"))
        assert format_with_comments(parse(formatted)) == formatted
