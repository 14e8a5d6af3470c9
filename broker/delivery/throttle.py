"""Throttles: at most one notification per value of a variable and period.

Throttles go by the end of matches, not by the clock: the same matches in the same order are
throttled the same way, however fast they come. A match is left out if a delivered one ends less
than a period before or after it and has a value of the variable in common (without a variable: in
any case). Matches that are left out are counted, and the count is reported with the next delivered
match of the value.

State is bounded: a delivered value is forgotten when it is two periods (at least `KEPT`) older than
the newest match, and of more than `MOST` values the oldest. A forgotten value is delivered again,
without its count.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence

from broker.delivery.model import Throttle
from broker.model import Match

KEPT = 8 * 86_400_000_000
"""Microseconds; matches of late documents end before newer ones."""
MOST = 100_000
_SWEEP = 1_000


class Throttles:
    """The throttles of all subscriptions, of each of which the newest `most` values are known.
    Called inside the mailbox's transactions."""

    def __init__(self, db: sqlite3.Connection, most: int = MOST) -> None:
        self._most = most
        self._by_subscription = {
            name: Throttle(variable, period)
            for name, variable, period in db.execute(
                "SELECT subscription, variable, period FROM throttle"
            )
        }
        self._admitted: defaultdict[str, int] = defaultdict(int)

    def __contains__(self, subscription: str) -> bool:
        return subscription in self._by_subscription

    def isdisjoint(self, subscriptions: Iterable[str]) -> bool:
        """Whether none of these has a throttle."""
        return not self._by_subscription or self._by_subscription.keys().isdisjoint(subscriptions)

    def get(self, db: sqlite3.Connection, subscription: str) -> Throttle | None:
        found = db.execute(
            "SELECT variable, period, left_out FROM throttle WHERE subscription = ?",
            (subscription,),
        ).fetchone()
        return Throttle(*found) if found else None

    def between(self, db: sqlite3.Connection, first: str, last: str) -> dict[str, Throttle]:
        """Those of subscriptions from one id to another, by id."""
        if not self._by_subscription:
            return {}
        rows = db.execute(
            "SELECT subscription, variable, period, left_out FROM throttle"
            " WHERE subscription BETWEEN ? AND ?",
            (first, last),
        )
        return {id: Throttle(*throttle) for id, *throttle in rows}

    def put(self, db: sqlite3.Connection, subscription: str, throttle: Throttle | None) -> None:
        """Set, change or (None) remove a throttle. A changed one remembers the delivered values."""
        if throttle is None:
            db.execute("DELETE FROM throttle WHERE subscription = ?", (subscription,))
            db.execute("DELETE FROM throttled WHERE subscription = ?", (subscription,))
            self._by_subscription.pop(subscription, None)
            return
        old = self._by_subscription.get(subscription)
        if old is not None and old.variable != throttle.variable:
            db.execute("DELETE FROM throttled WHERE subscription = ?", (subscription,))
        db.execute(
            "INSERT INTO throttle (subscription, variable, period) VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET variable = excluded.variable, period = excluded.period",
            (subscription, throttle.variable, throttle.period),
        )
        self._by_subscription[subscription] = throttle

    def admit(self, db: sqlite3.Connection, match: Match) -> int | None:
        """How many matches were left out before this one, which is delivered; None if this one is
        left out too."""
        name = match.query
        throttle = self._by_subscription[name]
        values = _values(match, throttle.variable)
        for value in values:
            near = db.execute(
                'SELECT "end" FROM throttled WHERE subscription = ? AND value = ? '
                'AND "end" > ? AND "end" < ? LIMIT 1',
                (name, value, match.end_us - throttle.period, match.end_us + throttle.period),
            ).fetchone()
            if near is not None:
                db.execute(
                    "UPDATE throttled SET left_out = left_out + 1 "
                    'WHERE subscription = ? AND value = ? AND "end" = ?',
                    (name, value, near[0]),
                )
                db.execute(
                    "UPDATE throttle SET left_out = left_out + 1 WHERE subscription = ?", (name,)
                )
                return None
        left_out = 0
        for value in values:
            (unreported,) = db.execute(
                "SELECT coalesce(sum(left_out), 0) FROM throttled "
                "WHERE subscription = ? AND value = ?",
                (name, value),
            ).fetchone()
            if unreported:
                db.execute(
                    "UPDATE throttled SET left_out = 0 WHERE subscription = ? AND value = ?",
                    (name, value),
                )
            left_out += unreported
            db.execute("INSERT INTO throttled VALUES (?, ?, ?, 0)", (name, value, match.end_us))
        self._admitted[name] += 1
        if self._admitted[name] >= _SWEEP:
            self._admitted[name] = 0
            self._forget(db, name, throttle)
        return left_out

    def _forget(self, db: sqlite3.Connection, name: str, throttle: Throttle) -> None:
        (newest,) = db.execute(
            'SELECT max("end") FROM throttled WHERE subscription = ?', (name,)
        ).fetchone()
        (beyond,) = db.execute(
            'SELECT coalesce(max("end"), ?) FROM (SELECT "end" FROM throttled '
            'WHERE subscription = ? ORDER BY "end" DESC LIMIT -1 OFFSET ?)',
            (-(2**62), name, self._most),
        ).fetchone()
        last = max(newest - max(2 * throttle.period, KEPT), beyond)
        db.execute('DELETE FROM throttled WHERE subscription = ? AND "end" <= ?', (name, last))


def _values(match: Match, variable: str | None) -> Sequence[bytes]:
    texts = match.values.get(variable, []) if variable is not None else []
    coded = [json.dumps(text) for text in dict.fromkeys(texts)] or [""]
    return [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in coded]
