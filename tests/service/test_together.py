"""Documents that come at the same time wait for each other, and others do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from broker.service.api import together
from broker.service.api.known import Known
from broker.service.api.together import Single, Together
from broker.service.core.answers import Accepted, Posted
from broker.service.service import Service
from feeds.rows import DocumentRow
from tests.service.data import serving

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
