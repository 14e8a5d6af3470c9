"""The XML of a match of Part 2, by `tests.oracle.results`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.oracle import results
from tests.oracle.matches import Resolved
from tests.oracle.part2.instances import Instance, Taken
from tests.oracle.part2.scope import NotAsked, Scope, given
from tests.oracle.patterns import path_nodes
from tests.oracle.trees import Node
from xscl import ast

NODE = ("prev", "first", "last")


@dataclass(frozen=True)
class Output:
    resolved: Resolved
    instance: Instance
    scope: Scope
    interval: tuple[int, int]

    def xml(self) -> str:
        select = self.resolved.query.select
        if select is None:
            return results.star(self.resolved.id, self.interval, self._selected(self.instance))
        if isinstance(select, ast.Element):
            made = self._element(select)
            return results.constructed(made, self._nodes, self.resolved.namespaces)
        items = [item for each in select for item in self._item(each)]
        return results.items(self.resolved.id, self.interval, items, self._nodes)

    def _selected(self, instance: Instance) -> Iterator[Node]:
        """The selected nodes in pattern order, groups element by element."""
        for part in instance.parts.values():
            if isinstance(part, Taken):
                yield part.node
            elif part is not None:
                for each in part:
                    yield from self._selected(each)

    def _item(self, item: ast.SelectItem) -> Iterator[ast.SelectItem]:
        path, name = item.expr, item.name
        if name is None and isinstance(path, ast.Path):
            variable = path.variable or ""
            name = variable.rstrip("'") if variable in self.scope.computed else None
        try:
            yield replace(item, expr=self._plain(item.expr), name=name)
        except NotAsked:
            return

    def _plain(self, expr: ast.Expr) -> ast.Expr:
        """The expression with values for what Part 2 adds; paths, whose nodes are copied, stay."""
        if isinstance(expr, ast.Path):
            return expr if expr.variable not in self.scope.computed else self.scope.plain(expr)
        return self.scope.plain(expr)

    def _element(self, element: ast.Element) -> ast.Element:
        attributes = tuple((name, self._parts(parts)) for name, parts in element.attributes)
        content = tuple(
            self._element(part) if isinstance(part, ast.Element) else part
            for part in self._parts(element.content)  # type: ignore[arg-type]
        )
        return replace(element, attributes=attributes, content=content)

    def _parts(self, parts: tuple[str | ast.Expr, ...]) -> tuple[str | ast.Expr, ...]:
        kept: list[str | ast.Expr] = []
        for part in parts:
            if isinstance(part, str | ast.Element):
                kept.append(part)
                continue
            try:
                kept.append(self._plain(part))
            except NotAsked:
                continue
        return tuple(kept)

    def _nodes(self, path: ast.Path) -> list[Node]:
        nodes = given(path)
        if nodes is not None:
            return nodes
        assert path.variable is not None
        bound = self.scope.single.get(path.variable)
        every = [bound] if bound is not None else self.scope.several.get(path.variable, [])
        if bound is None and path.variable in self.scope.windowed:
            every = []
        found: list[Node] = []
        for one in every:
            if one is None:
                continue
            document, node = one
            if not path.steps:
                found.append(node)
            else:
                found += path_nodes(document.tree, node, path.steps, self.resolved.namespaces)
        return found
