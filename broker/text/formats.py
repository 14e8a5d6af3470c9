"""Matches as text: JSON lines, XML documents, or paragraphs for people."""

from __future__ import annotations

import fcntl
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from broker.model import Match
from broker.text.people import as_text


def as_jsonl(match: Match) -> str:
    """One line of JSON."""
    return json.dumps(match.to_json(), ensure_ascii=False)


def as_xml(match: Match) -> str:
    """The result document."""
    return match.result


FORMATS: dict[str, Callable[[Match], str]] = {"jsonl": as_jsonl, "xml": as_xml, "text": as_text}


class ReaderGone(Exception):
    """Who read standard output has closed it; what was not acknowledged is delivered next time."""


def _ends_with_newline(path: Path) -> bool:
    """Whether a file ends with a whole line; one that is empty or not there does."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def output_is_closed() -> bool:
    """Whether there is no standard output that can be written."""
    if sys.stdout is None:
        return True
    try:
        return fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, io.UnsupportedOperation):
        return False


def _is_regular(file: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, io.UnsupportedOperation):  # no file at all: a buffer in memory
        return False


class Output:
    """Writes matches to a file (appended) or standard output, flushed per batch.

    What is a file on a disk is synced as well, standard output too: what `write` returned for is
    delivered. Terminals, pipes and devices cannot be synced.
    """

    def __init__(self, path: str, form: str) -> None:
        self._format = FORMATS[form]
        self._file: TextIO = sys.stdout
        self._opened = path != "-"
        if self._opened:
            torn = not _ends_with_newline(Path(path))
            self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 (see close)
            if torn:
                # A write that was cut off: what is delivered again goes on a line of its own.
                self._file.write("\n")
        self._on_disk = _is_regular(self._file)
        self.written = 0

    def write(self, matches: Sequence[Match]) -> None:
        if not matches:
            return
        try:
            self._file.writelines(self._format(match) + "\n" for match in matches)
            self._file.flush()
        except BrokenPipeError:
            raise ReaderGone from None
        if self._on_disk:
            os.fsync(self._file.fileno())
        self.written += len(matches)

    def close(self) -> None:
        if self._opened:
            self._file.close()
