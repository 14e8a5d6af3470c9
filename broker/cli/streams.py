"""Standard input, output and error as the commands need them, whatever they were started with."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO


class Messages(TextIOWrapper):
    """Standard error. Where nobody reads it any more, or its disk is full, messages are dropped and
    the command goes on: that messages cannot be shown does not make its work fail."""

    under: TextIO
    """The stream itself, which closes what is under it when it goes."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def prepare() -> None:
    """Make the three streams such that commands need not ask what they are.

    One that is closed is there and cannot be used (but for messages, which go nowhere): else the
    next file that is opened would get its number, and what is printed would stand in that file.
    What is no terminal gets UTF-8, which is what JSON, XML and query files are; on one that lacks
    characters they are shown as escapes.
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
    """Nothing more can be written there, not even what is left in the buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
