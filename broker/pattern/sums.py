"""Exact sums, so that the order in which documents came changes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def total(numbers: Sequence[float]) -> float:
    """The sum of numbers, rounded once: infinite beyond what a number can be, NaN where both
    infinities are among them."""
    try:
        return math.fsum(numbers)
    except ValueError:  # of both infinities
        return math.nan
    except OverflowError:
        # It may come back from there: 1e308 + 1e308 - 1e308.
        exact = sum([Fraction(number) for number in numbers])
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf
