"""The outline of a document: which label paths it has.

In: label paths of a document (`xscl/stage1/paths.py` finds them). Out: its `Outline`, the DataGuide
of one document (Goldman and Widom, VLDB 1997). Whoever counts documents by outline therefore knows
for each label path exactly how many documents have it.

An outline names at most `MOST` paths; a document with more, or with deeper or longer ones, has the
path `REST` for all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

MOST = 256
"""Label paths that an outline names."""

REST = ""
"""The path that stands for all label paths that an outline does not name."""

DEEPEST = 32
"""Elements in a label path that is named."""
LONGEST = 300
"""Characters of a label path that is named."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The label paths that a document has, in order of their texts: `/item/title`, by local names.
    The `id` is a hash of them (64 bits, not 0), the same in every process."""

    id: int
    paths: tuple[str, ...]


def make(paths: Iterable[str]) -> Outline:
    """The outline with these label paths."""
    ordered = (*sorted({*paths}),)
    return Outline(xxh3_64_intdigest("\n".join(ordered).encode()) or 1, ordered)
