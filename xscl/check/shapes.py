"""What a pattern is made of, as the checks of Part 2 ask it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xscl import ast


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list, with the window of the operator before it."""

    pattern: ast.Pattern
    window: ast.Duration | None = None
    after: bool = False


def items(pattern: ast.Pattern) -> list[Item]:
    """The items of a list, from left to right."""
    items: list[Item] = []
    while isinstance(pattern, ast.Join) and pattern.kind == "FOLLOWED BY":
        items.append(Item(pattern.right, pattern.window, pattern.after))
        pattern = pattern.left
    items.append(Item(pattern))
    return items[::-1]


def finite(window: ast.Duration | None) -> bool:
    return window is not None and (window.microseconds is not None or window.name is not None)


def parts_of(pattern: ast.Pattern) -> tuple[ast.Pattern, ...]:
    match pattern:
        case ast.Join() | ast.Fold():
            return (pattern.left, pattern.right)
        case ast.Alternatives():
            return pattern.branches
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            return (pattern.pattern,)
    return ()


def holds(pattern: ast.Pattern, *kinds: type[ast.Pattern]) -> bool:
    return isinstance(pattern, kinds) or any(holds(part, *kinds) for part in parts_of(pattern))


def is_positive(pattern: ast.Pattern) -> bool:
    """Whether a match of the pattern has a document of its own, or may have one."""
    if isinstance(pattern, ast.Negation):
        return False
    parts = parts_of(pattern)
    return not parts or any(map(is_positive, parts))


def is_document(pattern: ast.Pattern) -> bool:
    """Whether each match is one document: of a block, or of an OR of blocks."""
    if isinstance(pattern, ast.Parenthesis) and not (pattern.where or pattern.within):
        pattern = pattern.pattern
    if isinstance(pattern, ast.Alternatives):
        return all(map(is_document, pattern.branches))
    return isinstance(pattern, ast.Block | ast.Nested)


def absences(pattern: ast.Pattern) -> Iterator[ast.Negation]:
    if isinstance(pattern, ast.Negation):
        yield pattern
        return
    for part in parts_of(pattern):
        yield from absences(part)


def may_be_empty(pattern: ast.Pattern) -> bool:
    match pattern:
        case ast.Block() | ast.Nested() | ast.Fold():
            return False
        case ast.Negation():
            return True
        case ast.Join():
            if pattern.kind == "NEXT":
                return False
            return may_be_empty(pattern.left) and may_be_empty(pattern.right)
        case ast.Alternatives():
            return any(map(may_be_empty, pattern.branches))
        case ast.Group():
            return pattern.least == 0 or may_be_empty(pattern.pattern)
        case ast.Parenthesis():
            return may_be_empty(pattern.pattern)
