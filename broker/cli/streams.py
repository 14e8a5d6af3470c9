"""Prepares standard input, output and error, whatever the process was started with."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO


class Messages(TextIOWrapper):
    """Standard error. If it cannot be written (a closed pipe, a full disk), messages are dropped
    and the command goes on with its work."""

    under: TextIO
    """The original stream, referenced because it would close its file when it is collected."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare() -> None:
    """Replace the three streams by ones that commands can use without further checks.

    A closed stream is replaced by one that fails, or drops messages: otherwise the next file that
    is opened would get its number, and output would go into that file. Streams other than terminals
    use UTF-8, like JSON, XML and query files; characters that a terminal lacks are escaped.
    """
    for number, way in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):
            _open_as(number, way)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (as Python leaves its own)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    under = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    sys.stderr = Messages(
        under.buffer, under.encoding, errors="backslashreplace", line_buffering=True
    )
    sys.stderr.under = under
    if isinstance(sys.stdout, TextIOWrapper):
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def _is_open(number: int) -> bool:
    with suppress(OSError):
        os.fstat(number)
        return True
    return False


def _open_as(number: int, way: int) -> None:
    opened = os.open(os.devnull, way)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    os.set_inheritable(number, True)


def forget_output() -> None:
    """Discard standard output, including what is left in the buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
