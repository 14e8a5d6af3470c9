"""Cached look-ups for documents with hot values: which lists of these values concern them.

A `Recipe` says it for all documents of one pattern, by rows and variables. A `Meeting` has the
lists themselves, for all documents with the same hot values. `broker/join/frequent.py` makes both
and invalidates them.
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
    """A hot value: the variables for which it has lists, and those whose lists are `long`.

    Values that agree in both have one `kind`.
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
    """The lists that concern documents of a pattern, taken as right or as left block; each is found
    by a document's own values.

    `verdicts` hold for all documents of a long list, or of an intersection, and `places` say where
    these lists are. `shorts` are the short lists, whose documents are compared one by one: the
    list, the link, and the row of the document's own value. `longs` are the links of the long
    lists, by row and variable.
    """

    verdicts: tuple[Verdict, ...] = ()
    places: tuple[tuple[Lists, Pick], ...] = ()
    shorts: tuple[tuple[int, Lists, int], ...] = ()
    longs: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """The lists that concern documents of one pattern.

    `long` are the rows and variables whose lists are long, `growing` those of the others, and
    `belongs` the lists that a new document is inserted into. `sides`, as right and as left block,
    are computed when needed.
    """

    long: tuple[tuple[int, int], ...]
    growing: tuple[tuple[int, int], ...]
    belongs: tuple[tuple[Lists, Pick], ...]
    sides: dict[bool, Side] = field(default_factory=dict)


Met = tuple[Hits, Side]
"""A document's hits with whole long lists and intersections, and what else to compare it with."""


class Meeting:
    """The lists that concern documents with the same hot values.

    `belongs` are the lists that a new document is inserted into, None before the first one was;
    `met` are the results of `HotLists.met`, as right and as left block.
    """

    __slots__ = ("belongs", "met", "recipe")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.belongs: list[list[Record]] | None = None
        self.met: dict[bool, Met] = {}
