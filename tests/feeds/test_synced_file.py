"""A file whose writes are on the disk when they return, past the system's cache or through it."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from feeds import synced_file
from feeds.synced_file import SECTOR, SyncedFile
from tests.seeds import seeds


def write_at_random(path: Path, r: Random, count: int) -> bytes:
    """Write to a file here and there; returns what it holds up to where it was written."""
    file, expected, known = SyncedFile(path), bytearray(), bytearray()
    for _ in range(count):
        at = SECTOR * r.randrange(0, 600)
        data = r.randbytes(r.choice((1, 300, 512, 5_000, 70_000, 300_000)))
        cut = sorted(r.sample(range(len(data) + 1), min(2, len(data))))
        parts: list[bytes | memoryview] = [
            data[: cut[0]],
            memoryview(data)[cut[0] : cut[-1]],
            data[cut[-1] :],
        ]
        file.write(parts, at)
        end = at + len(data)
        for each in (expected, known):
            each.extend(bytes(max(0, end - len(each))))
        expected[at:end] = data
        known[at:end] = b"\1" * len(data)
        sector = -(-end // SECTOR) * SECTOR
        known[end : min(sector, len(known))] = bytes(max(0, min(sector, len(known)) - end))
        if r.random() < 0.1:
            file.close()
            file = SyncedFile(path)
    file.close()
    there = path.read_bytes()
    assert len(there) >= len(expected)
    for at in range(0, len(known), SECTOR):
        part = slice(at, at + SECTOR)
        wanted = [n for n, is_known in enumerate(known[part], at) if is_known]
        assert [there[n] for n in wanted] == [expected[n] for n in wanted]
    return there


def no_cache_to_avoid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_DIRECT")


def refused_when_written(monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def refusing(file: int, data: bytes, at: int) -> int:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "sectors of 4 KiB")
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", refusing)


def written_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite

    def short(file: int, data: bytes, at: int) -> int:
        return pwrite(file, memoryview(data)[: max(SECTOR, len(data) // 2 // SECTOR * SECTOR)], at)

    monkeypatch.setattr(os, "pwrite", short)


def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_file, "_ROOM", 2**62)


@pytest.mark.parametrize("seed", seeds(2, 30))
@pytest.mark.parametrize(
    "how",
    [
        lambda _: None,
        *(no_cache_to_avoid, refused_when_written, written_in_part, little_room),
    ],
)
def test_what_is_written_is_there(
    tmp_path: Path,
    seed: int,
    how: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how(monkeypatch)
    write_at_random(tmp_path / "f", Random(seed), 60)


def test_it_is_lengthened_a_piece_at_a_time(tmp_path: Path) -> None:
    file, sizes = SyncedFile(tmp_path / "f"), []
    for n in range(2_000):
        file.write([bytes([1]) * 2_000], n * 2_048)
        sizes.append((tmp_path / "f").stat().st_size)
    file.close()
    ahead = [size - 2_048 * (n + 1) for n, size in enumerate(sizes)]
    assert min(ahead) >= -SECTOR
    assert max(ahead) <= 1 << 20
    assert len({*sizes}) < 12
    assert sizes[0] == 64 << 10


def test_a_limit_to_the_size_of_files_is_told(tmp_path: Path) -> None:
    file = SyncedFile(tmp_path / "f")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_240, hard))
    try:
        file.write([b"a" * 5_000], 0)
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            file.write([b"b" * 9_000], 5_120)
        file.write([b"c" * 5_000], 5_120)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        file.close()
    there = (tmp_path / "f").read_bytes()
    assert there[:5_000] == b"a" * 5_000
    assert there[5_120:10_120] == b"c" * 5_000


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_is_told(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    file = SyncedFile(tmp_path / "f")
    file.write([b"a"], 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", failing)
        with pytest.raises(OSError, match=os.strerror(code)):
            file.write([b"b"], SECTOR)
    file.write([b"c"], SECTOR)
    file.close()
    assert (tmp_path / "f").read_bytes()[:1] == b"a"
    assert (tmp_path / "f").read_bytes()[SECTOR : SECTOR + 1] == b"c"
