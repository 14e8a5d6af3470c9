"""A query in parentheses without a path behind it: its results are taken whole."""

from __future__ import annotations

import pytest

from broker import Broker, Document
from tests.oracle.asking import ask, doc

_DOCUMENTS = ["<a>1</a>", "<b>1</b>", "<c/>", "<a>2</a>", "<c/>", "<d/>", "<z/>"]
_PART_1 = {
    "alone": "(SELECT x FROM S//a->x)%",
    "selected": "SELECT v FROM (SELECT <r i='{x}'/> FROM S//a->x)% FOLLOWED BY {1 h} S//c->v",
    "of a join": "(SELECT x FROM S//a->x FOLLOWED BY {x = y, 1 h} S//b->y)% FOLLOWED BY {1 h} S//c",
    "twice": "(SELECT * FROM S//a)% FOLLOWED BY {1 h} (SELECT * FROM S//c)%",
    "in another": "(SELECT * FROM (SELECT * FROM S//a)% FOLLOWED BY {1 h} S//c)%",
}
"""`%`: the place of a path."""
_PART_2 = {
    "next": "(SELECT x FROM S//a->x NEXT {1 h} S//b)% NEXT {1 h} S//c",
    "not": "S//b FOLLOWED BY {1 s} NOT (SELECT * FROM S//d)%",
    "group": "((SELECT * FROM S//a)%)+ FOLLOWED BY {1 h} S//d",
    "or": "(SELECT * FROM S//a)% OR S//b",
    "fold": "(SELECT * FROM S//a)% FOLD {, } (SELECT * FROM S//c)% WITHIN 1 h",
}
_EVERY = _PART_1 | _PART_2


def _found(text: str) -> list[tuple[int, int, str | None]]:
    with Broker(lateness=0.0) as broker:
        broker.subscribe(text)
        found = []
        for n, xml in enumerate([*_DOCUMENTS, "<z/>"]):
            late = 90_000.0 if n == len(_DOCUMENTS) else float(n)
            found += broker.process([Document(f"d{n}", timestamp=late, xml=xml)])
        return [(each.start_us, each.end_us, each.result) for each in found]


@pytest.mark.parametrize("name", _EVERY)
def test_without_a_path_is_with_the_path_of_any_root(name: str) -> None:
    assert _found(_without(name)) == _found(f"q: {_EVERY[name].replace('%', '/*')}") != []


@pytest.mark.parametrize("name", _PART_1)
def test_it_is_what_the_oracle_finds(name: str) -> None:
    wanted = ask(_without(name), *[doc(f"d{n}", n, xml) for n, xml in enumerate(_DOCUMENTS)])
    found = [(start, end) for start, end, _ in _found(_without(name))]
    assert sorted((each.start, each.end) for each in wanted) == sorted(found)


def _without(name: str) -> str:
    return f"q: {_EVERY[name].replace('%', '')}"
