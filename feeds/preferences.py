"""The user's settings for each feed: folder, title, interval, whether it may be private, and from
which time on its items are news.

In: the file of a spool. Out: `Preferences` by the feed's url; a table of the spool's database,
beside the state of the fetches (`feed_state`). Any process may write it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from feeds.poll import Terms

# The table is called "listing" and its column "typed" because states that exist have these names.
TABLE = """
CREATE TABLE IF NOT EXISTS listing (
    url TEXT PRIMARY KEY, title TEXT NOT NULL, folder TEXT NOT NULL, typed INTEGER NOT NULL,
    since INTEGER NOT NULL, interval REAL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Preferences:
    """`title` and `folder` ("a/b") are the user's, "" for none.

    A feed that may be `private` may be on a private address, or a file. `since` (microseconds since
    the epoch) is the time after which an item of the feed's first document is news; what is older
    is history (`identity.is_history`). With an `interval` (seconds) the feed is fetched as often.
    """

    url: str
    title: str = ""
    folder: str = ""
    private: bool = False
    since: int = 0
    interval: float | None = None


_COLUMNS = "url, title, folder, typed, since, interval"


class PreferenceTable(AbstractContextManager["PreferenceTable"]):
    """The preferences in the file of a spool, which must be there, for one thread at a time.

    Raises sqlite3.Error.
    """

    def __init__(self, path: str | Path) -> None:
        uri = Path(path).resolve().as_uri() + "?mode=rw"
        self._db = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(TABLE)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            columns = [row[1] for row in self._db.execute("PRAGMA table_info(listing)")]
            if "interval" not in columns:  # a state from before feeds had one
                self._db.execute("ALTER TABLE listing ADD COLUMN interval REAL")

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def all(self) -> dict[str, Preferences]:
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM listing ORDER BY url")
        return {row[0]: _of(*row) for row in rows}

    def of(self, url: str) -> Preferences | None:
        """The preferences of a feed, None if none were stored."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM listing WHERE url = ?", (url,)).fetchone()
        return None if row is None else _of(*row)

    def terms(self, url: str) -> Terms:
        """How the poller fetches a feed; one without preferences may be private."""
        found = self.of(url)
        if found is None:
            return Terms()
        return Terms(private=found.private, since=found.since, interval=found.interval)

    def save(self, preferences: Iterable[Preferences]) -> None:
        """Store preferences, each in place of the feed's former ones; all or none."""
        marks = ", ".join("?" * len(fields(Preferences)))
        with self._db:
            self._db.executemany(
                f"INSERT OR REPLACE INTO listing ({_COLUMNS}) VALUES ({marks})",
                [astuple(each) for each in preferences],
            )

    def remove(self, urls: Iterable[str]) -> None:
        with self._db:
            self._db.executemany("DELETE FROM listing WHERE url = ?", [(url,) for url in urls])


def _of(*row: Any) -> Preferences:
    url, title, folder, private, since, interval = row
    return Preferences(url, title, folder, bool(private), since, interval)
