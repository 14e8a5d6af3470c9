"""What all queries of one form share, as plain data that a state stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.query.edges import Tie
from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.normal.template import Template
from xscl.normal.text import filled
from xscl.normal.treepattern import Definition


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a match becomes a result.

    `positions` are the template's positions of the nodes of the query's join graph; `selected` and
    `variables` are those of the graph. `named` maps what SELECT names to positions: variables, or
    for `*` the numbers of the blocks. `streams` are those that the query reads.
    """

    positions: tuple[int, ...]
    selected: tuple[int, ...]
    variables: tuple[tuple[str, int], ...]
    named: Mapping[str, int]
    select: ir.Select
    namespaces: Mapping[str, str]
    streams: frozenset[str]


COMPILER = 4
"""The version of the compiler. It is raised with every change of the passes' output, of how forms
or definitions are written, or of `Blueprint`; shapes that a state holds from an older version are
compiled again from the texts of the queries."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parts that all queries of one form share, as plain data.

    `form` is `ResolvedQuery.form`. `ties` are its edges, by position; `definitions` those of all
    positions, then of the quantified paths. Numbers of literals are `parameters`, which are the
    template's, and `windows`, those of the operators and of WITHIN, None for no bound. `variables`
    are those of the delivery, as they are written. `nested` are the queries in FROM.
    """

    form: str
    template: Template
    ties: tuple[Tie, ...]
    selected: frozenset[int]
    definitions: tuple[Definition, ...]
    parameters: tuple[int, ...]
    windows: tuple[int | None, ...]
    variables: tuple[tuple[ir.Written, int], ...]
    delivery: Delivery
    nested: tuple[Inner, ...]


@dataclass(frozen=True, slots=True)
class Inner:
    """A query in FROM, which publishes a stream of its id. Of a tap of an event pattern whose
    literals are the pattern's, `numbers` are their places, `text` is a format for them, and `apart`
    is what else its id is made of."""

    id: str
    text: str
    literals: Literals
    blueprint: Blueprint
    numbers: tuple[int, ...] = ()
    apart: str = ""


PATTERN = "pattern "
"""What the forms of event patterns begin with, which have no join graph."""


def variables_of(
    variables: tuple[tuple[ir.Written, int], ...], literals: Literals
) -> tuple[tuple[str, int], ...]:
    return tuple({filled(name, literals): index for name, index in variables}.items())
