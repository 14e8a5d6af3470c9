"""Matches that go from the outbox to the mailbox."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import xscl
from broker.delivery import MailboxError
from broker.query.prepared import compile_query
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.shared_match import SharedMatch
from feeds.rows import DocumentRow
from feeds.spool import read_rows
from tests.service.data import ORDERS, order, settings
from tests.waiting import PATIENCE, until


class Gate:
    """What the mailbox waits for before it takes matches, and what it raises then."""

    def __init__(self, core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self.error: MailboxError | None = None
        take = core.mailbox.take

        def taken(matches: Sequence[SharedMatch], now: int) -> int:
            self.reached.set()
            assert self.opened.wait(PATIENCE)
            if self.error is not None:
                raise self.error
            return take(matches, now)

        monkeypatch.setattr(core.mailbox, "take", taken)


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = Core(settings(tmp_path / "state"))
    program = xscl.check([xscl.parse(ORDERS)])
    core.engine.subscribe([compile_query(query) for query in program.queries])
    yield core
    core.close()


@pytest.fixture
def gate(core: Core, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(core, monkeypatch)
    yield gate
    gate.error = None
    gate.opened.set()


def published(core: Core, *documents: Posted) -> list[DocumentRow]:
    intake = Intake(core, lambda: 1.0)
    intake.publish("S", documents or [order(n, id=f"o{n}") for n in range(4)])
    return [*read_rows(core.reading, 0, 100)]


def logged(core: Core) -> list[str]:
    return [each.match.documents[0].id for each in core.mailbox.matches(None, 0, 100)]


def waiting(core: Core) -> int:
    with core.lock:
        return len(core.engine.undelivered(100))


def as_killed(core: Core, to: Path) -> list[str]:
    """What the log has once a process goes on with the state as it is now."""
    shutil.copytree(core.state, to)
    again = Core(settings(to))
    again.empty_outbox()
    found = logged(again)
    assert not waiting(again)
    again.close()
    return found


def test_who_is_killed_meanwhile_loses_nothing(core: Core, gate: Gate) -> None:
    rows = published(core)
    with ThreadPoolExecutor(1) as pool:
        applying = pool.submit(core.apply, rows)
        assert gate.reached.wait(PATIENCE)
        assert core.position == 4
        assert logged(core) == []
        assert as_killed(core, core.state.with_name("before")) == ["o0", "o1", "o2", "o3"]
        gate.opened.set()
        applying.result(PATIENCE)
    assert as_killed(core, core.state.with_name("behind")) == ["o0", "o1", "o2", "o3"]
    assert waiting(core) == 0
    assert logged(core) == ["o0", "o1", "o2", "o3"]


def test_what_could_not_be_stored_is_handed_over_first(core: Core, gate: Gate) -> None:
    rows = published(core)
    gate.opened.set()
    gate.error = MailboxError("the disk is full")
    with pytest.raises(MailboxError, match="full"):
        core.apply(rows[:2])
    with pytest.raises(MailboxError, match="full"):
        core.empty_outbox()
    assert core.position == 2
    assert logged(core) == []
    gate.error = None
    core.empty_outbox()
    core.apply(rows[2:])
    assert logged(core) == ["o0", "o1", "o2", "o3"]
    assert waiting(core) == 0


def test_who_drops_a_subscription_waits_for_its_matches(core: Core, gate: Gate) -> None:
    def drop() -> None:
        with core.at_once():
            core.empty_outbox()
            core.engine.unsubscribe("orders")
            core.mailbox.drop("orders", "drop")

    rows = published(core)
    with ThreadPoolExecutor(2) as pool:
        applying = pool.submit(core.apply, rows)
        assert gate.reached.wait(PATIENCE)
        dropping = pool.submit(drop)
        until(lambda: not core.lock.is_free)
        assert not dropping.done()
        gate.opened.set()
        applying.result(PATIENCE)
        dropping.result(PATIENCE)
    assert logged(core) == []
    assert waiting(core) == 0


def test_large_documents_and_throttled_matches_are_handed_over_too(core: Core) -> None:
    small, large, throttled = published(
        core, order(1, id="o1"), order(2, site="K" * 20_000, id="o2"), order(3, id="o3")
    )
    core.apply([small])
    core.apply([large])
    assert logged(core) == ["o1", "o2"]
    core.mailbox.set_throttle("orders", "p", 1)
    core.apply([throttled])
    assert logged(core) == ["o1", "o2", "o3"]
