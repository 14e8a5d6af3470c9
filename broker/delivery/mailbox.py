"""The mailbox: the log of all matches, and the cursor of each channel in it.

In: matches, and reports of their deliveries. Out: for each channel the matches it has to deliver.
One SQLite file, every commit synced; used by one process, from any thread.

A channel has no row per match. All matches up to its cursor are done; one that failed and does not
hold up those after it, or is sent once more by hand, has a row in `retry` until it is done too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from broker.delivery import channels, letters, retention, retries, upkeep
from broker.delivery.log import Log
from broker.delivery.model import (
    Channel,
    Dead,
    Delivered,
    Disabled,
    Event,
    Failed,
    Figures,
    Kind,
    Report,
    Throttle,
)


class Mailbox(Log):
    """The log with channels out of it, dead letters, throttles and retention.

    Raises MailboxError, here and later, for a file that is damaged or not a mailbox, and if the
    disk is full.
    """

    changes = 0
    """How often channels were changed through this interface. A worker that has not seen the last
    change sends nothing, so a change holds as soon as the call returns."""

    def __enter__(self) -> Mailbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- channels ----------------------------------------------------------------------------------

    def put_channel(
        self,
        name: str,
        kind: Kind,
        *,
        subscription: str | None = None,
        settings: Mapping[str, Any] | None = None,
        ordered: bool = True,
        after: int | None = None,
        now: int | None = None,
    ) -> Channel:
        """Make a channel or change one, whatever was there under that name; see
        `change_channel`."""
        wanted = Channel(name, kind, subscription, settings or {}, ordered)
        self.change_channel(wanted, after=after, now=now, replace=True)
        return self.channel(name)

    def change_channel(
        self,
        wanted: Channel,
        *,
        after: int | None = None,
        now: int | None = None,
        replace: bool = False,
    ) -> Channel | None:
        """Add a channel with the name, kind, subscription, settings and order of the wanted one; or
        change one, which keeps its cursor. A new one begins with the next match or, with `after`,
        after that number of the log.

        A webhook without a secret gets one; if a secret is replaced, the old one signs too for a
        day. ValueError says which setting is wrong. Raises `Replaces` if the channel has another
        goal, unless `replace` is set. Returns the former channel, None if there was none.
        """
        with self.db.transaction() as db:
            was = channels.put(
                db,
                wanted,
                self._last if after is None else max(0, min(after, self._last)),
                self.now() if now is None else now,
                replace,
            )
        self._changed()
        return was

    def channel(self, name: str) -> Channel:
        """KeyError if there is none of that name."""
        with self.db.reading() as db:
            return channels.get(db, name)

    def channels(self, subscription: str | None = None) -> list[Channel]:
        """All channels by name, or those of one subscription."""
        with self.db.reading() as db:
            if subscription is None:
                return channels.load(db)
            return channels.load(db, "subscription = ?", subscription)

    def _change(self, name: str, change: Callable[..., None], *parameters: Any) -> None:
        with self.db.transaction() as db:
            change(db, channels.get(db, name), *parameters)
        self._changed()

    def _changed(self) -> None:
        with self.db.lock:
            self.changes += 1
        self._notify(None)

    def remove_channel(self, name: str) -> None:
        """Remove a channel with what it has not delivered. KeyError."""
        self._change(name, channels.remove)

    def pause_channel(self, name: str) -> None:
        """Start no more deliveries until `resume_channel`; those under way go on. KeyError."""
        self._change(name, channels.set_status, "paused")

    def resume_channel(self, name: str) -> None:
        """Continue a paused or disabled channel at its cursor, at once. KeyError."""
        self._change(name, channels.set_status, "active")

    def reset_channel(self, name: str, after: int) -> None:
        """Set the cursor to number `after` of the log, also backwards. KeyError, ValueError."""
        self._within(after)
        self._change(name, channels.move, after)

    def pull(self, name: str, limit: int) -> list[Delivered]:
        """The matches that a pull channel has not acknowledged, oldest first. KeyError,
        ValueError."""
        channel = self._pulling(name)
        return self.matches(channel.subscription, channel.cursor, limit)

    def ack(self, name: str, n: int) -> int:
        """Acknowledge all matches up to n; returns the cursor, which never goes backwards.
        KeyError, ValueError."""
        self._within(n)
        with self.db.transaction() as db:
            channel = self._pulling(name, db)
            if n <= channel.cursor:
                return channel.cursor
            channels.acknowledge(db, channel, n, self.now())
        self._finish_draining()
        return n

    def _pulling(self, name: str, db: sqlite3.Connection | None = None) -> Channel:
        channel = self.channel(name) if db is None else channels.get(db, name)
        if channel.kind != "pull":
            raise ValueError(f"{name} is a {channel.kind} channel: it is not pulled, it delivers")
        return channel

    def _within(self, n: int) -> None:
        last = self._last
        if n > last:
            # A reader sees committed matches, and may acknowledge one before the writer's thread
            # has updated `_last`.
            last = self.db.last()
        if not 0 <= n <= last:
            raise ValueError(f"{n} is no place in the log, which goes up to {last}")

    # -- the worker's side -------------------------------------------------------------------------

    def heads(self, channel: Channel, after: int, limit: int) -> list[Delivered]:
        """The matches after a number of the log that a channel has to deliver, in order."""
        found = self.matches(channel.subscription, after, limit)
        return [d for d in found if d.n <= channel.draining] if channel.draining else found

    def retries(self, channel: Channel, now: int, limit: int) -> list[tuple[int, int]]:
        """The numbers of matches whose retry is due, and how often each was tried."""
        with self.db.reading() as db:
            return retries.due(db, channel, now, limit)

    def next_retry(self, channel: Channel) -> int | None:
        """When the next retry of a channel is due, None if it has none."""
        with self.db.reading() as db:
            return retries.next_due(db, channel)

    def retry_now(self, beyond: int) -> None:
        """Make retries due that are scheduled after this time: a wrong clock has scheduled them."""
        with self.db.transaction() as db:
            retries.make_due(db, beyond)
        self._changed()

    def apply_reports(self, reports: Sequence[Report]) -> list[Event]:
        """Apply reports of deliveries, in one transaction; returns the events that they cause."""
        made: list[Event] = []
        with self.db.transaction() as db:
            for report in reports:
                if not channels.apply_report(db, report):
                    continue
                if isinstance(report, Disabled):
                    made.append(
                        letters.event(db, report.at, report.kind, report.channel, report.reason)
                    )
                elif isinstance(report, Failed) and report.dead:
                    text = f"match {report.match_id} given up: {report.reason}"
                    made.append(letters.event(db, report.at, "delivery.dead", report.channel, text))
        if any(report.channel.draining for report in reports):
            self._finish_draining()
        if made:
            self._notify(None)
        return made

    def unreported(self, channel: Channel, kinds: Sequence[str], limit: int = 100) -> list[Event]:
        """Events of these kinds that concern the channel and were not sent to it."""
        with self.db.reading() as db:
            return letters.unreported(db, channel, kinds, limit)

    def _finish_draining(self) -> None:
        with self.db.transaction() as db:
            gone = channels.remove_drained(db)
        if gone:
            self._changed()

    # -- dead letters and events -------------------------------------------------------------------

    def dead(self, after: int = 0, limit: int = 1_000, channel: str | None = None) -> list[Dead]:
        """Deliveries that were given up, by number, of all channels or of one."""
        with self.db.reading() as db:
            return letters.dead(db, after, limit, channel)

    def resend(self, numbers: Sequence[int] | None = None, channel: str | None = None) -> int:
        """Deliver dead letters once more: those of these numbers, or all; of one channel, or of
        all.

        They are dead letters no longer, and arrive out of order. Returns how many; those whose
        match or channel no longer exists stay dead letters.
        """
        with self.db.transaction() as db:
            sent = letters.resend(db, numbers, channel)
        self._notify(None)
        return sent

    def resend_match(self, match_id: str, channel: str) -> None:
        """Deliver a match of the log once more. KeyError: no such match, or channel."""
        found = self.find(match_id)
        if found is None:
            raise KeyError(match_id)
        self._change(channel, retries.schedule, found.n)

    def forget_dead(
        self,
        numbers: Sequence[int] | None = None,
        before: int | None = None,
        channel: str | None = None,
    ) -> int:
        """Delete dead letters: of these numbers, from before a time, of a channel; returns how
        many."""
        with self.db.transaction() as db:
            return letters.forget_dead(db, numbers, before, channel)

    def record_event(
        self, kind: str, text: str, *, subscription: str | None = None, channel: str | None = None
    ) -> Event:
        """Record an event. Webhooks that list its kind get it too."""
        with self.db.transaction() as db:
            at = self.now()
            made = letters.record_event(db, at, kind, channel, subscription, text)
        self._notify(None)
        return made

    def events(self, after: int = 0, limit: int = 100) -> list[Event]:
        """Events by number; `retain` forgets the oldest."""
        with self.db.reading() as db:
            return letters.events(db, after, limit)

    def events_before(self, before: int, limit: int = 100) -> list[Event]:
        """Events with numbers below `before`, the newest first."""
        with self.db.reading() as db:
            return letters.events_before(db, before, limit)

    # -- throttles, dropped subscriptions, upkeep --------------------------------------------------

    def set_throttle(self, subscription: str, variable: str | None, period: int) -> None:
        """At most one notification per value of the variable and period (µs). ValueError."""
        if period < 1:
            raise ValueError(f"the period of a throttle is positive, not {period}")
        with self.db.transaction() as db:
            self._throttles.put(db, subscription, Throttle(variable, period))

    def remove_throttle(self, subscription: str) -> None:
        with self.db.transaction() as db:
            self._throttles.put(db, subscription, None)

    def throttle(self, subscription: str) -> Throttle | None:
        with self.db.reading() as db:
            return self._throttles.get(db, subscription)

    def throttles(self, first: str, last: str) -> dict[str, Throttle]:
        """Those of subscriptions from one id to another, in the order of ids, by id."""
        with self.db.reading() as db:
            return self._throttles.between(db, first, last)

    def drop(self, subscription: str, pending: Literal["deliver", "drop"] = "deliver") -> None:
        """`drop_all` for one subscription."""
        self.drop_all([subscription], pending)

    def drop_all(
        self, subscriptions: Sequence[str], pending: Literal["deliver", "drop"] = "deliver"
    ) -> None:
        """Drop subscriptions that were removed. Their own channels deliver what is pending and are
        then removed, or are removed at once.

        With "drop" their matches are also deleted from the log, so that no channel delivers them.
        Matches of earlier subscriptions of these names stay until the channels that drain them are
        done. Matches of later subscriptions of these names count as new.
        """
        with self.db.lock:
            numbers = {id: self._numbers[id] for id in subscriptions if id in self._numbers}
            with self._caches.changing(self.db) as db:
                for id in subscriptions:
                    if id in self._throttles:
                        self._throttles.put(db, id, None)
                for channel in channels.of(db, subscriptions):
                    upto = self._last
                    if pending == "drop":
                        id = channel.subscription or ""
                        upto = retention.last_before(db, id, numbers.get(id))
                    channels.drain(db, channel, upto)
                gone = [*numbers.values()] if pending == "drop" else []
                left = [empty for number in gone for empty in retention.remove_member(db, number)]
                left = self._remove_some_of(db, left)
                renewed = {id: self._new_number(db, id) for id in numbers}
            self._numbers.update(renewed)
        self._changed()
        while left:
            with self._caches.changing(self.db) as db:
                left = self._remove_some_of(db, left)
        self._finish_draining()

    def _remove_some_of(self, db: sqlite3.Connection, audiences: Sequence[int]) -> list[int]:
        """Remove some of the rows of each of these audiences; returns those that have more."""
        documents = self._caches.documents
        return [each for each in audiences if retention.remove_some_of(db, documents, each)]

    def left_of(self, prefix: str) -> set[str]:
        """The ids that begin so of which there is something that `drop` takes away."""
        with self.db.reading() as db:
            return retention.left_of(db, prefix)

    def retain(
        self,
        delivered: int | None,
        undelivered: int | None = None,
        max_bytes: int | None = None,
        dead: int | None = None,
        now: int | None = None,
    ) -> int:
        """Delete old matches and dead letters (ages in microseconds; None: no bound): matches that
        all channels have delivered `delivered` after they entered the log, dead letters after
        `dead`.

        Matches that a channel has still to deliver become dead letters after `undelivered`. While
        more than `max_bytes` are in use, the oldest matches are deleted in any case. Returns how
        many matches were deleted.
        """
        removed = retention.retain(
            self.db,
            self._ids,
            self._caches,
            retention.Keep(delivered, undelivered, max_bytes, dead),
            self.now() if now is None else now,
        )
        self._finish_draining()
        self._changed()
        return removed

    def compact(self) -> int:
        """Give free space in the file back to the file system, in small steps; returns how many
        bytes."""
        return upkeep.compact(self.db)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy to `path`, which must not exist; readers and writers go on
        meanwhile."""
        upkeep.backup(self.db, Path(path))

    def figures(self) -> Figures:
        """The mailbox in numbers."""
        with self.db.reading() as db:
            return upkeep.figures(db, self._last)
