"""What stands somewhere in a query: the streams that it reads and publishes to, its windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from xscl import ast


def windows(query: ast.Query) -> list[ast.Duration]:
    """All windows of a query, wherever they stand, but for those of WAIT."""
    nodes = [*_nodes(query)]
    waits = [id(node.wait) for node in nodes if isinstance(node, ast.Query)]
    return [node for node in nodes if isinstance(node, ast.Duration) and id(node) not in waits]


def reads(query: ast.Query) -> set[str]:
    """The streams of all blocks, wherever they stand: also in FROM, in NOT, in groups."""
    return {node.stream for node in _nodes(query) if isinstance(node, ast.Block)}


def publishes(query: ast.Query) -> set[str]:
    """The streams of PUBLISH, also of queries in FROM."""
    found = {node.publish for node in _nodes(query) if isinstance(node, ast.Query)}
    return {stream for stream in found if stream is not None}


def _nodes(root: object) -> Iterator[object]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting += node
        elif is_dataclass(node):
            yield node
            waiting += [getattr(node, field.name) for field in fields(node) if field.compare]
