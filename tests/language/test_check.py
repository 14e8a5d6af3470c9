"""Name resolution: ids, windows, namespaces, and checks over several files."""

from __future__ import annotations

import re

import pytest

from xscl import Program, XsclError, ast, check, parse
from xscl.check.cycles import find_cycles


def program(*texts: str) -> Program:
    return check([parse(text, f"file{number}.xscl") for number, text in enumerate(texts, 1)])


def errors(*texts: str) -> list[tuple[str, str, int]]:
    with pytest.raises(XsclError) as caught:
        program(*texts)
    return [(d.code, d.span.source.name, d.span.line) for d in caught.value.diagnostics]


def warnings(text: str) -> list[str]:
    return [warning.code for warning in program(text).warnings]


# -- ids and text ----------------------------------------------------------------------------


def test_the_id_is_the_label_else_the_stream_else_a_hash() -> None:
    labelled, published, plain = program("Q: S//a PUBLISH p; S//b PUBLISH r; S//c").queries
    assert (labelled.id, published.id) == ("Q", "r")
    assert re.fullmatch(r"q[0-9a-f]{12}", plain.id)


def test_layout_changes_no_id_and_meaning_does() -> None:
    def id_of(text: str) -> str:
        return program(text).queries[-1].id

    same = [
        "S//a->x JOIN {x = y, 2 days} S//b->y",
        "//a AS x\n\n  join { x=y 48 hours } //b->y -- the same\n;",
        "LET T = 2880 min; select * from S//a->x JOIN {x = y, T} S//b->y",
    ]
    assert len({id_of(text) for text in same}) == 1
    different = [
        "S//a->x JOIN {x = y, 2 days} S//b->y WITHIN 2 days",
        "S//a->x JOIN {x = y, 3 days} S//b->y",
        "LET T = 4 days; S//a->x JOIN {x = y, T} S//b->y",
        "S//a->x FOLLOWED BY {x = y, 2 days} S//b->y",
        "S//a->z JOIN {z = y, 2 days} S//b->y",
    ]
    assert len({id_of(text) for text in [same[0], *different]}) == 1 + len(different)


def test_the_namespace_counts_and_the_unused_one_does_not() -> None:
    one, same, other = (
        program(f"LET NAMESPACE b = 'u{b}'; LET NAMESPACE a = 'u{a}'; S//a:b").queries[0]
        for a, b in [(1, 2), (1, 3), (4, 2)]
    )
    assert one.id == same.id != other.id
    assert one.text == "LET NAMESPACE a = 'u1'; S//a:b"
    assert one.namespaces["a"] == "u1"
    assert one.namespaces["xml"] == "http://www.w3.org/XML/1998/namespace"


@pytest.mark.parametrize(
    "text",
    [
        "S//a",
        "Q: S//a PUBLISH p",
        "LET T = 1 h; LET NAMESPACE a = 'u'; S//a:b[@xml:lang] JOIN {T} (SELECT * FROM S//b WITHIN "
        "T)",
        "LET NAMESPACE a = \"it's\"; SELECT <a:b a:c='{x}'/> FROM S//b->x",
        "SELECT <a:b xmlns:a='u'/> FROM S//b->x",
        "LET NAMESPACE a = 'u'; S//b->x WHERE x/a:b = 1",
    ],
)
def test_the_text_stands_for_itself(text: str) -> None:
    (found,) = program(text).queries
    (again,) = program(found.text).queries
    assert again == found
    assert "\n" not in found.text


# -- windows ---------------------------------------------------------------------------------


def test_windows_become_numbers() -> None:
    text = """LET T1 = 2 h; LET T2 = T1; LET T3 = INFINITY;
        S//a JOIN {T2} S//b JOIN {T3} (SELECT * FROM S//c WITHIN T1) WITHIN T1"""
    (found,) = program(text).queries
    hours = ast.Duration(7_200_000_000, span=found.query.span)
    assert found.query.within == hours
    outer = found.query.pattern
    assert isinstance(outer, ast.Join)
    assert outer.window == ast.Duration(None, span=found.query.span)
    assert isinstance(outer.left, ast.Join)
    assert outer.left.window == hours
    assert isinstance(outer.right, ast.Nested)
    assert outer.right.query.within == hours


def test_let_reaches_to_the_end_of_its_file() -> None:
    assert errors("LET T = 1 h; LET NAMESPACE a = 'u'; S//a:b WITHIN T", "S//a:b WITHIN T") == [
        ("unknown-prefix", "file2.xscl", 1),
        ("unknown-duration", "file2.xscl", 1),
    ]
    assert program("LET T = 1 h; S//a WITHIN T", "LET T = 2 h; S//a WITHIN T")


# -- several queries and files ---------------------------------------------------------------


def test_ids_and_streams_are_shared_by_all_files() -> None:
    assert errors("Q: S//a; S//b PUBLISH p", "Q: S//c;\nS//d PUBLISH p;\np: S//e") == [
        ("duplicate-id", "file2.xscl", 1),
        ("duplicate-publish", "file2.xscl", 2),
        ("duplicate-id", "file2.xscl", 3),
    ]


def test_both_places_are_named() -> None:
    with pytest.raises(XsclError) as caught:
        program("S//a PUBLISH p", "S//b PUBLISH p")
    (found,) = caught.value.diagnostics
    assert [place.source.name for _, place in found.also] == ["file1.xscl"]
    assert found.also[0][1].text == found.span.text == "p"


def test_a_cycle_through_files() -> None:
    assert errors("q//a PUBLISH p", "S//b JOIN (SELECT * FROM p//c) PUBLISH q") == [
        ("publish-cycle", "file1.xscl", 1)
    ]
    assert program("S//a PUBLISH p; p//a PUBLISH q; p//b JOIN q//b PUBLISH r")


@pytest.mark.parametrize(
    ("reads", "cycles"),
    [
        ({}, []),
        ({"a": ["S"]}, []),
        ({"a": ["a"]}, [("a",)]),
        ({"a": ["b"], "b": ["c", "S"], "c": ["a"]}, [("a", "b", "c")]),
        ({"a": ["b", "c"], "b": ["c"], "c": ["S"]}, []),
        ({"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"]}, [("a", "b"), ("c", "d")]),
        ({"x": ["a"], "a": ["b"], "b": ["a"]}, [("a", "b")]),
    ],
)
def test_find_cycles(reads: dict[str, list[str]], cycles: list[tuple[str, ...]]) -> None:
    assert find_cycles(reads) == cycles


def test_a_long_chain_of_streams() -> None:
    chain = {f"s{n}": [f"s{n + 1}"] for n in range(50_000)}
    assert find_cycles(chain) == []
    assert find_cycles(chain | {"s50000": ["s0"]}) == [(*chain, "s50000")]


# -- what is fine ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        # a predicate sees the variables of the whole query, wherever it stands
        "S//a->x JOIN {x = z} S//b->y JOIN {y = z} S//c->z",
        # an inner query has variables of its own
        "(SELECT x FROM S//a->x)/result->x JOIN {x = y} (SELECT * FROM S//b->y)/b->y",
        # joins that hang together through a third, through functions, through WHERE
        "S//a->x JOIN S//b->y JOIN {x = z AND y = z} S//c->z",
        "S//a->x JOIN {url(x) = lower-case(y/link)} S//b->y",
        "S//a->x JOIN {substring(x, 1, 3) = y} S//b->y",
        "S//a->x JOIN S//b->y WHERE x = y AND x != 'z'",
        "S//a->x FOLLOWED BY {x = y AND x/b != y/b} S//a->y",
        # sides that differ, or a predicate that tells them apart
        "S//a->x[./b] JOIN {x = y} S//a->y",
        "S//a->x JOIN {x = y} S/a->y",
        "S//a->x JOIN {x = y} T//a->y",
        "S//a->x JOIN {x = y AND x/d < y/d} S//a->y",
        "S//a->x JOIN {x = y AND x/d = 1} S//a->y",
        # a name of an element is not taken for a variable where it binds or says ./
        "S//a->title[./b = ./title][title->b]",
        # steps that do select something
        "S//a/@id/.", "S//@id", "S//text()", "S//a//.[./b]", "S//a[./@b = 'c']/@d",
        "S//a->x WHERE x/@id = 'c' AND x/text() = 'd'",
        "SELECT x AS y, concat(x, 'a'), x/b + 1 AS z FROM S//a->x",
        "S//a[true]",
    ],
)  # fmt: skip
def test_no_errors_and_no_warnings(text: str) -> None:
    assert warnings(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S//a->x JOIN {x + 0 = y} S//b->y", ["no-value-join"]),
        ("S//a->x JOIN {concat(x, y) = y} S//b->y", ["no-value-join"]),
        ("S//a->x JOIN {NOT x != y} S//b->y", ["no-value-join"]),
        ("(SELECT x FROM S//a->x JOIN S//b)//x", ["no-value-join"]),
        ("S//a JOIN S//a", ["no-value-join", "symmetric-join"]),
        (
            "(S//a->x JOIN {x=y} S//b->y) JOIN {x=u} (S//a->u JOIN {u=v} S//b->v)",
            ["symmetric-join"],
        ),
        (
            "(SELECT * FROM S//a)/a->x JOIN {x=y AND (NOT x/b > y/c OR NOT y/b > x/c)} "
            "(SELECT * FROM S//a)/a->y",
            ["symmetric-join"],
        ),
        ("S//a->x JOIN {x = y AND x/b - 1 != y/b - 1} S//a->y", ["symmetric-join"]),
    ],
)
def test_warnings(text: str, expected: list[str]) -> None:
    assert warnings(text) == expected


def test_functions_of_one_variable_join_and_of_two_do_not() -> None:
    assert warnings("S//a->x JOIN {concat(x, 'a') = y} S//b->y") == []
    assert warnings("S//a->x JOIN {concat(x, y) = x} S//b->y") == ["no-value-join"]
