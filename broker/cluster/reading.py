"""Matches of shards as the engine has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.results.undelivered import restored
from broker.shared_match import SharedMatch
from broker.state.outbox import Posted

if TYPE_CHECKING:
    from broker.engine import Engine


def restored_rows(
    engine: Engine, rows: Sequence[dict[str, Any]], first: int | None
) -> list[SharedMatch]:
    """The matches of rows of schema MATCHES; `first` is the number of the first in the outbox,
    None if they are not there."""
    contents = engine.contents.of({doc for row in rows for doc in row["docs"] or ()}, ())
    posted = [
        Posted(
            (first or 0) + n,
            row["ids"],
            row["queries"],
            row["match"],
            row["result"],
            tuple(row["docs"] or ()),
            tuple([contents[doc].stored.xml for doc in row["docs"] or ()]),
        )
        for n, row in enumerate(rows)
    ]
    matches = restored(posted)
    if first is None:
        for each in matches:
            each.posted = None
    return matches
