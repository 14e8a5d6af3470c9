"""Two processes store rows in one spool: the one that writes beside the tables numbers all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from feeds.recent import file_of
from feeds.requested import Requested
from feeds.spool import Spool, read_rows
from tests.feeds.data import ROOT
from tests.feeds.spooling import A, B, batch, item, posted
from tests.seeds import seeds

END = 2**62


def opened(path: Path, *, beside: bool = True) -> Spool:
    return Spool(path, beside=beside, now=lambda: 12.0)


def ids(path: Path) -> list[str]:
    return [row.id for row in read_rows(path, 0, END)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.sqlite"


def test_what_another_process_adds_is_numbered_by_the_one_that_publishes(path: Path) -> None:
    told: list[int] = []
    with Spool(path, lambda: told.append(1), beside=True) as service:
        assert service.publish([posted("1")]) == range(1, 2)
        with opened(path, beside=False) as other:
            assert other.append(batch(A, item("2", day=1), item("3", day=2))) == 2
            assert ids(path) == ["1"], "it has no number yet"
            assert Requested(path).is_pending(END), "and is still to come"
        assert service.publish([posted("4")]) == range(2, 3)
        del told[:]
        assert service.take_handed() == 2
        assert told, "who waits for rows is told"
        assert service.take_handed() == 0
        assert service.publish([posted("5")]) == range(5, 6)
        assert [(row.seq, row.id) for row in service.read(0, 9)] == [
            *enumerate(["1", "4", "2", "3", "5"], 1)
        ]
        assert [row.id for row in read_rows(path, 2, END)] == ["2", "3", "5"]
        requested = Requested(path)
        assert [requested.covers(A, seq) for seq in range(1, 6)] == [
            False,
            False,
            True,
            True,
            False,
        ]
        assert service.verify(0) == ([], [])


def test_it_is_stored_by_who_comes_next(path: Path) -> None:
    with opened(path) as service:
        service.publish([posted("1")])
        with opened(path, beside=False) as other:
            other.append(batch(A, item("2")))
    with opened(path, beside=False) as alone:
        alone.append(batch(B, item("3")))
    assert ids(path) == ["1", "2", "3"]
    with opened(path) as service:
        assert service.verify(0) == ([], [])


def test_a_process_that_dies_meanwhile_leaves_nothing_behind_in_numbers(
    path: Path, tmp_path: Path
) -> None:
    """The rows beside the tables are brought there before others get numbers."""
    with opened(path) as service:
        service.publish([posted("1")])
        (tmp_path / "dead").mkdir()
        with opened(path, beside=False) as other:
            service.publish([posted("2")])
            for each in path.parent.glob("spool.sqlite*"):
                if not each.name.endswith("-shm"):
                    shutil.copy(each, tmp_path / "dead")
            assert other.append(batch(A, item("later"))) == 1
    dead = tmp_path / "dead" / path.name
    with opened(dead, beside=False) as other:
        other.append(batch(A, item("3")))
        other.append(batch(B, item("4")))
    assert not file_of(dead).exists()
    with opened(dead) as service:
        assert [(row.seq, row.id) for row in service.read(0, 9)] == [*enumerate("1234", 1)]
        assert service.verify(0) == ([], [])


def test_two_processes_without_recent_rows_link_their_checksums(path: Path) -> None:
    with opened(path, beside=False) as one, opened(path, beside=False) as other:
        one.append(batch(A, item("1")))
        other.append(batch(B, item("2")))
        one.append(batch(A, item("3"), item("1")))
    with opened(path) as service:
        assert ids(path) == ["1", "2", "3"]
        assert service.verify(0) == ([], [])


_OTHER = """
import sys
from feeds.spool import Spool
from tests.feeds.spooling import batch, item
path, count = sys.argv[1:]
for n in range(int(count)):
    with Spool(path) as spool:
        spool.append(batch(f"http://{n}.example/f", item(f"f{n}")))
"""


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_processes_come_and_go(seed: int, path: Path) -> None:
    """One adds waves, each with the spool opened anew, while the service publishes, and is closed
    and opened again: no number is given twice, and nothing is lost."""
    random, published, count = Random(seed), 0, 25
    opened(path).close()
    other = subprocess.Popen([sys.executable, "-c", _OTHER, str(path), str(count)], cwd=ROOT)
    while other.poll() is None:
        with opened(path) as service:
            assert service.recent is not None
            for _ in range(random.randint(1, 30)):
                assert len(service.publish([posted(f"p{published}")])) == 1
                published += 1
            service.take_handed()
    assert other.returncode == 0
    with opened(path) as service:
        service.take_handed()
        found = [(row.seq, row.id) for row in service.read(0, END)]
        assert service.verify(0) == ([], [])
    assert [seq for seq, _ in found] == [*range(1, len(found) + 1)]
    expected = {*(f"p{n}" for n in range(published)), *(f"f{n}" for n in range(count))}
    assert sorted(id for _, id in found) == sorted(expected)
