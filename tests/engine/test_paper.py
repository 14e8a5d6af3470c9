"""The running example of the dissertation, section 6.2: documents, queries, relations,
templates."""

from __future__ import annotations

import itertools

import pytest

import xscl
from broker import Broker, Document
from broker.query.prepared import compile_query
from xscl.stage1.document import parse_document

D1 = """<book>
  <author>Danny Ayers</author>
  <author>Andrew Watt</author>
  <title>Beginning RSS and Atom Programming</title>
  <category>Scripting &amp; Programming</category>
  <category>Web Site Development</category>
  <isbn>0764579169</isbn>
</book>"""
D2 = """<blog>
  <author>Danny Ayers</author>
  <title>Beginning RSS and Atom Programming</title>
  <category>Book Announcement</category>
  <category>Scripting &amp; Programming</category>
</blog>"""

QUERIES = """
LET T1 = 7 days; LET T2 = 7 days; LET T3 = 7 days;
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

VARIABLES = {
    "S//book": "x1",
    "S//book/author": "x2",
    "S//book/title": "x3",
    "S//book/category": "x7",
    "S//blog": "x4",
    "S//blog/author": "x5",
    "S//blog/title": "x6",
    "S//blog/category": "x8",
}


def test_exactly_q1_and_q2_match() -> None:
    broker = Broker()
    assert broker.subscribe(QUERIES) == ["Q1", "Q2", "Q3"]
    assert broker.process([Document("d1", timestamp=0.0, xml=D1)]) == []
    matches = {m.query: m for m in broker.process([Document("d2", timestamp=60.0, xml=D2)])}
    assert matches.keys() == {"Q1", "Q2"}
    assert matches["Q1"].values["x2"] == ["Danny Ayers"]
    assert matches["Q1"].values["x6"] == ["Beginning RSS and Atom Programming"]
    assert matches["Q2"].values["x7"] == ["Scripting & Programming"]
    assert [d.id for d in matches["Q1"].documents] == ["d1", "d2"]


def test_variables_of_one_definition_are_shared_by_the_queries() -> None:
    broker = Broker()
    broker.subscribe(QUERIES)
    assert set(broker.engine.catalog.variables) == set(VARIABLES)


def test_the_relations_hold_the_rows_of_table_6_4() -> None:
    """RbinW and RdocW of d1 and d2; nodes are numbered in document order, the root is 0."""
    broker = Broker()
    broker.subscribe(QUERIES)
    names = {n: VARIABLES[text] for text, n in broker.engine.catalog.variables.items()}
    matcher = broker.engine.matcher

    def rbin(xml: str) -> set[tuple[str, str, int, int]]:
        witness = matcher.match(parse_document(xml.encode()), ("S",))
        return {(names[a], names[b], m, n) for a, b, m, n, _ in witness}

    assert rbin(D1) == {
        ("x1", "x2", 0, 1),
        ("x1", "x2", 0, 2),
        ("x1", "x3", 0, 3),
        ("x1", "x7", 0, 4),
        ("x1", "x7", 0, 5),
    }
    assert rbin(D2) == {
        ("x4", "x5", 0, 1),
        ("x4", "x6", 0, 2),
        ("x4", "x8", 0, 3),
        ("x4", "x8", 0, 4),
    }
    d1 = matcher.match(parse_document(D1.encode()), ("S",))
    d2 = matcher.match(parse_document(D2.encode()), ("S",))
    values1 = {node2: value for _, _, _, node2, value in d1}
    values2 = {node2: value for _, _, _, node2, value in d2}
    equal = {(m, n) for m, v in values1.items() for n, w in values2.items() if v == w}
    assert equal == {(1, 1), (3, 2), (4, 4)}


def test_the_three_queries_share_one_template() -> None:
    broker = Broker()
    broker.subscribe(QUERIES)
    assert len(broker.engine.catalog.templates) == 1


FLAT = [f"{leaf}" for leaf in "abcd"]
COMPLEX = ["p/a", "p/b", "p/c", "q/a", "r/a"]


def count_templates(leaves: list[str], joins: int) -> int:
    """Templates of all queries that join `joins` pairs of leaves of two documents of one schema.

    A query selects a leaf that it joins, so that nothing but joins shapes its graph.
    """
    found = set()
    pairs = list(itertools.product(range(len(leaves)), repeat=2))
    for chosen in itertools.combinations(pairs, joins):
        left, right = ({pair[side] for pair in chosen} for side in (0, 1))
        text = (
            f"SELECT a{min(left)} FROM S/d{block(leaves, left, 'a')}"
            f" FOLLOWED BY {{{' AND '.join(f'a{i}=b{j}' for i, j in chosen)}}}"
            f" S/e{block(leaves, right, 'b')}"
        )
        (query,) = xscl.check([xscl.parse(text)]).queries
        found.add(compile_query(query).shape.template)
    return len(found)


def block(leaves: list[str], used: set[int], letter: str) -> str:
    """Filters that bind the used leaves, those below one inner node under one binding of it."""
    by_parent: dict[str, list[str]] = {}
    for i in sorted(used):
        parent, _, leaf = leaves[i].rpartition("/")
        by_parent.setdefault(parent, []).append(f"[./{leaf}->{letter}{i}]")
    return "".join(
        f"[./{parent}{''.join(filters)}]" if parent else "".join(filters)
        for parent, filters in by_parent.items()
    )


@pytest.mark.parametrize(("joins", "templates"), [(1, 1), (2, 3), (3, 6), (4, 16)])
def test_table_6_3_flat_documents(joins: int, templates: int) -> None:
    assert count_templates(FLAT, joins) == templates


@pytest.mark.parametrize(("joins", "templates"), [(1, 1), (2, 3), (3, 16)])
def test_table_6_3_complex_documents(joins: int, templates: int) -> None:
    assert count_templates(COMPLEX, joins) == templates
