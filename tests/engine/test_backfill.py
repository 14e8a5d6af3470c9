"""A subscription with backfill has the matches that it would have found from the beginning."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document
from broker.cli.opening import open_broker
from broker.cli.query_files import read_queries
from tests.engine.test_state import item
from tests.oracle.generate import Batch, Subscribe, steady
from tests.oracle.generate_patterns import pattern_case
from tests.properties.harness import _document
from tests.seeds import seeds
from xscl import XsclError

DAY = 86_400
PAIR = "pair: S//i->x[./t->t] FOLLOWED BY {t = u, 2 days} S//i->y[./t->u]"


def found(broker: Broker) -> list[tuple[str, tuple[str, ...]]]:
    return sorted((m.query, tuple(d.id for d in m.documents)) for m in broker.undelivered(10**6))


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_history_is_matched_as_if_it_came_now(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    case = steady(r, "core" if seed % 2 else "full")
    (subscribe, *batches) = case.events
    assert isinstance(subscribe, Subscribe)
    documents = [
        _document(a) for batch in batches if isinstance(batch, Batch) for a in batch.documents
    ]
    cut = r.randint(0, len(documents))
    with Broker(tmp_path / "first") as broker:
        broker.subscribe(subscribe.text)
        for document in documents:
            broker.process([document])
        expected = {(m.id, m.result) for m in broker.undelivered(10**6)}
    with Broker(tmp_path / "later", memory=case.memory) as broker:
        if r.random() < 0.5:  # other queries have left witnesses of the same variables
            broker.subscribe(subscribe.text.replace("q1:", "z1:").replace("q2:", "z2:"))
        broker.process(documents[:cut])
        before = {m.id for m in broker.undelivered(10**6)}
        if "(SELECT" in subscribe.text:
            with pytest.raises(XsclError, match="no-history"):
                broker.backfill(subscribe.text, -(10**9))
            return
        history = broker.backfill(subscribe.text, -(10**9))
        assert history.documents == cut
        broker.process(documents[cut:])
        got = {(m.id, m.result) for m in broker.undelivered(10**6) if m.query in subscribe.ids}
        got = {each for each in got if each[0] not in before} | {
            each for each in expected if each[0] in before
        }
        assert got == expected


@pytest.mark.parametrize("seed", seeds(10, 60))
def test_event_patterns_decide_in_history_as_if_they_had_been_there(
    seed: int, tmp_path: Path
) -> None:
    r = Random(seed)
    while True:
        case = pattern_case(r)
        text = next(event.text for event in case.events if isinstance(event, Subscribe))
        if "PUBLISH" not in text and "(SELECT" not in text:
            break
    arrived = [a for event in case.events if isinstance(event, Batch) for a in event.documents]
    documents = [_document(a) for a in arrived if not a.revision]
    lateness = case.lateness / 10**6
    with Broker(tmp_path / "first", lateness) as broker:
        broker.subscribe(text)
        expected = {m.id for document in documents for m in broker.process([document])}
    cut = r.randint(0, len(documents))
    other = "other: S/a FOLLOWED BY {3} NOT S/b; another: S/b NEXT S/c"
    broker = Broker(tmp_path / "later", lateness, memory=case.memory)
    first = r.randint(0, cut)
    broker.process(documents[:first])
    if r.random() < 0.5:  # it shares blocks with the new ones
        broker.subscribe(other)
    broker.process(documents[first:cut])
    would = broker.dry_run(text, -(10**9))
    history = broker.backfill(text, -(10**9))
    assert {m.id for m in would.matches} == {m.id for m in history.matches}
    if r.random() < 0.5:
        broker.close()
        broker = Broker(tmp_path / "later", lateness, memory=case.memory)
    with broker:
        later = broker.process(documents[cut:])
        got = [
            m.id for m in (*history.matches, *later) if not m.query.startswith(("other", "another"))
        ]
        assert sorted(got) == sorted(expected)


@pytest.mark.parametrize("others", [False, True])
def test_what_waits_in_history_is_decided_without_a_restart(others: bool) -> None:
    with Broker(lateness=0) as broker:
        if others:
            broker.subscribe("other: S/a FOLLOWED BY {100} NOT S/b")
        broker.process([Document("1", "S", 9.0, "<a/>")])
        text = (
            "lacks: S/a FOLLOWED BY {90} NOT S/b; next: S/a NEXT S/c; sides: S/c JOIN {2} NOT S/b"
        )
        assert broker.backfill(text, 0).matches == []
        found = broker.process([Document("2", "S", 12.0, "<c/>")]) + broker.decide()
        told = [match.query for match in found if match.query != "other"]
        assert told == ["next", "sides", "lacks"]


def test_history_reaches_back_as_far_as_asked(tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=2**50 / 10**6) as broker:
        broker.process([item(n) for n in (1, 2, 3)])
        history = broker.backfill(PAIR, 2.0)
        assert history.documents == 2
        assert [[d.id for d in m.documents] for m in history.matches] == [["2", "3"]]
        assert found(broker) == [("pair", ("2", "3"))]
        broker.process([item(4)])
        assert [d for _, d in found(broker)] == [("2", "3"), ("2", "4"), ("3", "4")]
        # It is registered already, and goes on.
        assert broker.backfill(PAIR, 0.0).documents == 0


def test_the_command_gives_history_to_new_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, queries = tmp_path / "state", tmp_path / "q.xscl"
    queries.write_text(PAIR)
    with Broker(state) as broker:
        broker.process([item(n) for n in (1, 2)])
    with open_broker(state, 0, read_queries([queries]), backfill=DAY * 1_000_000) as broker:
        assert found(broker) == [("pair", ("1", "2"))]
    assert "history: 2 documents, 1 match" in capsys.readouterr().err


def test_nothing_happens_where_history_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with pytest.raises(XsclError, match="no-history"):
            broker.backfill("q: (SELECT * FROM S//a)/result", 0.0)
        assert broker.subscriptions == {}


def test_history_survives_a_restart(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.process([item(1)])
        broker.backfill(PAIR, 0.0)
    with Broker(tmp_path) as broker:
        broker.process([item(2)])
        assert found(broker) == [("pair", ("1", "2"))]


PUBLISHED = (
    "p: SELECT p AS k FROM S//a->x[./k->p] FOLLOWED BY {p = q, 9 days} S//b->y[./k->q] PUBLISH t"
)
READ = "{0}: SELECT r FROM t/result[./k->r] FOLLOWED BY {{r = s, 9 days}} S//{1}[./k->s]"


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("since", [0.0, 2.0])
def test_results_in_history_join_what_came_before_and_after_alike(
    since: float, early: bool
) -> None:
    """A result is as old as the oldest document that it is made of."""
    broker = Broker()
    broker.subscribe(f"{PUBLISHED}; {READ.format('keep', 'zz')}")
    for number, name in enumerate("ab"):
        broker.process([Document(name, "S", 2.0 * number, f"<{name}><k>1</k></{name}>")])
    last = Document("c", "S", 3.0, "<c><k>1</k></c>")
    found = broker.process([last]) if early else []
    found += broker.backfill(READ.format("Q", "c"), since).matches
    found += [] if early else broker.process([last])
    assert [m.query for m in found] == ["Q"] * (since == 0.0)


@pytest.mark.parametrize("together", [False, True])
def test_what_is_published_of_history_is_no_document(together: bool) -> None:
    broker = Broker()
    broker.subscribe("z: S//a[./k->k] FOLLOWED BY {k = l, 9 days} S//none[./k->l]")
    for at, name in enumerate("abc"):
        broker.process([Document(name, "S", float(at), f"<{name}><k>1</k></{name}>")])
    texts = [PUBLISHED, READ.format("Q", "c")]
    found = [
        m
        for t in ([";".join(texts)] if together else texts)
        for m in broker.backfill(t, 0.0).matches
    ]
    assert [m.query for m in found] == ["p"]
