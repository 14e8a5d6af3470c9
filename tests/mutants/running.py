"""Runs tests in a copy of the project in which one mutant at a time is applied."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.mutants.operators import Mutant

ROOT = Path(__file__).parents[2]
_OURS = ("broker", "feeds", "xscl", "tests", "bench")
_IMPORTED = (
    *("duckdb", "pyarrow", "numpy", "lxml.etree", "httpx", "feedparser", "fastapi", "uvicorn"),
    *("pydantic_settings", "hypothesis", "aiosmtplib", "dateutil.parser", "rich.console"),
    *("structlog", "click", "prometheus_client", "elementpath", "xxhash", "re2", "brotli"),
)
"""Libraries that are imported once, for all the processes that are forked for mutants."""
_MEMORY = 6 << 30
"""Bytes that a mutant may take: one that loops may collect without end."""
_PATIENCE = 20.0
"""Seconds that tests may take beyond many times what they took without a mutant."""


class Copy:
    """What git knows of the project, or would if it was added, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        result = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True)
        for name in filter(None, result.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._time = int(time.time())
        for name in _IMPORTED:
            importlib.import_module(name)

    @contextlib.contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        place = self.folder / mutant.path
        source = place.read_bytes()
        self._write(place, mutant.text(source))
        try:
            yield
        finally:
            self._write(place, source)

    def _write(self, place: Path, text: bytes) -> None:
        """With a time that no version of it had: by that Python knows compiled files for old."""
        self._time += 1
        place.write_bytes(text)
        os.utime(place, (self._time, self._time))

    def run(self, tests: Sequence[str], *, seconds: float, first: bool = True) -> str:
        """What fails of these tests, which took so long without a mutant, up to the first: an empty
        text if they all pass. `first=False` lets them all run."""
        order = self.folder.with_suffix(".order")
        order.write_text("\n".join(tests), encoding="utf-8")
        arguments = ["-p", "no:cacheprovider", "-p", "tests.mutants.plugin", "--tb=no", "-rfE"]
        code, output = self.pytest(
            [*arguments, *(["-x"] if first else []), f"@{order}"],
            {"MUTANTS_ORDER": str(order)},
            _PATIENCE + 10 * seconds,
        )
        if code == 0:
            return ""
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output)
        return "\n".join(failed) or ("it hangs" if code is None else f"pytest ends with {code}")

    def pytest(
        self, arguments: Sequence[str], environment: Mapping[str, str], limit: float
    ) -> tuple[int | None, str]:
        """Its exit code, or none when the seconds are over, and what it writes. It runs in a fork of
        this process, which has imported the libraries; our own modules are those of the copy."""
        log = self.folder.with_suffix(".log")
        child = os.fork()
        if not child:
            try:
                os._exit(self._in_child(arguments, environment, log))
            finally:
                os._exit(70)
        code = None
        try:
            code = _wait(child, time.monotonic() + limit)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # it, or what it left behind
            if code is None:
                os.waitpid(child, 0)
        return code, log.read_text(encoding="utf-8", errors="replace")

    def _in_child(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(written, stream)
        os.chdir(self.folder)
        os.environ |= {**environment, "PYTHONPATH": str(self.folder)}
        sys.path.insert(0, str(self.folder))
        for name in [name for name in sys.modules if name.split(".")[0] in _OURS]:
            del sys.modules[name]
        code = int(pytest.main(list(arguments)))
        sys.stdout.flush()
        return code


def _wait(child: int, deadline: float) -> int | None:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return abs(os.waitstatus_to_exitcode(status))
        if time.monotonic() > deadline:
            return None
        time.sleep(0.02)
