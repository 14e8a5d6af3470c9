"""How far a state is: stored with each batch, read at the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker import Broker
from broker.model import UNBOUNDED
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
