"""What is said about how many matches a pattern may have is not less than it has."""

from __future__ import annotations

import re

import pytest

from broker import Broker, Document, model
from broker.pattern.growth import growth
from broker.query.patterns import pattern_query
from xscl import check, parse

_N = 12


def says(query: str) -> str:
    (resolved,) = check([parse(query)]).queries
    return growth(pattern_query(resolved).plan)


def most(query: str) -> str:
    found = re.match(r"at most (\S+) match", says(query))
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("S/a[./p->p] FOLLOWED BY S/a[./p->q] USING SKIP TILL ANY MATCH", "n²"),
        ("S/a NEXT S/a", "n"),
        ("S/a FOLD {, } S/a", "n²"),
        ("S/a FOLLOWED BY (S/a)+ FOLLOWED BY S/a WITHIN 1 h", "n²"),
        ("S/a FOLLOWED BY (S/a){2} FOLLOWED BY S/a WITHIN 1 h", "n³"),
        ("(S/a)+ WITHIN 1 h", "n"),
        ("(S/a[./p->p])+ WHERE p > prev(p) WITHIN 1 h", "n"),
        ("(S/a){2} WITHIN 1 h", "n"),
        ("(S/a FOLLOWED BY S/a)+ WITHIN 1 h", "n²"),
        ("S/a FOLLOWED BY S/a USING SKIP TILL NEXT MATCH", "n"),
        ("(S/a)+ USING STRICT CONTIGUITY", "n²"),
        ("(S/a)+ FOLLOWED BY (S/a)+ USING SKIP TILL NEXT MATCH", "n³"),
        ("(S/a)+ FOLLOWED BY (S/a)+ USING SKIP TILL NEXT MATCH ONE PER START", "n"),
    ],
)
def test_it_is_a_bound(query: str, said: str) -> None:
    assert most(query) == said
    broker = Broker(lateness=0, budgets=model.Budgets(combinations=100_000))
    broker.subscribe(f"q: {query}")
    documents = [
        Document(f"{n}", timestamp=float(n), xml=f"<a><p>{-(n * 5 % 7)}</p></a>") for n in range(_N)
    ]
    found = len(broker.process(documents)) + len(broker.decide())
    assert 1 <= found <= {"n": _N, "n²": _N**2, "n³": _N**3}[said]
