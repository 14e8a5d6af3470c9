"""The functions that only filters have: of nodes, of a position, or with a boolean result.

A table of names, arities and kinds; the evaluators of stage 1 implement them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Kind = Literal["nodes", "string", "number", "boolean"]


@dataclass(frozen=True, slots=True)
class NodeFunction:
    """It takes `least` to `most` arguments, of any kind or, with `nodes`, nodes; it gives a
    `result`."""

    name: str
    least: int
    most: int
    result: Kind
    nodes: bool = False


NODE_FUNCTIONS: Mapping[str, NodeFunction] = MappingProxyType(
    {
        function.name: function
        for function in (
            NodeFunction("position", 0, 0, "number"),
            NodeFunction("last", 0, 0, "number"),
            NodeFunction("count", 1, 1, "number", nodes=True),
            NodeFunction("sum", 1, 1, "number", nodes=True),
            NodeFunction("name", 1, 1, "string", nodes=True),
            NodeFunction("local-name", 1, 1, "string", nodes=True),
            NodeFunction("namespace-uri", 1, 1, "string", nodes=True),
            NodeFunction("id", 1, 1, "nodes"),
            NodeFunction("lang", 1, 1, "boolean"),
            NodeFunction("boolean", 1, 1, "boolean"),
            NodeFunction("true", 0, 0, "boolean"),
            NodeFunction("false", 0, 0, "boolean"),
        )
    }
)

OF_THE_NODE = frozenset(
    ["string", "number", "string-length", "normalize-space", "name", "local-name", "namespace-uri"]
)
"""Functions that a filter may write without an argument; they then take the filtered node."""
