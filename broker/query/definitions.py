"""The definitions of a shape, bound to literals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from xscl.normal import ir
from xscl.normal.bind import Bind, Literals, binder
from xscl.normal.canonical import settled_throughout
from xscl.normal.treepattern import Definition


@dataclass(frozen=True, slots=True)
class _Open:
    """A definition with parameters: its place among the shape's; its steps, those with parameters
    as indices of the shape's; its text as a format and the literals in it, None where the literals
    decide in which order its filters stand."""

    place: int
    stream: str
    steps: tuple[ir.Step | int, ...]
    value: ir.Expr | None
    bind_value: Bind | None
    text: tuple[str, tuple[int, ...]] | None


class Definitions:
    """The definitions of a shape. Steps that several of them have are bound once."""

    def __init__(self, definitions: list[Definition]) -> None:
        self._fixed = definitions
        self._texts = [definition.text() for definition in definitions]
        self._indices: dict[ir.Step, int] = {}
        self._binds: list[Bind] = []
        opened = [self._open(place, each) for place, each in enumerate(definitions)]
        self._opened = [each for each in opened if each is not None]
        self._settled = all(each.text is not None for each in self._opened)
        varying = {each.place for each in self._opened if each.text is None or each.bind_value}
        self.forms: tuple[object, ...] = tuple(
            [None if place in varying else object() for place in range(len(definitions))]
        )
        """By place an object if the definitions of all literals differ in the constants of their
        filters only, None where they may differ in more."""

    def _open(self, place: int, definition: Definition) -> _Open | None:
        steps: list[ir.Step | int] = []
        for step in definition.steps:
            bind = binder(step)
            if bind is not None and step not in self._indices:
                self._indices[step] = len(self._binds)
                self._binds.append(bind)
            steps.append(step if bind is None else self._indices[step])
        bind_value = binder(definition.value)
        if bind_value is None and all(isinstance(step, ir.Step) for step in steps):
            return None
        return _Open(
            *(place, definition.stream, tuple(steps), definition.value, bind_value),
            _format(definition.written()) if settled_throughout(definition.steps) else None,
        )

    def definitions(self, literals: Literals) -> tuple[Definition, ...]:
        found = self._fixed.copy()
        bound = [bind(literals) for bind in self._binds]
        for each in self._opened:
            steps = tuple([bound[s] if isinstance(s, int) else s for s in each.steps])
            value = each.value if each.bind_value is None else each.bind_value(literals)
            found[each.place] = Definition(each.stream, steps, value)
        return tuple(found)

    def columns(self, literals: Sequence[Literals]) -> list[list[str] | None]:
        """The texts of very many queries by place, None where it is the same for all literals."""
        found: list[list[str] | None] = [None] * len(self._fixed)
        if not self._settled:
            every = [*zip(*map(self.texts, literals), strict=True)]
        for each in self._opened:
            if not self._settled or each.text is None:
                found[each.place] = [*every[each.place]]
                continue
            text, order = each.text
            chosen = itemgetter(*order)
            found[each.place] = [text % chosen(own) for own in literals]
        return found

    def fixed(self, place: int) -> str:
        """The text at a place where it is the same for all literals."""
        return self._texts[place]

    def texts(self, literals: Literals) -> list[str]:
        if not self._settled:
            return [definition.text() for definition in self.definitions(literals)]
        found = self._texts.copy()
        for each in self._opened:
            assert each.text is not None
            text, order = each.text
            found[each.place] = text % tuple([literals[i] for i in order])
        return found


def _format(text: ir.Written) -> tuple[str, tuple[int, ...]]:
    """A text as a format of `%`, and the literals in it."""
    pieces = [piece.replace("%", "%%") if isinstance(piece, str) else "%s" for piece in text]
    return "".join(pieces), tuple([p.index for p in text if not isinstance(p, str)])
