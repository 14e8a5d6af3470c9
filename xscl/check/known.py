"""Warnings about paths that no document has: feed items and results have known elements, and the
documents of a stream may have been looked at.

In: a checked program, what is known of some documents by the name of their root, and of those of
some streams. Out: warnings, each with what to write instead. What other documents hold is not known
here, so nothing is said of their paths; tomorrow's documents may differ, so nothing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from xscl import ast
from xscl.check.program import Program
from xscl.errors import Diagnostic, Span
from xscl.kinds import parts
from xscl.syntax.nearest import did_you_mean

_NAMED = 14
"""How many names a hint lists."""


@dataclass(frozen=True, slots=True)
class Known:
    """An element all of whose content is known: what it holds, by name; None is anything. `what` is
    its document, as messages name it; `instead` are names that people write, and what they mean.
    Of elements that were looked at, `path` is their label path, and `since` says since when."""

    what: str
    children: Mapping[str, Known | None] = field(default_factory=dict)
    attributes: frozenset[str] | None = frozenset()
    instead: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    since: str = ""


Look = Callable[[str], Known | None]
"""What is known of the documents of a stream, by its name: their roots are the children."""

Nodes = tuple[Known, ...] | None
"""The elements at which a path has arrived; None if not all of them are known."""


def path_warnings(
    program: Program, documents: Known, look: Look = lambda _: None
) -> list[Diagnostic]:
    """The warnings about all blocks and predicates of a program. Of streams that no query of the
    program publishes, `look` says what their documents hold, and `documents` what is known of all
    whose roots are its children; its `instead` has roots that there are not."""
    published = {
        query.publish: known
        for each in program.queries
        if (query := each.query).publish is not None and (known := published_by(query)) is not None
    }
    makes = {each.query.publish for each in program.queries}
    warnings: list[Diagnostic] = []
    for each in program.queries:
        walk = _Walk(published, makes, documents, look)
        walk.query(each.query)
        warnings += walk.warnings.values()
    return warnings


class _Walk:
    """The paths of one query."""

    def __init__(
        self,
        published: Mapping[str, Known],
        makes: set[str | None],
        documents: Known,
        look: Look,
    ) -> None:
        self.published = published
        self.makes = makes
        self.documents = documents
        self.look = look
        self.variables: dict[str, Nodes] = {}
        self.warnings: dict[str, Diagnostic] = {}
        """By message: of very many paths that lead nowhere each is told once."""

    def query(self, query: ast.Query) -> None:
        for pattern in _patterns(query.pattern):
            match pattern:
                case ast.Block():
                    self.block(pattern)
                case ast.Nested():
                    _Walk.query(self, pattern.query)
                    inner = published_by(pattern.query)
                    self.steps(pattern.steps, None if inner is None else (inner,))
        for expr in _expressions(query):
            self.expression(expr, None)

    def block(self, block: ast.Block) -> None:
        known = self.published.get(block.stream)
        if known is not None:
            self.steps(block.steps, (known,))
        elif block.stream in self.makes or not block.steps:
            return
        elif (seen := self.look(block.stream)) is not None:
            self.steps(block.steps, (seen,))
        else:
            first, documents = block.steps[0], self.documents
            name = first.test.name or ""
            if first.test.kind == "element" and name in documents.children:
                inner = documents.children[name]
                self.filters(first, None if inner is None else (inner,))
                self.steps(block.steps[1:], None if inner is None else (inner,))
            elif first.test.kind == "element" and name in documents.instead:
                message = f"{documents.what} are not called {name}"
                self.warn(message, first.span, documents.instead[name])

    def warn(self, message: str, span: Span, hint: str | None) -> None:
        told = Diagnostic("unknown-path", message, span, hint, "warning")
        self.warnings.setdefault(message, told)

    # -- paths ---------------------------------------------------------------------------------

    def steps(self, steps: Iterable[ast.Step], nodes: Nodes) -> None:
        for step in steps:
            nodes = self.step(step, nodes)
            self.filters(step, nodes)

    def filters(self, step: ast.Step, nodes: Nodes) -> None:
        if step.variable is not None:
            self.variables[step.variable] = nodes
        for part in step.filters:
            self.expression(part, nodes)

    def step(self, step: ast.Step, nodes: Nodes) -> Nodes:
        """Where a step leads from these nodes; a warning if it leads nowhere."""
        test = step.test
        if nodes is None or test.axis is not None:
            return None
        if test.kind == "self" and step.axis == "/":
            return nodes
        if test.kind == "text":
            return None
        every = [each for node in nodes for each in _descend(node)] if step.axis == "//" else nodes
        if any(each is None for each in every):
            return None
        known = [each for each in every if each is not None]
        if test.kind == "attribute":
            if any(each.attributes is None for each in known):
                return None
            names = {name for each in known for name in each.attributes or ()}
            if test.name is not None and test.name not in names:
                self.missing(step, f"@{test.name}", [f"@{name}" for name in sorted(names)], known)
            return None
        if test.kind != "element":
            return None
        if test.name is None:
            found = [child for each in known for child in each.children.values()]
        else:
            found = [e.children[test.name] for e in known if test.name in e.children]
            named = test.prefix is not None and any(each.instead for each in known)
            if not found or named:
                names = {name for each in known for name in each.children}
                written = f"{test.prefix}:{test.name}" if test.prefix else test.name
                self.missing(step, written, sorted(names), known)
                return None
        if any(child is None for child in found):
            return None
        return tuple(child for child in found if child is not None)

    def missing(self, step: ast.Step, name: str, names: list[str], known: list[Known]) -> None:
        what, local = known[0].what, name.rpartition(":")[2]
        instead = next((each.instead[local] for each in known if local in each.instead), None)
        if instead is None and local in names:
            instead = f"./{local}"
        hint = f"write {instead}" if instead else _listed(local, names)
        said = f"{what} no {name}"
        if known[0].path is not None:
            said = f"{what} {known[0].path}{step.axis}{name}"
            hint = f"{hint}; {known[0].since}"
        self.warn(said, step.span, hint)

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, expr: ast.Expr, nodes: Nodes) -> None:
        """The paths of a filter at `nodes`, or of a predicate, which begin at variables."""
        match expr:
            case ast.Path(variable=None, steps=steps):
                if not (steps and steps[0].test.kind == "root"):
                    self.steps(steps, nodes)
            case ast.Path(variable=str(name), steps=steps):
                self.steps(steps, self.variables.get(name))
            case _ if not isinstance(expr, ast.Filtered):
                for part in parts(expr):
                    self.expression(part, nodes)


def _listed(name: str, names: list[str]) -> str:
    """A hint with the names that there are."""
    if not names:
        return "there is nothing below it but text"
    listed = f"there are: {', '.join(names[:_NAMED] + ['…'][: len(names) > _NAMED])}"
    near = did_you_mean(name, names)
    return f"{near} {listed}" if near else listed


def _descend(node: Known) -> Iterator[Known | None]:
    """The element, and all elements in it; None for what is not known."""
    yield node
    for child in node.children.values():
        if child is None:
            yield None
        else:
            yield from _descend(child)


def _patterns(pattern: ast.Pattern) -> Iterator[ast.Pattern]:
    match pattern:
        case ast.Join() | ast.Fold():
            yield from _patterns(pattern.left)
            yield from _patterns(pattern.right)
        case ast.Alternatives():
            for branch in pattern.branches:
                yield from _patterns(branch)
        case ast.Negation() | ast.Group() | ast.Parenthesis():
            yield from _patterns(pattern.pattern)
        case _:
            yield pattern


def _expressions(query: ast.Query) -> Iterator[ast.Expr]:
    """What stands in WHERE, in braces, and in SELECT."""
    stack = [query.pattern]
    while stack:
        pattern = stack.pop()
        match pattern:
            case ast.Join():
                stack += [pattern.left, pattern.right]
                if pattern.predicate is not None:
                    yield pattern.predicate
            case ast.Parenthesis():
                stack.append(pattern.pattern)
                if pattern.where is not None:
                    yield pattern.where
    if query.where is not None:
        yield query.where
    if isinstance(query.select, tuple):
        yield from (item.expr for item in query.select)


# -- results -------------------------------------------------------------------------------------


def published_by(query: ast.Query) -> Known | None:
    """What is known of the documents that a query publishes; None if their elements are not."""
    if isinstance(query.select, ast.Element):
        return None
    names = _selected(query)
    if names is None:
        return None
    what = f"what {query.publish} publishes has" if query.publish else "its results have"
    attributes = frozenset(["query", "start", "end"])
    result = Known(what, dict.fromkeys(names), attributes)
    return Known(what, {"result": result})


def _selected(query: ast.Query) -> list[str] | None:
    """The names of the elements in a result, None if not all are known."""
    blocks = [p for p in _patterns(query.pattern) if isinstance(p, ast.Block | ast.Nested)]
    if query.select is None:
        names = [_element(block.steps[-1]) if block.steps else None for block in blocks]
        return None if None in names else [name for name in names if name is not None]
    assert isinstance(query.select, tuple)
    bound: dict[str, ast.Step] = {}
    for block in blocks:
        bound.update(_bound(block.steps))
    found: list[str] = []
    for item in query.select:
        name = item.name
        if name is None and isinstance(item.expr, ast.Path):
            last = item.expr.steps[-1] if item.expr.steps else bound.get(item.expr.variable or "")
            name = None if last is None else _element(last)
            if name is None:
                return None
        found.append(name or "value")
    return found


def _bound(steps: Iterable[ast.Step]) -> Iterator[tuple[str, ast.Step]]:
    for step in steps:
        if step.variable is not None:
            yield step.variable, step
        for part in step.filters:
            parts = part.parts if isinstance(part, ast.And) else (part,)
            for each in parts:
                if isinstance(each, ast.Path):
                    yield from _bound(each.steps)


def _element(step: ast.Step) -> str | None:
    """The name of the elements that a step selects."""
    return step.test.name if step.test.kind == "element" and step.test.axis is None else None
