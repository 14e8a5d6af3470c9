"""The log of all matches: durable, in order of arrival, read by number.

In: matches from the engine's outbox, once or, after a crash, again. Out: matches by their number in
the log. `take` returns when they are on the disk; then the engine may delete them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from broker.delivery import ids, places, upkeep
from broker.delivery.audiences import Audiences
from broker.delivery.caches import Caches
from broker.delivery.channels import subscription_numbers
from broker.delivery.documents import LARGEST, REMEMBERED, Documents
from broker.delivery.model import Delivered
from broker.delivery.tables import Database, count, insert
from broker.delivery.throttle import MOST, Throttles
from broker.model import MICROSECONDS, Match, iso_time
from broker.rendering.lines import match_lines
from broker.shared_match import SharedMatch

Changed = Callable[[Collection[str] | None], None]
"""Called with the subscriptions that have new matches, or None if something else changed."""


class Taken(NamedTuple):
    """A row that the log has taken: the number of its last match, the match of all its subscribers,
    and how many were left out before it."""

    n: int
    match: SharedMatch
    left_out: int

    def lines(self, taken: int) -> Iterator[tuple[int, bytes]]:
        """The number of each match in the log, which took them at this time, and a line with what
        `Delivered.to_json` says of it."""
        behind = b',"taken":"%b"' % iso_time(taken).encode()
        if self.left_out:
            behind += b',"left_out":%d' % self.left_out
        behind += b"}\n"
        for n, pieces in enumerate(match_lines(self.match), self.n - len(self.match) + 1):
            yield n, b"".join([b'{"n":%d,' % n, *pieces, behind])


_Piece = tuple[SharedMatch, Sequence[int], bytes, int]
"""A row to be: the match, the numbers of its subscriptions, its entries (see `ids`), and how many
matches were left out before it."""

_AT_ONCE = 500
"""Rows that are made before they are stored: very many matches are never in memory as text."""


class Log:
    """The log in the file at `path`, made if it is not there. `clock` gives seconds since 1970.

    It recognises repetitions of the newest `remembered` matches, remembers the newest `throttled`
    values of each throttle, and stores none of the newest `documents` bytes of documents twice.
    Raises MailboxError, here and later, for a file that is damaged or not a mailbox, and if the
    disk is full.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Callable[[], float] = time.time,
        remembered: int = ids.REMEMBERED,
        throttled: int = MOST,
        documents: int = REMEMBERED,
    ) -> None:
        self.path = Path(path)
        self.clock = clock
        self.db = Database(self.path)
        self._listeners: list[Changed] = []
        self._followers: list[Callable[[Sequence[Taken], int], None]] = []
        with self.db.transaction() as db:
            self._ids = ids.Ids(db, remembered)
            self._throttles = Throttles(db, throttled)
            self._caches = Caches(Audiences(), Documents(db, documents))
            self._numbers: dict[str, int] = dict(
                db.execute("SELECT name, max(number) FROM subscription GROUP BY name")
            )
        self._last = self.db.last()

    def close(self) -> None:
        self.db.close()

    def now(self) -> int:
        """Microseconds, by the mailbox's clock."""
        return round(self.clock() * MICROSECONDS)

    # -- the log -----------------------------------------------------------------------------------

    def take(self, matches: Sequence[Match | SharedMatch], now: int | None = None) -> int:
        """Append matches, in order, in one transaction; those that were appended before are
        skipped.

        Returns how many were appended, each subscriber's counted. A match that a throttle leaves
        out is counted by the throttle, but not appended.
        """
        if not matches:
            return 0
        now = self.now() if now is None else now
        given = [m if isinstance(m, SharedMatch) else SharedMatch.of(m) for m in matches]
        names = set[str]().union(*[match.queries for match in given])
        with self._caches.changing(self.db, counted=False) as db:
            new = self._number(db, names)
            numbers = {name: new.get(name) or self._numbers[name] for name in names}
            rows, logged, left_out = self._append(db, given, numbers, now)
        self._numbers.update(new)
        self._ids.add(logged + left_out)
        self._last += ids.count(logged)
        if rows:
            for follower in list(self._followers):
                follower(rows, now)
            self._notify(names)
        return sum([len(row.match) for row in rows])

    def _append(
        self,
        db: sqlite3.Connection,
        matches: Sequence[SharedMatch],
        numbers: Mapping[str, int],
        now: int,
    ) -> tuple[list[Taken], bytes, bytes]:
        """Append matches of numbered subscriptions; returns the rows and the entries of those that
        are in the log now, and the entries of those that were left out."""
        subscriptions = [[numbers[name] for name in match.queries] for match in matches]
        entries = [*map(ids.entries, matches, subscriptions)]
        known = self._ids.known(db, b"".join(entries))
        rows: list[tuple[Taken, int]] = []
        stored: list[Taken] = []
        logged: list[bytes] = []
        left_out: list[bytes] = []
        n = self._last
        for match, own, blob in zip(matches, subscriptions, entries, strict=True):
            pieces: Iterable[_Piece] = ((match, own, blob, 0),)
            if known is not None or not self._throttles.isdisjoint(match.queries):
                pieces = self._admitted(db, match, own, blob, known, left_out)
            for piece, members, taken, before in pieces:
                n += len(members)
                rows.append((Taken(n, piece, before), self._caches.audiences.of(db, members)))
                logged.append(taken)
            if len(rows) >= _AT_ONCE:
                self._insert(db, rows, now)
                stored += [row for row, _ in rows]
                rows.clear()
        self._insert(db, rows, now)
        stored += [row for row, _ in rows]
        inside, outside = b"".join(logged), b"".join(left_out)
        ids.store(db, now, self._last + 1, inside, outside)
        new, left = ids.count(inside), ids.count(outside)
        count(db, "taken", "", new)
        count(db, "left_out", "", left)
        count(db, "repeated", "", sum(map(len, matches)) - new - left)
        return stored, inside, outside

    def _insert(self, db: sqlite3.Connection, rows: Sequence[tuple[Taken, int]], now: int) -> None:
        """Store matches with their audiences."""
        documents = [_referred(row.match) for row, _ in rows]
        values = []
        for ((n, match, before), audience), xml, docs in zip(
            rows, documents, self._caches.documents.store(db, documents), strict=True
        ):
            head, result = (match.shared.dumps(match), b"") if xml else match.dumps()
            encoded = head.encode("utf-8", "surrogatepass")
            ids_of_all = match.ids or None
            values.append((n, audience, now, before, encoded, result, ids_of_all, docs or None))
        insert(db, "match (n, audience, taken, left_out, head, result, ids, docs)", values)

    def _admitted(
        self,
        db: sqlite3.Connection,
        match: SharedMatch,
        subscriptions: Sequence[int],
        entries: bytes,
        known: set[bytes] | None,
        left_out: list[bytes],
    ) -> list[_Piece]:
        """A match for those of its subscribers that do not have it yet, and are not throttled; one
        with a throttle has it apart, since its matches are others the next time."""
        found: list[_Piece] = []
        common: list[int] = []
        each = ids.each(entries)
        for place, entry in enumerate(each):
            if known is not None:
                if entry in known:
                    continue
                known.add(entry)
            if match.queries[place] not in self._throttles:
                common.append(place)
                continue
            before = self._throttles.admit(db, match[place])
            if before is None:
                left_out.append(entry)
            else:
                found.append((match.only([place]), [subscriptions[place]], entry, before))
        if common:
            members = [subscriptions[place] for place in common]
            blob = b"".join([each[place] for place in common])
            found.insert(0, (match.only(common), members, blob, 0))
        return found

    def begin_behind(self, n: int) -> int | None:
        """In a new file, number matches and events above n; returns n, or None if the file has
        numbers already.

        A file that replaces a lost one must not use the numbers of the lost one again.
        """
        with self.db.transaction() as db:
            begun = db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'match'").fetchone()
            if begun:
                return None
            # An event may have its number before that of matches is decided.
            db.execute("DELETE FROM sqlite_sequence WHERE name = 'event' AND seq < ?", (n,))
            db.execute("INSERT INTO sqlite_sequence VALUES ('match', ?)", (n,))
            db.execute(
                "INSERT INTO sqlite_sequence SELECT 'event', ? WHERE NOT EXISTS "
                "(SELECT 1 FROM sqlite_sequence WHERE name = 'event')",
                (n,),
            )
        self._last = n
        return n

    def _number(self, db: sqlite3.Connection, names: Collection[str]) -> dict[str, int]:
        """Numbers for those subscriptions that have none."""
        missing = [name for name in names if name not in self._numbers]
        return {name: self._new_number(db, name) for name in missing}

    def _new_number(self, db: sqlite3.Connection, name: str) -> int:
        number = db.execute("INSERT INTO subscription (name) VALUES (?)", (name,)).lastrowid
        assert number is not None
        return number

    def at(self, numbers: Sequence[int]) -> list[Delivered]:
        """The matches of these numbers that are still stored."""
        with self.db.snapshot() as db:
            return places.load(db, places.at(db, numbers))

    def last(self) -> int:
        """The highest number in the log so far, 0 if none."""
        return self._last

    def matches(
        self, subscription: str | Sequence[str] | None = None, after: int = 0, limit: int = 1_000
    ) -> list[Delivered]:
        """The matches with n > after of one subscription, of several, or (None) of all; oldest
        first."""
        with self.db.snapshot() as db:
            if subscription is None:
                return places.load(db, places.of_all(db, after, limit))
            names = [subscription] if isinstance(subscription, str) else subscription
            numbers = subscription_numbers(db, names)
            return places.load(db, places.of_subscriptions(db, numbers, after, limit))

    def latest(
        self, subscription: str | Sequence[str] | None, limit: int, upto: int = places.LAST
    ) -> list[Delivered]:
        """The newest matches of a subscription, of several, or (None) of all, with n <= upto;
        newest first."""
        with self.db.snapshot() as db:
            if subscription is None:
                found = places.of_all(db, 0, limit, upto, newest=True)
            else:
                names = [subscription] if isinstance(subscription, str) else subscription
                numbers = subscription_numbers(db, names)
                found = places.of_subscriptions(db, numbers, 0, limit, upto, newest=True)
            return places.load(db, found)

    def taken_since(self, subscription: str, since: int, limit: int) -> list[int]:
        """When the matches of a subscription were taken, from a time on, in microseconds; of more
        than `limit` that many."""
        with self.db.snapshot() as db:
            return places.taken_since(db, subscription_numbers(db, [subscription]), since, limit)

    def find(self, match_id: str) -> Delivered | None:
        """A match of the log by its id."""
        with self.db.snapshot() as db:
            for n in ids.find(db, match_id):
                for found in places.load(db, places.at(db, [n])):
                    if found.match.id == match_id:
                        return found
        return None

    def holds(self, subscription: str) -> bool:
        """Whether the log has matches of the current subscription of this name, and not only of one
        dropped before."""
        number = self._numbers.get(subscription)
        return number is not None and bool(
            self.db.rows(
                "SELECT 1 FROM member CROSS JOIN match USING (audience)"
                " WHERE subscription = ? LIMIT 1",
                number,
            )
        )

    def skip_numbers(self) -> None:
        """Continue with numbers far above the last one. To be called after a restore: consumers may
        have seen numbers above those of the backup, and a consumer that continues after such a
        number then misses nothing."""
        with self.db.transaction() as db:
            last = upkeep.skip_numbers(db)
        self._last = last

    def proof(self) -> tuple[int, int, tuple[int, int]]:
        """How many transactions the file has, the last number of its log, and the number and the
        checksum of its newest batch, zeros if there is none."""
        with self.db.snapshot() as db:
            return (*self.db.counted(db), ids.checksum(db) or (0, 0))

    def batch_sum(self, batch: int) -> int | None:
        """The checksum of a batch of matches; None if it is not there."""
        with self.db.reading() as db:
            found = ids.checksum(db, batch)
        return None if found is None else found[1]

    def check(self) -> None:
        """Check the whole file. Raises MailboxError if it is damaged."""
        with self.db.reading() as db:
            self.db.check(db)

    def watch(self, callback: Changed) -> Callable[[], None]:
        """Register a function to call after each change, in any thread; returns the function that
        unregisters it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def follow(self, callback: Callable[[Sequence[Taken], int], None]) -> Callable[[], None]:
        """Register a function to call with all that is appended, in its order, and with the time of
        that, by the thread that has stored it; returns the function that unregisters it."""
        self._followers.append(callback)
        return lambda: self._followers.remove(callback)

    def _notify(self, names: Collection[str] | None) -> None:
        for listener in list(self._listeners):
            listener(names)


def _referred(match: SharedMatch) -> tuple[bytes, ...]:
    """The documents that a match refers to in the log; none if it is stored whole."""
    xml = match.shared.xml()
    return xml if sum(map(len, xml)) <= LARGEST else ()
