"""The amount of stored data is bounded: documents, identities, the index in memory, and the file."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document
from broker.engine import Engine
from broker.figures import figures
from broker.state.store import Store
from tests.engine.test_state import PAIR, item, pairs

HOUR = 3_600_000_000
FOREVER = PAIR.replace("1 h", "INFINITY")


def count(broker: Broker) -> tuple[int, int, int]:
    """Rows of RL, documents that are stored, and identities."""
    ((rows, stored, known),) = broker.engine.store.rows(
        "SELECT (SELECT count(*) FROM rl), count(xml), count(*) FROM documents"
    )
    return rows, stored, known


@pytest.mark.parametrize("text", [FOREVER, PAIR])
def test_documents_go_at_the_bound_that_is_set_whatever_the_window(
    text: str, tmp_path: Path
) -> None:
    with Broker(tmp_path, lateness=timedelta(minutes=10)) as broker:
        broker.subscribe(text)
        broker.process([item(n, at=n * 600.0) for n in range(13)])
        assert broker.engine.retain(documents=HOUR) == (6, 0)
        assert count(broker) == (7, 7, 13)
        assert broker.engine.live_documents() == 7
        found = broker.process([item(13, at=13 * 600.0)])
        assert pairs(found) == {(str(n), "13") for n in range(7 if text == PAIR else 6, 13)}
        # A document that has gone is still known.
        assert broker.process([item(12, at=13 * 600.0), item(3, at=13 * 600.0)]) == []
        assert count(broker)[2] == 14
    with Broker(tmp_path, lateness=timedelta(minutes=10)) as broker:
        assert broker.engine.live_documents() == 8
        assert broker.engine.retain() == (0, 0)


def test_identities_go_after_their_documents_and_never_within_the_lateness() -> None:
    broker = Broker(lateness=timedelta(hours=2))
    broker.subscribe(FOREVER)
    broker.process([item(n, at=n * 600.0) for n in range(37)])
    engine = broker.engine
    assert engine.retain(identities=HOUR) == (0, 0)  # nothing of a document that is stored
    assert engine.retain(documents=HOUR, identities=HOUR) == (30, 24)
    assert count(broker) == (7, 7, 13)
    # One of which nothing is known any more is too late to be taken for a new one.
    assert broker.process([item(23, at=23 * 600.0), item(24, at=24 * 600.0)]) == []
    assert [each.id for each in broker.dead_letters()] == ["23"]
    assert count(broker)[2] == 13


def test_what_memory_knows_of_documents_shrinks_with_them() -> None:
    broker = Broker(lateness=0)
    broker.engine.admission.spare = 100
    broker.subscribe(PAIR)
    for start in range(0, 20_000, 2_000):
        broker.process([item(n, f"t{n}", at=n * 10.0) for n in range(start, start + 2_000)])
        broker.engine.retain(identities=HOUR)
    assert len(broker.engine.admission.keys) < 3_000
    assert count(broker)[2] < 2_500
    assert broker.process([item(19_999, "t19999", at=199_990.0)]) == []
    assert count(broker)[2] < 2_500


def test_what_is_sent_again_and_again_is_known_once() -> None:
    broker = Broker()
    for _ in range(30):
        broker.process([item(n, f"t{n}") for n in range(1_000)])
    assert len(broker.engine.admission.keys) == 1_000


def test_a_bound_that_fails_has_forgotten_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(lateness=0)
    broker.subscribe(PAIR)
    broker.process([item(n, at=n * 600.0) for n in range(20)])
    before = count(broker)

    def failing(*_: object) -> int:
        raise RuntimeError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(broker.engine.retention, "forget", failing)
        with pytest.raises(RuntimeError, match="no more"):
            broker.engine.retain(documents=HOUR, identities=HOUR)
    assert count(broker) == before
    assert pairs(broker.process([item(20, at=20 * 600.0)])) == {
        (str(n), "20") for n in range(14, 20)
    }
    assert broker.engine.retain(documents=HOUR, identities=HOUR) == (14, 14)


def test_identities_of_a_bound_that_fails_are_forgotten_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(lateness=0)
    broker.subscribe(PAIR)
    engine = broker.engine
    broker.process([item(n, at=n * 600.0) for n in range(20)])
    assert engine.retain(documents=HOUR, identities=2 * HOUR) == (13, 7)

    def failing(_: int) -> None:
        raise RuntimeError("no more")

    broker.process([item(n, at=n * 600.0) for n in range(20, 30)])
    assert engine.retain(documents=HOUR) == (10, 0)
    before = count(broker)
    with monkeypatch.context() as patched:
        patched.setattr(engine.admission.postdated, "forget_gone", failing)
        with pytest.raises(RuntimeError, match="no more"):
            engine.retain(documents=HOUR, identities=2 * HOUR)
    assert count(broker) == before
    assert engine.retain(documents=HOUR, identities=2 * HOUR) == (0, 10)
    # One that ended longer ago than those that expired before it, and came late.
    late = Broker(lateness=timedelta(hours=9))
    late.subscribe(FOREVER)
    late.process([item(n, at=36_000 + n * 600.0) for n in range(20)])
    assert late.engine.retain(documents=HOUR, identities=9 * HOUR) == (13, 0)
    late.process([item(99, at=18_000.0), item(100, at=60_000.0)])
    assert late.engine.retain(documents=HOUR, identities=9 * HOUR) == (7 + 1, 1)


def test_where_nothing_is_old_enough_to_go_nothing_is_asked_of_the_tables(tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=0) as broker:
        broker.subscribe(PAIR)
        engine = broker.engine
        for n in range(30):
            broker.process([item(n, at=n * 600.0)])
        assert engine.retain(identities=3 * HOUR) == (23, 11)
        broker.process([item(30, at=29 * 600.0)])
        assert engine.store.behind is not None
        assert engine.store.behind.waits
        assert engine.retain(identities=4 * HOUR) == (0, 0)
        assert engine.store.behind.waits
        assert engine.expire_letters(HOUR) == 0  # what a state has at first is not known
        broker.process([item(31, at=29 * 600.0)])
        assert engine.expire_letters(HOUR) == 0
        assert engine.store.behind.waits


def test_dead_letters_go_when_they_are_old_enough() -> None:
    broker = Broker()
    engine, gone = broker.engine, []
    for hour in (3, 4, 6):
        broker.process([Document(f"{hour}", "S", 1.0, "<i>")], now=hour * 3600.0)
    for before in (3, 5, 6, 7):
        gone.append(engine.expire_letters(before * HOUR))
    # The clock went back: the one of a lower number is older whatever it says.
    broker.process([Document("2", "S", 1.0, "<i>")], now=2 * 3600.0)
    assert [*gone, engine.expire_letters(3 * HOUR)] == [0, 2, 0, 1, 1]


def test_the_file_does_not_grow_where_what_it_holds_does_not(tmp_path: Path) -> None:
    """Many times what is live passes through; space that is let go is used again."""
    r = Random(5)
    sizes = []
    with Broker(tmp_path, lateness=0) as broker:
        broker.subscribe(PAIR)
        for n in range(0, 16_000, 100):
            batch = [
                Document(
                    str(i),
                    "S",
                    i * 10.0,
                    f"<i><t>{r.randrange(999)}</t>{r.randbytes(400).hex()}</i>",
                )
                for i in range(n, n + 100)
            ]
            broker.acknowledge(broker.process(batch))
            if n % 1_000 == 0:
                broker.engine.retain(documents=HOUR, identities=HOUR)
                broker.engine.store.checkpoint()
                sizes.append((tmp_path / "broker.duckdb").stat().st_size)
        assert count(broker)[2] < 2_000
    assert max(sizes[10:]) <= 1.5 * max(sizes[2:8])


def test_dead_letters_have_numbers_and_an_end(tmp_path: Path) -> None:
    broken = [Document(f"b{n}", "S", 1.0, "<i>") for n in range(4)]
    with Broker(tmp_path) as broker:
        broker.process(broken[:2], now=HOUR / 10**6)
        broker.process(broken[1:3], now=(2 * HOUR) / 10**6)
        broker.process(broken[3:])
        letters = broker.engine.letters()
        assert [(each.number, each.id, each.at) for each in letters] == [
            (1, "b0", HOUR),
            (2, "b1", HOUR),
            (3, "b2", 2 * HOUR),
            (4, "b3", None),
        ]
        assert letters[0].streams == ("S",)
        assert letters[0].xml == b"<i>"
        assert [each.number for each in broker.engine.letters(after=2, limit=1)] == [3]
        assert broker.engine.delete_letters(before=2 * HOUR) == 2
        assert broker.engine.delete_letters([4, 77]) == 1
        assert broker.engine.count_letters() == 1
        assert broker.engine.delete_letters([3]) == 1
    with Broker(tmp_path) as broker:
        broker.process(broken[:1])
        assert [each.number for each in broker.engine.letters()] == [5]


def test_the_numbers_of_a_log_count_for_all_its_sources(tmp_path: Path) -> None:
    def put(broker: Broker, *seqs: int, position: int | None = None) -> int:
        documents = [item(n, f"t{n}", seq=n, source=f"source {n % 2}") for n in seqs]
        arrivals = broker.arrivals(documents)
        before = figures(broker.engine).documents
        broker.engine.apply(arrivals, position=position)
        return figures(broker.engine).documents - before

    with Broker(tmp_path) as broker:
        assert put(broker, 1, 2, 3) == 3  # by source, as a state of before has it
        assert broker.engine.position == 0
        assert put(broker, 2, 3, 5, position=6) == 1
        assert put(broker, 4, 6, 7, position=7) == 1
    with Broker(tmp_path) as broker:
        assert broker.engine.position == 7
        assert figures(broker.engine).applied == {"source 0": 2, "source 1": 3}
        assert put(broker, 4, 7, 8, position=9) == 1
        assert put(broker, position=12) == 0
        assert broker.engine.position == 12


def test_expiry_goes_on_when_a_wrong_clock_is_put_right() -> None:
    """A clock that was believed a year ahead, and then corrected."""
    hour, steady = 3_600 * 10**6, [0]
    broker = Broker()
    broker._engine = Engine(Store(None), steady=lambda: steady[0])
    broker.subscribe("q: S//a->x FOLLOWED BY {x = y, 1 day} S//b->y")
    right = 1_800_000_000 * 10**6
    ahead = right + 365 * 24 * hour
    broker.process([Document("0", "S", ahead / 10**6, "<a/>")], now=ahead / 10**6)
    for number in range(1, 20 * 24):
        steady[0] += hour
        now = (ahead if number < 3 else right) + number * hour
        broker.engine.tick(now)
        if number % 6 == 0:
            broker.process([Document(str(number), "S", now / 10**6, "<a/>")], now=now / 10**6)
    ((live,),) = broker.engine.store.rows("SELECT count(*) FROM rl")
    assert 32 <= live <= 34, "a day of window and seven of lateness, four documents each"
    assert broker.engine.count_letters() == 0


def test_documents_that_come_one_by_one_expire_many_at_once() -> None:
    """To look at all that is stored costs the same for each of them, however many there are."""
    broker = Broker(lateness=0)
    broker.subscribe(PAIR)
    broker.process([item(n, at=n * 36.0) for n in range(160)])
    broker.engine.expire()
    broker.engine.expiry_every = 1
    inside, stored = 101, []
    for n in range(160, 400):
        broker.process([item(n, at=n * 36.0)])
        stored.append(count(broker)[1])
    fewer = sum(after < before for before, after in pairwise(stored))
    assert inside <= min(stored)
    assert max(stored) <= inside * 1.25
    assert 10 < fewer < 60


def test_nothing_is_asked_of_the_tables_before_a_document_can_have_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small batches are committed in the journal, and whoever asks the tables brings them there."""
    with Broker(tmp_path, lateness=timedelta(minutes=10)) as broker:
        broker.subscribe(PAIR)
        engine, looked = broker.engine, list[int]()
        keep = engine.relations.kept.keep

        def looking(which: str, parameters: list[int]) -> None:
            looked.append(parameters[0])
            keep(which, parameters)

        monkeypatch.setattr(engine.relations.kept, "keep", looking)
        broker.process([item(1, at=9 * 3600.0)])
        engine.expire()  # what a state has at first is not known
        for n in range(2, 6):
            broker.process([item(n, at=9 * 3600.0 + n)])
            engine.expire()
        assert looked == [9 * HOUR - HOUR - 600_000_000]
        assert engine.store.behind is not None
        assert engine.store.behind.waits
        # One that is older than all of them, though not late.
        broker.process([item(6, at=9 * 3600.0 - 500.0), item(7, at=10 * 3600.0 + 200.0)])
        engine.expire()
        assert len(looked) == 2
        assert count(broker) == (6, 6, 7)


def test_what_a_failed_transaction_had_deleted_expires_after_it() -> None:
    broker = Broker(lateness=0)
    broker.subscribe(PAIR)
    broker.process([item(1, at=0.0)])
    broker.process([item(2, at=5 * 3600.0)])
    engine = broker.engine

    def fails() -> None:
        with engine.store.transaction():
            engine.expire()
            assert count(broker)[0] == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert count(broker)[0] == 2
    engine.expire()
    assert count(broker)[0] == 1
