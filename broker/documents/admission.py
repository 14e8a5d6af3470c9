"""Admission: accepts documents that are new, or revisions, and not too late, and numbers them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

from broker.documents.admitted import Admitted, document_key, numbered
from broker.documents.dead_letters import DeadLetters
from broker.documents.watermark import Watermark
from broker.state.highest import Highest
from broker.state.known_keys import KnownKeys
from broker.state.postdated import Postdated
from broker.state.progress import Progress, Reached
from broker.state.relations import MatchRelations
from broker.state.store import Store
from broker.state.stored_documents import Identity, Newest
from feeds.rows import DocumentRow

SPARE = 50_000
"""Keys of deleted documents that memory may hold before they are dropped, by default."""


class Requested(Protocol):
    """History that users requested, by the source and the number of a row of the log; it is
    admitted however old it is. `feeds.requested.Requested` is one."""

    def refresh(self) -> None:
        """Read the ranges again; called before a batch."""

    def covers(self, source: str, seq: int) -> bool:
        """Whether this row is requested history, which is never late."""

    def is_pending(self, position: int) -> bool:
        """Whether requested history is still to come after number `position` of the log."""


class Admission:
    """The next document number, the highest sequence number applied of each source, and the keys of
    known documents.

    A transaction that fails undoes its changes of these and of `watermark`. Where revisions `flow`,
    each is a document of its own and may be late like any other; else it replaces the stored
    document and is never late. `requested` history is admitted however late it is. Memory may hold
    the keys of `spare` deleted documents.
    """

    requested: Requested | None = None

    def __init__(
        self,
        store: Store,
        relations: MatchRelations,
        progress: Progress,
        watermark: Watermark,
        letters: DeadLetters,
        *,
        flow: bool = False,
        spare: int = SPARE,
    ) -> None:
        self.flow = flow
        self.spare = spare
        self.store = store
        self.relations = relations
        self.progress = progress
        self.watermark = watermark
        self.letters = letters
        self.postdated = Postdated(store, relations)
        reached = progress.read()
        self.next_doc = reached.next_doc
        self._numbers = Highest(store, "applied")
        self._applied = {} if store.fresh else self._numbers.read()
        self._stored_applied = dict(self._applied)
        self.position = reached.position
        """The highest number applied of the log that holds the documents of many sources."""
        self.keys = KnownKeys(relations.keys())

    def allocate_number(self) -> int:
        """The number for a new document."""
        number = self.next_doc
        self.next_doc += 1
        return number

    def begin(self) -> None:
        """Prepare for a batch, in its transaction."""
        self.store.on_rollback(
            partial(
                self._restore,
                self.next_doc,
                self.watermark.highest,
                self.position,
                dict(self._applied),
            )
        )

    def _restore(self, next_doc: int, highest: int, position: int, applied: dict[str, int]) -> None:
        self.next_doc, self.watermark.highest = next_doc, highest
        self.position, self._applied = position, applied

    def admit(
        self, arrivals: Sequence[DocumentRow], now: int, at: int | None, position: int | None
    ) -> list[Admitted]:
        """The documents that are admitted, in order of arrival; the others are dropped or become
        dead letters.

        `now` is the believed time, by which the watermark moves, and `at` what the clock says, None
        if unknown (both in microseconds). With `position` the `seq` numbers are those of one log up
        to this number; else each source numbers its own documents.
        """
        log = self.position  # 0 before the first batch with a position: numbers are by source
        if position is not None:
            self.position = max(self.position, position)
        keys = [document_key(a.source, a.id) for a in arrivals]
        known = self._known(keys)
        admitted: list[Admitted] = []
        letters: list[tuple[DocumentRow, str]] = []
        watermark = self.watermark
        highest = watermark.highest_at(now)
        if self.requested is not None:
            self.requested.refresh()
        for place, (arrival, key) in enumerate(zip(arrivals, keys, strict=True)):
            if arrival.seq is not None and not self._is_unapplied(
                arrival, arrival.seq, position, log
            ):
                continue
            newest = None if known is None else known.get(Identity(key, arrival.source, arrival.id))
            if newest is not None and not (arrival.revision and _differs(newest, arrival)):
                continue
            revision = newest is not None and not self.flow
            reason = arrival.error
            if reason is None and not revision:
                reason = self._late_reason(arrival, now)
            if reason is not None:
                letters.append((arrival, reason))
                continue
            timestamp = arrival.timestamp
            doc, version = (
                (self.allocate_number(), 0)
                if known is None
                else self._version(known, newest, key, arrival)
            )
            if watermark.highest < timestamp:
                highest = min(timestamp, now)
                watermark.highest = max(watermark.highest, highest)
            document = numbered(arrival, key, doc, doc, timestamp, version)
            if document.logged and (revision or timestamp > now):
                # By the numbers of documents references grow and expire, but for those of what is
                # replaced, and of what may outlive all that come after it.
                document = document._replace(logged=b"")
            admitted.append(Admitted(place, document, revision, highest))
        self.letters.add(letters, at)
        ends = {a.document.doc: a.document.end for a in admitted}
        self.postdated.remove([a.document.doc for a in admitted if a.revision])
        self.postdated.add([doc for doc, end in ends.items() if end > now], now)
        if admitted:
            watermark.touch()
        return admitted

    def _is_unapplied(self, arrival: DocumentRow, seq: int, position: int | None, log: int) -> bool:
        """Whether a numbered document comes after all that were applied of its log or source."""
        if position is not None and log:
            return seq > log
        if seq <= self._applied.get(arrival.source, -1):
            return False
        if position is None:
            self._applied[arrival.source] = seq
        return True

    def _version(
        self,
        known: dict[Identity, Newest],
        newest: Newest | None,
        key: int,
        arrival: DocumentRow,
    ) -> tuple[int, int]:
        """The number of a document and which version it is; `newest` is the one that is known."""
        if newest is None or self.flow:
            version = 0 if newest is None else newest.version + 1
            said = (arrival.timestamp, arrival.xml) if self.flow else None
            newest = Newest(self.allocate_number(), version, said)
            known[Identity(key, arrival.source, arrival.id)] = newest
        return newest.doc, newest.version

    def _late_reason(self, arrival: DocumentRow, now: int) -> str | None:
        """Why a document is too late, None if it is not, or was requested."""
        late = self.watermark.late_reason(arrival.timestamp, arrival.streams, now)
        if late is None or self.requested is None or arrival.seq is None:
            return late
        return None if self.requested.covers(arrival.source, arrival.seq) else late

    def history_is_pending(self) -> bool:
        """Whether requested history is still to come, which may be older than all documents."""
        return self.requested is not None and self.requested.is_pending(self.position)

    def _known(self, keys: list[int]) -> dict[Identity, Newest] | None:
        """What is known of the documents of these keys; None if they are all new, and others than
        each other."""
        seen = self.keys.intersection(keys)
        fresh = set(keys)
        if not seen:
            self.keys.add(fresh)
            return None if len(fresh) == len(keys) else {}
        self.keys.add(fresh.difference(seen))
        return self.relations.newest(seen, said=self.flow)

    def knows(self, source: str, id: str) -> bool:
        """Whether a document of this identity was admitted; another one is then a revision, or
        dropped."""
        key = document_key(source, id)
        return Identity(key, source, id) in self.relations.newest([key])

    def committed_keys(self, keys: Collection[int]) -> set[int]:
        """The given keys that a committed document has, or had. May be called from any thread, at
        any time."""
        seen = self.keys.intersection([*keys])
        if not seen:
            return set()
        # The index in memory also has keys of documents that were rejected, so the store decides.
        with self.store.snapshot() as statements:
            return {identity.key for identity in MatchRelations(statements).newest(seen)}

    def may_have(self, keys: Collection[int]) -> bool:
        """Whether `committed_keys` has to ask the store about these keys. From any thread, too."""
        return bool(self.keys.intersection([*keys]))

    def write(self) -> None:
        """Store the document number, the highest time, and the numbers applied."""
        self.progress.write(Reached(self.next_doc, self.watermark.highest, self.position))
        stored = self._stored_applied
        self._numbers.write({s: n for s, n in self._applied.items() if stored.get(s) != n})

    def committed(self) -> None:
        self._stored_applied = dict(self._applied)

    def applied(self, sources: Iterable[str]) -> int:
        """The highest sequence number applied of any of these sources, 0 for none."""
        return max((self._applied.get(source, 0) for source in sources), default=0)

    def all_applied(self) -> dict[str, int]:
        """The highest sequence number applied, by source."""
        return dict(self._applied)

    def rebuild_keys(self) -> None:
        """Drop the keys of deleted documents from memory, if there are more than `spare`."""
        documents = self.relations.count()
        if len(self.keys) > documents + documents // 4 + self.spare:
            self.keys = KnownKeys(self.relations.keys())


def _differs(newest: Newest, arrival: DocumentRow) -> bool:
    """Whether a revision differs from the stored document in time or content."""
    return newest.said != (arrival.timestamp, arrival.xml)
