"""Streams of results: the oracle compared with results derived by hand from the language page."""

from __future__ import annotations

import pytest

import xscl
from tests.oracle.asking import SECOND, ask, doc, pairs, subscribed
from tests.oracle.matches import Found
from tests.oracle.oracle import Oracle
from tests.oracle.results import moment

A, B, C = "<a/>", "<b/>", "<c/>"


def of(query: str, found: list[Found]) -> list[Found]:
    return [match for match in found if match.query == query]


def resolved(text: str) -> xscl.ResolvedQuery:
    (query,) = xscl.check([xscl.parse(text)]).queries
    return query


# -- results as documents --------------------------------------------------------------------

CHAIN = """
one: SELECT x AS k FROM S/a[k->x] PUBLISH ones;
two: SELECT x, y FROM ones/result[k->x] JOIN S/b->y PUBLISH twos;
three: SELECT <end by="{r/@query}">{k}</end> FROM twos/result->r/k->k FOLLOWED BY S/c
"""


def test_a_chain_of_three_levels() -> None:
    stream = [doc("b", 2, "<b j='1'/>"), doc("c", 3, C), doc("a", 1, "<a><k>v</k></a>")]
    oracle = subscribed(CHAIN)
    assert oracle.process(stream[:2]) == []
    one, three, two = oracle.process(stream[2:])  # the last document completes all of them
    assert (one.query, one.documents, one.nodes) == ("one", (("a", SECOND),), (1,))
    assert one.result == (
        "<result end='1970-01-01T00:00:01Z' query='one' start='1970-01-01T00:00:01Z'><k>v</></>"
    )
    assert two.documents == (("one(a; 1)", SECOND), ("b", 2 * SECOND))
    assert two.nodes == (1, 0)
    assert two.result == (
        "<result end='1970-01-01T00:00:02Z' query='two' start='1970-01-01T00:00:01Z'>"
        "<k>v</><b j='1'></></>"
    )
    assert three.documents == (("two(one(a; 1), b; 1 0)", 2 * SECOND), ("c", 3 * SECOND))
    assert three.result == "<end by='two'><k>v</></>"
    assert (three.start, three.end) == (SECOND, 3 * SECOND)


@pytest.mark.parametrize(
    ("query", "times", "matches"),
    [
        # p lasts from a to b, whichever is the first
        ("p//b FOLLOWED BY S/c", (1, 2, 3), True),
        ("p//b FOLLOWED BY S/c", (1, 2, 2), False),  # strictly after the end of p
        ("p//b FOLLOWED BY S/c", (3, 1, 2), False),
        ("S/c FOLLOWED BY p//b", (3, 2, 1), True),
        ("S/c FOLLOWED BY p//b", (1, 3, 2), False),  # strictly before its start
        ("S/c FOLLOWED BY p//b", (1, 3, 1), False),
        ("S/c JOIN p//b", (1, 3, 2), True),
        # windows are over the whole span
        ("p//b FOLLOWED BY {2 s} S/c", (1, 2, 3), True),
        ("p//b FOLLOWED BY {2 s} S/c", (1, 2, 3.000001), False),
        ("p//b JOIN {2 s} S/c", (1, 3, 2), True),
        ("p//b JOIN {1 s} S/c", (1, 3, 2), False),
        ("p//b JOIN S/c WITHIN 2 s", (4, 2, 3), True),
        ("p//b JOIN S/c WITHIN 1 s", (4, 2, 3), False),
        ("p//b WITHIN 1 s", (1, 2, 9), True),  # also of one block
        ("p//b WITHIN 1 s", (1, 2.5, 9), False),
    ],
)
def test_a_result_has_the_interval_of_its_match(
    query: str, times: tuple[float, float, float], matches: bool
) -> None:
    stream = [doc(n, t, x) for n, t, x in zip("abc", times, (A, B, C), strict=True)]
    text = f"p: S/a JOIN S/b PUBLISH p; q: {query}"
    for arrivals in (stream, stream[::-1], [*stream[1:], stream[0]]):
        found = of("q", ask(text, *arrivals))
        assert len(found) == matches
        nested = query.replace("p//b", "(SELECT * FROM S/a JOIN S/b)//b")
        assert len(ask(nested, *arrivals)) == matches


def test_results_follow_each_other() -> None:
    """One ends strictly before the other starts; those that touch or overlap do not."""
    text = "p: S/a FOLLOWED BY {2 s} S/a PUBLISH p; q: p/result FOLLOWED BY p/result"
    stream = [doc(f"d{n}", n, A) for n in (1, 2, 3, 4)]
    assert pairs(of("q", ask(text, *stream))) == ["p(d1, d2; 0 0) p(d3, d4; 0 0)"]


def test_a_result_is_a_document_of_its_own() -> None:
    """It joins with what it is made of; two of one match are two; none joins itself."""
    text = "p: SELECT x FROM S/a/k->x PUBLISH p; q: p//k JOIN S/a; r: p//k JOIN p//k"
    found = ask(text, doc("d", 1, "<a><k/><k/></a>"))
    assert pairs(of("q", found)) == ["p(d; 1) d", "p(d; 2) d"]
    assert pairs(of("r", found)) == ["p(d; 1) p(d; 2)", "p(d; 2) p(d; 1)"]


def test_a_stream_may_carry_both_results_and_base_documents() -> None:
    found = ask("p: S/a PUBLISH R; q: R//a", doc("d1", 1, A), doc("d2", 1, A, "R"))
    assert pairs(of("q", found)) == ["d2", "p(d1; 0)"]


def test_two_streams_of_results_in_one_join() -> None:
    text = """
    SELECT x AS k FROM S/a[k->x] PUBLISH p;
    SELECT <t><u>{lower-case(y)}</u></t> FROM S/b->b[k->y] PUBLISH t;
    q: SELECT u FROM p/result->r[k->v] JOIN {v = u} t/t/u->u"""
    stream = [doc("d1", 1, "<a><k>m</k></a>"), doc("d2", 2, "<b><k>M</k><k>N</k></b>")]
    (match,) = of("q", ask(text, *stream))
    assert pairs([match]) == ["p(d1; 1) t(d2; 1)"]
    assert match.values == (("u", ("m",)), ("v", ("m",)))
    assert match.result.endswith("><u>m</></>")


# -- registration ----------------------------------------------------------------------------


def test_a_query_does_not_see_what_is_made_of_older_documents() -> None:
    oracle = subscribed("p: S/a JOIN S/b PUBLISH p")
    assert oracle.process([doc("a1", 1, A)]) == []
    oracle.subscribe(resolved("q: p/result"))
    found = oracle.process([doc("b1", 1, B), doc("a2", 1, A)])
    assert pairs(of("p", found)) == ["a1 b1", "a2 b1"]
    assert pairs(of("q", found)) == ["p(a2, b1; 0 0)"]


def test_through_two_levels_too() -> None:
    oracle = subscribed("p: S/a PUBLISH p; q: p/result JOIN S/b PUBLISH q")
    assert len(oracle.process([doc("a1", 1, A)])) == 1
    oracle.subscribe(resolved("r: q/result"))
    found = oracle.process([doc("b1", 1, B)])
    assert (len(of("q", found)), len(of("r", found))) == (1, 0)
    found = oracle.process([doc("a2", 1, A)])
    assert pairs(of("r", found)) == ["q(p(a2; 0), b1; 0 0)"]


def test_what_is_published_stays_when_its_query_goes() -> None:
    oracle = subscribed("p: S/a PUBLISH p; q: p/result JOIN S/b")
    assert len(oracle.process([doc("a1", 1, A)])) == 1
    oracle.unsubscribe("p")
    assert pairs(oracle.process([doc("a2", 1, A), doc("b1", 1, B)])) == ["p(a1; 0) b1"]


def test_a_revision_does_not_change_what_was_published() -> None:
    oracle = subscribed("p: SELECT x FROM S/a/k->x PUBLISH p; q: SELECT y FROM p//k->y JOIN S/b")
    oracle.process([doc("a", 1, "<a><k>1</k></a>")])
    assert oracle.process([doc("a", 1, "<a><k>2</k></a>", revision=True)]) == []
    (match,) = oracle.process([doc("b", 1, B)])
    assert match.values == (("y", ("1",)),)


def test_results_are_never_late() -> None:
    oracle = subscribed("p: S/a JOIN S/b PUBLISH p; q: p/result", lateness=5)
    found = oracle.process([doc("a", 1, A), doc("b", 6, B), doc("b2", 30, B), doc("a2", 25, A)])
    assert pairs(of("q", found)) == [f"p({d}; 0 0)" for d in ("a, b2", "a, b", "a2, b2", "a2, b")]


# -- nested queries --------------------------------------------------------------------------

INNER = "(SELECT x AS k FROM S/a[k->x] FOLLOWED BY S/b)"


def anonymous(found: list[Found]) -> list[str]:
    """The documents of matches, without the names that `xscl` gives to nested queries."""
    return sorted(text.partition("(")[2] if "~" in text else text for text in pairs(found))


def test_a_nested_query_is_heard_by_its_own_query_alone() -> None:
    text = f"q: SELECT y FROM {INNER}/result/k->y; r: {INNER}/result"
    found = ask(text, doc("a", 1, "<a><k>v</k></a>"), doc("b", 2, B))
    assert [(m.query, m.start, m.end) for m in found] == [
        ("q", SECOND, 2 * SECOND),
        ("r", SECOND, 2 * SECOND),
    ]
    assert anonymous(found) == ["a, b; 1)", "a, b; 1)"]
    assert found[0].values == (("y", ("v",)),)
    assert found[0].result.endswith("><k>v</></>")


def test_queries_that_share_a_nested_one_keep_their_own_beginnings() -> None:
    oracle = Oracle()
    oracle.subscribe(resolved(f"q: {INNER}/result"))
    assert oracle.process([doc("a1", 1, "<a><k/></a>")]) == []
    oracle.subscribe(resolved(f"r: {INNER}/result"))
    found = oracle.process([doc("b1", 2, B), doc("a2", 1, "<a><k/></a>")])
    assert anonymous(of("q", found)) == ["a1, b1; 1)", "a2, b1; 1)"]
    assert anonymous(of("r", found)) == ["a2, b1; 1)"]
    oracle.unsubscribe("q")
    assert anonymous(oracle.process([doc("b2", 3, B)])) == ["a2, b2; 1)"]


def test_equal_nested_queries_of_one_query_are_one_stream() -> None:
    """Their results have the same identities, so that the two documents of a match differ."""
    inner = "(SELECT * FROM S/a)"
    stream = [doc("d1", 1, A), doc("d2", 2, A)]
    assert len(ask(f"{inner}/result JOIN {inner}/result", *stream)) == 2
    assert len(ask(f"{inner}/result FOLLOWED BY {inner}/result", *stream)) == 1
    other = "(SELECT * FROM S//a)"
    assert len(ask(f"{inner}/result JOIN {other}/result", *stream)) == 4


def test_nested_in_nested() -> None:
    text = "q: (SELECT y FROM (SELECT x AS k FROM S/a->x)//k->y JOIN S/b)/result/k"
    found = ask(text, doc("a", 3, "<a>v</a>"), doc("b", 1, B))
    assert [(m.start, m.end) for m in found] == [(SECOND, 3 * SECOND)]
    assert found[0].result.endswith("><k>v</></>")


def test_a_nested_query_cannot_publish() -> None:
    for text in ("(SELECT * FROM S/a PUBLISH p)/result", "(S/a PUBLISH p)"):
        with pytest.raises(xscl.XsclError):
            ask(text)


# -- results ---------------------------------------------------------------------------------

XML = """<r i="1" xmlns:p="urn:n" p:j=" z&#10;"><a>1<b>x</b>2</a><a k="3"/><p:b xml:lang="en"
>&lt;&amp;</p:b><!--n--><?t u?><e xmlns="urn:m"><f/></e></r>"""


@pytest.mark.parametrize(
    ("select", "content"),
    [
        ("x/a/b", "<b>x</>"),
        ("x/a", "<a>1<b>x</>2</><a k='3'></>"),
        ("x/a AS n", "<n>1x2</><n></>"),
        ("x/a/text()", "12"),
        ("x/a/text() AS n", "<n>1</><n>2</>"),
        ("x/@i", "1"),
        ("x/@i AS n", "<n>1</>"),
        ("x//@*", "1 z\n3en"),
        ("x/nowhere", ""),
        ("x/nowhere AS n", ""),
        ("string-length(x/nowhere)", "<value>0</>"),
        ("x/@i + 1", "<value>2</>"),
        ("x/@i div 0 AS n", "<n>Infinity</>"),
        ("lower-case('Q') AS n, x/a/b", "<n>q</><b>x</>"),
        ("concat(x/a, '!')", "<value>1x2!</>"),  # a function takes the first
        ("1.50", "<value>1.5</>"),
        ("'s'", "<value>s</>"),
        ("x/p:b", "<{urn:n}b {http://www.w3.org/XML/1998/namespace}lang='en'><&</>"),
        ("x/e", "<{urn:m}e><{urn:m}f></></>"),
    ],
)
def test_items(select: str, content: str) -> None:
    text = f'LET NAMESPACE p = "urn:n"; q: SELECT {select} FROM S/r->x'
    (match,) = ask(text, doc("d", 1.25, XML))
    time = "1970-01-01T00:00:01.25Z"
    assert match.result == f"<result end='{time}' query='q' start='{time}'>{content}</>"


@pytest.mark.parametrize(
    ("constructor", "result"),
    [
        ("<n/>", "<n></>"),
        ("<n> {x/a/b} \n {x/@i} </n>", "<n><b>x</>1</>"),  # blanks between tags are layout
        ("<n> t {x/a/b}</n>", "<n> t <b>x</></>"),
        ("<n m='{x/a} {x/@i}{{'/>", "<n m='1x2  1{'></>"),
        ("<n m='{x/@i + 1}'>{x/@i + 1}</n>", "<n m='2'>2</>"),
        ("<n>{x/a}<m>{x/a/text()}</m></n>", "<n><a>1<b>x</>2</><a k='3'></><m>12</></>"),
        ("<n>{x//@*}</n>", "<n>1 z\n3en</>"),
        ("<n>{'<'}&#38;{{</n>", "<n><&{</>"),
        ("<p:n p:m='{x/@i}'><p:o/></p:n>", "<{urn:n}n {urn:n}m='1'><{urn:n}o></></>"),
        # a default namespace is that of constructed elements, not of copies and attributes
        ("<n xmlns='u' m=''><o/>{x/a/b}</n>", "<{u}n m=''><{u}o></><b>x</></>"),
        ("<n xmlns='u'><o xmlns=''><k/></o></n>", "<{u}n><o><k></></></>"),
        ("<n xmlns:p='u'><p:o>{x/p:b/@*}</p:o></n>", "<n><{u}o>en</></>"),
    ],
)
def test_constructors(constructor: str, result: str) -> None:
    text = f'LET NAMESPACE p = "urn:n"; SELECT {constructor} FROM S/r->x'
    (match,) = ask(text, doc("d", 1, XML))
    assert match.result == result


def test_comments_and_instructions_are_copied() -> None:
    text = "p: SELECT x FROM S/r->x PUBLISH p; q: p/result/r/e"
    found = ask(text, doc("d", 1, XML))
    (copied,), (inside,) = of("p", found), of("q", found)
    assert "<!--n--><?t u?><{urn:m}e>" in copied.result
    assert inside.nodes == (8,)  # result, r, a, b, a, p:b, comment, instruction, e


def test_moments() -> None:
    assert moment(0) == "1970-01-01T00:00:00Z"
    assert moment(1_500_000) == "1970-01-01T00:00:01.5Z"
    assert moment(-1) == "1969-12-31T23:59:59.999999Z"
