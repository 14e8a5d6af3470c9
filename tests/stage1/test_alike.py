"""Edges of one form are added without their filters being analysed again, and match the same."""

from __future__ import annotations

import random
from dataclasses import replace

import xscl
from broker.query import prepared
from broker.query.catalog import Catalog
from xscl.stage1.document import parse_document
from xscl.stage1.matcher import Matcher
from xscl.stage1.witness import Edge

FILTERS = (
    "[./a = '{}']",
    "[{} < ./n]",
    "[contains(./t, '{}')][./a = '{}']",
    "[contains(./t, '{}')][contains(./a, '{}')]",
    "[./a[. = '{}']]",
    "[starts-with(./t, '{}')][.//n >= {}]",
    "[./a = '{}'][./t != 'x']",
    "[substring(./t, {}, 2) = '{}']",
    "[translate(./t, '{}', 'x') = '{}'][./a = '{}']",
    "[./k[../a = '{}']/../t = '{}']",
    "[./u[./v = '{}']/w = '{}']",
    "[string-length(./t) = {}]",
    "[substring('{}', {}, 2) = '{}']",
)
VALUES = ("1", "2", "22", "333")
"""Texts that are numbers too, of several lengths: the longest keyword finds a query."""


def edges(rng: random.Random, count: int) -> dict[int, Edge]:
    """The edges of queries of few forms, of a registry that all of them are in."""
    catalog = Catalog()
    for number in range(count):
        chosen = rng.choice(FILTERS).replace("{}", "%s")
        filters = chosen % tuple(rng.choice(VALUES) for _ in range(chosen.count("%s")))
        text = (
            f"q{number}: S//item->x{filters}[./k->l] FOLLOWED BY {{l = m, 1 day}} S//b->y[./k->m]"
        )
        (query,) = xscl.check([xscl.parse(text)]).queries
        catalog.add(prepared.compile_query(query), number + 1, 1)
    found = catalog.edges.changes()
    return {id: edge for id, edge in found.items() if edge is not None}


def document(rng: random.Random) -> bytes:
    a, n, t = (rng.choice(VALUES) for _ in range(3))
    u = f"<u><v>{a}</v><w>{t}</w></u>"
    return f"<r><item><a>{a}</a><n>{n}</n><t>{t}</t><k>1</k>{u}</item></r>".encode()


def test_edges_of_a_form_match_as_they_do_alone() -> None:
    rng = random.Random(5)
    every = edges(rng, 200)
    assert any(edge.form is not None for edge in every.values())
    alike, found = Matcher(), 0
    for _ in range(3):  # added again they are of groups that were removed meanwhile
        alike.change(every.items())
        gone = rng.sample([*every], len(every) // 2)
        alike.change((id, None) for id in gone)
        left = [replace(edge, form=None) for id, edge in every.items() if id not in gone]
        alone = Matcher(left)
        for _ in range(30):
            root = parse_document(document(rng))
            rows = sorted(alike.match(root, ("S",)))
            assert rows == sorted(alone.match(root, ("S",)))
            found += len(rows)
        alike.change((edge.id, None) for edge in left)
        assert not alike.edges
    assert found > 100
