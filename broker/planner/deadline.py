"""How long planning may take."""

from __future__ import annotations

from time import perf_counter


class OutOfTime(Exception):
    """Planning has taken as long as it may."""


class Deadline:
    """`seconds` from now on; None: there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else perf_counter() + seconds

    def sooner(self, share: float) -> Deadline:
        """One that passes when this share of the time is over."""
        found = Deadline(self._seconds)
        if self._seconds is not None and self._end is not None:
            found._end = self._end - self._seconds * (1 - share)
        return found

    @property
    def passed(self) -> bool:
        return self._end is not None and perf_counter() >= self._end

    def check(self) -> None:
        """Raises OutOfTime."""
        if self.passed:
            raise OutOfTime
