"""One way to match blocks of documents, for `bench/versus.py`, which runs it with the packages of a
checkout: so it imports nothing of this folder, and of older checkouts what they had.

In: `one` or `two` processes, and a file of subscriptions and documents; then, line by line, the
first document of a block, the one behind its last, and the size of its batches. Out: a line once it
is ready, and for each block the documents a second of wall and of CPU time, and the matches.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from broker import Broker, Document

Item = tuple[str, float, bytes]
Match = Callable[[Sequence[list[Any]]], int]
"""Matches batches, returns how many matches there are."""


def in_one(broker: Broker) -> tuple[Callable[[Item], Any], Match]:
    """How to make a document of an item, and to match them in this process."""

    def document(item: Item) -> Document:
        id, seconds, xml = item
        return Document(id, "S", seconds, xml)

    def match(batches: Sequence[list[Document]]) -> int:
        gc.freeze()
        found = 0
        for batch in batches:
            found += len(broker.process(batch))
            gc.freeze()
        gc.unfreeze()
        return found

    return document, match


def in_two(broker: Broker) -> tuple[Callable[[Item], Any], Match]:
    """The same where another process does stage 1 of the next batch meanwhile, as in the service
    and in `broker run`."""
    from broker.documents.ahead import Ahead
    from broker.shared_match import count_matches
    from feeds.rows import DocumentRow
    from xscl.growth import collect_rarely, later, thaw

    collect_rarely()
    engine = broker.engine
    ahead = Ahead(engine, True, lambda: False)
    ahead.ready(wait=60)

    def row(item: Item) -> DocumentRow:
        id, seconds, xml = item
        return DocumentRow("bench", id, ("S",), int(seconds * 1e6), True, None, False, xml)

    def match(batches: Sequence[list[DocumentRow]]) -> int:
        found = 0
        ahead.begin(batches[0])
        for batch, following in zip(batches, [*batches[1:], []], strict=True):
            with later(many=True):
                arrived = ahead.arrivals(batch)
                ahead.begin(following)
                found += count_matches(engine.apply(arrived))
        thaw()
        return found

    return row, match


def main() -> None:
    mode, data = sys.argv[1:]
    with open(data, "rb") as file:
        queries, every = pickle.load(file)
    with tempfile.TemporaryDirectory() as state, Broker(state) as broker:
        broker.subscribe(queries)
        made, match = {"one": in_one, "two": in_two}[mode](broker)
        print("ready", flush=True)
        for line in sys.stdin:
            first, last, size = map(int, line.split())
            documents = [made(item) for item in every[first:last]]
            batches = [documents[i : i + size] for i in range(0, len(documents), size)]
            gc.collect()  # which also has all objects in the caches, whichever way it is
            wall, cpu = time.perf_counter(), time.process_time()
            found = match(batches)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(len(documents) / wall, len(documents) / cpu, found, flush=True)
