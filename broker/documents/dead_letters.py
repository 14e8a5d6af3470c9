"""Dead letters: documents that were not admitted, each with a number, the reason and its bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from broker.model import UNBOUNDED, DeadLetter
from broker.state.statements import Statements
from broker.state.store import Store
from feeds.rows import DocumentRow

_STREAMS = pa.list_(pa.string())


def as_row(letter: DeadLetter) -> DocumentRow:
    """The document of a dead letter."""
    return DocumentRow(
        source=letter.source,
        id=letter.id,
        streams=letter.streams,
        timestamp=letter.timestamp,
        dated=True,
        seq=None,
        revision=False,
        xml=letter.xml,
        place=letter.place,
    )


class DeadLetters:
    """The table of dead letters. Numbers grow and are never used twice."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._next = store.stored_number("next_letter", 1)
        self._oldest = -UNBOUNDED
        """None was stored before this time."""

    def add(self, letters: Sequence[tuple[DocumentRow, str]], at: int | None) -> None:
        """Store documents with the reasons why they were not admitted; one that is stored already,
        after a replay, is not added again."""
        if not letters:
            return
        known = set(
            self.store.rows(
                "SELECT source, id, xml FROM dead_letters"
                " WHERE id IN (SELECT unnest(?::VARCHAR[]))",
                [[a.id for a, _ in letters]],
            )
        )
        fresh: dict[tuple[str, str, bytes], tuple[DocumentRow, str]] = {}
        for letter, why in letters:
            fresh.setdefault((letter.source, letter.id, letter.xml), (letter, why))
        self.add_set_aside([letter for key, letter in fresh.items() if key not in known], at)

    def add_set_aside(self, letters: Sequence[tuple[DocumentRow, str]], at: int | None) -> None:
        """Store documents at which queries were set aside, with the reasons: one for each query,
        and there is no replay of what was admitted."""
        if not letters:
            return
        self._oldest = min(self._oldest, UNBOUNDED if at is None else at)
        first = self._next
        self.store.on_rollback(partial(setattr, self, "_next", first))
        self._next += len(letters)
        self.store.set_numbers(next_letter=self._next)
        self.store.insert(
            "dead_letters",
            pa.table(
                {
                    "n": pa.array(range(first, self._next), pa.int64()),
                    "kept": pa.array([at] * len(letters), pa.int64()),
                    "source": pa.array([a.source for a, _ in letters], pa.string()),
                    "id": pa.array([a.id for a, _ in letters], pa.string()),
                    "streams": pa.array([list(a.streams) for a, _ in letters], _STREAMS),
                    "place": pa.array([a.place for a, _ in letters], pa.string()),
                    "reason": pa.array([reason for _, reason in letters], pa.string()),
                    "timestamp": pa.array([a.timestamp for a, _ in letters], pa.int64()),
                    "xml": pa.array([a.xml for a, _ in letters], pa.binary()),
                }
            ),
        )

    def count(self) -> int:
        return self.store.count("SELECT count(*) FROM dead_letters")

    def delete(self, numbers: Iterable[int] | None, before: int | None) -> int:
        """Delete the dead letters of these numbers, and those stored before a time; returns how
        many."""
        with self.store.transaction():
            gone = self.store.rows(
                "DELETE FROM dead_letters WHERE n IN (SELECT unnest(?::BIGINT[])) OR kept < ?"
                " RETURNING n",
                [list(numbers or ()), before],
            )
        return len(gone)

    def expire(self, before: int) -> int:
        """Delete the oldest dead letters, up to the last that was stored before a time; returns how
        many. Where all are younger, nothing is asked of the table."""
        if before <= self._oldest:
            return 0
        gone = self.store.count(
            "DELETE FROM dead_letters WHERE n <= (SELECT max(n) FROM dead_letters WHERE kept < ?)",
            [before],
        )
        ((oldest,),) = self.store.rows("SELECT min(kept) FROM dead_letters")
        self._oldest = UNBOUNDED if oldest is None else oldest
        return gone


def page(statements: Statements, after: int, limit: int) -> list[DeadLetter]:
    """At most `limit` dead letters with numbers above `after`, in order of their numbers."""
    rows = statements.rows(
        'SELECT n, kept, source, id, streams, place, reason, "timestamp", xml FROM dead_letters'
        " WHERE n > ? ORDER BY n LIMIT ?",
        [after, limit],
    )
    return [
        DeadLetter(number, at, source, id, tuple(streams), *rest)
        for number, at, source, id, streams, *rest in rows
    ]
