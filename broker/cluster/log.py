"""The segments of a coordinator: which are there, which of them count, which are needed no more.

What a batch has written counts when its transaction ends well; until then it is `sent`. A segment
goes when all its documents have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from secrets import randbits

import pyarrow as pa

from broker.cluster.manifest import Manifest, Segment
from broker.cluster.segments import Shared, Step
from broker.model import UNBOUNDED
from broker.state.store import Store

_NUMBER = "cluster_batch"
_FIRST = "cluster_first"
_STATE = "cluster_state"
_ROUTED = "cluster_routed"

Content = tuple[Sequence[Step], Sequence[pa.RecordBatch], Sequence[pa.RecordBatch]]
"""What is in a segment: its steps, witness rows and documents, see `Shared.write_batch`."""


class Log:
    """The segments of a state, for the coordinator that has claimed the shared files. `number` is
    that of the last segment, `state` names the state, and `routed` is the epoch of the coordinator
    by whose routes the segments are divided, 0 if none are."""

    def __init__(self, store: Store, shared: Shared) -> None:
        self._store = store
        self._shared = shared
        self._manifest = Manifest(store, shared.epoch)
        self.number = store.number(_NUMBER, 0)
        self.state = store.number(_STATE, 0) or randbits(62)
        self.routed = store.number(_ROUTED, 0)
        self._first = store.number(_FIRST, 1)
        kept = self._manifest.committed(self._first, self.number)
        self._kept = [(each, UNBOUNDED) for each in kept]
        """Those that count, each with the last end of its documents, or UNBOUNDED for one of an
        earlier coordinator that was not asked yet."""
        self._sent: list[tuple[Segment, int]] = []
        self._gone = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those that count, and those of this batch."""
        return tuple([each for each, _ in (*self._kept, *self._sent)])

    @property
    def sent(self) -> bool:
        """Whether this batch has written anything."""
        return bool(self._sent)

    def is_complete(self) -> bool:
        """Whether all that the state says is there."""
        there = self.segments
        return len(there) == self.number + 1 - self._first and self._shared.there(there)

    def go_on(self) -> None:
        """Go on with what is there."""
        with self._store.transaction():
            self._manifest.forget(self._first)

    def clear(self) -> None:
        """Remove all segments; none counts any longer."""
        with self._store.transaction():
            self._store.set_numbers(**{_ROUTED: 0})
        self.routed = 0
        self._shared.remove([each for each, _ in self._kept])
        self._kept = []

    def renew(self, contents: Iterable[Content]) -> None:
        """After `clear`, write segments of all documents in order."""
        first = self.number + 1
        for content in contents:
            self._kept.append(self._write(content))
        with self._store.transaction():
            self._commit(first, first)
            self._manifest.forget(first)
        self.routed = self._shared.epoch

    def begin(self) -> None:
        """Begin a batch."""
        self._sent = []

    def send(self, content: Content, horizon: int) -> Segment:
        """Write a segment of this batch. In its transaction, which says which segments count: those
        that have documents which end at `horizon` or later."""
        self._sent.append(self._write(content))
        self._gone = 0
        while self._gone < len(self._kept) and self._latest(self._gone) < horizon:
            self._gone += 1
        first = self.number - len(self._kept) - len(self._sent) + 1 + self._gone
        self._commit(first, self._sent[0][0].number)
        return self._sent[-1][0]

    def undo(self, number: int) -> None:
        """The transaction of the batch has failed before which this was the number."""
        self.number = number
        self._manifest.failed()
        self._sent = []

    def committed(self) -> None:
        """The transaction of the batch has ended well."""
        gone = self._kept[: self._gone]
        self._kept = [*self._kept[self._gone :], *self._sent]
        self._sent, self._gone = [], 0
        self._shared.remove([each for each, _ in gone])

    def _write(self, content: Content) -> tuple[Segment, int]:
        self.number += 1
        segment = self._manifest.next(self.number)
        self._shared.write_batch(segment, *content)
        return segment, max([step.latest for step in content[0]])

    def _commit(self, first: int, begun: int) -> None:
        """Have the transaction say which segments count: those from `first` on, of which this
        coordinator has made those from `begun` on."""
        numbers = {_NUMBER: self.number, _FIRST: first, _STATE: self.state}
        numbers[_ROUTED] = self._shared.epoch
        self._store.set_numbers(**numbers, **self._manifest.numbers(begun))

    def _latest(self, place: int) -> int:
        """The last end of the documents of a segment, of which those before it have none left."""
        segment, latest = self._kept[place]
        if latest == UNBOUNDED:
            latest = max([step.latest for step in self._shared.steps(segment)])
            self._kept[place] = segment, latest
        return latest
