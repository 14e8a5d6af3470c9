"""Files with an incomplete last record are used, damaged files are refused with advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from feeds.synced_file import SECTOR
from tests.command import run
from tests.crash.plain import QUERY, Plain

FILES = {"spool": "spool.sqlite", "mailbox": "mailbox.sqlite", "engine": "broker.duckdb"}
LOGS = {
    "spool": "spool.sqlite-wal",
    "recent": "spool.sqlite-recent",
    "mailbox": "mailbox.sqlite-wal",
    "engine": "broker.duckdb.wal",
    "journal": "journal",
}
TRIALS = 4


LARGE = 60_000
"""Bytes of documents that are not stored beside the tables of the spool when twenty come at once."""

Killed = tuple[Plain, Path, dict[str, int]]


@pytest.fixture(scope="module")
def killings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Killed]]:
    """By the name of a log, a state whose process was killed after pairs 0 to 9, which were all
    done when the logs had the lengths that are told, and 10 to 19, which are in that log. No upkeep
    came in between."""
    with ExitStack() as open:
        made: dict[int, Killed] = {}

        def killed(name: str) -> Killed:
            size = LARGE if name == "spool" else 0
            if size not in made:
                made[size] = _killed(tmp_path_factory.mktemp("torn"), size, open)
            return made[size]

        yield killed


def _killed(directory: Path, large: int, open: ExitStack) -> Killed:
    plain = open.enter_context(Plain(directory))
    plain.served.start(upkeep=False)
    plain.subscribe()
    plain.posted(range(10), large)
    whole = {name: _written(plain.state / log) for name, log in LOGS.items()}
    plain.posted(range(10, 20), large)
    assert plain.found() == [*range(20)]
    plain.served.kill()
    kept = directory / "kept"
    plain.state.rename(kept)
    return plain, kept, whole


def _written(log: Path) -> int:
    """The bytes of a log up to the end of what was written; some are lengthened by zeros before."""
    if not log.exists():
        return 0
    return -(-len(log.read_bytes().rstrip(b"\0")) // SECTOR) * SECTOR


@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("name", LOGS)
def test_a_torn_last_record(killings: Callable[[str], Killed], name: str, trial: int) -> None:
    """Of one file alone the end is gone, though it was written: the worst that can be. What was
    there before is there, nothing is there twice, and what is sent again is taken as ever."""
    plain, kept, whole = killings(name)
    plain.replaced(kept)
    log = plain.state / LOGS[name]
    length = Random(f"{name} {trial}").randrange(whole[name], _written(log))
    with log.open("r+b") as file:
        file.truncate(length)
    plain.served.start(upkeep=False)
    try:
        assert [each["text"] for each in plain.served.get("/v1/subscriptions")] == [QUERY]
        plain.drained()
        found = plain.found()
        assert found[:10] == [*range(10)]
        assert found == [*range(len(found))], f"{name} cut to {length}"
        if name == "mailbox":  # the engine hands over again what it has lost
            assert found == [*range(20)]
        # A publisher who got no answer sends it all again, and goes on.
        plain.posted(range(10, 20))
        plain.posted(range(20, 25))
        again = plain.found()
        assert again[: len(found)] == found
        assert len(set(again)) == len(again)
        assert again[-5:] == [*range(20, 25)]
        assert again == [*range(25)]
        assert plain.letters() == []
    finally:
        plain.served.kill()


@pytest.mark.parametrize("name", LOGS)
def test_a_record_that_was_being_written(killings: Callable[[str], Killed], name: str) -> None:
    """Behind all that was told as durable there is the beginning of another record, or rubbish."""
    plain, kept, _ = killings(name)
    for rubbish in (b"\0" * 700, bytes(Random(name).randbytes(5_000))):
        plain.replaced(kept)
        with (plain.state / LOGS[name]).open("ab") as file:
            file.write(rubbish)
        plain.served.start(upkeep=False)
        try:
            plain.posted(range(20, 25))
            assert plain.found() == [*range(25)]
        finally:
            plain.served.kill()


# -- damage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plain, Path, Path]]:
    """A state that was stopped, and a backup of it from before pairs 200 to 204."""
    directory = tmp_path_factory.mktemp("damaged")
    with Plain(directory) as plain:
        plain.served.start()
        plain.subscribe()
        plain.posted(range(200))
        plain.back_up(directory / "copy")
        plain.posted(range(200, 205))
        assert plain.served.stop() == 0
        kept = directory / "kept"
        plain.state.rename(kept)
        yield plain, kept, directory / "copy"


def _scribbled(path: Path) -> None:
    """In each tenth of the file a page is overwritten."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for tenth in range(1, 10):
            file.seek(size * tenth // 10 // 4096 * 4096)
            file.write(Random(tenth).randbytes(4096))


def _beheaded(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(Random(0).randbytes(8192))


def _halved(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // 4096 * 4096)


@pytest.mark.parametrize("damage", [_scribbled, _beheaded, _halved])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_and_a_backup_goes_on(
    stopped: tuple[Plain, Path, Path], name: str, damage: Callable[[Path], None]
) -> None:
    plain, kept, copy = stopped
    plain.replaced(kept)
    damage(plain.state / FILES[name])
    output = plain.refused()
    assert "Traceback" not in output
    assert FILES[name] in output
    assert "restore" in output.lower(), output
    if name != "spool" or damage is not _halved:
        return
    # The way out, as it is told.
    restored = plain.served.directory / "restored"
    result = run(("restore", copy, "--state", restored))
    assert result.returncode == 0, result.stderr
    plain.replaced(restored)
    plain.served.start()
    assert plain.found() == [*range(200)]
    plain.posted(range(195, 210))
    assert plain.found() == [*range(210)]
    plain.served.kill()
