"""Queries that differ in literals only share their shape, and get what they would get by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import xscl
from broker import Broker, XsclError
from broker.model import UNBOUNDED
from broker.query import prepared
from broker.query.prepared import Compiled, compile_query, compile_text
from tests.engine.test_registry import QUERIES
from tests.oracle.generate import Subscribe, case
from tests.oracle.generate_documents import Level
from tests.seeds import seeds
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.normal.bind import window_of
from xscl.normal.joingraph import join_graph
from xscl.normal.lower import Lowering
from xscl.normal.lower import literals_of as literals_of_query
from xscl.normal.normalize import normalize
from xscl.normal.template import template
from xscl.normal.text import plain
from xscl.syntax.printer import format_duration, format_expression, split_query


@pytest.fixture(autouse=True)
def no_shapes() -> Iterator[None]:
    """Each test starts as a process does."""
    prepared.forget()
    yield
    prepared.forget()


STRINGS = ("'a'", "'b'", '"it\'s"', "'50 %s'", "''", "' 5 '", "'x [7 s]'", "'(3'", "'z'")
NUMBERS = ("0", "1", "-1", "2.5", "-0", "100000000000000000000", "0.0001")
WINDOWS = ("0 s", "1 day", "2 days", "90 s", "1.5 ms", "7 weeks", "36 h")


def checked(text: str) -> list[ResolvedQuery]:
    return list(xscl.check([xscl.parse(text)]).queries)


def by_itself(query: ResolvedQuery) -> list[object]:
    """What the passes make of a query whose literals are constants and no parameters."""
    normal = normalize(query, Lowering(query.namespaces))
    graph = join_graph(normal)
    fitted = template(graph)
    return [
        [node.definition for node in graph.nodes],
        [definition for _, definition in graph.quantified],
        fitted.template.operators,
        len(fitted.template.joins),
        {*graph.selected},
        ([*graph.selected], {plain(n): i for n, i in graph.variables}, normal.select),
        [by_itself(inner) for inner in normal.nested],
    ]


def shared(query: Compiled) -> list[object]:
    """The same of a query that shares its shape with others."""
    shape, literals = query.shape, query.literals
    delivery, definitions = shape.deliver(literals), shape.definitions(literals)
    assert shape.texts(literals) == [definition.text() for definition in definitions]
    return [
        [definitions[p] for p in delivery.positions],
        [*definitions[len(shape.template.nodes) :]],
        shape.template.operators,
        len(shape.template.joins),
        {delivery.positions.index(p) for p in shape.selected},
        ([*delivery.selected], dict(delivery.variables), delivery.select),
        [shared(inner) for inner in query.nested],
    ]


def varied(r: Random, text: str) -> str:
    """The text with other literals."""
    choices = {"s": STRINGS, "n": NUMBERS, "w": WINDOWS}
    (query,) = checked(text)
    body, form, literals = split_query(query.query)
    kinds, *pieces = form.split("\0")
    out = pieces[0]
    for kind, old, piece in zip(kinds, literals, pieces[1:], strict=True):
        out += (old if r.random() < 0.3 else r.choice(choices[kind])) + piece
    return query.text.replace(body, out)


def literals_of(r: Random) -> list[str]:
    """Canonical texts of queries of many kinds."""
    found = [
        query.text
        for text in QUERIES.replace("[./b-2 = 3]->v", "->v[./b-2 = 3]").split(";")
        for query in checked(text)
    ]
    levels: tuple[Level, ...] = ("core", "full")
    for level in levels:
        for _ in range(25):
            for event in case(r, level).events:
                if isinstance(event, Subscribe):
                    found += [query.text for query in checked(event.text)]
    return found


def test_a_shared_shape_gives_what_the_query_by_itself_gives() -> None:
    r = Random(20261121)
    different = 0
    for text in literals_of(r):
        queries = []
        for _ in range(3):
            try:
                queries += checked(varied(r, text))
            except XsclError:  # a constant that is no regular expression, for one
                continue
        for query in queries:
            compiled = compile_query(query)
            assert shared(compiled) == by_itself(query)
            written = [*map(format_literal, literals_of_query(query.query))]
            assert [*compiled.literals] == written
            windows = [w for w in written if w[-1].isalpha()]
            assert {*map(window_of, windows)} >= {*compiled.shape.windows(compiled.literals)} - {
                UNBOUNDED
            }
            again = compile_text(query.id, query.text)
            assert (again.shape, again.literals) == (compiled.shape, compiled.literals)
        different += len({query.literals for query in queries})
    assert different > 250


def format_literal(literal: ast.String | ast.Number | ast.Duration) -> str:
    if isinstance(literal, ast.Duration):
        return format_duration(literal)
    return format_expression(literal)


@pytest.mark.parametrize("number", seeds(3, 12))
def test_queries_that_differ_in_literals_share(number: int) -> None:
    text = QUERIES.replace("[./b-2 = 3]->v", "->v[./b-2 = 3]").split(";")[number]
    r = Random(number)
    (first,) = checked(text)
    compiled = compile_query(first)
    for _ in range(3):
        (query,) = checked(varied(r, text))
        assert compile_query(query).shape is compiled.shape


def test_a_digit_in_a_name_is_no_constant() -> None:
    one, other = "S//a->leaf1[./b-1][. = 'x']", "S//a->leaf2[./b-2][. = 'x']"
    assert checked(one)[0].form != checked(other)[0].form


def test_the_literals_of_a_query_in_from_are_its_own() -> None:
    """By them its stream is named."""
    one, other = (f"(SELECT * FROM S//i[. = '{x}'])//i->t[. = 'z']" for x in "ab")
    (first,), (second,) = checked(one), checked(other)
    assert first.form != second.form
    assert first.literals == second.literals == ("'z'",)


def test_a_string_and_a_number_are_two_shapes() -> None:
    for _ in range(3):
        for text in ("S//a[./b = 5]", "S//a[./b = '5']", "S//a[./b = -5]"):
            (query,) = checked(text)
            compiled = compile_query(query)
            assert compiled.shape.definitions(compiled.literals)[0].text() == text


def test_prefixes_of_other_namespaces_are_other_shapes() -> None:
    for uri in ("urn:1", "urn:1", "urn:1", "urn:2", "urn:2", "urn:2"):
        (query,) = checked(f"LET NAMESPACE p = '{uri}'; S//p:a[./p:b = 'x']")
        compiled = compile_query(query)
        assert compiled.shape.texts(compiled.literals) == [f"S//{uri}:a[./{uri}:b = 'x']"]


def test_the_order_of_writing_does_not_part_canonical_queries() -> None:
    """Nodes that a template cannot tell apart stand in one order, whatever the query's."""
    left, right = ("a", "b", "c"), ("d", "e", "f")
    broker = Broker()
    r = Random(1)
    for number in range(40):
        pairs = r.sample(list(zip(left, right, strict=True)), 3)
        one, other = r.sample(left, 3), r.sample(right, 3)
        broker.subscribe(
            f"q{number}: S//i{''.join(f'[./{x}->{x}]' for x in one)} FOLLOWED BY"
            f" {{{' AND '.join(f'{x} = {y}' for x, y in pairs)}}}"
            f" S//i{''.join(f'[./{x}->{x}]' for x in other)};"
        )
    assert len(broker.engine.catalog.canonical) == 1
