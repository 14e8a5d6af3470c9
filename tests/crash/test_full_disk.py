"""A full disk: nothing more is accepted, nothing accepted is lost, and the service continues later.

A small file system of its own is needed, which only root may mount; without it these are skipped.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.plain import Plain
from tests.waiting import pause

_SIZE = 48 << 20
_ROOM: dict[str, Any] = {"intake": {"min_free": "1 B"}}
"""The service does not look how much room there is, so that writing fails."""


class Disk:
    """A file system of some megabytes, and a file that takes up what is to be taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def leave(self, free: int) -> None:
        """Fill it so that this many bytes are left."""
        with self._ballast.open("ab") as file:
            for size in (1 << 20, 4096):
                while self.free() - free >= size:
                    try:
                        os.posix_fallocate(file.fileno(), file.tell(), size)
                    except OSError:
                        break
                    file.seek(0, os.SEEK_END)

    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def clear(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "service" / "state"
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(path)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if result.returncode:
        pytest.skip(f"no file system can be mounted here: {result.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def post_until_full(plain: Plain, numbers: Iterator[int]) -> list[int]:
    """Post pairs one by one until ten are refused; those that were accepted."""
    accepted, refused = [], 0
    while refused < 10:
        number = next(numbers)
        status = plain.post([number])
        assert status in (202, 507), status
        if status == 202:
            accepted.append(number)
        else:
            refused += 1
            pause(0.01)
    return accepted


def _accepted(plain: Plain, number: int) -> bool:
    return plain.post([number]) == 202


@pytest.mark.parametrize("free", [0, 200 << 10, 3 << 20])
def test_a_full_disk(disk: Disk, free: int) -> None:
    """It is filled while documents flow, the process is killed and started again without room, and
    then there is room."""
    with Plain(disk.path.parent, **_ROOM) as plain:
        served = plain.served
        served.start()
        plain.subscribe()
        plain.posted(range(50))
        numbers = iter(range(50, 1_000_000))
        disk.leave(free)
        accepted = post_until_full(plain, numbers)
        assert served.get("/v1/status")["state"] == "running"
        assert served.http.get("/health/live").status_code == 200
        assert plain.found()[:50] == [*range(50)]
        served.kill()
        served.launch()
        if served.exited(3.0):
            assert served.code() == 1
            assert "full" in served.tail() or "space" in served.tail(), served.tail()
        disk.clear()
        if served.code() is None:
            served.kill()
        served.start()
        more = [next(numbers) for _ in range(50)]
        assert plain.post(more) == 202
        plain.drained()
        found = plain.found()
        assert sorted(found) == sorted([*range(50), *accepted, *more])
        assert plain.letters() == []
        assert served.stop() == 0


def test_it_goes_on_by_itself_when_there_is_room_again(disk: Disk) -> None:
    with Plain(disk.path.parent, **_ROOM) as plain:
        plain.served.start()
        plain.subscribe()
        plain.posted(range(50))
        numbers = iter(range(50, 1_000_000))
        accepted: list[int] = []
        for free in (1 << 20, 64 << 10, 0):
            disk.leave(free)
            accepted += post_until_full(plain, numbers)
            disk.clear()
            number = next(numbers)
            plain.wait(partial(_accepted, plain, number))
            accepted.append(number)
            plain.drained()
        assert sorted(plain.found()) == sorted([*range(50), *accepted])
        assert plain.letters() == []
        status = plain.served.get("/v1/status")
        assert status["pipeline"]["failure"] is None
        assert plain.served.stop() == 0


def test_it_refuses_before_it_is_full(disk: Disk) -> None:
    """With the setting as it is meant, writing never fails."""
    with Plain(disk.path.parent, intake={"min_free": "20 MB"}) as plain:
        plain.served.start()
        plain.subscribe()
        plain.posted(range(10))
        disk.leave(19 << 20)
        assert plain.post([10]) == 507
        ready = plain.served.http.get("/health/ready")
        assert ready.status_code == 503
        assert "disk" in ready.text
        disk.clear()
        plain.posted([10])
        assert plain.found() == [*range(11)]
        assert plain.served.stop() == 0
