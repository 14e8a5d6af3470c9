"""A service as a process: start, kill, stop, request.

Starting Python and importing everything takes longer than most of what is tested here. So processes
are forked from one that has imported it all (multiprocessing's fork server), except where Spark is
wanted, or a command is to be run just as a user does.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import httpx

from tests.crash.launcher import Orders, forked
from tests.crash.points import Aim
from tests.ports import reserved_port
from tests.waiting import PATIENCE

_IMPORTED = [
    "pytest",
    "broker.cli.serve",
    "broker.cli.commands",
    "broker.service.service",
    "broker.service.api.app",
    "uvicorn",
    "uvloop",
    "broker.service.api.protocol",
    "uvicorn.lifespan.on",
    "tests.crash.launcher",
]
TOKEN = "crash-test"


@cache
def _forking() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def configuration(directory: Path, feeds: Iterable[str] = (), **sections: dict[str, Any]) -> Path:
    """A file of settings for a state in `directory`: everything is tried again soon, nothing is
    late."""
    merged: dict[str, dict[str, Any]] = {
        "server": {"port": reserved_port(), "token": TOKEN},
        "pipeline": {"kind": "local", "batch": 40},
        "time": {"lateness": "5 days", "idle": "300 days"},
        "feeds": {"urls": list(feeds), "interval": "1 s", "allow_private": True},
        "intake": {"min_free": "1 MB"},
        "delivery": {"allow_private": True, "schedule": ["5 ms"] * 3 + ["50 ms"] * 1000},
        "retention": {"identities": "1000 days"},
        "logs": {"format": "text"},
    }
    for name, section in sections.items():
        merged[name] = merged.get(name, {}) | section
    # TOML's strings, numbers, booleans and lists are JSON's.
    lines = [f"state = {json.dumps(str(directory / 'state'))}"]
    for name, section in merged.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    path = directory / "broker.toml"
    path.touch(0o600)  # it holds the token
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Served:
    """`broker serve` with a file of settings, again and again. `up` is set while it answers.

    `plain`: not forked, but started as a command. `slow`: by how much less often than otherwise
    feeds are fetched and upkeep is done.
    """

    def __init__(self, config: Path, *, plain: bool = False, slow: float = 1.0) -> None:
        self.config = config
        self.directory = config.parent
        self.state = self.directory / "state"
        self.log = self.directory / "log"
        self.told = self.directory / "told"
        self.notes = self.directory / "notes"
        self.plain = plain
        self.slow = slow
        self.up = threading.Event()
        self.over = False
        """Nobody will start it again."""
        text = config.read_text(encoding="utf-8")
        port = next(line for line in text.splitlines() if line.startswith("port = "))
        self.url = f"http://127.0.0.1:{port.removeprefix('port = ')}"
        self.http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE,
            verify=False,
        )
        self.pid = 0
        self._process: Any = None

    # -- starting --------------------------------------------------------------------------------

    def start(self, at: Aim | None = None, *options: str, **orders: Any) -> bool:
        """Start, with further options of the command, and wait until the service is up; False if it
        died before, as instructed."""
        orders = {"slow": self.slow} | orders
        self.launch(Orders(at, str(self.told), str(self.notes), **orders), *options)
        until = time.monotonic() + PATIENCE
        while not self._answers():
            if self.exited(0.01):
                if self.struck():
                    return False
                raise AssertionError(f"it did not start ({self.code()}):\n{self.tail()}")
            assert time.monotonic() < until, f"it does not answer:\n{self.tail()}"
        self.up.set()
        return True

    def launch(self, orders: Orders | None = None, *options: str) -> None:
        """Start, without waiting."""
        orders = orders or Orders()
        self.told.unlink(missing_ok=True)
        self.pid = 0
        arguments = ["serve", "--config", str(self.config), *options]
        if self.plain:
            command = [sys.executable, "-m", "tests.crash.launcher", orders.dumps(), *arguments]
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                )
        else:
            self._process = _forking().Process(
                target=forked, args=(arguments, orders, str(self.log), dict(os.environ))
            )
            self._process.start()
        self.pid = self._process.pid

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return self.http.get("/health/live", timeout=5.0).status_code == 200
        return False

    # -- ending ----------------------------------------------------------------------------------

    def struck(self) -> bool:
        """Whether the process has reached the point at which it dies."""
        return self.told.exists()

    def exited(self, timeout: float) -> bool:
        """Whether the process ends within a time."""
        if self.plain:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        else:
            self._process.join(timeout)
        return self.code() is not None

    def code(self) -> int | None:
        return self._process.returncode if self.plain else self._process.exitcode  # type: ignore[no-any-return]

    def kill(self) -> None:
        """Send SIGKILL to the process and all of its children."""
        self.up.clear()
        assert self.pid, "it was never started"
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        assert self.exited(PATIENCE)

    def terminate(self) -> None:
        self.up.clear()
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self.terminate()
        assert self.exited(PATIENCE), f"it does not stop:\n{self.tail()}"
        code = self.code()
        assert code is not None
        return code

    def close(self) -> None:
        """Leave nothing running."""
        self.over = True
        if self.pid and self.code() is None:
            self.kill()
        self.http.close()

    def tail(self, characters: int = 6_000) -> str:
        """The end of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return text[-characters:]

    # -- asking ----------------------------------------------------------------------------------

    def get(self, path: str, **params: Any) -> Any:
        """The JSON reply at an address."""
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, f"{answer.text}\n{self.tail()}"
        return answer.json()

    def matches(self) -> list[dict[str, Any]]:
        """The whole log."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["n"] if found else 0
            answer = self.http.get("/v1/matches", params={"after": after, "limit": 1_000})
            assert answer.status_code == 200, answer.text
            page = [json.loads(line) for line in answer.content.splitlines()]
            if not page:
                return found
            found += page
