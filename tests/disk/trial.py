"""A workload in a process of its own, whose disk is watched, and fails if it is to.

    python -m tests.disk.trial DIRECTORY '[[12, 5], [13, 28], ...]'

A process is forked for each trial, the number of a call and that of the error that it gets, or 0
for none at all: `DIRECTORY/N` has the state as the process left it, killed at the end, and in
`DIRECTORY/N.trace` what happened.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from broker.state import behind, checkpoints
from tests.disk.calls import Call, Watched
from tests.disk.trace import COUNTED, Trace
from tests.disk.workload import Work
from tests.feeds.data import ROOT
from tests.waiting import PATIENCE

_CALLS = 400
"""About as many calls of a workload may fail."""


def _work(watched: Watched, state: Path, number: int, error: int) -> Trace:
    """Do all, in this process, and note it."""
    trace = Trace()
    count = 0

    def sees(call: Call) -> int:
        nonlocal count
        # The index of a log of SQLite is memory that processes share, and made anew.
        if call.name.endswith("-shm"):
            return 0
        trace.events.append(call)
        if call.kind in COUNTED:
            count += 1
            if count == number:
                trace.failed = len(trace.events) - 1
                return error
        return 0

    state.mkdir()
    # So that a thread brings the tables what the journal has, and makes checkpoints, all the time.
    behind._MANY, checkpoints.LOG = 8, 4_000
    watched.watch(state, sees)
    work = None
    try:
        work = Work(state, trace.events.append, starts=2)
        work.run()
    except Exception as raised:
        trace.broken = f"{type(raised).__name__}: {raised}"
    if work is not None:
        untold = work.core.engine.store.settled()
        errors = [*work.errors, *([untold] if untold else [])]
        trace.errors = [f"{type(each).__name__}: {each}" for each in errors]
        trace.unsure = work.unsure
    return trace


def _forked(watched: Watched, directory: Path, number: int, error: int) -> None:
    pid = os.fork()
    if not pid:
        trace = _work(watched, directory / str(number), number, error)
        (directory / f"{number}.trace").write_bytes(pickle.dumps(trace))
        os._exit(0)
    os.waitpid(pid, 0)


def trials(directory: Path, numbers: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Trace]]:
    """Make these trials, and give the trace of each."""
    command = [sys.executable, "-m", "tests.disk.trial", str(directory), json.dumps(numbers)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE * 20
    )
    assert not done.returncode, done.stderr
    for number, _ in numbers:
        file = directory / f"{number}.trace"
        assert file.exists(), f"trial {number} has died: {done.stderr}"
        yield number, pickle.loads(file.read_bytes())


def faults(r: Random, count: int, calls: int = _CALLS) -> list[tuple[int, int]]:
    """So many calls that are to fail, of about so many that there are, and the errors: all calls
    where they are enough."""
    numbers = r.sample(range(1, calls + 1), min(count, calls))
    return [(number, r.choice((errno.EIO, errno.ENOSPC))) for number in sorted(numbers)]


def main() -> int:
    directory = Path(sys.argv[1])
    watched = Watched()
    assert {"pwrite64", "fdatasync"} <= {*watched.found}, watched.found
    for number, error in json.loads(sys.argv[2]):
        _forked(watched, directory, number, error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
