"""Runs commands on a real terminal: a pseudo-terminal owned by a shell and its commands, with its
screen.

What is typed goes through the terminal's line discipline, so Ctrl-C reaches all that runs in the
foreground, as it does for a person.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyte

from tests.cli.serving import environment
from tests.command import Command

CTRL_C = "\x03"
CTRL_D = "\x04"
PATIENCE = 300.0
"""Seconds within which what a test waits for must come about."""

BROKER = str(Path(sys.executable).with_name("broker"))


@dataclass(frozen=True)
class Ended:
    """What is left of a command: its exit code, and the lines that a person sees."""

    code: int
    lines: list[str]
    raw: str

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Terminal:
    """A command on a terminal of its own: a shell's command line, or the arguments of `broker`,
    which is then forked (tests/command.py). `raw` is all that was written to it so far."""

    def __init__(
        self,
        line: str | Sequence[str],
        *,
        cwd: Path | None = None,
        columns: int = 100,
        rows: int = 40,
        **variables: str,
    ) -> None:
        self.raw = b""
        self._shown = 0
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        wanted = environment() | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            wanted.pop(name, None)
        self.process: subprocess.Popen[bytes] | Command
        with os.fdopen(slave, "rb") as own:
            if isinstance(line, str):
                self.process = subprocess.Popen(
                    ["bash", "-c", line],
                    stdin=own,
                    stdout=own,
                    stderr=own,
                    cwd=cwd,
                    env=wanted | variables,
                    start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
                )
            else:
                self.process = Command(
                    line,
                    stdin=own,
                    stdout=own,
                    stderr=own,
                    cwd=cwd,
                    env=wanted | variables,
                    start_new_session=True,
                )

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, *words: str) -> str:
        """What was written once these words are there, in any order. Fails if it ends before."""
        end = time.monotonic() + PATIENCE
        while not all(word.encode() in self.raw for word in words):
            assert time.monotonic() < end, f"{words} did not come:\n{self.text}"
            assert self._read(0.5), f"ended before {words}:\n{self.text}"
        return self.raw.decode("utf-8", "replace")

    def ended(self, pressing: str = "") -> Ended:
        """Wait for the end, of all that holds the terminal. A key may be pressed again meanwhile, as
        people do: a signal between a prompt and the read behind it is noticed with the next key."""
        end = time.monotonic() + PATIENCE
        before = len(self.raw)
        while self._read(0.5):
            assert time.monotonic() < end, f"did not end:\n{self.text}"
            if pressing and len(self.raw) == before:
                self.type(pressing)
            before = len(self.raw)
        code = self.process.wait(timeout=PATIENCE)
        return Ended(code, self.lines, self.raw.decode("utf-8", "replace"))

    @property
    def lines(self) -> list[str]:
        """The lines of the screen and those that scrolled off it, without empty ones at the end."""
        self._show()
        above = [self._line(line) for line in self._screen.history.top]
        shown = [*above, *(line.rstrip() for line in self._screen.display)]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def cursor_is_hidden(self) -> bool:
        self._show()
        return bool(self._screen.cursor.hidden)

    def _show(self) -> None:
        self._stream.feed(self.raw[self._shown :])
        self._shown = len(self.raw)

    def _line(self, cells: dict[int, pyte.screens.Char]) -> str:
        return "".join(cells[at].data for at in range(self._screen.columns)).rstrip()

    def _read(self, seconds: float) -> bool:
        """Take what was written within that time; False once nobody holds the terminal any more."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux says EIO where all ends of the other side are closed
            return False
        self.raw += data
        return bool(data)

    def close(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)


@contextmanager
def terminal(
    line: str | Sequence[str],
    *,
    cwd: Path | None = None,
    columns: int = 100,
    rows: int = 40,
    **variables: str,
) -> Iterator[Terminal]:
    """Start a command on a terminal; however the block ends, nothing of it is left running."""
    started = Terminal(line, cwd=cwd, columns=columns, rows=rows, **variables)
    try:
        yield started
    finally:
        started.close()


def typed(
    line: str | Sequence[str],
    *,
    cwd: Path | None = None,
    columns: int = 100,
    rows: int = 40,
    **variables: str,
) -> Ended:
    """A command on a terminal, to its end."""
    with terminal(line, cwd=cwd, columns=columns, rows=rows, **variables) as started:
        return started.ended()
