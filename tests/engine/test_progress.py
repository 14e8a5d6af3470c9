"""How far a state is: stored with each batch, read at the next start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker import Broker, Document
from broker.model import UNBOUNDED
from broker.state.highest import Highest
from broker.state.progress import Progress, Reached
from broker.state.store import DatabaseError, Store
from tests.engine.test_state import PAIR, item


def test_a_new_state_begins_with_document_1() -> None:
    store = Store(None)
    assert Progress(store).read() == Reached(1, -UNBOUNDED, 0)
    store.close()


def test_the_last_numbers_are_read_at_the_next_start(tmp_path: Path) -> None:
    store = Store(tmp_path)
    written = Progress(store)
    written.write(Reached(2, -5, 0))
    written.write(Reached(3, -4, 7))
    store.close()
    store = Store(tmp_path)
    assert Progress(store).read() == Reached(3, -4, 7)
    store.close()


def test_what_a_transaction_wrote_goes_with_it() -> None:
    store = Store(None)
    written = Progress(store, most=2)

    def write_and_fail() -> None:
        with store.transaction():
            written.write(Reached(9, 9, 9))
            store.rows("SELECT error('no')")

    for doc in range(2, 9):
        written.write(Reached(doc, doc, 0))
        with pytest.raises(DatabaseError):
            write_and_fail()
        assert written.read() == Reached(doc, doc, 0)
    store.close()


def test_older_rows_are_deleted(tmp_path: Path) -> None:
    for start in range(0, 30, 10):
        with Broker(tmp_path) as broker:
            broker.engine.admission.progress = Progress(broker.engine.store, most=4)
            if not start:
                broker.subscribe(PAIR)
            for number in range(start, start + 10):
                broker.process([item(number)])
                assert broker.engine.store.count("SELECT count(*) FROM progress") <= 4
            assert broker.engine.admission.next_doc == start + 11


def test_numbers_by_name_are_read_at_the_next_start(tmp_path: Path) -> None:
    """The highest of each, in few rows, however often they grow; the kinds do not mix."""
    for start in range(0, 60, 20):
        store = Store(tmp_path)
        applied, decided = Highest(store, "applied", most=4), Highest(store, "decided", most=4)
        for number in range(start, start + 20):
            applied.write({f"source {number % 3}": number})
            decided.write({"": number - 99})
            assert store.count("SELECT count(*) FROM highest") <= 4 + 3 + 4 + 1
        store.close()
    store = Store(tmp_path)
    assert Highest(store, "applied").read() == {f"source {n % 3}": n for n in (57, 58, 59)}
    assert Highest(store, "decided").read() == {"": -40}
    store.close()


def test_numbers_by_name_go_with_the_transaction_that_wrote_them() -> None:
    store = Store(None)
    written = Highest(store, "applied", most=2)

    def write_and_fail() -> None:
        with store.transaction():
            written.write({"a": 99, "c": 1})
            store.rows("SELECT error('no')")

    for number in range(2, 9):
        written.write({"a": number, "b": 1})
        with pytest.raises(DatabaseError):
            write_and_fail()
        assert written.read() == {"a": number, "b": 1}
    store.close()


def test_batches_with_numbers_of_their_sources_and_with_patterns_are_journaled(
    tmp_path: Path,
) -> None:
    """Also those with documents that come after later ones; a copy as after a kill knows what was
    applied and decided."""
    next_one = "next: S//i[./t->t] NEXT {t = u, 1 h} S//i[./t->u]"

    def document(number: int, at: float) -> Document:
        return item(number, at=at, source="feed", seq=number)

    with Broker(tmp_path / "state", lateness=100) as broker:
        broker.subscribe(f"{PAIR} {next_one};")
        for number in (1, 2):  # the first ones read what memory then has
            broker.process([document(number, 1_000.0 + number)])
        for number, at in ((3, 1_001.5), (4, 1_200.0), (5, 1_400.0)):
            broker.process([document(number, at)])
            behind = broker.engine.store.behind
            assert behind is not None
            assert behind.waits
        settled = broker.engine.standings.settled
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with Broker(tmp_path / "killed", lateness=100) as broker:
        assert broker.engine.applied(["feed"]) == 5
        assert broker.process([document(5, 1_400.0)]) == []
        broker.process([document(6, 1_401.0)])
        assert broker.engine.standings.settled >= settled > 0
        found = {m.query: m for m in broker.undelivered()}
        assert found.keys() == {"pair", "next"}
