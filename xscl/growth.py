"""Making very many objects that stay, without Python's collector looking through them all the
time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1_000
"""Queries; fewer leave too little to be worth it."""


@contextmanager
def growing(queries: int) -> Iterator[None]:
    """Around work on so many queries. Trees and what is made of them have no cycles: looking for
    them again and again while very many grow costs three times as much as making them."""
    if queries < _LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
