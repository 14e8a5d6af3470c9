"""What a pattern reads of documents, and what its SELECT names."""

from __future__ import annotations

from collections.abc import Sequence

from broker.pattern.values import paths
from xscl import ast


def paths_of(query: ast.Query) -> list[ast.Path]:
    """The paths from variables that are read of documents: by all but SELECT, and what SELECT asks
    of its functions is made of documents too."""
    found: list[ast.Path] = []

    def visit(part: object) -> None:
        match part:
            case ast.Path(variable=str()):
                found.append(part)
            case ast.Nested():
                pass
            case ast.Block():
                pass
            case tuple() | list():
                for each in part:
                    visit(each)
            case ast.Element(attributes=attributes, content=content):
                for _, parts in attributes:
                    visit(parts)
                visit(content)
            case _ if hasattr(part, "__dataclass_fields__"):
                for name in part.__dataclass_fields__:
                    if "span" not in name:
                        visit(getattr(part, name))

    visit(query)
    return found


def streams_of(query: ast.Query) -> Sequence[ast.Nested]:
    """The queries in FROM of a pattern."""
    found: list[ast.Nested] = []
    stack: list[ast.Pattern] = [query.pattern]
    while stack:
        part = stack.pop()
        match part:
            case ast.Nested():
                found.append(part)
            case ast.Join() | ast.Fold():
                stack += [part.right, part.left]
            case ast.Alternatives():
                stack += reversed(part.branches)
            case ast.Negation() | ast.Group() | ast.Parenthesis():
                stack.append(part.pattern)
    return found


def named_in(select: tuple[ast.SelectItem, ...] | ast.Element | None) -> list[str] | None:
    """The variables that SELECT names, in order, each once; None for `*`."""
    if select is None:
        return None
    found: dict[str, None] = {}

    def visit(part: str | ast.Expr | ast.Element) -> None:
        if isinstance(part, ast.Element):
            for each in [*(p for _, parts in part.attributes for p in parts), *part.content]:
                visit(each)
        elif not isinstance(part, str):
            found.update(dict.fromkeys(path.variable or "" for path in paths(part)))

    for item in [select] if isinstance(select, ast.Element) else [i.expr for i in select]:
        visit(item)
    return [*found]
