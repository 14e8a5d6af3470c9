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


def test_who_writes_little_asks_the_system_ten_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, there = 100.0, 50 << 20
    monkeypatch.setattr(disk, "free", lambda directory: there if directory == tmp_path else -1)
    room = disk.Room(tmp_path, lambda: now)
    assert room.left() == 50 << 20
    there = 40 << 20
    now += 0.09
    assert room.left(6 << 20) == 50 << 20  # before they are written
    assert room.left(5 << 20) == 44 << 20
    assert room.left() == 39 << 20
    now += 0.02
    assert room.left(9 << 20) == 40 << 20
    there = 30 << 20
    assert room.left(8 << 20) == 30 << 20  # more than is written without looking
    assert room.left() == 22 << 20


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
