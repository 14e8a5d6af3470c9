"""Audiences: the subscriptions that share the rows of matches.

A row of the table `match` is one match of all subscriptions of its audience. Its number `n` is the
number in the log of the last of them; a member's own is `n - back`. The next match of the same
subscriptions has the same audience, so a further subscriber of a query costs no row for a match.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

import numpy as np

_REMEMBERED = 100_000


class Audiences:
    """Numbers of audiences. To be called in a transaction; after one that failed `forget_all`."""

    def __init__(self) -> None:
        self._known: dict[int | bytes, int] = {}

    def of(self, db: sqlite3.Connection, subscriptions: Sequence[int]) -> int:
        """The audience of subscriptions whose matches have consecutive numbers in this order."""
        if len(subscriptions) == 1:  # known by its subscription's number, and not by a hash
            return self._number(db, subscriptions[0], subscriptions, (0,))
        backs = range(len(subscriptions) - 1, -1, -1)
        return self._number(db, _key(subscriptions, backs), subscriptions, backs)

    def among(self, db: sqlite3.Connection, members: Sequence[tuple[int, int]]) -> int:
        """The audience of these members: subscriptions, and how far before the row's number theirs
        are."""
        subscriptions, backs = [s for s, _ in members], [back for _, back in members]
        return self._number(db, _key(subscriptions, backs), subscriptions, backs)

    def _number(
        self,
        db: sqlite3.Connection,
        key: int | bytes,
        subscriptions: Sequence[int],
        backs: Sequence[int],
    ) -> int:
        number = self._known.get(key)
        if number is not None:
            return number
        found = db.execute("SELECT number FROM audience WHERE key = ?", (key,)).fetchone()
        if found is None:
            number = db.execute("INSERT INTO audience (key) VALUES (?)", (key,)).lastrowid
            assert number is not None
            db.executemany(
                "INSERT INTO member (subscription, audience, back) VALUES (?, ?, ?)",
                [(s, number, back) for s, back in zip(subscriptions, backs, strict=True)],
            )
        else:
            number = int(found[0])
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = number
        return number

    def forget_all(self) -> None:
        """Look for all audiences in the file again."""
        self._known.clear()

    def forget_unused(self, db: sqlite3.Connection, limit: int) -> bool:
        """Delete audiences without matches, at most so many; returns whether there may be more."""
        unused = db.execute(
            "SELECT number FROM audience WHERE NOT EXISTS "
            "(SELECT 1 FROM match WHERE match.audience = audience.number) LIMIT ?",
            (limit,),
        ).fetchall()
        if unused:
            self._known.clear()
            db.executemany("DELETE FROM member WHERE audience = ?", unused)
            db.executemany("DELETE FROM audience WHERE number = ?", unused)
        return len(unused) == limit


def _key(subscriptions: Sequence[int], backs: Sequence[int]) -> bytes:
    digest = hashlib.blake2b(np.array(subscriptions, "<i8").tobytes(), digest_size=16)
    digest.update(np.array(backs, "<i8").tobytes())
    return digest.digest()
