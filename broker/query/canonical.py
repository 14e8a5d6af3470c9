"""Canonical queries and their subscribers.

Queries with one join graph over the same variables are one *canonical query* with many
subscribers, so that stage 2 never does the same work twice; each subscriber's windows and first
document are checked when a match is handed to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from broker.query.blueprint import Delivery
from broker.query.edges import Tie
from broker.query.patterns import PatternQuery
from broker.query.prepared import Compiled, nested_in
from broker.query.shape import Shape
from broker.shared_match import MOST
from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.normal.treepattern import Definition


@dataclass(slots=True)
class Canonical:
    """A canonical query: a template and its parameters.

    `variables` are by position, `quantified` the variables of paths under NOT or OR; `ties` are its
    edges by position, `values` what is computed of the nodes, `constants` literals as they are
    written.
    """

    number: int
    template: int
    variables: tuple[int, ...]
    selected: frozenset[int]
    ties: tuple[Tie, ...]
    values: tuple[ir.Expr | None, ...]
    quantified: tuple[int, ...]
    constants: tuple[str, ...]
    _subscribers: Subscription | dict[int, Subscription] | None = None
    """One needs no dictionary, and most have one."""
    _asked: dict[tuple[int, ...], int] | None = None
    """How many subscribers have which windows; None until there are two subscribers."""
    _widest: tuple[int, ...] | None = None
    _audiences: list[Audience] | None = None
    """None until somebody asks, and again after a change."""
    _lowest: int | None = None
    """Not above the first document of any subscriber that counts from an earlier one on than some
    subscriber before it, because it asked for history or the other was paused."""

    @property
    def subscribers(self) -> Mapping[int, Subscription]:
        """Its subscribers by number, in the order of their registration."""
        found = self._subscribers
        if isinstance(found, dict):
            return found
        return {} if found is None else {found.number: found}

    @property
    def alone(self) -> Subscription | None:
        """Its subscriber, if there is one only."""
        found = self._subscribers
        if isinstance(found, dict):
            return next(iter(found.values())) if len(found) == 1 else None
        return found

    @property
    def name(self) -> str:
        """The id of its first subscriber, by which it is known also after a restart."""
        return next(iter(self.subscribers.values())).id

    def audiences(self) -> list[Audience]:
        """Its subscribers in groups that share their matches."""
        if self._audiences is None:
            groups: dict[object, list[Subscription]] = {}
            for number, each in sorted(self.subscribers.items()):
                kind = (id(each.delivery), each.windows, each.publish, number < 0)
                # In pieces by number, so that whoever comes or goes changes one of them.
                groups.setdefault((*kind, number // MOST), []).append(each)
            self._audiences = [*map(Audience, groups.values())]
        return self._audiences

    def with_delivery(self, delivery: Delivery) -> list[int]:
        """The numbers of the subscribers whose results are made in that way."""
        return [number for number, each in self.subscribers.items() if each.delivery is delivery]

    @property
    def subscribed(self) -> bool:
        """Whether there is any subscriber."""
        return bool(self._subscribers)

    @property
    def edges(self) -> tuple[int, ...]:
        """The ids of its edges."""
        own = self.variables + self.quantified
        return tuple(
            [(0 if above is None else own[above]) << 32 | own[p] for p, above, _, _ in self.ties]
        )

    @property
    def trees(self) -> tuple[Definition, ...]:
        """The definitions of all positions, then of the quantified paths, made again."""
        found = next(iter(self.subscribers.values()))
        return found.shape.definitions(found.literals)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The definitions of all positions, made again."""
        return self.trees[: len(self.variables)]

    def join(self, subscription: Subscription) -> bool:
        """Add a subscriber; returns whether it is the first."""
        before = self._subscribers
        self._audiences = None
        if before is None:
            self._subscribers = subscription
            return True
        if not isinstance(before, dict):
            before = self._subscribers = {before.number: before}
        if self._asked is None:
            self._asked = dict(Counter(each.windows for each in before.values()))
        # Compared with the last subscriber, not with the first, which may be removed.
        if subscription.first_doc < before[next(reversed(before))].first_doc:
            self.begin(subscription.first_doc)
        before[subscription.number] = subscription
        windows = subscription.windows
        self._asked[windows] = self._asked.get(windows, 0) + 1
        if self._widest is not None:
            self._widest = tuple(map(max, self._widest, windows))
        return False

    def begin(self, first_doc: int) -> None:
        """Note that a subscriber other than the first matches from this document on."""
        self._audiences = None
        self._lowest = first_doc if self._lowest is None else min(self._lowest, first_doc)

    def leave(self, subscription: Subscription) -> None:
        self._audiences = None
        if not isinstance(self._subscribers, dict):
            self._subscribers = None
            return
        del self._subscribers[subscription.number]
        if len(self._subscribers) == 1:
            self._lowest = None
        windows = subscription.windows
        assert self._asked is not None
        self._asked[windows] -= 1
        if not self._asked[windows]:
            del self._asked[windows]
            if self._widest and any(map(int.__eq__, windows, self._widest)):
                self._widest = None  # it may have been the only one with the widest window

    def windows(self) -> tuple[int, ...]:
        """The widest window of any subscriber, per operator and for the whole."""
        if self._asked is None:
            assert isinstance(self._subscribers, Subscription)
            return self._subscribers.windows
        if self._widest is None:
            self._widest = tuple(map(max, zip(*self._asked, strict=True)))
        return self._widest

    def first_doc(self) -> int:
        """A document number before which no subscriber matches: mostly that of the first
        subscriber, since document numbers grow."""
        found = next(iter(self.subscribers.values())).first_doc
        if self._lowest is None or not isinstance(self._subscribers, dict):
            return found
        return min(found, self._lowest)


@dataclass(slots=True)
class Subscription:
    """A registered query: its text, its shape and literals, and how its matches become results
    (`delivery`)."""

    number: int
    id: str
    text: str
    publish: str | None
    first_doc: int
    windows: tuple[int, ...]
    delivery: Delivery
    shape: Shape
    literals: Literals
    canonical: Canonical
    pattern: PatternQuery | None = None
    """Of an event pattern its plan, which those share that differ in constants of blocks."""

    @property
    def reach(self) -> int:
        """How long its documents are needed, in microseconds: one document is a match by itself."""
        if self.pattern is None and self.shape.template.blocks == 1:
            return 0
        return self.windows[-1]

    @property
    def compiled(self) -> Compiled:
        """The query as it was registered."""
        return Compiled(self.id, self.text, self.publish, self.shape, self.literals)

    @property
    def nested(self) -> tuple[Compiled, ...]:
        """The queries in its FROM; of an event pattern then its taps."""
        return tuple(nested_in(self.shape, self.literals))

    @property
    def reads(self) -> set[str]:
        """The streams that its results are derived from."""
        return set(self.delivery.streams)


class Audience:
    """Subscribers of one canonical query with the same windows, delivery and stream to publish to:
    they differ in the document from which on they match."""

    __slots__ = ("_latest", "subscribers", "windows")

    def __init__(self, subscribers: list[Subscription]) -> None:
        self.subscribers = subscribers
        self._latest = max([each.first_doc for each in subscribers])
        self.windows = subscribers[0].windows

    @property
    def first_doc(self) -> int:
        """The first document from which on one of them matches."""
        return min([each.first_doc for each in self.subscribers])

    def since(self, base: int) -> list[Subscription]:
        """Those for whom a match counts whose oldest document has this number."""
        if base >= self._latest:
            return self.subscribers
        return [each for each in self.subscribers if base >= each.first_doc]
