"""How much a pattern may try, and how it is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from threading import get_ident
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


@contextmanager
def allowed(choices: int) -> Iterator[None]:
    """A block in which this thread may try so many choices among nodes in all."""
    me = get_ident()
    _ALLOWED[me] = choices
    try:
        yield
    finally:
        del _ALLOWED[me]


_ALLOWED: dict[int, int] = {}
"""By thread, what is left of what it may try in all."""


def _counted(every: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    me = get_ident()
    most = _ALLOWED.get(me, CHOICES)
    number = 0
    try:
        for choice in every:
            if PENDING:
                check()
            if number >= most:
                raise TooMuch
            number += 1
            yield choice
    finally:
        if me in _ALLOWED:
            _ALLOWED[me] -= number
