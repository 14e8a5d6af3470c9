"""Matches as text: JSON lines, XML documents, or paragraphs for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from broker.model import Match, iso_time


def as_jsonl(match: Match) -> str:
    """One line of JSON."""
    return json.dumps(match.to_json(), ensure_ascii=False)


def as_xml(match: Match) -> str:
    """The result document."""
    return match.result


def as_text(match: Match) -> str:
    """A paragraph: the query, its documents, and the values by which they belong together."""
    when = iso_time(match.end)
    lines = [f"{match.query}  {when}" + (f"  -> {match.stream}" if match.stream else "")]
    lines += [f"    {d.stream}  {iso_time(d.timestamp)}  {d.id}" for d in match.documents]
    for variable, texts in match.values.items():
        shown = "; ".join(_shorten(text) for text in texts)
        lines.append(f"    {variable} = {shown}")
    return "\n".join(lines) + "\n"


def _shorten(text: str, limit: int = 120) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


FORMATS: dict[str, Callable[[Match], str]] = {"jsonl": as_jsonl, "xml": as_xml, "text": as_text}


class Output:
    """Writes matches to a file (appended) or standard output, flushed per batch.

    A file is synced to disk as well: what `write` returned for is delivered.
    """

    def __init__(self, path: str, form: str) -> None:
        self._format = FORMATS[form]
        self._file: TextIO = sys.stdout
        if path != "-":
            self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 (see close)
        self.written = 0

    def write(self, matches: Sequence[Match]) -> None:
        if not matches:
            return
        self._file.writelines(self._format(match) + "\n" for match in matches)
        self._file.flush()
        if self._file is not sys.stdout:
            os.fsync(self._file.fileno())
        self.written += len(matches)

    def close(self) -> None:
        if self._file is not sys.stdout:
            self._file.close()
