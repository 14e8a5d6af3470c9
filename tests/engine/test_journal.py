"""The journal: small transactions are in it before the tables hold them, and nobody sees that."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from broker import Broker
from broker.state.journal import DamagedJournal, Journal, Record
from broker.state.store import StateError
from tests.engine.test_journaled_store import copied
from tests.engine.test_state import PAIR, item, pairs
from tests.seeds import seeds

SECRET = 12_345
SECTOR = 512


KEPT = (
    "eNqLcPIK8vMxMGRngIAcJgjNxNAAJFdARYty/gNBBZAlAOZzMfAwsDGwMnAAWUDAyALkMwB5HECSBUoChYFYBKxH"
    "BCjGxsAOViUANYORCUTLQNWCADMQp+QnA9XyADE72ByQQgcgAbK/A2oeCPAwiEFdwAM2lYGZhUECSEkwwAAXkM0D"
    "dg3IjTZQtzMzIAATA24ggcRmRNMHAuw4aDYGkCtnQHn5pSVJ+RUgtzfQIOxUkMIOpC8vtaIkHhSAYD75YchBIAwZ"
    "iQxDDrQwZMQRhjuus2kBAPicJm4="
)
"""A journal with the record of number 7, as the first version with journals wrote it."""


def record(number: int, size: int = 3) -> Record:
    return Record(
        number, [("rl", pa.table({"doc": [number] * size})), ("outbox", progress(number))]
    )


def progress(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"next_doc": pa.array([number], pa.int64())})


def numbers(records: list[Record]) -> list[int]:
    """Their numbers; the rows are those of these numbers."""
    for number, inserts in records:
        (first, rows), (second, row) = inserts
        assert (first, second) == ("rl", "outbox")
        assert set(rows["doc"].to_pylist()) == {*row["next_doc"].to_pylist()} == {number}
    return [number for number, _ in records]


def written(path: Path, *records: Record) -> bytes:
    journal = Journal(path, SECRET)
    assert journal.read(records[0].number - 1) == []
    for each in records:
        journal.append(each)
    journal.close()
    return path.read_bytes()


def read(path: Path, after: int) -> list[int]:
    journal = Journal(path, SECRET)
    try:
        return numbers(journal.read(after))
    finally:
        journal.close()


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    written(tmp_path / "j", record(7), record(8, 5_000), record(9))
    assert read(tmp_path / "j", 6) == [7, 8, 9]
    assert read(tmp_path / "j", 9) == []


def test_a_journal_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(zlib.decompress(base64.b64decode(KEPT)))
    assert read(tmp_path / "j", 6) == [7]


def test_records_go_on_behind_those_that_were_read(tmp_path: Path) -> None:
    written(tmp_path / "j", record(1), record(2))
    journal = Journal(tmp_path / "j", SECRET)
    assert numbers(journal.read(0)) == [1, 2]
    journal.append(record(3))
    journal.close()
    assert read(tmp_path / "j", 0) == [1, 2, 3]


def test_older_records_behind_newer_ones_are_none(tmp_path: Path) -> None:
    """Also where a new record ends just before an old one, which was once behind another."""
    journal = Journal(tmp_path / "j", SECRET)
    for round in range(4):
        for number in range(5 * round + 1, 5 * round + 6):
            journal.append(record(number, 1 + number % 2))
        journal.turn()
        journal.release()
    size = (tmp_path / "j").stat().st_size
    journal.append(record(21))
    journal.append(record(22, 2))
    journal.close()
    assert read(tmp_path / "j", 20) == [21, 22]
    assert (tmp_path / "j").stat().st_size == size


@pytest.mark.parametrize("seed", seeds(1, 50))
def test_records_that_are_being_brought_elsewhere_stay_until_they_are(
    seed: int, tmp_path: Path
) -> None:
    """Whenever the process ends, those are read that are nowhere else, and the file is bounded."""
    r = Random(seed)
    path = tmp_path / "j"
    journal = Journal(path, SECRET)
    last = brought = 0
    begun: int | None = None
    for _ in range(300):
        what = r.choice(["add"] * 8 + ["turn", "release", "restore", "reopen"])
        if what == "add" and last - brought < 40:
            last += 1
            journal.append(record(last, r.choice((1, 1, 30, 200))))
        elif what == "turn" and begun is None:
            journal.turn()
            begun = last
        elif what == "release" and begun is not None:
            journal.release()
            brought, begun = begun, None
        elif what == "restore" and begun is not None:
            journal.restore()
            begun = None
        elif what == "reopen":
            journal.close()
            journal = Journal(path, SECRET)
            assert numbers(journal.read(brought)) == [*range(brought + 1, last + 1)]
            begun = None
        if path.exists():
            assert read(path, brought) == [*range(brought + 1, last + 1)], what
    journal.close()
    assert path.stat().st_size < 4 * 40 * 9_000


@pytest.mark.usefixtures("plain_files")
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_a_torn_last_record_was_not_committed(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    before = written(tmp_path / "j", record(1), record(2))
    whole = written(tmp_path / "j2", record(1), record(2), record(3, 400))
    for _ in range(20):
        sectors = [whole[at : at + SECTOR] for at in range(0, len(whole), SECTOR)]
        first = -(-len(before) // SECTOR)
        lost = r.sample(range(first, len(sectors)), r.randint(1, len(sectors) - first))
        for each in lost:
            sectors[each] = bytes(len(sectors[each]))
        (tmp_path / "j").write_bytes(b"".join(sectors))
        assert read(tmp_path / "j", 0) == [1, 2]
        (tmp_path / "j").write_bytes(whole[: r.randrange(len(before), len(whole))])
        assert read(tmp_path / "j", 0) == [1, 2]


@pytest.mark.usefixtures("plain_files")
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_damage_before_the_last_record_is_noticed(seed: int, tmp_path: Path) -> None:
    r = Random(seed)
    ends = [len(written(tmp_path / str(n), *map(record, range(1, n + 1)))) for n in (1, 2)]
    whole = written(tmp_path / "whole", record(1), record(2), record(3))
    between = [range(end, -(-end // SECTOR) * SECTOR) for end in ends]
    for _ in range(100):
        content = bytearray(whole)
        at = r.randrange(ends[-1])
        content[at] ^= 1 << r.randrange(8)
        (tmp_path / "j").write_bytes(content)
        if any(at in unused for unused in between):
            assert read(tmp_path / "j", 0) == [1, 2, 3]
        else:
            with pytest.raises(DamagedJournal):
                read(tmp_path / "j", 0)


def test_a_journal_of_another_point_in_time_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "j", record(5), record(6))
    with pytest.raises(DamagedJournal):
        read(tmp_path / "j", 3)


def test_what_looks_like_a_record_is_none(tmp_path: Path) -> None:
    """A document may hold any bytes, but does not know the secret."""
    written(tmp_path / "forged", record(99))
    forged = (tmp_path / "forged").read_bytes()
    journal = Journal(tmp_path / "j", SECRET + 1)
    journal.append(Record(1, [("documents", pa.table({"xml": [forged.ljust(2 * SECTOR) * 9]}))]))
    journal.close()
    content = bytearray((tmp_path / "j").read_bytes())
    at = content.index(forged)
    # Wherever it comes to stand, and also where the record before it is not whole.
    content[:at] = bytes(-(-at // SECTOR) * SECTOR)
    (tmp_path / "j").write_bytes(content)
    journal = Journal(tmp_path / "j", SECRET + 1)
    assert journal.read(0) == []
    journal.close()


# -- a broker ------------------------------------------------------------------------------------


def killed(state: Path) -> Path:
    """A state whose last two documents only the journal has."""
    copy = state.with_name("killed")
    with Broker(state) as broker:
        broker.subscribe(PAIR)
        for n in (1, 2, 3, 4):  # at first some things are read
            assert len(broker.process([item(n)])) == n - 1
        copied(state, copy)
    return copy


def test_a_killed_broker_goes_on_where_it_was(tmp_path: Path) -> None:
    with Broker(killed(tmp_path / "state")) as broker:
        assert len(pairs(broker.undelivered())) == 6
        assert broker.process([item(4)]) == []
        assert pairs(broker.process([item(5)])) == {(str(n), "5") for n in (1, 2, 3, 4)}


@pytest.mark.usefixtures("plain_files")
def test_a_torn_last_record_is_a_batch_that_has_not_happened(tmp_path: Path) -> None:
    state = killed(tmp_path / "state")
    journal = state / "journal"
    journal.write_bytes(journal.read_bytes()[:-20])
    with Broker(state) as broker:
        assert pairs(broker.undelivered()) == {("1", "2"), ("1", "3"), ("2", "3")}
        assert pairs(broker.process([item(3), item(4)])) == {(str(n), "4") for n in (1, 2, 3)}


def test_a_journal_that_is_damaged_before_its_end_is_refused(tmp_path: Path) -> None:
    state = killed(tmp_path / "state")
    content = bytearray((state / "journal").read_bytes())
    content[100] ^= 1
    (state / "journal").write_bytes(content)
    for _ in range(2):
        with pytest.raises(StateError, match=r"journal: the state is damaged: .*Restore the last"):
            Broker(state)
    assert (state / "journal").read_bytes() == content


def test_a_backup_holds_what_only_the_journal_had(tmp_path: Path) -> None:
    with Broker(tmp_path / "state") as broker:
        broker.subscribe(PAIR)
        broker.process([item(1)])
        (tmp_path / "copy").mkdir()
        broker.engine.store.backup(tmp_path / "copy")
        broker.process([item(2)])
    with Broker(tmp_path / "copy") as broker:
        assert pairs(broker.process([item(3)])) == {("1", "3")}
