"""How much a pattern may try, and how it is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from xscl.interruption import PENDING, check

CHOICES = 100_000
"""Choices among the nodes of documents that may be tried to see whether one conjunct holds."""

_FEW = 1_000
"""So many need not be counted."""


class TooMuch(Exception):
    """A pattern has more to try than it may."""


def choices(*values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """The choices of one value of each, as many as may be tried. Raises TooMuch."""
    every = product(*values)
    return every if prod(map(len, values)) <= _FEW else _counted(every)


def _counted(every: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for number, choice in enumerate(every):
        if PENDING:
            check()
        if number == CHOICES:
            raise TooMuch
        yield choice
