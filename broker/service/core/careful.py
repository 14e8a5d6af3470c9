"""The document at which a search did not end: it is matched with care when its turn comes again.

In: rows before they are matched, and searches that were stopped. Out: marks in the file of the
state, and what was learnt, see `broker/join/work.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from broker.join.work import Care, Stopped, Work
from broker.service.core.marks import Marks
from feeds.rows import DocumentRow

_log = structlog.get_logger(__name__)


class Careful:
    """What is known of one row of the spool, and of queries that were set aside. `applied` is the
    number of the last row that is matched."""

    def __init__(self, marks: Marks, work: Work, applied: int) -> None:
        self.marks = marks
        self._work = work
        self._row: tuple[int, Care] | None = None
        """The row of the spool that is matched with care."""
        self._suspects: set[str] = set()
        """Queries that were set aside because a search was stopped."""
        if marks.last:
            _log.warning("service.died", at=marks.last, applied=applied)
            if marks.care is not None:
                self._row = (marks.last, marks.care)
        work.entered = marks.entered

    @contextmanager
    def matching(self, rows: Sequence[DocumentRow]) -> Iterator[None]:
        """A block that matches rows, which are marked before; with care if they are one at which
        the search did not end before."""
        first, last = rows[0].seq or 0, rows[-1].seq or 0
        row = self._row
        care = row[1] if row is not None and first == last == row[0] else None
        self.marks.begin(first, last, care)
        self._work.care = care
        try:
            yield
        except BaseException:
            self.marks.end()
            raise
        finally:
            self._work.care = None

    def largest(self, position: int) -> int | None:
        """How many rows after `position` may be matched at once, after the process has died at
        some; None for any number."""
        return 1 if position < self.marks.last else None

    def learn(self, row: DocumentRow, why: Stopped) -> bool:
        """Learn from a search of one document that was stopped; whether to search it again."""
        if self._row is None or self._row[0] != (row.seq or 0):
            self.await_row(row)
            return True
        learnt = self._row[1].stopped(why)
        self._suspects |= self._row[1].aside.keys()
        return learnt

    def hopeless(self, row: DocumentRow) -> str | None:
        """Why a document does not get through, with whatever queries; None if that is not known."""
        known = self._row
        return known[1].hopeless if known is not None and known[0] == row.seq else None

    def await_row(self, row: DocumentRow) -> None:
        """Match a row with care when its turn comes."""
        self._row = (row.seq or 0, Care(self._suspects))
