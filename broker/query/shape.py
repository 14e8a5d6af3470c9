"""Shapes: blueprints with what binds their parts to the literals of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from weakref import WeakValueDictionary

from broker.model import UNBOUNDED
from broker.query.blueprint import PATTERN, Blueprint, Delivery, variables_of
from broker.query.definitions import Definitions
from broker.query.patterns import PatternQuery
from xscl.normal import ir
from xscl.normal.bind import Literals, binder, window_of
from xscl.normal.treepattern import Definition


class Shape:
    """A blueprint, and the functions that bind its definitions and its SELECT to literals."""

    __slots__ = (
        *("__weakref__", "_bind_select", "_bind_values", "_bound", "_own_delivery", "_values"),
        *(
            "blueprint",
            "delivery",
            "forms",
            "inner",
            "is_pattern",
            "pattern",
            "selected",
            "template",
        ),
        "ties",
    )

    def __init__(self, made: Blueprint) -> None:
        self.blueprint = made
        self.template = made.template
        self.selected = made.selected
        self.ties = made.ties
        self.delivery = made.delivery
        self.inner = tuple([(inner, shape_of(inner.blueprint)) for inner in made.nested])
        """The queries in FROM, with their shapes."""
        self._bound = Definitions([*made.definitions])
        self.forms = self._bound.forms
        self.is_pattern = made.form.startswith(PATTERN)
        self.pattern: PatternQuery | None = None
        """Of an event pattern what it is compiled to, once somebody has asked."""
        self._values = tuple([d.value for d in made.definitions[: len(made.template.nodes)]])
        self._bind_values = binder(self._values)
        self._bind_select = binder(made.delivery.select)
        self._own_delivery = self._bind_select is not None or (
            bool(made.variables) and not made.delivery.variables
        )

    def definitions(self, literals: Literals) -> tuple[Definition, ...]:
        """The definitions of all positions, then of the quantified paths."""
        return self._bound.definitions(literals)

    def texts(self, literals: Literals) -> list[str]:
        """The texts of `definitions`."""
        return self._bound.texts(literals)

    @property
    def alike(self) -> Definitions | None:
        """Its definitions, where its queries can be registered a column at a time; None where
        each may have others in its FROM."""
        return None if self.inner or self.is_pattern else self._bound

    def values(self, literals: Literals) -> tuple[ir.Expr | None, ...]:
        """The expressions computed of the nodes at all positions, None where there is none."""
        if self._bind_values is None:
            return self._values
        bound: tuple[ir.Expr | None, ...] = self._bind_values(literals)
        return bound

    def constants(self, literals: Literals) -> tuple[str, ...]:
        """The literals that are the template's parameters, in order."""
        own = self.blueprint.parameters
        return tuple([literals[index] for index in own]) if own else ()

    def windows(self, literals: Literals) -> tuple[int, ...]:
        """The windows of the operators in microseconds, then how long a whole match may be."""
        asked = self.blueprint.windows
        return _together(tuple([UNBOUNDED if w is None else window_of(literals[w]) for w in asked]))

    def windows_by_text(self) -> Callable[[Literals], tuple[int, ...]]:
        """A function that does the same for very many, which have few windows."""
        places = [w for w in self.blueprint.windows if w is not None]
        known: dict[object, tuple[int, ...]] = {}
        chosen = itemgetter(*places) if places else len

        def windows(literals: Literals) -> tuple[int, ...]:
            text = chosen(literals)
            found = known.get(text)
            if found is None:
                found = known[text] = self.windows(literals)
            return found

        return windows

    def deliver_all(self, literals: Sequence[Literals]) -> Iterable[Delivery]:
        """The same as `deliver` for very many."""
        if not self._own_delivery:
            return repeat(self.delivery, len(literals))
        return map(self.deliver, literals)

    def deliver(self, literals: Literals) -> Delivery:
        if not self._own_delivery:
            return self.delivery
        select = self.delivery.select if self._bind_select is None else self._bind_select(literals)
        variables = variables_of(self.blueprint.variables, literals)
        return replace(self.delivery, select=select, variables=variables)


@lru_cache(maxsize=4_096)
def _together(asked: tuple[int, ...]) -> tuple[int, ...]:
    """The windows of the operators and of WITHIN, cached so that equal tuples are one object."""
    *own, whole = asked
    return (*own, min([whole, *own[-1:]]))


SHAPES: WeakValueDictionary[str, Shape] = WeakValueDictionary()
"""The cache of shapes by form; a shape stays as long as a query has it."""


def shape_of(made: Blueprint) -> Shape:
    """The shape of a blueprint, the same one for as long as any query has it."""
    found = SHAPES.get(made.form)
    if found is None:
        found = SHAPES[made.form] = Shape(made)
    return found
