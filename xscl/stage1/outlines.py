"""The outline of a document: which label paths it has.

In: the tags of a document's elements and their numbers of children, in document order. Out: its
`Outline`, the DataGuide of one document (Goldman and Widom, VLDB 1997). Whoever counts documents by
outline therefore knows for each label path exactly how many documents have it.

Everything here is bounded. An outline names at most `MOST` paths; a document with more, or with
deeper or longer ones, has the path `REST` for all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
_NODES = 20_000
"""Label paths in memory."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The label paths that a document has, in order of their texts: `/item/title`, by local names.
    The `id` is a hash of them (64 bits, not 0), the same in every process."""

    id: int
    paths: tuple[str, ...]


class _Path:
    """A label path and those below it. `name` is None where there is no element."""

    __slots__ = ("below", "depth", "name")

    def __init__(self, name: str | None, depth: int) -> None:
        self.name = name
        self.depth = depth
        self.below: dict[object, _Path] = {}


_NO_ELEMENT = _Path(None, 0)
_OTHER = _Path(REST, 0)


class LabelPaths:
    """The label paths that a process has met, from which outlines are made."""

    def __init__(self) -> None:
        self._top = _Path("", 0)
        self.count = 0

    def outline(self, tags: Sequence[object], children: Sequence[int]) -> Outline:
        """The outline of a document whose elements have these tags and numbers of children.
        Comments and processing instructions are among them, with tags that are no strings."""
        if self.count > _NODES:
            self._top, self.count = _Path("", 0), 0
        seen: dict[_Path, None] = {}
        waiting: list[tuple[_Path, int]] = []
        above, left = self._top, 1
        for tag, inner in zip(tags, children, strict=True):
            while not left:
                above, left = waiting.pop()
            left -= 1
            path = above.below.get(tag) or self._new(above, tag, len(seen))
            seen[path] = None
            if inner:
                waiting.append((above, left))
                above, left = path, inner
        names = [path.name for path in seen if path.name is not None and path is not _OTHER]
        if len(names) > MOST or _OTHER in seen:
            names = [*names[:MOST], REST]
        return make(names)

    def _new(self, above: _Path, tag: object, seen: int) -> _Path:
        """The path of a child that was not met before. Those that are not named have no paths of
        their own, so hostile names cost nothing but the look at them."""
        if not isinstance(tag, str):
            return _NO_ELEMENT
        if above is _OTHER or seen >= MOST or above.depth >= DEEPEST:
            return _OTHER
        name = f"{above.name}/{tag.rpartition('}')[2]}"
        if len(name) > LONGEST:
            return _OTHER
        made = above.below[tag] = _Path(name, above.depth + 1)
        self.count += 1
        return made


def make(paths: Iterable[str]) -> Outline:
    """The outline with these label paths."""
    ordered = (*sorted({*paths}),)
    return Outline(xxh3_64_intdigest("\n".join(ordered).encode()) or 1, ordered)
