"""The pipeline in this process, and the thread that restarts a pipeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import xscl
from broker.delivery import MailboxError
from broker.documents.ahead import WORTH, Ahead
from broker.documents.arrow import Arrivals
from broker.model import Match
from broker.query.prepared import compile_query
from broker.service.core.answers import Posted
from broker.service.core.core import PORTION, Core
from broker.service.intake import Intake
from broker.service.metrics import Metrics
from broker.service.pipeline.driver import Driver, Watch
from broker.service.pipeline.local import LocalPipeline
from broker.shared_match import SharedMatch, count_matches
from feeds.spool import SpoolError, read_rows
from tests.service.data import ORDERS, PAIR, order, receipt, settings
from tests.waiting import PATIENCE, until


class Running:
    """A state with a pipeline over it; `apply` stands in front of the engine's."""

    def __init__(self, state: Path, size: int = 4, portion: int = PORTION) -> None:
        self.core = Core(settings(state), portion=portion)
        self.intake = Intake(self.core, lambda: 1.0)
        self.watch = Watch("local", self.core, Metrics())
        pipeline = LocalPipeline(self.core, size)
        self.driver = Driver(self.core, pipeline, self.watch, waits=[0.01])

    def subscribe(self, text: str) -> None:
        program = xscl.check([xscl.parse(text)])
        with self.core.lock:
            self.core.engine.subscribe([compile_query(query) for query in program.queries])

    def publish(self, *documents: Posted) -> int:
        return self.intake.publish("S", documents).last

    def until_applied(self, number: int) -> None:
        until(lambda: self.core.position >= number and not self.outbox())

    def outbox(self) -> list[SharedMatch]:
        with self.core.lock:
            return self.core.engine.undelivered(9)

    def found(self) -> list[Match]:
        return [delivered.match for delivered in self.core.mailbox.matches(None, 0, 1_000)]

    def close(self) -> None:
        assert self.driver.stop(30)
        self.core.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "state")
    yield running
    running.close()


Apply = Callable[..., list[SharedMatch]]


def intercept(
    monkeypatch: pytest.MonkeyPatch, running: Running, before: Callable[[Arrivals], None]
) -> None:
    """Let `before` see, or refuse, what goes into the engine."""
    engine = running.core.engine
    apply: Apply = engine.apply

    def applied(arrivals: Arrivals, *more: Any, **named: Any) -> list[SharedMatch]:
        before(arrivals)
        return apply(arrivals, *more, **named)

    monkeypatch.setattr(engine, "apply", applied)


@pytest.fixture
def in_pairs(tmp_path: Path) -> Iterator[Running]:
    """It hands over two matches at a time."""
    running = Running(tmp_path / "state", portion=2)
    yield running
    running.close()


def test_very_many_matches_are_handed_over_in_portions(
    in_pairs: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the mailbox did not get is in the outbox, and only that."""
    running = in_pairs
    running.subscribe(PAIR)
    core, rows = running.core, [order(n, id=f"o{n}") for n in range(7)]
    running.publish(*rows, *(receipt(n, id=f"r{n}") for n in range(7)))
    take, sizes = core.mailbox.take, list[int]()

    def taken(matches: Sequence[SharedMatch], now: int | None = None) -> int:
        if len(sizes) == 2:
            raise MailboxError("the disk is full")
        sizes.append(count_matches(matches))
        return take(matches, now)

    with monkeypatch.context() as patched:
        patched.setattr(core.mailbox, "take", taken)
        with pytest.raises(MailboxError):
            core.apply([*read_rows(core.reading, 0, 100)])
    assert sizes == [2, 2]
    assert len(running.found()) == 4
    assert len(running.outbox()) == 3
    core.empty_outbox()
    assert [m.documents[0].id for m in running.found()] == [f"o{n}" for n in range(7)]
    assert not running.outbox()


def test_documents_become_matches_in_the_mailbox(running: Running) -> None:
    running.subscribe(PAIR)
    running.driver.start()
    last = running.publish(*(order(n, id=f"o{n}") for n in range(10)))
    running.until_applied(last)
    last = running.publish(*(receipt(n, id=f"r{n}") for n in range(3, 6)))
    running.until_applied(last)
    assert [[d.id for d in match.documents] for match in running.found()] == [
        ["o3", "r3"],
        ["o4", "r4"],
        ["o5", "r5"],
    ]
    figures = running.watch.figures
    assert (figures.documents, figures.matches, figures.running) == (13, 3, True)
    assert figures.batches >= 4  # of four documents at most
    assert figures.failure is None
    assert running.core.backlog() == 0
    assert running.core.trim() == 13


def test_where_many_wait_stage_1_of_the_next_batch_is_done_by_another_process(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that process is killed in the middle."""
    running.subscribe(PAIR)
    ahead = Ahead(running.core.engine, True, lambda: False)
    assert ahead.ready(PATIENCE)
    pipeline = LocalPipeline(running.core, WORTH, ahead=ahead)
    last = running.publish(*(order(n, id=f"o{n}") for n in range(3 * WORTH)))
    last = running.publish(*(receipt(n, id=f"r{n}") for n in range(3 * WORTH)))
    arrived: list[int] = []

    def count(arrivals: Arrivals) -> None:
        arrived.append(len(arrivals.documents))
        if len(arrived) == 3:
            assert ahead.process is not None
            ahead.process.kill()

    intercept(monkeypatch, running, count)
    while pipeline.step(running.watch):
        assert not ahead.enabled or ahead.ready(PATIENCE)
    ahead.close()
    assert running.core.position == last
    assert arrived == [WORTH] * 6
    assert 3 <= ahead.taken <= 4
    found = [[d.id for d in match.documents] for match in running.found()]
    assert sorted(found) == sorted([f"o{n}", f"r{n}"] for n in range(3 * WORTH))


def test_it_goes_on_where_the_engine_is(tmp_path: Path) -> None:
    first = Running(tmp_path / "state")
    first.subscribe(PAIR)
    first.driver.start()
    first.until_applied(first.publish(order(1, id="o1")))
    first.close()
    second = Running(tmp_path / "state")
    last = second.publish(receipt(1, id="r1"))
    assert last == 2
    second.driver.start()
    second.until_applied(last)
    assert len(second.found()) == 1
    second.close()


def test_it_does_not_wait_for_documents_once_it_is_told_to_stop(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, news = threading.Event(), running.core.news
    clear = news.clear

    def told_just_before() -> None:
        stop.set()
        news.set()
        clear()

    monkeypatch.setattr(news, "clear", told_just_before)
    pipeline = LocalPipeline(running.core, 4, look=3_600.0)
    thread = threading.Thread(target=pipeline, args=(stop, running.watch), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_what_was_found_but_not_handed_over_comes_first(tmp_path: Path) -> None:
    first = Running(tmp_path / "state")
    first.subscribe(ORDERS)
    first.core.mailbox.close()  # it fails after the engine has committed
    first.publish(order(1, id="o1"))
    first.driver.start()
    until(lambda: first.watch.figures.failure is not None)
    first.driver.stop(30)
    first.core.close()
    second = Running(tmp_path / "state")
    assert second.found() == []
    second.driver.start()
    until(lambda: second.found())
    assert [match.documents[0].id for match in second.found()] == ["o1"]
    until(lambda: not second.outbox())
    second.close()


def test_a_document_at_which_the_engine_fails_is_kept_aside_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.subscribe(ORDERS)

    def fail(arrivals: Arrivals) -> None:
        if any(a.id.startswith("bad") and a.error is None for a in arrivals.documents):
            raise ZeroDivisionError("of something")

    intercept(monkeypatch, running, fail)
    names = ["a", "b", "bad1", "c", "d", "e", "bad2", "f", "g", "h", "i"]
    last = running.publish(*(order(n, id=n) for n in names), Posted(b"<torn", id="torn"))
    running.driver.start()
    running.until_applied(last)
    assert [match.documents[0].id for match in running.found()] == list("abcdefghi")
    with running.core.lock:
        letters = running.core.engine.letters()
    assert [(letter.id, letter.reason[:60]) for letter in letters] == [
        ("bad1", "the engine failed at it: ZeroDivisionError: of something"),
        ("bad2", "the engine failed at it: ZeroDivisionError: of something"),
        ("torn", letters[2].reason[:60]),
    ]
    assert letters[2].reason.startswith("not well-formed XML")
    assert running.watch.figures.poisoned == 2
    assert running.watch.figures.restarts == 0


def test_an_engine_that_fails_at_all_documents_keeps_few_aside(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arrivals: Arrivals) -> None:
        if broken and any(a.error is None for a in arrivals.documents):
            raise ZeroDivisionError("of something")

    broken = True
    intercept(monkeypatch, running, fail)
    last = running.publish(*(order(n, id=str(n)) for n in range(40)))
    running.driver.start()
    until(lambda: (f := running.watch.figures).restarts >= 2 and not f.running)
    until(lambda: running.watch.figures.failure == "ZeroDivisionError: of something")
    assert running.watch.figures.poisoned == 20
    broken = False
    running.until_applied(last)
    until(lambda: running.watch.figures.failure is None)
    with running.core.lock:
        assert running.core.engine.count_letters() == 20


def test_a_disk_that_fails_for_a_while_costs_no_document(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.subscribe(ORDERS)
    failing = True

    def fail(arrivals: Arrivals) -> None:
        if failing:
            raise duckdb.IOException("Could not write file: No space left on device")

    intercept(monkeypatch, running, fail)
    last = running.publish(*(order(n, id=str(n)) for n in range(6)))
    running.driver.start()
    until(lambda: (f := running.watch.figures).restarts >= 3 and f.failing_since is not None)
    until(lambda: "No space left on device" in str(running.watch.figures.failure))
    failing = False
    running.until_applied(last)
    assert [match.documents[0].id for match in running.found()] == list("012345")
    until(lambda: running.watch.figures.failure is None)
    assert running.watch.figures.poisoned == 0


def test_who_waits_for_the_engine_gets_it_between_two_batches(running: Running) -> None:
    """A pipeline that is busy all the time does not keep subscriptions from being changed."""
    last = running.publish(*(order(n, id=str(n)) for n in range(400)))
    turns = 0
    stop = threading.Event()

    def ask() -> None:
        nonlocal turns
        while not stop.is_set():
            with running.core.lock:
                turns += 1

    asking = threading.Thread(target=ask)
    running.driver.start()
    until(lambda: running.watch.figures.batches > 2)
    asking.start()
    running.until_applied(last)
    stop.set()
    asking.join()
    assert turns > 50


def test_a_lost_spool_does_not_make_new_documents_old_ones(tmp_path: Path) -> None:
    first = Running(tmp_path / "state")
    first.subscribe(ORDERS)
    first.driver.start()
    first.until_applied(first.publish(*(order(n, id=str(n)) for n in range(7))))
    first.close()
    for file in (tmp_path / "state").glob("spool.sqlite*"):
        file.unlink()
    second = Running(tmp_path / "state")
    last = second.publish(order(7, id="7"))
    assert last == 8
    second.driver.start()
    second.until_applied(last)
    assert [match.documents[0].id for match in second.found()] == list("01234567")
    second.close()


def test_a_damaged_spool_is_told_with_the_way_out(tmp_path: Path) -> None:
    first = Running(tmp_path / "state")
    first.subscribe(ORDERS)
    first.publish(order(0, id="first"))
    assert LocalPipeline(first.core, 1).step(first.watch)
    first.publish(*(order(n, id=str(n)) for n in range(2_000)))
    first.core.close()
    path = tmp_path / "state" / "spool.sqlite"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    with pytest.raises(SpoolError) as refused:
        Core(settings(tmp_path / "state"))
    failure = str(refused.value)
    assert f"{path}: database disk image is malformed; restore a backup, or move the" in failure
    path.rename(tmp_path / "damaged.sqlite")
    third = Running(tmp_path / "state")
    (event,) = third.core.mailbox.events()
    assert "documents 2 to 2,001 were accepted" in event.text
    last = third.publish(order(1, id="new"))
    assert last == 2_002
    third.driver.start()
    third.until_applied(last)
    assert [match.documents[0].id for match in third.found()][-1] == "new"
    third.close()


def test_sources_without_end_do_not_grow_the_engine(running: Running) -> None:
    """Numbers of the spool are one log: nothing is kept by source, however many there are."""
    running.driver.start()
    running.until_applied(running.publish(*(order(n, source=f"press {n}") for n in range(30))))
    with running.core.lock:
        by_source = "SELECT count(*) FROM highest WHERE kind = 'applied'"
        assert running.core.engine.store.rows(by_source) == [(0,)]
