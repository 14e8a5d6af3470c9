"""Files of pairs: the input of a pass, and its output.

    # why this pair is here
    S // blog AS x
    =>
    S//blog->x

A pair ends with an empty line. What stands behind the arrow is written by `pytest tests/passes
--rewrite`, so to add a pair takes its input and the arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

_ARROW = "=>"


@dataclass(frozen=True, slots=True)
class Pair:
    """`remarks` are the lines above it, with their `#`."""

    remarks: tuple[str, ...]
    before: str
    after: str


def read(path: Path) -> Iterator[Pair]:
    """Raises ValueError for what is no pair, with its place. A paragraph of remarks is a pair of
    nothing."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for blank, group in groupby(enumerate(lines, 1), key=lambda line: not line[1].strip()):
        if not blank:
            numbered = list(group)
            yield _pair([text for _, text in numbered], f"{path}:{numbered[0][0]}")


def _pair(lines: list[str], place: str) -> Pair:
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    remarks, rest = tuple(lines[:count]), lines[count:]
    if not rest:
        return Pair(remarks, "", "")
    if _ARROW not in rest or rest[0] == _ARROW:
        raise ValueError(f"{place}: a pair is lines, a line with {_ARROW}, and lines")
    at = rest.index(_ARROW)
    return Pair(remarks, "\n".join(rest[:at]), "\n".join(rest[at + 1 :]))


def renewed(pairs: Iterator[Pair], render: Callable[[str], str]) -> str:
    """The text of the file, with what comes out now."""
    paragraphs = []
    for pair in pairs:
        lines = [*pair.remarks]
        if pair.before:
            after = render(pair.before).rstrip("\n")
            assert not any(not line.strip() for line in after.splitlines()), (
                "an empty line ends a pair"
            )
            lines += [pair.before, _ARROW, after]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"
