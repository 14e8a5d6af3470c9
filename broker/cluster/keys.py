"""By which value event patterns are divided among shards, and that stage 1 tells it.

In: the event patterns of the coordinator's catalog, as they come and go. Out: of each that has a
tie (`broker/pattern/ties.py`) the variables whose values say where documents go, one for each of
its blocks. Stage 1 witnesses their values from then on, though no join needs them.

Most ties hold only as long as no document has several of these values. When one comes that has, the
pattern loses its tie, before that document is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from broker.cluster.routes import shard_of_value
from broker.pattern.instances import Row
from broker.pattern.ties import Tie, ties
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.edges import Tie as Edged
from broker.query.patterns import TapQuery
from broker.query.prepared import Compiled, compile_query
from xscl import ast
from xscl.check.program import ResolvedQuery
from xscl.normal.treepattern import Definition
from xscl.stage1.document import value_code
from xscl.syntax.printer import split_query

NO_PATH = "the paths of PARTITION BY are no plain steps downward"
SEVERAL = "a document has several of the values that tie its blocks"

_KEY = "key"


class Key(NamedTuple):
    """What a row of a block is divided by: the text of a variable, or without one the text at a
    path of PARTITION BY, by its place."""

    variable: str
    partition: int


class Keyed(NamedTuple):
    """The tie of a pattern: by block the variable whose values stage 1 witnesses, and what a row
    has. `alone` is as `Tie` says."""

    triggers: tuple[int, ...]
    keys: tuple[Key, ...]
    alone: bool


def owns(keys: Sequence[Key], place: int, row: Row, shard: int, shards: int) -> bool:
    """Whether a row of the block at a place is for a shard."""
    key = keys[place]
    if key.variable:
        texts: Collection[str] = row.values[key.variable]
    else:
        texts = {one[key.partition] for one in row.tuples or ()}
    return any(shard_of_value(value_code(text), shards) == shard for text in texts)


@dataclass(frozen=True, slots=True)
class _Witnessed:
    """What stage 1 has to witness for a block, as a user of edges (`broker/query/edges.py`), with
    the texts of their definitions."""

    ties: tuple[Edged, ...]
    edges: tuple[int, ...]
    trees: tuple[Definition, ...]
    texts: tuple[str, ...]


class Keys:
    """The keyed patterns of a catalog: `of` by canonical query, and `why` of the others."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._users: dict[int, list[_Witnessed]] = {}
        self.of: dict[int, Keyed] = {}
        self.why: dict[int, str] = {}

    # -- patterns that come and go ---------------------------------------------------------------

    def came(self, subscription: Subscription) -> None:
        """An event pattern has its first subscription."""
        number = subscription.canonical.number
        if subscription.number < 0:
            return  # it stands in a FROM, and stays with the coordinator
        found = keyed_blocks(subscription)
        if isinstance(found, str):
            self.why[number] = found
            return
        tie, blocks = found
        users: list[_Witnessed] = []
        triggers: list[int] = []
        for compiled, position in blocks:
            shape, literals = compiled.shape, compiled.literals
            texts = shape.texts(literals)
            own = [*map(self._catalog.variables.number, texts)]
            edged = tuple(
                [(p, above, valued or p == position, read) for p, above, valued, read in shape.ties]
            )
            edges = tuple(
                [(0 if above is None else own[above]) << 32 | own[p] for p, above, _, _ in edged]
            )
            user = _Witnessed(edged, edges, shape.definitions(literals), (*texts,))
            self._catalog.variables.use(own)
            self._catalog.edges.use(user, user.trees, shape.forms)
            users.append(user)
            triggers.append(own[position])
        self._users[number] = users
        self.of[number] = Keyed(tuple(triggers), _keys(tie, len(blocks)), tie.alone)

    def went(self, number: int) -> None:
        """An event pattern has no subscription any more."""
        self.why.pop(number, None)
        self.of.pop(number, None)
        for user in self._users.pop(number, ()):
            self._catalog.edges.release(user)
            self._catalog.variables.release(user.texts)

    def untie(self, numbers: Collection[int], why: str = SEVERAL) -> None:
        """Patterns have lost their ties."""
        for number in numbers:
            if self.of.pop(number, None) is not None:
                self.why[number] = why

    # -- documents -------------------------------------------------------------------------------

    def broken_by(self, rows: pa.Table, document: str) -> list[int]:
        """The patterns whose ties do not hold for witness rows of documents, which the column
        `document` names."""
        watched = {t for keyed in self.of.values() if keyed.alone for t in keyed.triggers}
        if not watched:
            return []
        rows = rows.select([document, "var2", "value"])
        rows = rows.filter(pc.is_in(rows.column("var2"), pa.array(sorted(watched), pa.int32())))
        rows = rows.filter(pc.is_valid(rows.column("value")))
        each = rows.group_by([document, "var2"]).aggregate([("value", "min"), ("value", "max")])
        several = pc.not_equal(each.column("value_min"), each.column("value_max"))
        variables = {*each.filter(several).column("var2").to_pylist()}
        return [
            number
            for number, keyed in self.of.items()
            if keyed.alone and not variables.isdisjoint(keyed.triggers)
        ]


def _keys(tie: Tie, blocks: int) -> tuple[Key, ...]:
    if tie.variables:
        return tuple([Key(name, 0) for name in tie.variables])
    return (Key("", tie.partition),) * blocks


# -- the blocks of a pattern as queries ----------------------------------------------------------


def keyed_blocks(subscription: Subscription) -> tuple[Tie, list[tuple[Compiled, int]]] | str:
    """The tie of a pattern, with a query for each of its blocks and the position of the key in it;
    or why it has none."""
    pattern = subscription.compiled.own_pattern
    assert pattern is not None
    found = ties(pattern.plan)
    if isinstance(found, str):
        return found
    for tie in found:
        if tie.variables or _is_plain(pattern.plan.query.partition[tie.partition]):
            taps = enumerate(pattern.taps)
            return tie, [_keyed_block(query, tie, place) for place, query in taps]
    return NO_PATH


def _keyed_block(query: TapQuery, tie: Tie, place: int) -> tuple[Compiled, int]:
    if tie.variables:
        compiled = compile_query(query.resolved)
        name = query.variables[query.names.index(tie.variables[place])]
    else:
        compiled, name = compile_query(_with_key(query, tie.partition)), _KEY
    return compiled, compiled.shape.delivery.named[name]


def _is_plain(path: ast.Path) -> bool:
    return bool(path.steps) and all(
        step.axis == "/"
        and step.test.kind in ("element", "attribute", "text")
        and step.test.axis is None
        and not step.filters
        for step in path.steps
    )


def _with_key(query: TapQuery, partition: int) -> ResolvedQuery:
    """A block whose documents have a value at a path of PARTITION BY, which is selected too."""
    resolved, path = query.resolved, query.tap.partition[partition]
    block = resolved.query.pattern
    assert isinstance(block, ast.Block)
    assert isinstance(resolved.query.select, tuple)
    *before, last = path.steps
    bound = replace(path, steps=(*before, replace(last, variable=_KEY)))
    *above, node = block.steps
    node = replace(node, filters=(*node.filters, bound))
    item = ast.SelectItem(ast.Path(_KEY, (), span=path.span), span=path.span)
    made = replace(
        resolved.query,
        pattern=replace(block, steps=(*above, node)),
        select=(*resolved.query.select, item),
    )
    text, form, literals = split_query(made)
    prefixes = sorted((p, u) for p, u in resolved.namespaces.items() if f"{p}:" in text)
    return replace(resolved, query=made, text=text, form=f"{prefixes}{form}", literals=literals)
