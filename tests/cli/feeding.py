"""Runs `broker feeds` within the process of a test, on a state directory of its own."""

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
from feeds.preferences import PreferenceTable
from feeds.spool import Spool
from tests.feeds.data import atom, rss

NEWS = rss(*(f"<title>{n}</title><link>http://a.example/{n}</link>" for n in range(4)))
SAME = atom(
    *(f"<title>{n}</title><id>{n}</id><link href='http://a.example/{n}'/>" for n in range(4))
)
NO_NEWS = "what feeds show now is no news, what comes later is (for more: --since)\n"
"""What is said when feeds are added without --since."""


def broker(*args: object) -> subprocess.CompletedProcess[str]:
    """The command within this process, which takes a tenth of the time."""
    command = ["broker", *map(str, args)]
    out, err = io.BytesIO(), io.BytesIO()
    # Held, because the command wraps them anew, and one that is let go closes what it wraps.
    shown, told = (io.TextIOWrapper(each, "utf-8", write_through=True) for each in (out, err))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", command)
        patch.setattr(sys, "stdout", shown)
        patch.setattr(sys, "stderr", told)
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(
            command, int(end.value.code or 0), out.getvalue().decode(), err.getvalue().decode()
        )


class Broker:
    """`broker feeds` with a state directory. The sites of the tests are on this machine, so
    commands that add feeds say that they may be, unless a test asks otherwise."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(
        self, command: str, *args: object, private: bool = True
    ) -> subprocess.CompletedProcess[str]:
        if private and command in ("add", "import", "discover"):
            args += ("--allow-private",)
        return broker("feeds", command, *args, "--state", self.state)

    def listed(self) -> list[dict[str, object]]:
        done = self("list", "--format", "jsonl")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def poll(self, interval: float | None = None) -> None:
        path = self.state / "spool.sqlite"
        with (
            Spool(path) as spool,
            PreferenceTable(path) as said,
            Fetcher(allow_private=True) as fetcher,
        ):
            exact = interval is not None
            poller = Poller(
                spool, fetcher, interval=interval or 900.0, exact=exact, terms=said.terms
            )
            poller.fetch_wave()
