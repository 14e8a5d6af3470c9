"""The outbox: matches in the store that have not been acknowledged yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from broker.shared_match import ID, SharedMatch, portions
from broker.state.highest import Highest
from broker.state.relations import MatchRelations
from broker.state.store import StateError, Store

_COLUMNS = {
    "n": pa.int64(),
    "ids": pa.binary(),
    "queries": pa.list_(pa.string()),
    "match": pa.string(),
    "result": pa.binary(),
    "docs": pa.list_(pa.int64()),
}
_HANDED = "handed"
"""The kind of the number up to which matches were acknowledged, and its name among the numbers of
`meta`, where older states have it."""
_MOST = 10_000
"""Rows that are kept after they were acknowledged."""
_AT_ONCE = 50_000
"""Matches of subscribers that are made rows at once."""
_FEW = 100
"""Subscriptions whose kept matches are looked for; of more, those of all are deleted."""


class Posted(NamedTuple):
    """A match as the outbox holds it, with the ids and the subscriptions of all that share it (see
    `SharedMatch`): whole, in two parts (`SharedMatch.dumps`), or without a result, derived from the
    bytes of its documents (`Shared.dumps`), which have these numbers. `n` is its number."""

    n: int
    ids: bytes
    queries: Sequence[str]
    match: str
    result: bytes | None
    docs: tuple[int, ...] = ()
    xml: tuple[bytes, ...] = ()


class Outbox:
    """Matches are added in the transaction of the batch that found them, and deleted when they are
    acknowledged.

    `next` is the number of the next match, above all that are stored and all for which the bytes of
    documents are kept. Without a state directory nothing is stored.

    If it is `keeping`, acknowledged matches stay for a while, up to number `handed`, so that they
    can be handed over again to one who has lost them. That number is stored by `store_handed`, and
    not each time, as a transaction of its own costs as much as a batch of few documents: after a
    crash some matches may be undelivered again. `steady` is a monotonic clock in microseconds.
    """

    def __init__(
        self,
        store: Store,
        relations: MatchRelations,
        steady: Callable[[], int] = lambda: time.monotonic_ns() // 1_000,
        *,
        keeping: bool = False,
    ) -> None:
        self.store = store
        self._relations = relations
        self._steady = steady
        self.keeping = keeping
        self._numbers = Highest(store, _HANDED)
        handed = 0 if store.fresh else self._numbers.read().get("", 0)
        self.handed = self._stored = max(handed, store.stored_number(_HANDED, 0))
        # What is kept for earlier matches must not be taken for what a new one refers to.
        ((self.next, first),) = store.stored(
            "SELECT greatest(coalesce(max(n), 0) + 1, (SELECT coalesce(max(before), 1) FROM kept)),"
            " min(n) FROM outbox"
        ) or [(1, None)]
        self.next = max(self.next, self.handed + 1)
        self._first = self.next if first is None else first
        """The number of the oldest match that is stored, or a lower one."""
        self._marks = deque([(steady(), self.handed)])
        """Times after which all up to a number were acknowledged."""

    def post(self, matches: Sequence[SharedMatch], changed: AbstractSet[int] = frozenset()) -> None:
        """Add matches. Those of documents that have `changed` since they were found are stored
        whole, the others refer to their documents if they are derived from them."""
        if not matches or not self.store.durable:
            return
        self.store.on_rollback(partial(setattr, self, "next", self.next))
        for part in portions(matches, _AT_ONCE):
            self._post(part, changed)

    def _post(self, matches: Sequence[SharedMatch], changed: AbstractSet[int]) -> None:
        first = self.next
        self.next += len(matches)
        heads: list[str] = []
        results: list[bytes | None] = []
        docs: list[tuple[int, ...] | None] = []
        for n, match in enumerate(matches, first):
            match.posted = n
            shared = match.shared
            if not shared.docs or not changed.isdisjoint(shared.docs):
                head, result = match.dumps()
                heads.append(head)
                results.append(result)
                docs.append(None)
            else:
                heads.append(shared.dumps(match))
                results.append(None)
                docs.append(shared.docs)
        columns = (
            range(first, self.next),
            [match.ids for match in matches],
            [match.queries for match in matches],
            heads,
            results,
            docs,
        )
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, _COLUMNS.values(), strict=True)
        ]
        self.store.insert("outbox", pa.RecordBatch.from_arrays(arrays, [*_COLUMNS]))

    def post_columns(self, columns: pa.Table) -> None:
        """Add matches as columns: `ids`, `queries`, `match`, `result` and `docs`, see `Posted`."""
        if not columns.num_rows or not self.store.durable:
            return
        first = self.next
        self.store.on_rollback(partial(setattr, self, "next", first))
        self.next += columns.num_rows
        numbers = pa.array(range(first, self.next), pa.int64())
        names = [*_COLUMNS][1:]
        self.store.insert("outbox", columns.select(names).add_column(0, "n", [numbers]))

    def count(self) -> int:
        """How many matches are not acknowledged."""
        return self.store.count(
            f"SELECT coalesce(sum(len(queries)), 0) FROM outbox WHERE n > {self.handed}"
        )

    def undelivered(self, limit: int) -> list[Posted]:
        """The oldest matches that are not acknowledged: as few as have `limit` subscribers."""
        last = count = 0
        sizes = self.store.rows(
            "SELECT n, len(queries) FROM outbox WHERE n > ? ORDER BY n LIMIT ?",
            [self.handed, limit],
        )
        for n, size in sizes:
            if count >= limit:
                break
            last, count = n, count + size
        return self._between(self.handed, last)

    def acknowledged(self, after: int, limit: int) -> list[Posted]:
        """The oldest acknowledged matches that are still kept and have a number above `after`, at
        most so many rows."""
        ((last,),) = self.store.rows(
            "SELECT max(n) FROM (SELECT n FROM outbox WHERE n > ? AND n <= ? ORDER BY n LIMIT ?)",
            [after, self.handed, limit],
        )
        return [] if last is None else self._between(after, last)

    def _between(self, after: int, last: int) -> list[Posted]:
        rows = self.store.rows(
            "SELECT n, ids, queries, match, result, docs FROM outbox WHERE n > ? AND n <= ?"
            " ORDER BY n",
            [after, last],
        )
        wanted = {doc for *_, docs in rows for doc in docs or ()}
        xml = self._relations.kept.contents(wanted) if wanted else None
        found: list[Posted] = []
        for n, ids, queries, match, result, docs in rows:
            if xml is None or result is not None:
                found.append(Posted(n, ids, queries, match, result))
            else:
                try:
                    bytes_of = tuple([xml(doc, n) for doc in docs])
                except (KeyError, StopIteration):
                    raise StateError(
                        f"match {n:,} of the outbox refers to a document that is not there: the"
                        " state is damaged; restore a backup"
                    ) from None
                found.append(Posted(n, ids, queries, match, None, tuple(docs), bytes_of))
        return found

    def acknowledge(self, matches: Iterable[SharedMatch]) -> None:
        """Delete matches that were posted or are undelivered, with all subscribers; or keep them
        for a while, if nothing before them is unacknowledged."""
        numbers = [match.posted for match in matches if match.posted is not None]
        if self.keeping and numbers and self._are_next(numbers):
            self.handed = max(numbers)
            self._marks.append((self._steady(), self.handed))
            return
        with self.store.transaction():
            self.store.delete("outbox", "n", numbers)
            self._relations.kept.release()

    def acknowledge_between(self, first: int, behind: int) -> None:
        """Delete the matches with these numbers: the first, and that behind the last."""
        if self.store.durable and first < behind:
            with self.store.transaction():
                self.store.run("DELETE FROM outbox WHERE n >= ? AND n < ?", [first, behind])
                self._relations.kept.release()

    def store_handed(self) -> None:
        """Store up to which number matches were acknowledged."""
        if self._stored != self.handed:
            with self.store.transaction():
                self.store.on_rollback(partial(setattr, self, "_stored", self._stored))
                self._numbers.write({"": self.handed})
                self._stored = self.handed

    def are_handed(self, upto: int) -> None:
        """Say again that all matches up to this number are acknowledged, of which the state that
        was reopened does not know yet."""
        if upto > self.handed:
            self.handed = upto
            self.next = max(self.next, upto + 1)
            self._marks.append((self._steady(), upto))

    def _are_next(self, numbers: Sequence[int]) -> bool:
        """Whether these are all matches behind the last one acknowledged, up to the highest."""
        last = max(numbers)
        if last - self.handed == len(numbers) and min(numbers) > self.handed:
            return True
        behind = f"SELECT count(*) FROM outbox WHERE n > {self.handed} AND n <= {last}"
        return min(numbers) > self.handed and self.store.count(behind) == len(numbers)

    def release(self, age: int) -> None:
        """Delete the matches that were acknowledged more than `age` microseconds ago, and those
        that are more than are kept."""
        upto, now = 0, self._steady()
        while self._marks and self._marks[0][0] < now - age:
            _, upto = self._marks.popleft()
        upto = max(upto, self.handed - _MOST)
        if self._first <= upto:
            with self.store.transaction():
                self.store_handed()
                self.store.run("DELETE FROM outbox WHERE n <= ?", [upto])
                self._relations.kept.release()
            self._first = upto + 1

    def forget(self, subscriptions: Sequence[str]) -> None:
        """Delete the acknowledged matches of subscriptions that are removed: one of the same name
        that comes after them must not get these. In the transaction that removes them."""
        if self._first > self.handed:
            return
        few = len(subscriptions) <= _FEW
        condition = " AND list_has_any(queries, ?)" if few else ""
        parameters = [self.handed, [*subscriptions]] if few else [self.handed]
        self.store.run(f"DELETE FROM outbox WHERE n <= ?{condition}", parameters)

    def acknowledge_ids(self, ids: Iterable[str]) -> None:
        """Delete the matches of these ids, each of one subscriber; others of theirs stay."""
        wanted = {each for id in ids if (each := _packed(id)) is not None}
        with self.store.transaction():
            self.store.run(
                "DELETE FROM outbox WHERE octet_length(ids) = ?"
                " AND ids IN (SELECT unnest(?::BLOB[]))",
                [ID, list(wanted)],
            )
            for n, packed, queries in self.store.rows(
                "SELECT n, ids, queries FROM outbox WHERE octet_length(ids) > ?", [ID]
            ):
                own = [packed[at : at + ID] for at in range(0, len(packed), ID)]
                left = [i for i, id in enumerate(own) if id not in wanted]
                if not left:
                    self.store.delete("outbox", "n", [n])
                elif len(left) < len(own):
                    self.store.run(
                        "UPDATE outbox SET ids = ?, queries = ? WHERE n = ?",
                        [b"".join([own[i] for i in left]), [queries[i] for i in left], n],
                    )
            self._relations.kept.release()


def _packed(id: str) -> bytes | None:
    """The bytes of an id; None if it is none of ours."""
    try:
        found = bytes.fromhex(id)
    except ValueError:
        return None
    return found if len(found) == ID else None
