"""The shapes of all subscriptions, in the store, so that a restart need not compile queries again.

If a shape is from another version of the compiler, one of its queries is compiled again. If that
query still has the same form, so have all others, and their literals are unchanged; if not, each is
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from broker.query.blueprint import COMPILER
from broker.query.canonical import Subscription
from broker.query.prepared import Compiled, compile_text
from broker.query.shape import Shape, shape_of
from broker.query.stored_shapes import dumps, loads
from broker.state.store import Store
from xscl.errors import XsclError

Row = Sequence[Any]
"""Of a subscription: its number, id and text; its shape's number, its literals, what it publishes;
and its first document."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A stored query that the checks refuse now. What it reads is not known."""

    id: str
    text: str
    publish: str | None
    error: XsclError

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()


class Forms:
    """The numbers of shapes. `pending` are shapes that are not in the store yet; unused ones are
    deleted from it when it has `spare` more of them than memory."""

    def __init__(self, store: Store, spare: int = 1_000) -> None:
        self._store = store
        self.spare = spare
        self._numbers: WeakKeyDictionary[Shape, int] = WeakKeyDictionary()
        self._known: dict[int, Shape] = {}
        """By number; while subscriptions are read."""
        self._other: dict[int, str] = {}
        """The forms of shapes that another compiler made; while subscriptions are read."""
        self._last = 0
        self._written = 0
        self.pending: list[tuple[int, Shape]] = []
        self.renewed: list[tuple[int, Compiled]] = []
        """Subscriptions whose stored rows are outdated, by number."""

    def load(self) -> None:
        """Read all shapes, before the subscriptions that have them."""
        rows = self._store.rows("SELECT number, compiler, form, compiled FROM shapes")
        for number, compiler, form, compiled in rows:
            self._last = max(self._last, number)
            if compiler == COMPILER:
                shape = self._known[number] = shape_of(loads(compiled))
                self._numbers[shape] = number
            else:
                self._other[number] = form
        self._written = len(rows)

    def compiled(self, rows: Sequence[Row]) -> Sequence[Compiled | Refused]:
        """The compiled queries of rows, compiled from the text where shape or literals lack; event
        patterns are, one for each shape."""
        known = self._known
        _, ids, texts, shapes, own, publish, _ = zip(*rows, strict=True)
        if known.keys() >= {*shapes} and None not in own:
            found = [*map(known.__getitem__, shapes)]
            queries = [*map(Compiled, ids, texts, publish, found, map(tuple, own))]
            if not any(map(_lacks_pattern, {*found})):
                return queries
            return [*map(_with_patterns, queries)]
        return [
            _with_patterns(Compiled(id, text, publish, known[shape], tuple(literals)))
            if shape in known and literals is not None
            else self._again(number, id, text, shape, publish)
            for number, id, text, shape, literals, publish, _ in rows
        ]

    def _again(
        self, number: int, id: str, text: str, shape: int | None, publish: str | None
    ) -> Compiled | Refused:
        try:
            made = compile_text(id, text)
        except XsclError as error:
            return Refused(id, text, publish, error)
        if shape is not None and self._other.get(shape) == made.shape.blueprint.form:
            # Only the shape is replaced, under its number: the rows of its queries stay valid.
            self._known[shape] = made.shape
            self._numbers[made.shape] = shape
            self._store_later(shape, made.shape)
        else:
            self.renewed.append((number, made))
        return made

    def loaded(self) -> None:
        """To be called after all subscriptions were read: writes what was compiled again, and
        deletes unused shapes."""
        self._known.clear()
        if self.renewed:
            rows = [compiled for _, compiled in self.renewed]
            columns = {
                "number": pa.array([number for number, _ in self.renewed], pa.int64()),
                **{name: pa.array(v, kind) for name, (kind, v) in self.columns(rows).items()},
            }
            self._store.run(
                "CREATE TEMP TABLE renewed (number BIGINT, shape INTEGER, literals VARCHAR[],"
                " publish VARCHAR)"
            )
            self._store.insert("renewed", pa.table(columns))
            self._store.run(
                "UPDATE subscriptions SET shape = n.shape, literals = n.literals,"
                " publish = n.publish FROM renewed n WHERE subscriptions.number = n.number"
            )
            self._store.run("DROP TABLE renewed")
            self.renewed = []
        self.write()
        if self._other or self._written > len(self._numbers):
            self._clean()
        self._other.clear()

    def columns(
        self, rows: Sequence[Compiled | Subscription]
    ) -> dict[str, tuple[pa.DataType, list[Any]]]:
        """The columns `shape`, `literals` and `publish` for rows of subscriptions."""
        return {
            "shape": (pa.int32(), [self._number(each.shape) for each in rows]),
            "literals": (pa.list_(pa.string()), [[*each.literals] for each in rows]),
            "publish": (pa.string(), [each.publish for each in rows]),
        }

    def _number(self, shape: Shape) -> int:
        number = self._numbers.get(shape)
        if number is None:
            number = self._last = self._numbers[shape] = self._last + 1
            self._store_later(number, shape)
        return number

    def _store_later(self, number: int, shape: Shape) -> None:
        self.pending.append((number, shape))

    def write(self) -> None:
        """Write the pending shapes, in the current transaction."""
        new, self.pending = self.pending, []
        if not new:
            return
        self._store.on_rollback(lambda: self.pending.extend(new))
        self._store.delete("shapes", "number", [number for number, _ in new])
        table = {
            "number": pa.array([number for number, _ in new], pa.int32()),
            "compiler": pa.array([COMPILER] * len(new), pa.int32()),
            "form": pa.array([shape.blueprint.form for _, shape in new], pa.string()),
            "compiled": pa.array([dumps(shape.blueprint) for _, shape in new], pa.string()),
        }
        self._store.insert("shapes", pa.table(table))
        self._written += len(new)
        if self._written > self.spare + 2 * len(self._numbers):
            self._clean()

    def _clean(self) -> None:
        self._store.run(
            "DELETE FROM shapes WHERE number NOT IN"
            " (SELECT shape FROM subscriptions WHERE shape IS NOT NULL)"
        )
        ((self._written,),) = self._store.rows("SELECT count(*) FROM shapes")


def _lacks_pattern(shape: Shape) -> bool:
    """Whether an event pattern of a shape, or of a query in its FROM, is not compiled yet."""
    if shape.is_pattern and shape.pattern is None:
        return True
    return any(_lacks_pattern(each) for _, each in shape.inner)


def _with_patterns(query: Compiled) -> Compiled | Refused:
    """A query whose event patterns are compiled, if the checks take them."""
    try:
        _compile_patterns(query)
    except XsclError as error:
        return Refused(query.id, query.text, query.publish, error)
    return query


def _compile_patterns(query: Compiled) -> None:
    if _lacks_pattern(query.shape):
        query.compile_pattern()
        for inner in query.nested:
            _compile_patterns(inner)
