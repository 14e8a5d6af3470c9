"""The values of a sample of documents: by label path, how many differ, which are frequent.

In: parsed documents. Out: for each label path of elements that hold no others, and of attributes,
the values and the documents that have them, by their codes as stage 1 makes them. All is bounded:
what is beyond a bound is counted in `left_out`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lxml import etree

from xscl.stage1.document import attributes, value_code
from xscl.stage1.outlines import DEEPEST, LONGEST, MOST

_OF_DOCUMENT = 2_000
"""Elements and attributes that are read of one document."""
_SHOWN = 60
"""Characters of a value that is shown."""


@dataclass(slots=True)
class PathValues:
    """The values at one label path of the sample. `docs` has the documents of each value, by its
    code, each once; `shown` some of the values as texts, by their codes, those that came first."""

    documents: int = 0
    nodes: int = 0
    docs: dict[int, list[int]] = field(default_factory=dict)
    shown: dict[int, str] = field(default_factory=dict)
    last: int = -1

    def add(self, doc: int, text: str | None) -> None:
        """Count a node of a document; `text` is its value if it has one that joins could use."""
        self.nodes += 1
        if self.last != doc:
            self.last = doc
            self.documents += 1
        if not text:
            return
        code = value_code(text)
        having = self.docs.setdefault(code, [])
        if not having or having[-1] != doc:
            having.append(doc)
        if code not in self.shown:
            self.shown[code] = shortened(text)

    def frequent(self, most: int) -> list[tuple[str, int]]:
        """The values that the most documents have, each with how many of the sample; of equally
        frequent ones the first."""
        ordered = sorted(self.docs.items(), key=lambda each: -len(each[1]))
        return [(self.shown[code], len(docs)) for code, docs in ordered[:most]]


@dataclass(slots=True)
class SampleValues:
    """The values of a sample of documents, by label path."""

    documents: int = 0
    paths: dict[str, PathValues] = field(default_factory=dict)
    left_out: int = 0
    """Nodes that were not read: of documents with too many, or at too many label paths."""

    def add(self, doc: int, root: etree._Element) -> None:
        """Read a document, given with its number."""
        self.documents += 1
        for count, (path, text) in enumerate(_nodes(root)):
            known = self.paths.get(path)
            if count >= _OF_DOCUMENT or (known is None and len(self.paths) >= MOST):
                self.left_out += 1
                if count >= _OF_DOCUMENT:
                    break
                continue
            if known is None:
                known = self.paths[path] = PathValues()
            known.add(doc, text)


def _nodes(root: etree._Element) -> Iterator[tuple[str, str | None]]:
    """The elements and attributes of a document, in document order: label path, and value if it is
    a leaf. What is too deep, or has too long a path, is not there."""
    waiting: list[tuple[etree._Element, str, int]] = [(root, "", 0)]
    while waiting:
        element, above, depth = waiting.pop()
        tag = element.tag
        if not isinstance(tag, str) or depth >= DEEPEST:
            continue
        path = f"{above}/{_local(tag)}"
        if len(path) > LONGEST:
            continue
        inner = len(element)
        yield path, None if inner else (element.text or "").strip()
        for name, value in attributes(element):
            yield f"{path}/@{_local(name)}", value
        if inner:
            waiting += [(child, path, depth + 1) for child in reversed(element)]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def shortened(text: str) -> str:
    """A value as it is shown: on one line, and not too long."""
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def values_of(documents: Iterable[tuple[int, etree._Element]]) -> SampleValues:
    """The values of parsed documents, each given with its number."""
    found = SampleValues()
    for doc, root in documents:
        found.add(doc, root)
    return found
