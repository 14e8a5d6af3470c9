"""Documents that come at the same time wait for each other, and others do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from broker.service.api import together
from broker.service.api.known import Known
from broker.service.api.together import Single, Together
from broker.service.core.answers import Accepted, Posted
from broker.service.pipeline.local import LocalPipeline
from broker.service.service import Service
from feeds.rows import DocumentRow
from tests.service.data import serving
from tests.waiting import PATIENCE

Outcome = asyncio.Future[Accepted | Exception]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "state") as service:
        yield service


def add(group: Together, *names: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for name in names:
        outcomes.append(asyncio.get_running_loop().create_future())
        group.add(Single("S", Posted(b"<a/>", name), outcomes[-1].set_result))
    return outcomes


def test_one_by_itself_is_stored_at_once_and_others_wait_for_each_other(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_GATHER", 3_600.0)
    monkeypatch.setattr(together, "_QUICK", 0.0)  # all are stored by threads
    taken, go, take = list[int](), threading.Event(), service.intake.take

    def waiting(rows: Sequence[DocumentRow]) -> Accepted:
        taken.append(len(rows))
        go.wait()
        return take(rows)

    monkeypatch.setattr(service.intake, "take", waiting)

    async def publish() -> None:
        group = Together(service, Known())
        for _ in range(3):  # it waits for each response
            go.set()
            await asyncio.gather(*add(group, "by itself"))
        go.clear()
        outcomes = add(group, "first", "second", "third")
        assert group.passed_on() == 1
        go.set()
        await outcomes[0]
        outcomes += add(group, "fourth")
        found = await asyncio.gather(*outcomes)
        assert [one.first for one in found if isinstance(one, Accepted)] == [4, 5, 6, 7]
        outcomes = add(group, "fifth")
        assert group.passed_on() == 0
        group.close()  # which waits for no others
        await asyncio.gather(*outcomes)

    asyncio.run(publish())
    assert taken == [1, 1, 1, 1, 3, 1]


Publish = Callable[[str], Awaitable[Accepted]]


@pytest.fixture
def stored_by(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the threads that store documents; nothing is matched meanwhile."""
    threads, take = list[int](), service.intake.take

    def noting(rows: Sequence[DocumentRow]) -> Accepted:
        threads.append(threading.get_ident())
        return take(rows)

    monkeypatch.setattr(service.intake, "take", noting)
    monkeypatch.setattr(together, "_QUICK", 60.0)  # seconds, on average, of the disk of the tests
    assert service._driver is not None
    assert service._driver.stop(PATIENCE)
    return threads


def one_by_one(service: Service, work: Callable[[Publish], Awaitable[None]]) -> None:
    """Do something with what publishes documents in an event loop that stores them itself."""

    async def run() -> None:
        group = Together(service, Known())

        async def publish(name: str) -> Accepted:
            (outcome,) = await asyncio.gather(*add(group, name))
            assert isinstance(outcome, Accepted)
            return outcome

        await work(publish)
        group.close()

    asyncio.run(run())


def test_a_document_by_itself_is_stored_by_the_event_loop(
    service: Service, stored_by: list[int]
) -> None:
    async def work(publish: Publish) -> None:
        # It is not known at first how fast the disk is, and others look after the spool meanwhile.
        n = 0
        while threading.get_ident() not in stored_by:
            n += 1
            assert (await publish(f"d{n}")).ids == (f"d{n}",)
        assert (await publish(f"d{n}")).known == 1

    one_by_one(service, work)
    assert [row.id for row in service.core.spool.read(0, 2)] == ["d1", "d2"]


@pytest.mark.parametrize("name", ["state", "spool"])
def test_others_are_not_held_up_while_something_is_matched_or_written(
    service: Service, stored_by: list[int], name: str
) -> None:
    lock = {"state": service.core.lock, "spool": service.core.spool._lock}[name]
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait()

    async def work(publish: Publish) -> None:
        while threading.get_ident() not in stored_by:
            await publish("before")
        stored_by.clear()
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        waiting = asyncio.ensure_future(publish("then"))
        await asyncio.sleep(0)  # the event loop goes on
        await asyncio.sleep(0)
        release.set()
        holder.join()
        await waiting
        assert threading.get_ident() not in stored_by
        assert len(stored_by) == 1

    one_by_one(service, work)


def test_others_are_not_held_up_by_a_question_to_the_state(
    service: Service, stored_by: list[int]
) -> None:
    async def work(publish: Publish) -> None:
        while threading.get_ident() not in stored_by:
            await publish("there")
        LocalPipeline(service.core, 1_000).step(service.watch)
        stored_by.clear()
        assert (await publish("there")).known == 1
        assert threading.get_ident() not in stored_by

    one_by_one(service, work)


def test_others_are_not_held_up_by_a_slow_disk(
    service: Service, stored_by: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(publish: Publish) -> None:
        while threading.get_ident() not in stored_by:
            await publish("before")
        stored_by.clear()
        monkeypatch.setattr(together, "_QUICK", 0.0)
        await publish("then")
        assert threading.get_ident() not in stored_by

    one_by_one(service, work)


def test_an_id_that_comes_twice_at_once_is_counted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_GATHER", 3_600.0)

    async def publish() -> None:
        group = Together(service, Known())
        outcomes = add(group, "first", "twice", "twice", "thrice", "thrice", "thrice")
        group.close()
        found = await asyncio.gather(*outcomes)
        assert [one.known for one in found if isinstance(one, Accepted)] == [0, 0, 1, 0, 1, 1]

    asyncio.run(publish())


def test_a_document_does_not_wait_for_long(service: Service) -> None:
    async def publish() -> None:
        group = Together(service, Known())
        await asyncio.gather(*add(group, "first", "second", "third", "fourth"))
        for n in range(3):  # nobody else publishes any more
            await asyncio.gather(*add(group, f"later {n}"))
        outcomes = add(group, "last")
        assert group.passed_on() == 1
        group.close()
        await asyncio.gather(*outcomes)

    asyncio.run(publish())
