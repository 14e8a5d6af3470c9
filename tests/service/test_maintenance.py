"""Maintenance tasks, and states left by older programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.documents.witnessing import arrivals
from broker.engine import Engine
from broker.figures import figures
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.service.maintenance import Maintenance
from broker.service.service import Service
from broker.state.store import Store
from feeds.spool import Spool, read_rows
from tests.feeds.spooling import posted
from tests.service.data import HOUR, ORDERS, PAIR, order, settings
from tests.waiting import PATIENCE, until

DAY = 24 * HOUR


class Clock:
    """The time of day, as a test has it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    jump = 0.0

    def __call__(self) -> float:
        return self.seconds + self.jump

    def steady(self) -> int:
        return int(self.seconds * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest.fixture
def core(tmp_path: Path, clock: Clock) -> Iterator[Core]:
    kept = {"documents": "2 days", "dead_letters": "1 day", "delivered": "1 day"}
    core = Core(settings(tmp_path / "state", retention=kept), clock, clock.steady)
    yield core
    core.close()


def publish(core: Core, *documents: Posted) -> None:
    """Through the intake and the engine."""
    accepted = Intake(core, lambda: 1.0).publish("S", documents)
    core.apply(list(read_rows(core.spool.path, accepted.first - 1, accepted.last)))


def subscribe(core: Core, text: str) -> None:
    import xscl
    from broker.query.prepared import compile_query

    program = xscl.check([xscl.parse(text)])
    core.engine.subscribe([compile_query(query) for query in program.queries], core.now())


def test_only_what_the_engine_has_leaves_the_spool(core: Core) -> None:
    publish(core, order(1), order(2))
    Intake(core, lambda: 1.0).publish("S", [order(3)])
    assert core.trim() == 2
    assert [row.seq for row in read_rows(core.reading, 0, 9)] == [3]
    assert core.backlog() == 1


def test_what_is_too_old_goes(core: Core, clock: Clock) -> None:
    maintenance = Maintenance(core)
    subscribe(core, PAIR.replace("1 hour", "INFINITY") + ORDERS)
    old = core.now() - 3 * DAY
    publish(core, order(1, timestamp=old), order(2), Posted(b"<torn"))
    assert figures(core.engine).live_documents == 2
    assert core.engine.count_letters() == 1
    maintenance.retain()
    assert figures(core.engine).live_documents == 1  # the other is older than two days
    assert core.engine.count_letters() == 1
    assert len(core.mailbox.matches(None, 0, 9)) == 2
    clock.jump = 3_650 * 86_400  # wrong, and nothing is lost by it
    maintenance.retain()
    assert core.engine.count_letters() == 1
    assert len(core.mailbox.matches(None, 0, 9)) == 2
    clock.jump = 0
    clock.seconds += 1.5 * 86_400
    maintenance.retain()
    assert core.engine.count_letters() == 0
    assert core.mailbox.matches(None, 0, 9) == []
    maintenance.compact()
    maintenance.tick()


def test_a_task_that_fails_is_told_and_the_others_go_on(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True
    compact = core.spool.compact

    def failing() -> int:
        if broken:
            raise sqlite3.OperationalError("disk I/O error")
        return compact()

    monkeypatch.setattr(core.spool, "compact", failing)
    maintenance = Maintenance(core)
    for task in maintenance._tasks:
        task.due, task.every = 0.0, 0.01
    publish(core, order(1))
    maintenance.start()
    until(lambda: maintenance.problems)
    assert maintenance.problems == {"compaction": "OperationalError: disk I/O error"}
    until(lambda: not list(read_rows(core.reading, 0, 9)))
    broken = False
    until(lambda: not maintenance.problems)
    assert maintenance.stop(PATIENCE)


def test_a_disk_without_room_fetches_no_feeds(tmp_path: Path) -> None:
    feed = (tmp_path / "feed.rss").absolute()
    feed.write_text("<rss version='2.0'><channel><item><title>a</title></item></channel></rss>")
    sections = {"feeds": {"urls": [str(feed)]}}
    service = Service(settings(tmp_path / "state", intake={"min_free": "900000 TB"}, **sections))
    service.start()
    until(lambda: service.figures().feeds.active == 1)
    service.feeds.polling._stop.wait(0.5)
    assert service.figures().spool.last == 0
    assert service.stop()
    service = Service(settings(tmp_path / "state", **sections))
    service.start()
    until(lambda: service.figures().spool.applied == 1)
    assert service.stop()
    assert service.stop()  # once more does nothing


def test_a_state_that_knew_numbers_by_source_goes_on(tmp_path: Path) -> None:
    """As the engine and the spool were before the engine kept the position of the log: some rows of
    the spool are applied, others are not."""
    state = tmp_path / "state"
    documents = [order(n) for n in range(6)]
    with Spool(state / "spool.sqlite") as spool:
        spool.publish([posted(str(n), document.xml) for n, document in enumerate(documents)])
        rows = list(spool.read(0, 4))
    engine = Engine(Store(state))
    engine.apply(arrivals(engine.matcher, rows))
    assert (engine.position, engine.applied(["post:S"])) == (0, 4)
    engine.store.close()

    core = Core(settings(state))
    assert (core.position, core.backlog()) == (4, 2)
    subscribe(core, ORDERS)
    core.apply(list(read_rows(core.spool.path, 0, 99)))  # all of it, as a checkpoint that was lost
    assert core.position == 6
    found = [each.match.values["p"] for each in core.mailbox.matches(None, 0, 9)]
    assert found == [["4"], ["5"]]
    core.close()


def test_a_state_that_lost_what_it_had_committed_says_so(tmp_path: Path) -> None:
    """DuckDB opens a file whose log is gone as it was before, and says nothing."""
    state = tmp_path / "state"

    def session(*documents: Posted) -> None:
        core = Core(settings(state))
        publish(core, *documents)
        core.trim()
        core.close()

    session(order(0))
    before = (state / "broker.duckdb").read_bytes()
    session(order(1), order(2))
    (state / "broker.duckdb").write_bytes(before)

    core = Core(settings(state))
    (event,) = core.mailbox.events()
    assert event.kind == "state.older"
    assert "documents 2 to 3" in event.text
    assert core.backlog() == 0
    publish(core, order(3))
    assert core.position == 4
    core.close()
    again = Core(settings(state))
    assert len(again.mailbox.events()) == 1
    again.close()


def test_no_number_that_a_lost_mailbox_gave_out_comes_again(tmp_path: Path, clock: Clock) -> None:
    state = tmp_path / "state"

    def session(*documents: Posted) -> tuple[list[int], int]:
        """The numbers of the matches that are there then, and that of an event."""
        core = Core(settings(state), clock, clock.steady)
        if not figures(core.engine).subscriptions:
            subscribe(core, ORDERS)
        publish(core, *documents)
        found = [each.n for each in core.mailbox.matches(None, 0, 9)]
        told = core.mailbox.record_event("test", "a test").number
        core.close()
        return found, told

    # A file that was there when nothing had been found yet is not taken for a new one.
    assert session(Posted(b"<nothing/>")) == ([], 1)
    assert session(order(1)) == ([1], 2)
    last, told = 1, 2
    for n in range(2):
        for file in state.glob("mailbox.sqlite*"):
            file.unlink()
        clock.seconds += 1
        numbers, event = session(order(f"lost {n}"))
        assert numbers[0] > last
        assert event > told
        # What was found before is handed over again, and under new numbers.
        assert len(numbers) == 2 + 2 * n
        ((*_, last), told) = session(order(f"kept {n}"))
        assert (last, told) == (numbers[-1] + 1, event + 1)


def test_a_wrong_clock_at_a_start_deletes_nothing(tmp_path: Path, clock: Clock) -> None:
    kept = {"documents": "2 days", "dead_letters": "1 day", "delivered": "1 day"}

    def opened() -> Core:
        return Core(settings(tmp_path / "state", retention=kept), clock, clock.steady)

    core = opened()
    subscribe(core, ORDERS)
    publish(core, order(1), Posted(b"<broken"))
    core.prove()
    core.close()
    clock.jump = 3_650 * 86_400.0
    core = opened()
    maintenance = Maintenance(core)
    for _ in range(50):
        clock.seconds += 60
        maintenance.tick()
        maintenance.retain()
    assert len(core.mailbox.matches()) == core.engine.count_letters() == 1
    assert core.engine.live_documents() == 1
    # After an hour it is believed.
    clock.seconds += 3_600
    maintenance.tick()
    maintenance.retain()
    assert len(core.mailbox.matches()) == core.engine.count_letters() == 0
    core.close()


def test_documents_of_the_year_2999_go_by_when_they_came(core: Core, clock: Clock) -> None:
    subscribe(core, PAIR.replace("1 hour", "INFINITY"))
    far = 32_472_144_000_000_000
    publish(core, order(1, id="far", timestamp=far), order(2, id="now"))
    assert core.engine.live_documents() == 2
    maintenance = Maintenance(core)
    clock.seconds += 86_400
    publish(core, order(3, id="later"))
    maintenance.retain()
    assert core.engine.live_documents() == 3
    clock.seconds += 86_400 + 3_600
    publish(core, order(4, id="last"))
    maintenance.retain()
    ((left,),) = core.engine.store.rows(
        "SELECT list(id ORDER BY id) FROM documents WHERE xml IS NOT NULL"
    )
    assert left == ["last", "later"]


def test_dead_letters_of_a_wrong_clock_go_with_their_neighbours(core: Core, clock: Clock) -> None:
    clock.jump = 1e9
    publish(core, Posted(b"<broken"))
    clock.jump = 0.0
    publish(core, Posted(b"<broken too"))
    clock.seconds += 2 * 86_400
    Maintenance(core).retain()
    assert core.engine.count_letters() == 0
