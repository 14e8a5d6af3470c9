"""Event time: the watermark, and which documents are too late.

The watermark is the highest time seen minus the allowed lateness, which each stream may have of its
own; a document of several streams has the largest of theirs. The highest time moves with documents,
and while none come with the clock (`heartbeat`), so that expiry does not depend on the next
document. It never falls.

The wall clock may be wrong, so it is never believed alone:

- A document moves the highest time no further than the clock, or one wrong date would make all
  others late.
- The heartbeat moves it by no more time than has really passed, measured by a clock that cannot
  jump, and never closer to the clock than `idle`. So an archive of last year that somebody sends
  with pauses does not become late.
- A jump of the clock, forward or back, is not followed until it has lasted for an hour
  (`WallClock`): until then the time is the old one plus what has passed.
- A clock that is set back by a little is followed by standing still, so that documents which come
  one after the other are dated in this order. It need not even be wrong: a thread that has read it
  may have to wait before it can say so.
- After a start nothing is deleted by what the clock says until it has gone on for an hour: until
  then only what was known to have come before, and what has passed since, counts (`come`).
- Where the highest time is ahead of the clock all the same, a wrong clock has put it there, perhaps
  before a restart. Then the clock counts, until it has caught up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from broker.model import UNBOUNDED
from xscl.syntax.durations import UNITS, format_microseconds

_TOLERANCE = 60_000_000
"""Microseconds by which a clock may be set right without that being a jump."""
_BELIEVED = 3_600_000_000
"""Microseconds for which a jump of the clock must last to be believed."""


def _about(duration: int) -> str:
    """A duration in the largest unit that it has, rounded: "69.5 days", "2.1 h", "15.0 s"."""
    for unit in ("days", "h", "min", "s"):
        if duration >= UNITS[unit]:
            return f"{duration / UNITS[unit]:.1f} {unit}"
    return format_microseconds(duration)


class WallClock:
    """The wall clock, corrected for jumps. `steady` is a monotonic clock; both count in
    microseconds. `believed` and `next` may be called from any thread."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self.steady = steady
        self._reading: tuple[int, int] | None = None
        """The last believed reading of the wall clock, and the steady clock's then."""
        self._jump = 0
        self._since = 0
        self._known: tuple[int, int] | None = None
        """A time that had come before this process began, and the steady clock's at its start."""
        self._doubted = steady()
        """When the clock was doubted last."""
        self._lock = threading.Lock()
        self._told = -UNBOUNDED
        """No earlier time is told."""

    def believed(self) -> int:
        """The time by the last believed reading and the steady clock; UNBOUNDED without a
        reading. It falls only where a jump back is believed."""
        with self._lock:
            if self._reading is None:
                return UNBOUNDED
            self._told = max(self._passed(self._reading), self._told)
            return self._told

    def next(self, count: int, now: int) -> int:
        """The first of so many times, a microsecond apart, all after those of earlier calls.
        Without a reading the machine's clock counts, which says `now`."""
        with self._lock:
            reading = self._reading
            first = max(now if reading is None else self._passed(reading), self._told)
            self._told = first + count
            return first

    def _passed(self, reading: tuple[int, int]) -> int:
        return reading[0] + self.steady() - reading[1]

    def begin(self, known: int) -> None:
        """Set a time that had come before this process began, from which on the wall clock has yet
        to prove itself."""
        self._doubted = self.steady()
        self._known = known, self._doubted

    def come(self) -> int:
        """A time that has come for certain, by which data may be deleted: not after the believed
        one; UNBOUNDED without a reading."""
        believed, known = self.believed(), self._known
        if known is None:
            return believed
        at = self.steady()
        if at - self._doubted >= _BELIEVED:
            return believed
        return min(believed, known[0] + at - known[1])

    def correct(self, now: int | None) -> int:
        """The believed time when the machine's clock says `now`; UNBOUNDED for None."""
        if now is None:
            return UNBOUNDED
        with self._lock:
            return max(self._corrected(now), self._told)

    def _corrected(self, now: int) -> int:
        at = self.steady()
        if self._reading is None:
            self._reading = now, at
            if self._told > now + _TOLERANCE:
                self._told = -UNBOUNDED
            return now
        expected = self._reading[0] + at - self._reading[1]
        jump = now - expected
        if abs(jump) > _TOLERANCE:
            if not self._jump or abs(jump - self._jump) > _TOLERANCE:
                self._jump, self._since = jump, at
            if at - self._since < _BELIEVED:
                self._doubted = at
                return expected
            self._doubted = self._since
            self._told = -UNBOUNDED
        self._reading, self._jump = (now, at), 0
        return now


class Watermark:
    """Decides which documents are late. All times are in microseconds: `lateness`, `of` for the
    streams that have a lateness of their own, and `idle`, the time without documents after which
    the watermark moves with the clock."""

    def __init__(
        self,
        highest: int,
        lateness: int,
        of: Mapping[str, int],
        idle: int,
        steady: Callable[[], int],
    ) -> None:
        self.highest = highest
        self.lateness = lateness
        self.largest = max([lateness, *of.values()])
        self.idle = idle
        self._of = dict(of)
        self._steady = steady
        self._moved = steady()
        """When a document came last, or the heartbeat moved the time."""

    def highest_at(self, now: int) -> int:
        """The highest time, or `now` if that is less: then a wrong clock has set the highest
        time."""
        return min(self.highest, now)

    def allowed(self, streams: tuple[str, ...]) -> int:
        """The lateness that is allowed for a document of these streams."""
        if not self._of:
            return self.lateness
        return max([self._of.get(stream, self.lateness) for stream in streams])

    def late_reason(self, timestamp: int, streams: tuple[str, ...], now: int) -> str | None:
        """Why a document is too late, None if it is not."""
        late = self.highest_at(now) - timestamp
        if late <= self.lateness and not self._of:
            return None
        allowed = self.allowed(streams)
        if late <= allowed:
            return None
        return f"late: {_about(late)} behind the newest, and {format_microseconds(allowed)} allowed"

    def touch(self) -> None:
        """Restart the idle time, because documents have come."""
        self._moved = self._steady()

    def heartbeat(self, now: int) -> bool:
        """Move the highest time with the clock if no documents have come for `idle`; returns
        whether it has moved."""
        passed = self._steady() - self._moved
        if passed < self.idle or self.highest <= -UNBOUNDED:
            return False
        self._moved += passed
        before = self.highest
        self.highest = max(before, min(before + passed, now - self.idle))
        return self.highest > before
