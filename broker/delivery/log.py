"""The log of all matches: durable, in order of arrival, read by number.

In: matches from the engine's outbox, once or, after a crash, again. Out: matches by their number in
the log. `take` returns when they are on the disk; then the engine may delete them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from broker.delivery import ids
from broker.delivery.model import Delivered
from broker.delivery.tables import Database, count
from broker.delivery.throttle import MOST, Throttles
from broker.model import MICROSECONDS, Match

Changed = Callable[[Collection[str] | None], None]
"""Called with the subscriptions that have new matches, or None if something else changed."""

_MATCH = "n, taken, head, result, left_out"


class Log:
    """The log in the file at `path`, made if it is not there. `clock` gives seconds since 1970.

    It recognises repetitions of the newest `remembered` matches, and remembers the newest
    `throttled` values of each throttle. Raises MailboxError, here and later, for a file that is
    damaged or not a mailbox, and if the disk is full.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Callable[[], float] = time.time,
        remembered: int = ids.REMEMBERED,
        throttled: int = MOST,
    ) -> None:
        self.path = Path(path)
        self.clock = clock
        self.db = Database(self.path)
        self._listeners: list[Changed] = []
        with self.db.transaction() as db:
            self._ids = ids.Ids(db, remembered)
            self._throttles = Throttles(db, throttled)
            self._numbers: dict[str, int] = dict(
                db.execute("SELECT name, max(number) FROM subscription GROUP BY name")
            )
        self._last = self._committed()

    def close(self) -> None:
        self.db.close()

    def now(self) -> int:
        """Microseconds, by the mailbox's clock."""
        return round(self.clock() * MICROSECONDS)

    # -- the log -----------------------------------------------------------------------------------

    def take(self, matches: Sequence[Match], now: int | None = None) -> int:
        """Append matches, in order, in one transaction; those that were appended before are
        skipped.

        Returns how many were appended. A match that a throttle leaves out is counted by the
        throttle, but not appended.
        """
        if not matches:
            return 0
        now = self.now() if now is None else now
        with self.db.transaction() as db:
            numbers = self._number(db, {match.query for match in matches})
            entries = [ids.entry(match.id, numbers[match.query]) for match in matches]
            known = self._ids.known(db, entries)
            throttled = self._throttles
            rows: list[tuple[int, int, int, int, bytes, bytes]] = []
            logged: list[bytes] = []
            left_out: list[bytes] = []
            first = n = self._last + 1
            for match, entry in zip(matches, entries, strict=True):
                if entry in known:
                    continue
                known.add(entry)
                before = 0
                if match.query in throttled:
                    admitted = throttled.admit(db, match)
                    if admitted is None:
                        left_out.append(entry)
                        continue
                    before = admitted
                head, result = match.dumps()
                number = numbers[match.query]
                rows.append((n, number, now, before, head.encode("utf-8", "surrogatepass"), result))
                logged.append(entry)
                n += 1
            db.executemany(
                "INSERT INTO match (n, subscription, taken, left_out, head, result) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            ids.store(db, now, first, logged, left_out)
            count(db, "taken", "", len(logged))
            count(db, "left_out", "", len(left_out))
            count(db, "repeated", "", len(matches) - len(logged) - len(left_out))
        self._last = n - 1
        self._numbers.update(numbers)
        self._ids.add(logged + left_out)
        if rows:
            self._notify({match.query for match in matches})
        return len(rows)

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

    def _committed(self) -> int:
        """The highest number used so far, as committed in the file."""
        ((last,),) = self.db.rows("SELECT max(seq) FROM sqlite_sequence WHERE name = 'match'")
        return last or 0

    def _number(self, db: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
        """The numbers of subscriptions; those without one get one."""
        numbers = {}
        for name in names:
            number = self._numbers.get(name)
            numbers[name] = self._new_number(db, name) if number is None else number
        return numbers

    def _new_number(self, db: sqlite3.Connection, name: str) -> int:
        number = db.execute("INSERT INTO subscription (name) VALUES (?)", (name,)).lastrowid
        assert number is not None
        return number

    def at(self, numbers: Sequence[int]) -> list[Delivered]:
        """The matches of these numbers that are still stored."""
        marks = ",".join("?" * len(numbers))
        rows = self.db.rows(f"SELECT {_MATCH} FROM match WHERE n IN ({marks})", *numbers)
        return [_delivered(row) for row in rows]

    def last(self) -> int:
        """The highest number in the log so far, 0 if none."""
        return self._last

    def matches(
        self, subscription: str | Sequence[str] | None = None, after: int = 0, limit: int = 1_000
    ) -> list[Delivered]:
        """The matches with n > after of one subscription, of several, or (None) of all; oldest
        first."""
        if subscription is None:
            sql = f"SELECT {_MATCH} FROM match WHERE n > ? ORDER BY n LIMIT ?"
            return [_delivered(row) for row in self.db.rows(sql, after, limit)]
        names = [subscription] if isinstance(subscription, str) else subscription
        return self._of(names, "AND n > ? ORDER BY n", after, limit)

    def latest(self, subscription: str, limit: int) -> list[Delivered]:
        """The newest matches of a subscription, newest first."""
        return self._of([subscription], "ORDER BY n DESC", limit)

    def _of(self, names: Sequence[str], which: str, *parameters: int) -> list[Delivered]:
        """Matches of subscriptions; the last parameter is the limit."""
        wanted = self._all_numbers(names)
        if not wanted:
            return []
        # Their places first, in the index: left alone, SQLite may walk through the whole log, or
        # sort whole rows.
        order = which[which.index("ORDER") :]
        rows = self.db.rows(
            f"SELECT {_MATCH} FROM match WHERE n IN ("
            "SELECT n FROM match INDEXED BY match_subscription "
            f"WHERE subscription IN ({','.join('?' * len(wanted))}) {which} LIMIT ?) {order}",
            *wanted,
            *parameters,
        )
        return [_delivered(row) for row in rows]

    def find(self, match_id: str) -> Delivered | None:
        """A match of the log by its id."""
        with self.db.reading() as db:
            for n in ids.find(db, match_id):
                row = db.execute(f"SELECT {_MATCH} FROM match WHERE n = ?", (n,)).fetchone()
                if row is not None and (found := _delivered(row)).match.id == match_id:
                    return found
        return None

    def holds(self, subscription: str) -> bool:
        """Whether the log has matches of the current subscription of this name, and not only of one
        dropped before."""
        number = self._numbers.get(subscription)
        return number is not None and bool(
            self.db.rows("SELECT 1 FROM match WHERE subscription = ? LIMIT 1", number)
        )

    def _all_numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of the subscriptions of these names, also of dropped ones."""
        found: list[int] = []
        for start in range(0, len(names), 500):
            part = names[start : start + 500]
            found += (
                number
                for (number,) in self.db.rows(
                    f"SELECT number FROM subscription WHERE name IN ({','.join('?' * len(part))})",
                    *part,
                )
            )
        return found

    def watch(self, callback: Changed) -> Callable[[], None]:
        """Register a function to call after each change, in any thread; returns the function that
        unregisters it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def _notify(self, names: Collection[str] | None) -> None:
        for listener in list(self._listeners):
            listener(names)


def _delivered(row: tuple[int, int, bytes, bytes, int]) -> Delivered:
    n, taken, head, result, left_out = row
    return Delivered(n, taken, Match.loads(head.decode("utf-8", "surrogatepass"), result), left_out)
