"""The functions over the documents of a pattern: of a group, of FOLD's iteration, of OVER's window.

A table of names and kinds. They stand in predicates and in SELECT, never in filters of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True)
class ElementFunction:
    """It takes a variable, or a path from one, and up to `most` arguments in all. A `node` function
    gives the value of one node, with the second argument in its place where there is none;
    the others give a number."""

    name: str
    most: int
    result: Literal["node", "number"]


ELEMENT_FUNCTIONS: Mapping[str, ElementFunction] = MappingProxyType(
    {
        function.name: function
        for function in (
            *(ElementFunction(name, 2, "node") for name in ("prev", "first", "last")),
            *(ElementFunction(name, 1, "number") for name in ("count", "sum", "avg", "min", "max")),
        )
    }
)

DURATION = "duration"
"""`duration()`, the length of the match in seconds; `duration(x)`, that of the document of x."""
