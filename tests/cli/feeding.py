"""`broker feeds` within the process of a test, over a state directory of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.cli import main
from feeds.fetch import Fetcher
from feeds.poll import Poller
from feeds.spool import Spool


def broker(*args: object) -> subprocess.CompletedProcess[str]:
    """The command within this process, which takes a tenth of the time."""
    command = ["broker", *map(str, args)]
    out, err = io.BytesIO(), io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command)
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8", write_through=True))
        patch.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8", write_through=True))
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(
            command, int(end.value.code or 0), out.getvalue().decode(), err.getvalue().decode()
        )


class Broker:
    """`broker feeds` with a state directory."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(self, command: str, *args: object) -> subprocess.CompletedProcess[str]:
        return broker("feeds", command, *args, "--state", self.state)

    def listed(self) -> list[dict[str, object]]:
        done = self("list", "--format", "jsonl")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def poll(self) -> None:
        with Spool(self.state / "spool.sqlite") as spool, Fetcher(allow_private=True) as fetcher:
            Poller(spool, fetcher).wave()
