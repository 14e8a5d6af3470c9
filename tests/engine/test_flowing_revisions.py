"""Revisions that flow: documents of their own, which never match other versions of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document, Match
from broker.model import Limit
from tests.seeds import seeds

QUERIES = """
    two:    S//a[./k->k] JOIN {k = l, 3 s} S//a[./k->l];
    order:  S//a[./k->k] FOLLOWED BY {k = l, 4 s} S//a[./k->l];
    three:  SELECT k FROM S//a[./k->k] JOIN {k = l, 5 s} S//a[./k->l] JOIN {l = m, 5 s} S//a[./k->m];
    rest:   S//a[./n->n] FOLLOWED BY {n < m, 3 s} S//a[./n->m];
    same:   S//a[./k->k][./n->n] JOIN {k = l AND n != m, 3 s} S//a[./k->l][./n->m];
    made:   SELECT k AS k FROM S//a[./k->k] JOIN {k = l, 2 s} S//a[./k->l] PUBLISH P;
    above:  P//k->k JOIN {k = l, 9 s} S//a[./k->l];
    alone:  S//a[./k = '1']
"""


def versions(rng: Random, count: int) -> list[tuple[str, Document]]:
    """Documents in order of arrival, some of them revisions; each with a name of its own."""
    made: Counter[str] = Counter()
    listed = []
    for _ in range(count):
        id = f"d{rng.randrange(count // 2 + 1)}"
        time = rng.randrange(8)
        # What it says differs from all before, or the revision would say nothing new.
        xml = (
            f"<r><v>{made.total()}</v><a><k>{rng.randrange(3)}</k><n>{rng.randrange(3)}</n></a></r>"
        )
        revision = made[id] > 0
        listed.append((f"{id} {made[id]}", Document(id, "S", float(time), xml, revision=revision)))
        made[id] += 1
    return listed


def in_batches(broker: Broker, documents: Sequence[Document], rng: Random) -> list[Match]:
    found: list[Match] = []
    rest = list(documents)
    while rest:
        size = rng.randint(1, len(rest))
        found += broker.process(rest[:size])
        rest = rest[size:]
    return found


def told(matches: Sequence[Match]) -> Counter[tuple[object, ...]]:
    return Counter((m.query, m.start, m.end, m.nodes, str(m.values)) for m in matches)


def of_single_documents(listed: Sequence[tuple[str, Document]]) -> list[Match]:
    """What the versions match as so many documents, but for those of one document with each
    other."""
    alone = [
        Document(name, "S", document.timestamp, document.xml, source=document.id)
        for name, document in listed
    ]
    with Broker() as broker:
        broker.subscribe(QUERIES)
        found = broker.process(alone)
    kept = []
    hidden = set()
    for match in found:
        ids = [each.id.split()[0] for each in match.documents if each.stream == "S"]
        if len(set(ids)) < len(ids):
            hidden.add(match.id)
    for match in found:
        made_of = {each.id for each in match.documents} & hidden
        if match.id not in hidden and not made_of:
            kept.append(match)
    return kept


@pytest.mark.parametrize("seed", seeds(4, 25))
def test_versions_are_documents_that_do_not_match_each_other(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    listed = versions(rng, 14)
    documents = [document for _, document in listed]
    wanted = told(of_single_documents(listed))
    with Broker(revisions="flow") as broker:
        broker.subscribe(QUERIES)
        whole = broker.process(documents)
    assert told(whole) == wanted
    assert len({match.id for match in whole}) == len(whole)
    with Broker(revisions="flow", memory=3) as broker:
        broker.subscribe(QUERIES)
        cut = in_batches(broker, documents, rng)
    assert {match.id for match in cut} == {match.id for match in whole}
    half = rng.randrange(len(documents))
    with Broker(tmp_path, revisions="flow") as broker:
        broker.subscribe(QUERIES)
        found = in_batches(broker, documents[:half], rng) if half else []
    with Broker(tmp_path, revisions="flow") as broker:
        found += in_batches(broker, documents[half:], rng)
    assert {match.id for match in found} == {match.id for match in whole}


def item(id: str, k: str, at: float = 0.0, revision: bool = False) -> Document:
    return Document(id, "S", at, f"<a><k>{k}</k></a>", revision=revision)


PAIR = "pair: S//a[./k->k] JOIN {k = l, 9 days} S//a[./k->l]"


def pairs(matches: Sequence[Match]) -> list[list[str]]:
    return sorted([each.id for each in match.documents] for match in matches)


def test_a_revision_says_once_what_it_says() -> None:
    with Broker(revisions="flow") as broker:
        broker.subscribe(PAIR)
        assert not broker.process([item("x", "1"), item("x", "1", revision=True)])
        assert not broker.process([item("x", "2", revision=True)])
        assert len(broker.process([item("y", "2")])) == 2
        assert not broker.process([item("x", "2", revision=True)]), "sent twice"
        again = broker.process([item("x", "1", revision=True), item("x", "2", revision=True)])
        assert pairs(again) == [["x", "y"], ["y", "x"]], "it says again what it said before"


def test_both_versions_match_and_each_match_has_an_id_of_its_own() -> None:
    with Broker(revisions="flow") as broker:
        broker.subscribe(PAIR)
        broker.process([item("x", "1"), item("y", "1")])
        again = broker.process([Document("x", "S", 0.0, "<a><k>1</k><new/></a>", revision=True)])
        assert pairs(again) == [["x", "y"], ["y", "x"]]


def test_the_limit_counts_no_match_of_a_version_with_another() -> None:
    with Broker(revisions="flow", limit=Limit(2, 3_600_000_000)) as broker:
        broker.subscribe(PAIR)
        for n in range(10):
            broker.process([Document("x", "S", 0.0, f"<a><k>1</k><n>{n}</n></a>", revision=n > 0)])
        assert broker.engine.registered_one("pair").status == "active"


def test_history_has_the_versions_too(tmp_path: Path) -> None:
    with Broker(tmp_path, revisions="flow") as broker:
        broker.subscribe("other: S//a[./k = '9']")
        broker.process([item("x", "1"), item("x", "1", 1.0, revision=True), item("y", "1", 2.0)])
        live = Broker(revisions="flow")
        live.subscribe(PAIR)
        wanted = live.process(
            [item("x", "1"), item("x", "1", 1.0, revision=True), item("y", "1", 2.0)]
        )
        assert len(wanted) == 4
        assert {m.id for m in broker.backfill(PAIR, since=0).matches} == {m.id for m in wanted}


def test_what_flowed_stays_apart_where_revisions_replace_again(tmp_path: Path) -> None:
    with Broker(tmp_path, revisions="flow") as broker:
        broker.subscribe(PAIR)
        broker.process([item("x", "1"), item("x", "2", revision=True)])
    with Broker(tmp_path) as broker:
        assert not broker.process([item("x", "1", revision=True)]), "it replaces the second one"
        assert pairs(broker.process([item("y", "2")])) == []
        assert pairs(broker.process([item("z", "1")])) == [["x", "z"]] * 2 + [["z", "x"]] * 2


def test_a_revision_that_flows_may_be_late_and_one_that_replaces_may_not() -> None:
    old = item("x", "2", 0.0, revision=True)
    for revisions, letters in (("flow", ["late"]), ("replace", [])):
        with Broker(lateness=10, revisions=revisions) as broker:  # type: ignore[arg-type]
            broker.subscribe("far: S//a[./k->k] JOIN {k = l} S//a[./k->l]")
            broker.process([item("x", "1"), item("now", "0", 3_600.0)])
            assert not broker.process([old])
            assert [letter.reason[:4] for letter in broker.dead_letters()] == letters
            found = broker.process([item("y", "2" if revisions == "replace" else "1", 3_600.0)])
            assert pairs(found) == [["x", "y"], ["y", "x"]]


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match='"replace" or "flow", not \'drop\''):
        Broker(revisions="drop")  # type: ignore[arg-type]


def test_a_dead_letter_that_comes_again_is_kept_once() -> None:
    with Broker(lateness=0) as broker:
        broker.process([item("now", "0", 3_600.0), item("x", "1"), item("x", "1")])
        broker.process([item("x", "1"), item("y", "1")])
        broker.process([item("x", "2")])
        kept = [(letter.id, letter.xml) for letter in broker.dead_letters()]
    contents = [b"<a><k>1</k></a>", b"<a><k>1</k></a>", b"<a><k>2</k></a>"]
    assert kept == list(zip("xyx", contents, strict=True))


def test_what_documents_said_is_read_from_the_store_only_where_it_is_asked_for() -> None:
    with Broker() as broker:
        broker.subscribe("q: S//a->x")
        broker.process([Document("d", "S", 5.0, "<a/>")])
        relations = broker.engine.admission.relations
        keys = relations.keys().tolist()
        assert [newest.said for newest in relations.newest(keys).values()] == [None]
        assert [newest.said for newest in relations.newest(keys, said=True).values()] == [
            (5_000_000, b"<a/>")
        ]
