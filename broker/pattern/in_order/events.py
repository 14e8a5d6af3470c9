"""Rows as the matchers of a form take them, and what they find: one layout for all queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.pattern.in_order.asking import Asked, Number, Test, Tie, test_of
from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.channels import Channel, Offered
from broker.pattern.in_order.forms import Form, Iterated, Lacking, Paired
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.run_forms import Running
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct, Leaf

Key = Any
"""A query's number, where a form has a tie with the value of the tie; see `key_of`. Of a part of a
partition, that and the tuple of its values; see `keys_in`."""

Event = tuple[int, int, int, int, Key, float, Row]
"""When a row is decided, its place in the order of arrival, the place of its block in the form, the
query, the key, the number that is compared with the first bound, and the row."""

Candidate = tuple[Any, ...]
"""The query, the number of what waited, and the documents; of FOLD those that were taken, and the
values that it computed."""

ALL = -1
"""Instead of a query: a document that concerns all of a form, whatever their constants."""

SECOND = 2
"""The place of what must come behind a NOT or a group: it is decided when it starts."""


class Reader:
    """Reads what a form asks of the rows of one of its blocks: once, for all queries. Without a
    `leaf` it is no block, but what concerns runs of all of them."""

    __slots__ = ("_path", "_stage", "number", "place", "starts", "tests")

    def __init__(self, form: Form, place: int, leaf: Leaf | None) -> None:
        self.place = place
        self.starts = place == SECOND and isinstance(form, Lacking | Grouping)
        self._stage = place - 1 if place > 1 and isinstance(form, Following) else 0
        self._path: str | None = None
        self.number: Number | None = None
        self.tests: Sequence[Test] = []
        if leaf is None:
            return
        alone: Sequence[Conjunct] = leaf.conjuncts
        if isinstance(form, Running):
            alone = form.places[place].alone
        elif isinstance(form, Listed):
            self._path = form.ties[place]
        elif isinstance(form, Grouping):
            self._path = None if form.keys is None else form.keys[place]
        else:
            asked = _asked(form, place)
            tie = tie_of(form, asked)
            self._path = None if tie is None else tie.comes if place else tie.waits
            self.number = _first(form, asked, place)
        self.tests = [test_of(each, leaf.variables) for each in alone]

    def read(self, owner: int, arrival: int, row: Row) -> Event | None:
        """The event that a row is for a query; None for what no match contains."""
        return self.event(owner, arrival, row) if self.passes(row) else None

    def passes(self, row: Row) -> bool:
        """Whether what is asked of a document alone holds."""
        # Written out, as it is asked of each document, and a generator costs as much as the tests.
        for test in self.tests:  # noqa: SIM110
            if not test(row):
                return False
        return True

    def event(self, owner: int, arrival: int, row: Row) -> Event:
        """The event that a row is for a query, for which what is asked of it alone holds."""
        path, of = self._path, self.number
        key: Key = owner
        if path is not None or self._stage:
            key = key_of(owner, None if path is None else row.values[path][0], self._stage)
        time = row.start if self.starts else row.end
        return (time, arrival, self.place, owner, key, 0.0 if of is None else of(row), row)

    def offered(self, to: Channel, arrival: int, row: Row) -> Offered:
        """The event that a row is for a channel, for which what is asked of it alone holds."""
        path = self._path
        value = None if path is None else row.values[path][0]
        return (row.start if self.starts else row.end, arrival, self.place, to, value, 0.0, row)

    def for_owner(self, event: Offered, owner: int) -> Event:
        """The event of a channel for one of its queries."""
        time, arrival, place, _, value, _, row = event
        key = key_of(owner, value, self._stage)
        return (
            time,
            arrival,
            place,
            owner,
            key,
            0.0 if self.number is None else self.number(row),
            row,
        )


def key_of(owner: int, value: str | None, stage: int) -> Key:
    """The key of what waits for a query: by the value of its tie, None for no tie, and at which
    link of a chain."""
    if stage:
        return (owner, value, stage)
    return owner if value is None else (owner, value)


def owner_of(key: Key) -> int:
    """The query of a key, also of a part of a partition."""
    while isinstance(key, tuple):
        key = key[0]
    return int(key)


def _asked(form: Paired, place: int) -> Asked:
    if isinstance(form, Following):
        return form.links[place - 1 if place else 0].asked
    return form.paired if isinstance(form, Lacking) and place == SECOND else form.asked


def tie_of(form: Paired, asked: Asked) -> Tie | None:
    """The equality by whose value what waits is found: of a NOT one that ties all its documents."""
    if not isinstance(form, Lacking):
        return asked.tie
    tie, paired = form.asked.tie, form.paired.tie
    if form.right is None:
        return tie
    if tie is None or paired is None or paired.waits != tie.waits:
        return None
    return asked.tie


def _first(form: Paired, asked: Asked, place: int) -> Number | None:
    """What is read of a document for the first of the bounds."""
    if isinstance(form, Iterated):
        common = form.common
        return None if common is None else common.comes if place else common.begins
    if not asked.bounds or (place == SECOND and isinstance(form, Lacking)):
        return None
    return asked.bounds[0].comes if place else asked.held[0]
