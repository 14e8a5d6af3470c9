"""A backup of an open state has exactly what was committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker import Broker
from broker.state.store import StateError
from tests.engine.test_state import PAIR, item, pairs


def test_a_copy_is_the_state_of_that_moment(tmp_path: Path) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    copy.mkdir()
    with Broker(state) as broker:
        broker.subscribe(PAIR)
        (first,) = broker.process([item(1, seq=1), item(2, seq=2)])
        with broker.engine.store.snapshot() as reading:  # nobody who reads is in the way
            reading.rows("SELECT count(*) FROM documents")
            assert broker.engine.store.backup(copy) == copy / "broker.duckdb"
        assert [path.name for path in copy.iterdir()] == ["broker.duckdb"]
        assert len(broker.process([item(3, seq=3)])) == 2
    with Broker(copy) as broker:
        assert broker.undelivered() == [first]
        assert broker.process([item(2, seq=2)]) == []
        assert pairs(broker.process([item(4)])) == {("1", "4"), ("2", "4")}
    with Broker(state) as broker:
        assert len(broker.undelivered()) == 3


def test_a_copy_leaves_the_state_locked(tmp_path: Path) -> None:
    """To close a file that a process has open elsewhere takes its lock away; nobody else may
    write."""
    state = tmp_path / "state"
    with Broker(state) as broker:
        broker.engine.store.backup(tmp_path)
        code = f"import duckdb; duckdb.connect({str(state / 'broker.duckdb')!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "lock" in other.stderr


def test_where_it_cannot_be_copied_the_state_goes_on(tmp_path: Path) -> None:
    with Broker(tmp_path / "state") as broker:
        with pytest.raises(StateError, match=r"cannot copy the state: .*No such file"):
            broker.engine.store.backup(tmp_path / "nowhere")
        broker.subscribe(PAIR)
        assert len(broker.process([item(1), item(2)])) == 1
    with Broker() as broker, pytest.raises(ValueError, match="in memory"):
        broker.engine.store.backup(tmp_path)
