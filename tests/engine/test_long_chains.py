"""Long chains of Part 1 with comparisons: their joins stand in a planned order, and none of it makes
more combinations than go together."""

from __future__ import annotations

from itertools import combinations
from random import Random

import xscl
from broker import Broker, Document
from broker.query.join_order import join_order
from broker.query.prepared import compile_query

_BLOCKS = 10


def test_a_long_chain_with_a_comparison_is_matched_at_once() -> None:
    blocks = " FOLLOWED BY ".join(f"S//a->x{i}[./k->k{i}][./v->v{i}]" for i in range(_BLOCKS))
    joins = " AND ".join(f"k{i} = k{i - 1}" for i in range(1, _BLOCKS))
    random, begin, number = Random(1), 1_790_000_000, _BLOCKS + 1
    values = [random.randrange(9) for _ in range(number)]
    hot = [("hot", value) for value in values]
    others = [(str(random.randrange(300)), random.randrange(9)) for _ in range(40)]
    documents = [
        Document(
            f"d{place}",
            timestamp=float(begin + place),
            xml=f"<d><a><k>{key}</k><v>{value}</v></a></d>",
        )
        for place, (key, value) in enumerate([*others, *hot])
    ]
    wanted = sum(values[own[0]] < values[own[1]] for own in combinations(range(number), _BLOCKS))
    with Broker(lateness=0) as broker:
        broker.subscribe(f"{blocks} WHERE {joins} AND v0 < v1 WITHIN 1 h")
        found = len(broker.process(documents[:-1])) + len(broker.process(documents[-1:]))
        assert not broker.engine.take_suspensions()
    assert found == wanted > 0


def test_joins_begin_at_the_pivot_and_go_where_something_is_shared() -> None:
    text = "S//a->x[./k->k] JOIN S//b->y[./j->j] JOIN S//c->z[./l->l][./m->m] JOIN S//d->u[./n->n]"
    (query,) = xscl.check([xscl.parse(f"{text} WHERE k = l AND m = n AND j = n")]).queries
    template = compile_query(query).shape.template
    assert join_order(template, 0)[:2] == [0, 2]
    assert join_order(template, 1)[:2] in ([1, 2], [1, 3])
    last = join_order(template, 3)
    assert last[0] == 3
    assert last.index(2) < last.index(0)
    assert all(sorted(join_order(template, pivot)) == [0, 1, 2, 3] for pivot in range(4))


def test_a_batch_of_documents_far_apart_reaches_back_from_the_first_of_them() -> None:
    """Templates read the stored documents within the windows of all documents of the batch."""

    def document(tag: str, at: float, key: int) -> Document:
        return Document(f"{tag}{key}", timestamp=at, xml=f"<{tag} n='{at}'><k>{key}</k></{tag}>")

    with Broker(lateness=0) as broker:
        broker.subscribe(
            "chain: S//a->x[./k->k] FOLLOWED BY {k = l, 10 s} S//b->y[./k->l]"
            " FOLLOWED BY {l = m, 10 s} S//c->z[./k->m] WHERE x/@n < z/@n"
        )
        assert broker.process([document("a", 0, 1), document("b", 5, 1)]) == []
        (match,) = broker.process([document("c", 8, 1), document("c", 1_000, 2)])
    assert [each.id for each in match.documents] == ["a1", "b1", "c1"]
