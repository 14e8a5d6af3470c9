"""Files written completely, and free disk space."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.state import disk


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
