"""Batches of the spool, the next of them read by a thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.service.pipeline import reading as module
from broker.service.pipeline.reading import Reading
from feeds.row_reader import Where
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, read_rows
from tests.service.data import order, settings
from tests.waiting import PATIENCE


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = Core(settings(tmp_path / "state"))
    yield core
    core.close()


def publish(core: Core, *documents: Posted) -> None:
    Intake(core, lambda: 1.0).publish("S", documents)


def test_the_next_batch_is_read_while_one_is_matched(core: Core) -> None:
    most = 3
    reading = Reading(core, lambda: most)
    publish(core, *(order(n, id=f"o{n}") for n in range(8)))

    def read(position: int) -> list[str]:
        return [row.id for row in reading.rows(position)]

    reading.begin(3)
    assert read(3) == ["o3", "o4", "o5"]
    # What was read is another batch than the one that is wanted.
    reading.begin(3)
    assert read(0) == ["o0", "o1", "o2"]
    assert read(3) == ["o3", "o4", "o5"]
    # More has come, or less is wanted, than when it was read.
    reading.begin(6)
    reading.close()
    assert read(6) == ["o6", "o7"]
    reading.begin(6).result(PATIENCE)
    publish(core, order(8, id="o8"))
    assert read(6) == ["o6", "o7", "o8"]
    reading.begin(0).result(PATIENCE)
    most = 2
    assert read(0) == ["o0", "o1"]
    reading.close()


def test_what_cannot_be_read_ahead_is_told_when_it_is_wanted(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(core, order(1, id="o1"))
    reading, wrong = Reading(core, lambda: 3), True

    def failing(where: Where, after: int, upto: int) -> Iterator[DocumentRow]:
        if wrong:
            raise SpoolError("gone")
        return read_rows(where, after, upto)

    monkeypatch.setattr(module, "read_rows", failing)
    reading.begin(0)
    with pytest.raises(SpoolError, match="gone"):
        reading.rows(0)
    assert isinstance(reading.begin(0).exception(PATIENCE), SpoolError)
    wrong = False
    assert [row.id for row in reading.rows(0)] == ["o1"]
    reading.close()


def test_a_batch_that_was_read_ahead_may_end_by_its_size(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(core, *(order(n, id=f"o{n}") for n in range(4)))
    reading = Reading(core, lambda: 3)
    monkeypatch.setattr(module, "_BYTES", 1)
    ahead = reading.begin(1).result(PATIENCE)
    assert [row.id for row in ahead] == ["o1"]
    assert reading.rows(1) is ahead
    reading.close()
