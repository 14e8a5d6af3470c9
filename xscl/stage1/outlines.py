"""The outlines of documents: which label paths a document has, known without counting its nodes.

In: the tags of a document's elements, in document order, as the walk of stage 1 reads them anyway.
Out: its `Outline`, the DataGuide of one document (Goldman and Widom, VLDB 1997). Documents of one
kind have few outlines, so an outline is found by one hash of the tags; only tags in an order that
was not met before are taken apart. Whoever counts documents by outline therefore knows for each
label path exactly how many documents have it.

Everything here is bounded. An outline names at most `MOST` paths; a document with more, or with
deeper or longer ones, has the path `REST` for all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    # Imported with the definitions of edges, by commands that read no document.
    from lxml import etree

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
_KNOWN = 20_000
"""Orders of tags in memory."""
_HELD = 500_000
"""Paths of the outlines in memory, all together."""

Tags = list[object]
"""The tags of all elements in document order, each followed by the number of its children if it has
any; comments and processing instructions count, as the functions that lxml gives for their tags.
`BLOCK_OF_TAGS` is followed by `BLOCK` tags, and then by as many numbers of children."""

BLOCK = 64
BLOCK_OF_TAGS = None


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


class Outlines:
    """The outlines of the documents that a process has met."""

    def __init__(self) -> None:
        self._known: dict[int, Outline] = {}
        """By the hash of the tags, which Python seeds anew in each process."""
        self._held = 0
        self._top = _Path("", 0)
        self._nodes = 0

    def of(self, root: etree._Element) -> Outline:
        """The outline of a document."""
        return self.find(_tags(root))

    def find(self, tags: Tags) -> Outline:
        """The outline of a document with these tags."""
        key = hash((*tags,))
        found = self._known.get(key)
        if found is None:
            found = make(self._paths(tags))
            self._held += len(found.paths)
            if len(self._known) >= _KNOWN or self._held > _HELD:
                self._known.clear()
                self._held = len(found.paths)
            self._known[key] = found
        return found

    def _paths(self, tags: Tags) -> Iterable[str]:
        """The label paths of these tags, at most `MOST` and `REST`."""
        if self._nodes > _NODES:
            self._top, self._nodes = _Path("", 0), 0
        seen: dict[_Path, None] = {}
        waiting: list[tuple[_Path, int]] = []
        above, left, last = self._top, 1, self._top
        for each in _singly(tags):
            if each.__class__ is int:
                waiting.append((above, left))
                above, left = last, each
                continue
            while not left:
                above, left = waiting.pop()
            left -= 1
            last = above.below.get(each) or self._new(above, each, len(seen))
            seen[last] = None
        names = [path.name for path in seen if path.name is not None and path is not _OTHER]
        if len(names) > MOST or _OTHER in seen:
            return (*names[:MOST], REST)
        return names

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
        self._nodes += 1
        return made


def _singly(tags: Tags) -> Iterator[object]:
    """The same tags without blocks."""
    every = iter(tags)
    for each in every:
        if each is not BLOCK_OF_TAGS:
            yield each
            continue
        some = [*islice(every, BLOCK)]
        for tag, inner in zip(some, islice(every, BLOCK), strict=True):
            yield tag
            if inner:
                yield inner


def make(paths: Iterable[str]) -> Outline:
    """The outline with these label paths."""
    ordered = (*sorted({*paths}),)
    return Outline(xxh3_64_intdigest("\n".join(ordered).encode()) or 1, ordered)


def _tags(root: etree._Element) -> Tags:
    """The tags of a document that no walk reads."""
    tags: Tags = []
    for element in root.iter():
        tags.append(element.tag)
        inner = len(element)
        if inner:
            tags.append(inner)
    return tags
