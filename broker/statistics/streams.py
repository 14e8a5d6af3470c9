"""The catalogue of streams: which label paths their documents have, how often, with which values.

In: the stored documents. Out: for each stream how many there are and since when, and for each label
path how many documents have it, with a few values. Each call reads what is committed, over a
connection of its own, so it may be used by any thread and no batch waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from broker.state.store import Store
from broker.state.stream_counts import Sampled, StreamCount, StreamCounts
from broker.statistics.model import PathSeen, StreamSeen
from broker.statistics.values import PathValues, SampleValues, values_of
from xscl.stage1.document import DocumentError, parse_document
from xscl.stage1.outlines import REST

SAMPLE = 1_000
"""Documents of a stream whose values are read."""

_BYTES = 32_000_000
"""Bytes of documents whose values are read."""


class StreamCatalogue:
    """What is known of the streams of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def streams(self) -> list[StreamCount]:
        """The streams that have stored documents, by name."""
        with self._store.snapshot() as statements:
            return StreamCounts(statements).streams()

    def paths(self, stream: str) -> dict[str, int]:
        """The label paths of elements, each with the exact number of documents that have it;
        empty for a stream without documents."""
        with self._store.snapshot() as statements:
            found = StreamCounts(statements).paths(stream)
        found.pop(REST, None)
        return found

    def stream(self, name: str, *, values: int = 3, sample: int = SAMPLE) -> StreamSeen | None:
        """All that is known of a stream, None if it has no stored documents. At most `values`
        values of each path, read from at most `sample` documents."""
        with self._store.snapshot() as statements:
            counts = StreamCounts(statements)
            count = counts.stream(name)
            if count is None:
                return None
            exact = counts.paths(name)
            documents = counts.sample(name, sample)
        cut = exact.pop(REST, 0)
        found = values_of(parsed(documents))
        paths = [_seen(path, n, True, found, values) for path, n in exact.items()]
        whole = found.documents == count.documents and not found.left_out
        for path in found.paths.keys() - exact.keys():
            n = found.paths[path].documents
            if not whole:
                n = max(n, round(n * count.documents / max(1, found.documents)))
            paths.append(_seen(path, n, whole, found, values))
        paths.sort(key=lambda each: each.path)
        size = sum(len(each.xml) for each in documents) / max(1, len(documents))
        return StreamSeen(*count, found.documents, cut, size, (*paths,))

    def sample(self, stream: str, most: int = SAMPLE) -> list[Sampled]:
        """Stored documents of a stream, chosen by the hash of their identity."""
        with self._store.snapshot() as statements:
            return StreamCounts(statements).sample(stream, most)

    def near(self, stream: str, time: int, most: int) -> list[Sampled]:
        """The stored documents of a stream that end nearest to a time, in microseconds."""
        with self._store.snapshot() as statements:
            return StreamCounts(statements).near(stream, time, most)

    def named(self, id: str) -> list[Sampled]:
        """The stored documents of an id, of whatever source; the last that came first."""
        with self._store.snapshot() as statements:
            return StreamCounts(statements).named(id)


_NOTHING = PathValues()


def _seen(path: str, documents: int, exact: bool, found: SampleValues, most: int) -> PathSeen:
    values = found.paths.get(path, _NOTHING)
    nodes = values.nodes / values.documents if values.documents else 1.0
    frequent = (*values.frequent(most),)
    return PathSeen(path, documents, exact, nodes, values.documents, len(values.docs), frequent)


def parsed(documents: list[Sampled]) -> Iterator[tuple[int, etree._Element]]:
    """The documents of a sample, parsed, each with its number; until there are too many bytes."""
    left = _BYTES
    for document in documents:
        left -= len(document.xml)
        if left < 0:
            return
        try:
            yield document.doc, parse_document(document.xml)
        except DocumentError:  # stored by a program that parsed it differently
            continue
