"""Makes bombs: random queries over the model of documents that are too much at a document of theirs.

A document of the model is `<r7><k>…</k><b>…</b></r7>`: `k` joins it with others, and in `b` stands
what is too much, as very many nodes, as deep nesting or as long texts. A bomb takes a block, or
several with operators between them, conditions and a result from the grammar, and documents that fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random

from tests.bombs import documents, joins, patterns
from tests.bombs.made import Made


@dataclass(frozen=True, slots=True)
class Bomb:
    """Statements with these ids, and what stands in `b` of each document that they are too much
    at; `name` is that of the documents' root elements."""

    kind: str
    ids: tuple[str, ...]
    name: str
    query: str
    inside: tuple[str, ...]
    prolog: str
    refused: bool


def bomb(r: Random, number: int) -> Bomb:
    """The bomb of this number: all kinds in turn, their sizes and forms at random."""
    kinds = [*KINDS]
    kind = kinds[number % len(kinds)]
    id, name = f"bomb-{number}-{kind}", f"r{number}"
    made = KINDS[kind](r)
    query = made.query if "ID:" in made.query else f"ID: {made.query};"
    query = query.replace("B//r", f"S//{name}").replace("B//", f"S//{name}//")
    query = re.sub(r"\bID\b", id, re.sub(r"\bT(\d)", rf"t{number}-\1", query))
    ids = re.findall(rf"({id}(?:-\d)?):", query)
    return Bomb(kind, tuple(ids), name, query, tuple(made.inside), made.prolog, made.refused)


def _named(
    prefix: str, kinds: Iterable[Callable[[Random], Made]]
) -> list[tuple[str, Callable[[Random], Made]]]:
    return [(f"{prefix}{each.__name__.replace('_', '-')}", each) for each in kinds]


_ROOMS = (
    _named("", documents.KINDS),
    _named("join-", joins.KINDS),
    _named("pattern-", patterns.KINDS),
)

KINDS: dict[str, Callable[[Random], Made]] = dict(
    each for each in chain(*zip_longest(*_ROOMS)) if each is not None
)
"""By kind, what makes a query and the insides of its documents; those of the rooms in turn."""
