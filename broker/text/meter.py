"""Counts the characters of a text while it is made of parts."""

from __future__ import annotations

from xscl.functions.texts import TextTooLong
from xscl.interruption import PENDING, check


class Meter:
    """Room for so many characters, and how many were `used`."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.used = 0

    def __call__(self, text: str) -> str:
        """The text, counted. Raises TextTooLong where there is no room left, and what the thread is
        to end with."""
        if PENDING:
            check()
        self.used += len(text)
        if self.used > self.room:
            raise TextTooLong
        return text
