"""The outbox numbers matches in order, also after a batch that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from broker import Broker, Document
from broker.engine.engine import Engine
from broker.query.prepared import compile_query
from broker.shared_match import SharedMatch
from broker.state.outbox import Outbox
from broker.state.relations import MatchRelations
from broker.state.store import StateError, Store
from feeds.rows import DocumentRow
from tests.delivery.support import match


class Failed(Exception):
    pass


def _fail(store: Store, outbox: Outbox) -> None:
    with store.transaction():
        outbox.post([SharedMatch.of(match(2))])
        outbox.post([SharedMatch.of(match(3)), SharedMatch.of(match(4))])
        raise Failed


def test_a_batch_that_failed_has_taken_no_number(tmp_path: Path) -> None:
    store = Store(tmp_path)
    outbox = Outbox(store, MatchRelations(store))
    with store.transaction():
        outbox.post([SharedMatch.of(match(0)), SharedMatch.of(match(1))])
    with pytest.raises(Failed):
        _fail(store, outbox)
    assert outbox.next == 3
    with store.transaction():
        outbox.post([SharedMatch.of(match(5))])
    assert store.rows("SELECT n FROM outbox ORDER BY n") == [(1,), (2,), (3,)]
    assert [each.ids.hex() for each in outbox.undelivered(10)] == [match(n).id for n in (0, 1, 5)]
    store.close()
    again = Store(tmp_path)
    assert Outbox(again, MatchRelations(again)).next == 4
    again.close()


def test_without_a_state_nothing_is_kept() -> None:
    store = Store(None)
    outbox = Outbox(store, MatchRelations(store))
    outbox.post([SharedMatch.of(match(0))])
    assert (outbox.next, outbox.count()) == (1, 0)


def test_what_was_acknowledged_stays_so_when_the_file_is_reopened(tmp_path: Path) -> None:
    """Also what the file does not say yet; and what comes behind it is acknowledged as ever."""
    store = Store(tmp_path)
    engine = Engine(store, keeping=True)
    program = xscl.check([xscl.parse("q: S//i->x")])
    engine.subscribe([compile_query(query) for query in program.queries])

    def handed_over(number: int) -> None:
        row = DocumentRow("log", str(number), ("S",), number, True, number, False, b"<i/>")
        (found,) = engine.apply(engine.witness([row]))
        engine.acknowledge([found])

    handed_over(1)
    assert (engine.outbox.count(), engine.outbox.handed) == (0, 1)
    store.broken = True
    engine.ready()
    assert (engine.outbox.count(), engine.undelivered(10)) == (0, [])
    handed_over(2)
    assert (engine.outbox.count(), engine.outbox.handed) == (0, 2)
    engine.store_handed()
    store.close()
    with Broker(tmp_path) as broker:
        assert broker.undelivered() == []


def test_a_match_whose_document_is_gone_says_that_the_state_is_damaged(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe("q: S//a[./k->x] FOLLOWED BY {x = y, 1 h} S//b[./k->y]")
        for n, name in enumerate("ab"):
            broker.process([Document(name, timestamp=float(n), xml=f"<{name}><k>1</k></{name}>")])
        with broker.engine.store.transaction():
            broker.engine.store.run("DELETE FROM documents WHERE id = 'a'")
        with pytest.raises(StateError, match="match 1 of the outbox refers to a document that is"):
            broker.engine.outbox.undelivered(10)
