"""Edges of one form are added without their filters being analysed again, and match the same."""

from __future__ import annotations

import random
from dataclasses import replace

import xscl
from broker.query import prepared
from broker.query.catalog import Catalog, Query
from broker.query.prepared import Compiled
from broker.query.shape import Shape
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


def queries(rng: random.Random, count: int) -> list[Compiled]:
    """Queries of few forms."""
    found = []
    for number in range(count):
        chosen = rng.choice(FILTERS).replace("{}", "%s")
        filters = chosen % tuple(rng.choice(VALUES) for _ in range(chosen.count("%s")))
        other = rng.choice(("", f"[./a = '{rng.choice(VALUES)}']"))
        text = (
            f"q{number}: S//item->x{filters}[./k->l] FOLLOWED BY {{l = m, 1 day}}"
            f" S//b->y{other}[./k->m]"
        )
        (query,) = xscl.check([xscl.parse(text)]).queries
        found.append(prepared.compile_query(query))
    return found


def edges(rng: random.Random, count: int) -> dict[int, Edge]:
    """The edges of queries of few forms, of a registry that all of them are in."""
    catalog = Catalog()
    for number, query in enumerate(queries(rng, count), 1):
        catalog.add(query, number, 1)
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


class Registered:
    """Queries in a catalog, and the edges of stage 1 that they need, by `change`."""

    def __init__(self) -> None:
        self.catalog, self.matcher = Catalog(), Matcher()

    def change(self) -> None:
        for alike in self.catalog.edges.alike():
            self.matcher.add_alike(alike)
        self.matcher.change(self.catalog.edges.changes().items())

    def add(self, queries: list[Compiled], *, together: bool) -> None:
        by_shape: dict[Shape, list[Query]] = {}
        for query in queries:
            by_shape.setdefault(query.shape, []).append((int(query.id[1:]) + 1, query, 1))
        for shape, alike in by_shape.items():
            if together:
                self.catalog.add_alike(shape, alike)
            else:
                for number, query, first_doc in alike:
                    self.catalog.add(query, number, first_doc)

    def state(self) -> list[object]:
        """What the queries are, by names that do not depend on the order of their numbers."""
        catalog, names = self.catalog, {n: text for text, n in self.catalog.variables.items()}
        assert self.matcher.edges.keys() == catalog.edges.keys()
        return [
            {
                id: ([names[v] for v in each.canonical.variables], each.windows, each.reach)
                for id, each in catalog.subscriptions.items()
            },
            {(names.get(e.var1), names[e.var2]): e.definition for e in catalog.edges.values()},
            sorted(sorted(c.subscribers) for c in catalog.canonical.values()),
            +catalog.read,
            catalog.widest_window(),
        ]

    def rows(self, xml: bytes) -> list[tuple[object, ...]]:
        names = {n: text for text, n in self.catalog.variables.items()}
        rows = self.matcher.match(parse_document(xml), ("S",))
        return sorted((names.get(a, ""), names[b], *rest) for a, b, *rest in rows)


def test_queries_of_a_form_are_registered_together_as_they_are_one_by_one() -> None:
    rng = random.Random(6)
    every = queries(rng, 250)
    together, alone = Registered(), Registered()
    found = 0
    for begin in range(0, 250, 50):  # the later ones with the variables of the earlier ones
        for each in (together, alone):
            each.add(every[begin : begin + 50], together=each is together)
        gone = rng.sample([*together.catalog.subscriptions], 10)
        if begin % 100:  # some before stage 1 has heard of them
            together.change()
        for each in (together, alone):
            removed = [each.catalog.remove(id) for id in gone]
            each.add([one.compiled for one in removed[:5]], together=each is together)
            each.change()
        assert together.state() == alone.state()
        for _ in range(30):
            xml = document(rng)
            assert together.rows(xml) == alone.rows(xml)
            found += len(alone.rows(xml))
    assert found > 100
    for each in (together, alone):
        for id in [*each.catalog.subscriptions]:
            each.catalog.remove(id)
        each.change()
        assert not each.catalog.edges
        assert not each.matcher.edges
        assert not each.catalog.canonical
        each.catalog.variables.spare = 0
        each.catalog.variables.new.clear()
        each.catalog.variables.forget()
        assert len(each.catalog.variables) <= 1  # the last one keeps its number
