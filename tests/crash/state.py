"""The contents of a closed state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from feeds.kept_packs import documents
from feeds.references import is_reference

Name = tuple[str, str]

_LATENESS = 5 * 86_400 * 1_000_000
"""That of the settings (`tests/crash/process.py`), in microseconds."""


@dataclass(frozen=True, slots=True)
class State:
    """The numbers of documents from outside, the texts of those that have not expired, the number
    and the end of all, and how much is in the outbox."""

    numbers: dict[Name, int]
    texts: dict[Name, str]
    ends: dict[int, int]
    undelivered: int

    @classmethod
    def read(cls, state: Path) -> State:
        with duckdb.connect(str(state / "broker.duckdb"), read_only=True) as db:
            ends = dict(db.execute('SELECT doc, "end" FROM documents').fetchall())
            # Beside what comes from outside stand results of matches, and what the service tells.
            rows = db.execute(
                "SELECT source, id, doc, xml FROM documents"
                " WHERE NOT list_has_any(streams, ['pairs', 'silences'])"
                " AND NOT starts_with(streams[1], 'broker.')"
            ).fetchall()
            # Up to number `handed` there are matches that were handed over.
            (outbox,) = db.execute(
                "SELECT count(*) FROM outbox WHERE n >"
                " coalesce((SELECT max(number) FROM highest WHERE kind = 'handed'), 0)"
            ).fetchall()[0]
        numbers = {(source, id): doc for source, id, doc, _ in rows}
        assert len(numbers) == len(rows), "a document is there twice"
        # In a long life the first documents expire, but none that anything may still join.
        expired = [doc for _, _, doc, xml in rows if xml is None]
        newest = max(ends.values(), default=0)
        assert all(ends[doc] < newest - _LATENESS for doc in expired), "expired too early"
        packed = documents(state / "spool.sqlite", [xml for *_, xml in rows if is_reference(xml)])
        texts = {
            (source, id): packed.get(xml, xml).decode()
            for source, id, _, xml in rows
            if xml is not None
        }
        return cls(numbers, texts, ends, outbox)
