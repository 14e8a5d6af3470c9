"""The stored documents as `why` reads them: from a snapshot, a slice at a time, the newest first.

The engine goes on meanwhile; nothing waits for anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from broker.model import UNBOUNDED
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.state.stored_documents import StoredDocument

_SLICE = 200


@dataclass(slots=True)
class History:
    """The documents of a snapshot. `rest` is called after each slice, so that who works beside may
    go on. Of streams that nobody asked for, those are named for which `may_read` is true."""

    relations: MatchRelations
    rest: Callable[[], object] = lambda: None
    may_read: Callable[[str], bool] = lambda _: True

    def count(self, streams: Collection[str]) -> int:
        """How many documents flow through one of these streams and are still stored."""
        return self.relations.count_of(streams)

    def streams(self) -> dict[str, int]:
        """The streams of the stored documents that may be read, with how many there are."""
        found = self.relations.streams().items()
        return {name: count for name, count in found if self.may_read(name)}

    def oldest(self) -> int:
        """The number of the oldest document that is stored, 0 for none."""
        return self.relations.first_since(-UNBOUNDED) or 0

    def newest(self, streams: Collection[str], most: int) -> Iterator[list[StoredDocument]]:
        """The newest `most` documents of these streams, in slices."""
        for documents in self.relations.newest_of(streams, most, _SLICE):
            yield documents
            self.rest()

    def named(self, id: str) -> list[StoredDocument]:
        """The stored documents of an id, of whatever source."""
        return self.relations.named(id)


@contextmanager
def history(
    store: Store,
    rest: Callable[[], object] = lambda: None,
    may_read: Callable[[str], bool] = lambda _: True,
) -> Iterator[History]:
    """What a store holds now. May be used beside other threads."""
    with store.snapshot() as statements:
        yield History(MatchRelations(statements), rest, may_read)
