"""The output of commands that run a pipeline themselves: a file, or standard output."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

import xscl
from broker.cli.match_formats import HEADERS, MATCH_FORMATS, format_option_of
from broker.cli.on_terminal import Screen, headings, is_terminal
from broker.cli.shared import Failed
from broker.cli.signals import held
from broker.model import Match
from broker.state.append import append, at_end
from broker.text.formats import ReaderGone, output_is_closed

if TYPE_CHECKING:
    from broker.broker import Broker

format_option = format_option_of(
    "jsonl",
    "JSON lines, result documents, for people, CSV with a header, or a line of a table each.",
)
out_option = click.option(
    "--out",
    default="-",
    show_default="standard output",
    metavar="FILE",
    help="Append the matches to a file.",
)


class Output:
    """Writes matches to a file (appended) or standard output, flushed per batch.

    A regular file is also synced, even if it is standard output: once `write` has returned, its
    matches are delivered. Terminals, pipes and devices cannot be synced. Raises OSError if the
    matches cannot be written.
    """

    def __init__(self, path: str, form: str, headings: Mapping[str, str] | None = None) -> None:
        self._format = MATCH_FORMATS[form]
        self._header = HEADERS.get(form)
        if path == "-" and form == "text" and is_terminal(sys.stdout):
            self._format = Screen(headings or {})
        self._path = Path(path)
        self._stream: TextIO | None = None
        self._state: dict[str, int] = {}
        self.written = 0
        if path == "-":
            self._stream = sys.stdout
            if self._header is not None:
                _write(self._stream, [self._header + "\n"])
                self._header = None
        elif self._path.exists() and not self._path.is_file():
            self._stream = self._path.open("a", encoding="utf-8")
        else:
            self._state = at_end(self._path)
            if self._path.exists() and self._path.stat().st_size:
                self._header = None  # the file has one already

    @property
    def is_file(self) -> bool:
        return self._stream is None or _is_regular(self._stream)

    def write(self, matches: Sequence[Match]) -> None:
        if not matches:
            return
        lines = [self._format(match) + "\n" for match in matches]
        if self._header is not None:
            lines.insert(0, self._header + "\n")
        if self._stream is None:
            encoded = [line.encode("utf-8", "backslashreplace") for line in lines]
            _, self._state = append(self._path, encoded, self._state)
        else:
            _write(self._stream, lines)
        self._header = None
        self.written += len(matches)

    def write_lines(self, lines: Sequence[bytes]) -> None:
        """Write matches that are in the format already, which has no header."""
        if self._stream is None:
            _, self._state = append(self._path, lines, self._state)
        else:
            _write(self._stream, [b"".join(lines).decode("utf-8", "backslashreplace")])
        self.written += len(lines)

    def close(self) -> None:
        if self._stream is not None and self._stream is not sys.stdout:
            self._stream.close()


class Delivery:
    """Writes matches to the output, and acknowledges them to the broker."""

    def __init__(
        self, broker: Broker, out: str, form: str, files: Sequence[xscl.ast.File] = ()
    ) -> None:
        self.broker = broker
        self.name = "standard output" if out == "-" else f"--out {out}"
        if out == "-" and output_is_closed():
            raise Failed("standard output is closed; give --out FILE")
        try:
            self.output = Output(out, form, headings(files))
        except OSError as error:
            raise Failed(f"--out {out}: {error.strerror}") from None

    def pending(self) -> None:
        """Deliver the matches that an earlier run found and could not deliver."""
        while matches := self.broker.undelivered():
            self(matches)

    def __call__(self, matches: list[Match]) -> None:
        with ExitStack() as stack:
            # What is in a file is acknowledged, or a next run would write it again. A terminal or a
            # pipe may take nothing for ever, so that a signal has to end the writing.
            if self.output.is_file:
                stack.enter_context(held())
            try:
                self.output.write(matches)
            except OSError as error:
                raise Failed(
                    f"{self.name}: {error.strerror}; with --state, what was found is delivered by "
                    "the next run"
                ) from None
            stack.enter_context(held())
            self.broker.acknowledge(matches)

    def text(self, lines: list[bytes]) -> None:
        """Write matches that are in the format already; who gives them acknowledges them."""
        with held() if self.output.is_file else nullcontext():
            try:
                self.output.write_lines(lines)
            except OSError as error:
                raise Failed(f"{self.name}: {error.strerror}") from None


def _write(stream: TextIO, lines: Sequence[str]) -> None:
    try:
        stream.writelines(lines)
        stream.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    if _is_regular(stream):
        os.fsync(stream.fileno())


def _is_regular(file: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, io.UnsupportedOperation):  # not a file: a buffer in memory
        return False
