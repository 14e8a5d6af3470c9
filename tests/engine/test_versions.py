"""A state of an older version is migrated; a newer or a damaged one is refused."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from broker import Broker, Document
from broker.state.migrations import VERSION
from broker.state.store import StateError
from tests.engine.test_state import PAIR, item

STATES = Path(__file__).parent / "states"
OLD = ["version_1", "version_2"]


def rebuilt(name: str, directory: Path) -> Path:
    """A state as the program of an older version has written it."""
    directory.mkdir()
    with duckdb.connect(str(directory / "broker.duckdb")) as connection:
        connection.execute((STATES / f"{name}.sql").read_text())
    return directory


def tea(id: str, at: float, seq: int) -> Document:
    xml = "<i><t>tea</t><by>Ada</by></i>"
    return Document(id, "S", at, xml, source="post", seq=seq)


@pytest.mark.parametrize("name", OLD)
def test_a_state_of_an_older_version_goes_on(name: str, tmp_path: Path) -> None:
    state = rebuilt(name, tmp_path / "state")
    for opened in range(2):  # the second time it is of this version
        with Broker(state, lateness=timedelta(hours=1)) as broker:
            engine = broker.engine
            assert engine.store.number("version", 0) == VERSION
            assert list(broker.subscriptions) == ["pair", "told", "again"]
            assert {(r.status, r.first_doc, r.since, r.gaps) for r in engine.registered()} == {
                ("active", 1, None, ())
            }
            assert [(m.query, len(m.result) > 100) for m in broker.undelivered()] == [
                ("pair", True),
                ("again", True),
                ("again", True),
                ("told", True),
            ]
            letters = broker.dead_letters()
            assert [(each.number, each.id, each.streams) for each in letters] == [
                (1, "old", ()),
                (2, "torn", ()),
            ]
            assert all(each.at is not None for each in letters)
            assert engine.applied(["post"]) == 4 + opened
            assert engine.applied(["feed"]) == 7
            # What was applied is known by its number, and what is stored by its id.
            assert broker.process([tea("x", 210, 3), tea("a", 210, 5 + opened)]) == []
    with Broker(state, lateness=timedelta(hours=1)) as broker:
        matches = broker.process([tea("d", 220, 7), Document("bad", "S", 220.0, "<i>")])
        assert sorted(m.query for m in matches) == ["again"] * 4 + ["pair"] * 2 + ["told"]
        assert [each.number for each in broker.dead_letters()] == [1, 2, 3]
        assert broker.engine.admission.next_doc == 8  # d is 6, and what it published 7


@pytest.mark.parametrize("name", OLD)
def test_a_change_of_version_that_fails_has_not_happened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = rebuilt(name, tmp_path / "state")
    with monkeypatch.context() as patched:
        patched.setattr("broker.state.store.SCHEMA", "CREATE TABLE of_no_columns ();")
        with pytest.raises(StateError):
            Broker(state)
    with duckdb.connect(str(state / "broker.duckdb")) as connection:
        (found,) = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchall()
    assert f"version_{found[0]}" == name
    with Broker(state) as broker:
        assert len(broker.undelivered()) == 4


def test_a_new_state_has_the_tables_of_one_that_was_brought_here(tmp_path: Path) -> None:
    def tables(state: Path) -> list[tuple[str, ...]]:
        with Broker(state) as broker:
            return broker.engine.store.rows(
                "SELECT table_name, column_name, data_type FROM duckdb_columns()"
                " WHERE database_name = current_database() AND NOT internal"
                " ORDER BY table_name, column_name"
            )

    new = tables(tmp_path / "new")
    assert new
    for name in OLD:
        assert tables(rebuilt(name, tmp_path / name)) == new


def test_a_state_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.engine.store.set_numbers(version=99)
    with pytest.raises(StateError, match=f"has version 99, and this program reads up to {VERSION}"):
        Broker(tmp_path)


# -- damage ----------------------------------------------------------------------------------


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def scribble(path: Path, at: int, size: int = 4096) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(range(256)) * (size // 256))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: cut(file, 0),
    "a header alone": lambda file: cut(file, 4096),
    "half": lambda file: cut(file, file.stat().st_size // 2),
    "no header": lambda file: scribble(file, 0),
    "no first root": lambda file: scribble(file, 4096),
    "no second root": lambda file: scribble(file, 8192),
    "text": lambda file: file.write_bytes(b"This is a letter and no state.\n" * 1000),
    "blocks": lambda file: scribble(file, 12288, file.stat().st_size - 12288),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused_with_the_way_out(name: str, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(n, f"text {n}") for n in range(2_000)])
    file = tmp_path / "broker.duckdb"
    DAMAGE[name](file)
    damaged = file.read_bytes()
    for _ in range(2):  # nor is it in use afterwards
        with pytest.raises(StateError, match=r"the state is damaged: .*Restore the last backup"):
            Broker(tmp_path)
    assert file.read_bytes() == damaged


def unclosed(state: Path) -> Path:
    """A state whose process was killed: the last batches are in the write-ahead log alone."""
    copy = state.with_name("killed")
    copy.mkdir()
    with Broker(state) as broker:
        broker.subscribe(PAIR)
        broker.engine.store.checkpoint()
        broker.process([item(1, seq=1, source="log")])
        broker.process([item(2, seq=2, source="log")])
        for name in ("broker.duckdb", "broker.duckdb.wal"):
            (copy / name).write_bytes((state / name).read_bytes())
    return copy


def test_a_torn_last_record_is_a_batch_that_has_not_happened(tmp_path: Path) -> None:
    killed = unclosed(tmp_path / "state")
    log = killed / "broker.duckdb.wal"
    cut(log, log.stat().st_size - 20)
    with Broker(killed) as broker:
        assert broker.engine.applied(["log"]) == 1
        assert broker.undelivered() == []
        (match,) = broker.process([item(n, seq=n, source="log") for n in (1, 2)])
        assert [d.id for d in match.documents] == ["1", "2"]


def records(log: bytes) -> list[range]:
    """Where the contents of each record are in a write-ahead log of DuckDB: after a header of some
    forty bytes, each is led by its length and its checksum, of 8 bytes each."""
    for header in range(20, 80):
        found, at = [], header
        while at + 16 <= len(log):
            (length,) = struct.unpack_from("<Q", log, at)
            found.append(range(at + 16, at + 16 + length))
            at += 16 + length
        if at == len(log) and all(found):
            return found
    raise AssertionError("this is no write-ahead log of the form that we know")


def test_a_log_that_is_damaged_before_its_end_is_refused(tmp_path: Path) -> None:
    killed = unclosed(tmp_path / "state")
    log = killed / "broker.duckdb.wal"
    # In the first of two batches: what is damaged in the last one has not happened. And in what a
    # record holds: a damaged length looks as if the log ended there.
    held = max(records(log.read_bytes())[:10], key=len)
    scribble(log, held.start, len(held) // 256 * 256)
    with pytest.raises(StateError, match=r"the state is damaged: .*Restore the last backup"):
        Broker(killed)
