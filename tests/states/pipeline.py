"""A state of `broker run`, which uses Spark: how it was created, and how a command continues with
it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.command import Command
from tests.states import documents
from tests.states.documents import Doc

HERE = Path(__file__).parent
Outcome = dict[str, Any]
_PATIENCE = 600


def make(directory: Path) -> Outcome:
    """Make a state in `directory`/state: a run that ended, and one that was killed while it waited
    for more. What it has found is delivered."""
    directory.mkdir(parents=True)
    _add(directory, "first.jsonl", documents.FIRST)
    _finish(_run(directory, "first.xscl", "--once"))
    _add(directory, "second.jsonl", documents.SECOND)
    with _run(directory, "first.xscl", "history.xscl") as running:
        _wait(directory, "card")
        os.killpg(running.pid, signal.SIGKILL)
    (directory / "state" / "spark.log").unlink()
    return {"delivered": sorted(_found(directory))}


def go_on(state: Path, made: Outcome, directory: Path, through: str = "spark") -> Outcome:
    """Go on with a copy of a kept state, and what there is to say about it: what it finds, and what
    of that it had delivered without knowing so when it was killed. `through` a pipeline, which need
    not be the one that made it."""
    shutil.copytree(state, directory / "state")
    # Where the documents were is in Spark's checkpoint; here they are somewhere else, and all
    # known.
    _add(directory, "first.jsonl", documents.FIRST)
    _add(directory, "second.jsonl", documents.SECOND)
    _add(directory, "then.jsonl", [*documents.KNOWN, *documents.THEN])
    _finish(_run(directory, "first.xscl", "history.xscl", "--once", "--pipeline", through))
    found = _found(directory)
    again = sorted(found.keys() & set(made["delivered"]))
    return {"then": {"matches": found, "delivered again": again}}


def _add(directory: Path, name: str, docs: Iterable[Doc]) -> None:
    lines = (
        json.dumps(
            {"id": doc.id, "stream": doc.stream, "timestamp": doc.at.isoformat(), "xml": doc.xml}
        )
        for doc in docs
    )
    folder = directory / "documents"
    folder.mkdir(exist_ok=True)
    beside = directory / name
    beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    beside.rename(folder / name)


def _run(directory: Path, *arguments: str) -> Command:
    queries = [str(HERE / name) if name.endswith(".xscl") else name for name in arguments]
    command = ["run", *queries]
    command += ["--documents", str(directory / "documents"), "--state", str(directory / "state")]
    command += ["--lateness", "36500 days", "--out", str(directory / "matches.jsonl")]
    with (directory / "log").open("ab") as log:
        return Command(command, stdout=log, stderr=log, start_new_session=True)


def _finish(running: Command) -> None:
    assert running.wait(_PATIENCE) == 0


def _wait(directory: Path, kind: str) -> None:
    """Until the last batch's matches are there, which are of documents of a kind."""
    until = time.monotonic() + _PATIENCE
    while not any(
        kind in match["result"] and "Cy" in match["result"] for match in _found(directory).values()
    ):
        assert time.monotonic() < until, (directory / "log").read_text()
        time.sleep(0.1)


def _found(directory: Path) -> dict[str, Any]:
    """The matches in the file, by id. Nothing stands there twice."""
    path = directory / "matches.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = {match.pop("id"): match for match in map(json.loads, lines)}
    assert len(found) == len(lines), "a match stands in the file twice"
    return found
