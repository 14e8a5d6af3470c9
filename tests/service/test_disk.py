"""Files written completely, and free disk space."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from broker.state import disk
from tests.waiting import until


def test_a_private_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("before")
    path.chmod(0o644)
    disk.write_private(path, "after")
    assert path.read_text() == "after\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no room", descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no room"):
        disk.write_private(path, "never")
    assert path.read_text() == "after\n"


def test_names_and_contents_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    disk.write_private(tmp_path / "token", "text")
    assert synced == [(tmp_path / "token").stat().st_ino, tmp_path.stat().st_ino]


def test_where_nothing_is_no_room_is(tmp_path: Path) -> None:
    assert disk.free(tmp_path) > 0
    assert disk.free(tmp_path / "gone") == 0


def test_where_there_is_plenty_who_writes_little_asks_ten_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, there = 100.0, (5 << 30) + 1
    monkeypatch.setattr(disk, "free", lambda directory: there if directory == tmp_path else -1)
    room = disk.Room(tmp_path, 4 << 30, lambda: now)
    first = there
    assert room.left() == first
    there += 10 << 20
    now += 0.09
    assert room.left(6 << 20) == first  # before they are written
    assert room.left(5 << 20) == first - (6 << 20)
    assert room.left() == first - (11 << 20)
    now += 0.02
    assert room.left(9 << 20) == there
    there += 10 << 20
    assert room.left(8 << 20) == there  # more than is written without looking
    assert room.left() == there - (8 << 20)


def test_where_there_is_little_the_system_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = 5 << 30
    monkeypatch.setattr(disk, "free", lambda directory: there)
    room = disk.Room(tmp_path, 4 << 30, lambda: 100.0)
    for there in (5 << 30, 3 << 30, 0, (5 << 30) + 1):
        assert room.left(7) == there
    there = 0
    assert room.left() == (5 << 30) + 1 - 7


def test_a_file_may_vanish_while_its_size_is_asked_for(tmp_path: Path) -> None:
    """As the log of a database does at a checkpoint."""
    path, over = tmp_path / "log", threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            path.write_bytes(b"x")
            path.unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        found: Counter[int] = Counter()
        until(lambda: found.update([disk.size(path)]) or (found[0] > 40 and found[1] > 40))
    finally:
        over.set()
        thread.join()
