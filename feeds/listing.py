"""What the user says of a feed: its folder, its name, whether it was typed, since when it is news.

In: the file of a spool. Out: `Listing`s by the feed's url; a table of the spool's database, beside
what is known of the fetches (`state`). Any process may write it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from feeds.poll import Terms

TABLE = """
CREATE TABLE IF NOT EXISTS listing (
    url TEXT PRIMARY KEY, title TEXT NOT NULL, folder TEXT NOT NULL, typed INTEGER NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Listing:
    """`title` and `folder` ("a/b") are the user's, "" for none.

    A feed that was `typed` may be on a private address; one that came out of a file that others
    wrote, or out of a page, may not. `since` (microseconds since the epoch) is the time after which
    an item of the feed's first document is news; what is older is history (`identity.is_history`).
    """

    url: str
    title: str = ""
    folder: str = ""
    typed: bool = False
    since: int = 0


_NAMES = [field.name for field in fields(Listing)]
_COLUMNS = ", ".join(_NAMES)


class Listings(AbstractContextManager["Listings"]):
    """The listings in the file of a spool, which must be there, for one thread at a time.

    Raises sqlite3.Error.
    """

    def __init__(self, path: str | Path) -> None:
        uri = Path(path).resolve().as_uri() + "?mode=rw"
        self._db = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(TABLE)

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def all(self) -> dict[str, Listing]:
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM listing ORDER BY url")
        return {row[0]: _of(*row) for row in rows}

    def terms(self, url: str) -> Terms:
        """On what terms the poller fetches a feed; one that is not listed was typed by the user."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM listing WHERE url = ?", (url,)).fetchone()
        if row is None:
            return Terms()
        listing = _of(*row)
        return Terms(private=listing.typed, since=listing.since)

    def save(self, listings: Iterable[Listing]) -> None:
        """Store listings, each in place of the feed's former one; all or none."""
        marks = ", ".join("?" * len(_NAMES))
        with self._db:
            self._db.executemany(
                f"INSERT OR REPLACE INTO listing ({_COLUMNS}) VALUES ({marks})",
                [astuple(listing) for listing in listings],
            )

    def remove(self, urls: Iterable[str]) -> None:
        with self._db:
            self._db.executemany("DELETE FROM listing WHERE url = ?", [(url,) for url in urls])


def _of(*row: Any) -> Listing:
    url, title, folder, typed, since = row
    return Listing(url, title, folder, bool(typed), since)
