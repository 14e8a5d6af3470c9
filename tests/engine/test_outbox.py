"""The outbox numbers matches in order, also after a batch that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.shared_match import SharedMatch
from broker.state.outbox import Outbox
from broker.state.relations import MatchRelations
from broker.state.store import Store
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
