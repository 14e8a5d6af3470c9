"""What documents with hot values have to do with the lists of those, as far as it is worked out
once.

For documents of one pattern that is a `Recipe`: which lists matter. For documents with the same hot
values it is a `Meeting`: the lists themselves. `broker/join/frequent.py` makes both and keeps them
true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.join.records import Record
from broker.join.signatures import Verdict
from broker.join.time_lists import Hits

Posting = tuple[int, int]
"""A value's code, and a variable that has it."""

Variables = tuple[int, ...]

HotValues = tuple[int, ...]
"""Row, variable, `Hot.kind` and code of each of a document's hot values."""

Pattern = tuple[Any, ...]
"""Row, variable and `Hot.kind` of each of a document's hot values; and, where some of them are
equal, which."""

Lists = dict[Any, list[Record]]
"""Lists of documents by the code of a value, or by several codes."""


class Hot:
    """A value of very many documents: for which variables it has lists, and which are `long`.

    Values that agree in both are of one `kind`.
    """

    __slots__ = ("kind", "long", "variables")

    def __init__(self) -> None:
        self.kind = 0
        self.variables: set[int] = set()
        self.long: set[int] = set()


Pick = Callable[[Sequence[int]], Any]
"""Picks out of a document's codes those by which a list is found."""


@dataclass(frozen=True, slots=True)
class Side:
    """What documents have to do with the lists as right, or as left block; lists are found by their
    own values.

    `verdicts` are what they satisfy with all of a long list, or of several at once, `places` where
    those are. `shorts` are short lists, whose documents have to be compared with them, with the
    link that they make and the row of their own value; `longs` the long ones, by row and variable,
    with the link.
    """

    verdicts: tuple[Verdict, ...] = ()
    places: tuple[tuple[Lists, Pick], ...] = ()
    shorts: tuple[tuple[int, Lists, int], ...] = ()
    longs: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What documents of one pattern have to do with the lists of their hot values.

    `long` are the rows and variables of their postings that are long lists, `growing` of the
    others, `belongs` the lists that a new one goes into. `sides`, as right and as left block, are
    worked out when asked for.
    """

    long: tuple[tuple[int, int], ...]
    growing: tuple[tuple[int, int], ...]
    belongs: tuple[tuple[Lists, Pick], ...]
    sides: dict[bool, Side] = field(default_factory=dict)


Met = tuple[Hits, Side]
"""What a document satisfies with all of a long list, or of several; and what to compare it with."""


class Meeting:
    """What documents with the same hot values have to do with the lists.

    `belongs` are the lists that a new one goes into, once one has; `met` is what it meets as right
    and as left block.
    """

    __slots__ = ("belongs", "met", "recipe")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.belongs: list[list[Record]] | None = None
        self.met: dict[bool, Met] = {}
