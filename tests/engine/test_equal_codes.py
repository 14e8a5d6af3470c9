"""Two different strings with the same code do not join: codes are confirmed before a match is
published."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xxhash import xxh3_64_intdigest

from broker import Broker, Document
from xscl.stage1 import document, reading, walk
from xscl.stage1.document import value_code

QUERIES = {
    "decided in memory": "q: S/a[./k->x] FOLLOWED BY {x = y, 1 h} S/b[./k->y]",
    "a computed value": "q: S/a[./k->x] FOLLOWED BY {words(x) = words(y), 1 h} S/b[./k->y]",
    "decided in SQL": (
        "q: S/a[./k->x][./n->m] FOLLOWED BY {x = y AND m <= n, 1 h} S/b[./k->y][./n->n]"
    ),
    "two joins": "q: S/a[./k->x][./n->m] JOIN {x = y AND m = n, 1 h} S/b[./k->y][./n->n]",
}


@pytest.fixture
def few_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values have one of two codes, as if they collided; 64 bits collide by themselves once in an
    age."""

    def small(digest: Callable[..., int]) -> Callable[..., int]:
        return lambda *args: 2 + digest(*args) % 2

    monkeypatch.setattr(reading, "xxh3_64_intdigest", small(xxh3_64_intdigest))
    monkeypatch.setattr(walk, "value_code", small(value_code))
    monkeypatch.setattr(document, "value_code", small(value_code))


@pytest.mark.usefixtures("few_codes")
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_equal_codes_of_different_strings_join_nothing(query: str) -> None:
    broker = Broker()
    broker.subscribe(query)
    documents = [
        Document(
            f"{name}{key}", timestamp=float(at), xml=f"<{name}><k>K {key}</k><n>1</n></{name}>"
        )
        for at, name in enumerate("ab")
        for key in range(9)
    ]
    found = [match for document in documents for match in broker.process([document])]
    assert sorted(tuple(d.id for d in match.documents) for match in found) == [
        (f"a{key}", f"b{key}") for key in range(9)
    ]


@pytest.mark.usefixtures("few_codes")
def test_of_several_values_one_that_is_equal_is_enough() -> None:
    broker = Broker()
    broker.subscribe("q: S/a[./k->x] FOLLOWED BY {x = y, 1 h} S/b[./k->y]")

    def ks(*keys: int) -> str:
        return "".join(f"<k>{key}</k>" for key in keys)

    one = [Document("a", timestamp=0.0, xml=f"<a>{ks(1, 2, 3)}</a>")]
    two = [
        Document("some", timestamp=1.0, xml=f"<b>{ks(7, 8, 3)}</b>"),
        Document("none", timestamp=2.0, xml=f"<b>{ks(4, 5, 6)}</b>"),
    ]
    assert broker.process(one) == []
    assert [m.documents[1].id for m in broker.process(two)] == ["some"]
