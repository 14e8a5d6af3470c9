"""How far each source was read, kept beside the engine's file.

A hint only: the engine drops a document that it has. So a line that is lost costs some reading, and
a line that says more than the engine has is left out: an engine restored from a copy, say, gets
again what it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.local.sources import Source

FILE = "positions.jsonl"
"""In a state directory."""


class Positions:
    """The positions in `directory`. `documents`: the number that the engine gives its next
    document. Lines: `{"source": key, "documents": …, "read": …}`."""

    def __init__(self, directory: Path, documents: int) -> None:
        self._path = directory / FILE
        self._kept = [line for line in self._lines() if line["documents"] <= documents]

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                found = json.loads(line)
                if {"source", "documents", "read"} <= found.keys():
                    yield found
            except (ValueError, AttributeError):
                continue  # torn by a crash: what it said is read again

    def resume(self, sources: list[Source]) -> None:
        """Let each source go on where it was, and write the file anew with what counts."""
        by_key = {source.key: source for source in sources}
        for line in self._kept:
            if line["source"] in by_key:
                by_key[line["source"]].resume(line["read"])
        growing = self._path.with_suffix(".new")
        with growing.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in _compact(self._kept))
        growing.replace(self._path)

    def read(self, source: Source, position: Any, documents: int) -> None:
        """Keep that a source was read so far by the engine, whose next document has that number."""
        line = {"source": source.key, "documents": documents, "read": position}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _compact(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with one line for each source: files that were read add up, of offsets the last one
    counts."""
    compact: dict[str, dict[str, Any]] = {}
    for line in lines:
        before = compact.get(line["source"])
        if before is not None and isinstance(line["read"], list):
            line = line | {"read": before["read"] + line["read"]}
        compact[line["source"]] = line
    return list(compact.values())
