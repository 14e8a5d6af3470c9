"""What a bomb is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Made:
    """A query, over blocks of B//r (or //a in it), and what stands in `b` of each document that it
    is too much at. `prolog` stands before the root; `refused`: the document itself is refused.

    Where there are several statements, each has a label that begins with ID, and streams that they
    publish have names that begin with T."""

    query: str
    inside: Sequence[str]
    prolog: str = ""
    refused: bool = False


def nodes(r: Random, low: int, high: int, text: str = "1") -> str:
    return f"<n>{text}</n>" * r.randint(low, high)


def path(r: Random) -> str:
    """A path from the block's root to the nodes in `b`."""
    return r.choice([".//n", "./b/n", "./b//n", "./*/n", ".//b/n", "./descendant::n"])


def times(r: Random, text: str, count: int = 1) -> list[str]:
    return [text] * r.randint(count, count + 1)
