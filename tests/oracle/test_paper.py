"""The running example of the dissertation's chapter 6: a book, a blog article, Table 6.2."""

from __future__ import annotations

from tests.oracle.asking import ask, doc

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

TABLE = """
LET T1 = 2 days; LET T2 = 2 days; LET T3 = 2 days;
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

DAY = 24 * 3600


def test_exactly_q1_and_q2_match() -> None:
    found = ask(TABLE, doc("d1", 0, D1), doc("d2", DAY, D2))
    assert [match.query for match in found] == ["Q1", "Q2"]
    for match in found:
        assert [name for name, _ in match.documents] == ["d1", "d2"]
        assert match.nodes == (0, 0)
    title, author = ("Beginning RSS and Atom Programming",), ("Danny Ayers",)
    assert dict(found[0].values) == {"x2": author, "x3": title, "x5": author, "x6": title}
    category = ("Scripting & Programming",)
    assert dict(found[1].values) == {"x2": author, "x5": author, "x7": category, "x8": category}


def test_the_window_includes_its_edge() -> None:
    stream = doc("d1", 0, D1), doc("d2", 2 * DAY, D2), doc("d3", 2 * DAY + 0.000001, D2)
    assert [(m.query, *(name for name, _ in m.documents)) for m in ask(TABLE, *stream)] == [
        ("Q1", "d1", "d2"),
        ("Q2", "d1", "d2"),
        ("Q3", "d2", "d3"),
    ]


def test_a_book_after_the_blog_is_no_match() -> None:
    assert ask(TABLE, doc("d1", DAY, D1), doc("d2", 0, D2)) == []
