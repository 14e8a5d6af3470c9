"""Counts calls of functions: what work costs, whatever else the machine does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def calls() -> Iterator[list[int]]:
    """Counts the calls of functions."""
    count = [0]

    def called(_frame: FrameType, event: str, _of: object) -> None:
        count[0] += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield count
    finally:
        sys.setprofile(before)
