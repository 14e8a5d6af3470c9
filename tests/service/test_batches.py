"""The batches of the pipeline in this process: how they end, what is read ahead, and whose turn it
is meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.documents.ahead import WORTH, Ahead
from broker.service.pipeline import local
from broker.service.pipeline.local import LocalPipeline
from feeds.row_reader import Where
from feeds.rows import DocumentRow
from feeds.spool import SpoolError, read_rows
from tests.service.data import ORDERS, order
from tests.service.test_pipeline import Running, intercept


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "state")
    yield running
    running.close()


def test_a_batch_ends_by_its_documents_or_their_size(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.subscribe(ORDERS)
    running.publish(*(order(n, id=f"o{n}") for n in range(10)))
    sizes: list[int] = []
    intercept(monkeypatch, running, lambda arrivals: sizes.append(len(arrivals.documents)))
    pipeline = LocalPipeline(running.core, 4)
    assert pipeline.step(running.watch)
    monkeypatch.setattr(local, "_BYTES", len(order(1).xml) + 1)
    while pipeline.step(running.watch):
        pass
    assert sizes == [4, 2, 2, 2]


def test_what_cannot_be_read_ahead_is_told_when_it_is_its_turn(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.subscribe(ORDERS)
    running.publish(*(order(n, id=f"o{n}") for n in range(2 * WORTH)))
    broken = True

    def failing(where: Where, after: int, upto: int) -> Iterator[DocumentRow]:
        if broken and after >= WORTH:
            raise SpoolError("gone")
        return read_rows(where, after, upto)

    monkeypatch.setattr(local, "read_rows", failing)
    ahead = Ahead(running.core.engine, True, lambda: False)
    pipeline = LocalPipeline(running.core, WORTH, ahead=ahead)
    assert pipeline.step(running.watch)
    assert running.core.position == WORTH
    with pytest.raises(SpoolError, match="gone"):
        pipeline.step(running.watch)
    broken = False
    assert pipeline.step(running.watch)
    assert running.core.position == 2 * WORTH
    ahead.close()


def test_turns_are_long_while_many_documents_are_matched_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.publish(*(order(n, id=f"o{n}") for n in range(WORTH + 1)))
    turns: list[float] = []
    intercept(monkeypatch, running, lambda _: turns.append(sys.getswitchinterval()))
    pipeline, before = LocalPipeline(running.core, WORTH), sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.0003)
        assert pipeline.step(running.watch)
        assert pipeline.step(running.watch)
        assert turns == pytest.approx([0.002, 0.0003])
        assert sys.getswitchinterval() == pytest.approx(0.0003)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize(("awaited", "apart"), [(True, 1_000), (False, 10_000)])
def test_batches_are_apart_where_few_documents_wait(
    running: Running, monkeypatch: pytest.MonkeyPatch, awaited: bool, apart: float
) -> None:
    monkeypatch.setattr(local, "APART", 1_000)
    monkeypatch.setattr(local, "APART_UNAWAITED", 10_000)
    running.publish(*(order(n, id=f"o{n}") for n in range(2 * WORTH + 1)))
    waited: list[tuple[int, float]] = []

    class Stop(threading.Event):
        """Remembers how many documents wait when the pipeline does, and for how long it would."""

        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waited.append((running.core.backlog(), timeout))
            if not running.core.backlog():
                self.set()
            return self.is_set()

    LocalPipeline(running.core, WORTH, awaited=lambda: awaited)(Stop(), running.watch)
    # Behind the first batch too many wait for that, behind the second there is one.
    assert [backlog for backlog, _ in waited] == [1, 0]
    assert all(apart / 2 < timeout <= apart for _, timeout in waited)
