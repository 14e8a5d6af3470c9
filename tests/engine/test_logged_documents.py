"""References in the tables in place of documents: which of them is the first, and which there are."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from broker.state.logged_documents import SIZE, all_references, ends, first_needed, numbers_of
from broker.state.store import Store
from feeds.references import Reference
from tests.seeds import seeds


def insert(store: Store, table: str, **columns: list[object]) -> None:
    arrays = {
        name: pa.array(values, pa.binary() if name == "xml" else pa.int64())
        for name, values in columns.items()
    }
    with store.transaction():
        store.insert(table, pa.table(arrays))


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_the_first_is_found_wherever_it_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr("broker.state.logged_documents._AT_ONCE", random.choice([1, 3, 50]))
    store = Store(None)
    expired, share = random.randrange(200), random.choice([0.0, 0.02, 0.5, 1.0])
    docs = sorted(random.sample(range(1, 400), random.choice([0, 1, 9, 150])))
    xml: list[bytes | None] = []
    for doc in docs:
        packed = Reference(doc // 7, doc % 7, 100 + doc, 0).packed()
        kept = packed if random.random() < share else b"<a/>"
        xml.append(None if doc < expired else kept)
    if docs:
        insert(store, "documents", doc=[*docs], xml=[*xml])
    older = [
        Reference(random.randrange(60), 0, 1, n).packed() for n in range(random.choice([0, 2]))
    ]
    if older:
        insert(store, "kept", doc=[1] * len(older), before=[9] * len(older), xml=[*older])
    own = [(doc, each) for doc, each in zip(docs, xml, strict=True) if each and each[0] == 1]
    all_of_them = [*[each for _, each in own], *older]
    assert sorted(all_references(store)) == sorted(all_of_them)
    assert ends(store) == ([own[0][1], own[-1][1]] if own else [])
    first = min([Reference.of(each).seq for each in all_of_them], default=None)
    since = 0
    for _ in range(3):
        found, since = first_needed(store, since)
        assert found == first
        if own:
            assert since == own[0][0]
        else:
            assert since == (docs[-1] + 1 if docs else 0)
    documents, kept_ones = numbers_of(store, all_of_them)
    assert sorted(documents) == [doc for doc, _ in own]
    assert len(kept_ones) == len(older)
    sizes = store.rows(f"SELECT coalesce(sum({SIZE}), 0)::BIGINT FROM documents")
    assert sizes == [
        (
            sum(
                4 if each == b"<a/>" else 100 + doc
                for doc, each in zip(docs, xml, strict=True)
                if each
            ),
        )
    ]
    store.close()
