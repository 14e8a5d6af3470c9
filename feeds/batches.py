"""Batches: the result of one fetch of a feed, and the state of the feed after it.

In: the feed's state before, the batch, and the spool's database inside a transaction of the spool.
Out: the rows of its new items, its hub, and the state to store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from feeds import hubs, seen
from feeds.adapter import Channel
from feeds.feed_state import FeedState
from feeds.hubs import Subscription
from feeds.identity import ALL
from feeds.rows import DocumentRow, dead_row
from feeds.schedule import first_rate, next_rate


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one fetch of a feed, or of one push by its hub.

    `state` is the feed's state from now on. `channel` is None if there was no document (an error,
    or not modified); a channel that could not be parsed becomes a dead letter with the `body`. A
    `pushed` document holds some items only and does not change the schedule, so of `state` just
    title and health are stored. `withheld` says that the validators were not sent although there
    were some. Items of the feed's first document from before `since` are history: recorded as seen,
    but no rows. `hub` is the subscription that a fetched document offers. `rows` are more documents
    to store in the same transaction.
    """

    state: FeedState
    arrival: int
    channel: Channel | None = None
    body: bytes = b""
    pushed: bool = False
    withheld: bool = False
    since: int = ALL
    hub: Subscription | None = None
    rows: tuple[DocumentRow, ...] = ()


def new_rows(db: sqlite3.Connection, batch: Batch, before: FeedState | None) -> list[DocumentRow]:
    """Record the items of a batch as seen; returns rows of the new and the changed ones, or a dead
    letter for a document that cannot be parsed."""
    channel, state = batch.channel, batch.state
    if channel is None:
        return []
    if channel.error is not None:
        known = before.problem if before else None
        # One dead letter when a feed breaks, not one for each fetch while it stays broken.
        if known is not None and known == state.problem:
            return []
        return [dead_row(state.url, batch.body, channel.error, state.url, batch.arrival)]
    return seen.record_items(
        db,
        state.url,
        channel,
        batch.arrival,
        batch.since,
        whole=not (batch.pushed or channel.cut),
        unread=before is None or not before.was_read,
    )


def update_hub(db: sqlite3.Connection, batch: Batch) -> None:
    """Store the subscription that a document offers, unless its hub and topic are known; delete the
    subscription of a feed whose document names no hub."""
    if batch.channel is None or batch.channel.error is not None or batch.pushed:
        return
    url, hub = batch.state.url, batch.hub
    known = hubs.load(db, "url = ?", url)
    if hub is not None and [(k.hub, k.topic) for k in known] != [(hub.hub, hub.topic)]:
        hubs.save(db, hub)
    elif hub is None and known:
        db.execute("DELETE FROM hub WHERE url = ?", (url,))


def state_after(batch: Batch, before: FeedState | None, rows: Sequence[DocumentRow]) -> FeedState:
    """The feed's state after a batch, with the fields that depend on how many items were new."""
    state = batch.state
    if batch.pushed and before is not None:
        state = replace(before, last_success=batch.arrival, title=state.title)
    # A server whose validators stay the same although items are new would answer "not modified"
    # and hide the items, so its validators are not sent from now on.
    if batch.withheld and before is not None and rows:
        same = (state.etag, state.last_modified) == (before.etag, before.last_modified)
        state = replace(state, trusted=not same)
    return replace(state, items_per_day=_rate(batch, before, rows))


def _rate(batch: Batch, before: FeedState | None, rows: Sequence[DocumentRow]) -> float | None:
    now = batch.arrival / 1e6
    known = before.items_per_day if before else None
    read = batch.channel is not None and batch.channel.error is None
    if known is None and batch.channel is not None and read:
        return first_rate((i.timestamp / 1e6 for i in batch.channel.items if i.dated), now)
    answered = batch.pushed or batch.state.last_success == batch.arrival
    if known is None or before is None or before.last_success is None or not answered:
        return known
    new = sum(not row.revision for row in rows) if read else 0
    return next_rate(known, new, now - before.last_success / 1e6)
