"""Subscriptions, compiled: from XSCL text to edges for stage 1 and parameter rows for stage 2.

Queries with one join graph over the same variables are one *canonical query* with many
subscribers, so that stage 2 never does the same work twice; each subscriber's windows and first
document are checked when a match is handed to it.

A subscription is kept small, for there may be millions: its text and its literals are all that is
its own, and the rest is shared with those of its shape. Trees are bound again where somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from broker.query.blueprint import Delivery
from broker.query.edges import Edges, Tie
from broker.query.patterns import TAP, PatternQuery
from broker.query.prepared import Compiled, nested_in
from broker.query.shape import Shape
from broker.query.variables import Variables
from broker.shared_match import MOST
from xscl.compact import OneOrMany
from xscl.normal import ir
from xscl.normal.bind import Literals
from xscl.normal.template import Template
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

    def join(self, subscription: Subscription) -> None:
        before = self._subscribers
        self._audiences = None
        if before is None:
            self._subscribers = subscription
            return
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

    __slots__ = ("_latest", "_subscribers", "windows")

    def __init__(self, subscribers: list[Subscription]) -> None:
        self._subscribers = subscribers
        self._latest = max([each.first_doc for each in subscribers])
        self.windows = subscribers[0].windows

    def since(self, base: int) -> list[Subscription]:
        """Those for whom a match counts whose oldest document has this number."""
        if base >= self._latest:
            return self._subscribers
        return [each for each in self._subscribers if base >= each.first_doc]


class Catalog:
    """All subscriptions of a broker in memory; the registry stores their texts."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.canonical: dict[int, Canonical] = {}
        self.templates: dict[Template, int] = {}
        self.variables = Variables()
        self.edges = Edges()
        self.published: dict[str, str] = {}
        """Streams that queries publish, and the ids of those queries."""
        self.patterns: dict[int, Subscription] = {}
        """The event patterns by number; those in a FROM have negative ones."""
        self._of_patterns: dict[tuple[str, Literals], Canonical] = {}
        """Their canonical queries by form and literals."""
        self.taps: dict[int, set[str]] = {}
        """By canonical query the taps of event patterns that it finds documents for."""
        self.changed: set[int] = set()
        """The event patterns that came or went since somebody took note of it."""
        self.changed_streams: set[str] = set()
        """The streams whose publisher came or went since then, if there are event patterns."""
        self.read: Counter[str] = Counter()
        """How many canonical queries read each stream."""
        self._spans: Counter[int] = Counter()
        """How many subscriptions have each window of the whole match, in microseconds."""
        self._by_variables: dict[tuple[int, ...], Canonical | dict[object, Canonical]] = {}
        """As `_CANONICAL` holds those over the same variables."""
        self._nested_users: Counter[str] = Counter()
        self._last_hidden = 0
        self._next_canonical = 1
        self.dirty: set[int] = set()
        """Canonical queries whose row in RT is not up to date."""

    def add(self, compiled: Compiled, number: int, first_doc: int) -> Subscription:
        """Register a query, and with it those in its FROM, which equal ones share."""
        for inner in compiled.nested:
            self._nested_users[inner.id] += 1
            if inner.id not in self.subscriptions:
                self._last_hidden -= 1
                self.add(inner, self._last_hidden, first_doc)
            else:
                self._begin(inner, first_doc)
        shape, literals = compiled.shape, compiled.literals
        pattern = compiled.pattern
        canonical = (
            self._canonical(compiled) if pattern is None else self._of_pattern(shape, literals)
        )
        subscription = Subscription(
            number,
            compiled.id,
            compiled.text,
            compiled.publish,
            first_doc,
            shape.windows(literals) if pattern is None else (pattern.retention,),
            shape.deliver(literals),
            shape,
            literals,
            canonical,
            pattern,
        )
        canonical.join(subscription)
        self._spans[subscription.reach] += 1
        self.subscriptions[subscription.id] = subscription
        if pattern is not None:
            self.patterns[number] = subscription
            self.changed.add(number)
        elif compiled.id.startswith(TAP):
            self.taps.setdefault(canonical.number, set()).add(compiled.id)
        if compiled.publish is not None:
            self.published[compiled.publish] = subscription.id
            self._note_stream(compiled.publish)
        if pattern is None:
            self.dirty.add(canonical.number)
        return subscription

    def _note_stream(self, stream: str) -> None:
        # A query in a FROM comes and goes with those around it.
        if self.patterns and not stream.startswith("~"):
            self.changed_streams.add(stream)

    def _of_pattern(self, shape: Shape, literals: Literals) -> Canonical:
        """The canonical query of an event pattern, which has no variables."""
        key = (shape.blueprint.form, literals)
        found = self._of_patterns.get(key)
        if found is None:
            number = self._next_canonical
            self._next_canonical += 1
            found = Canonical(number, 0, (), frozenset(), (), (), (), literals)
            self.canonical[number] = self._of_patterns[key] = found
        return found

    def _begin(self, shared: Compiled, first_doc: int) -> None:
        """Make a query in a FROM, and those in its own FROM, match from this document on."""
        known = self.subscriptions[shared.id]
        if first_doc < known.first_doc:
            known.first_doc = first_doc
            known.canonical.begin(first_doc)
            self.dirty.add(known.canonical.number)
            for inner in shared.nested:
                self._begin(inner, first_doc)

    def remove(self, id: str) -> Subscription:
        subscription = self.subscriptions.pop(id)
        for inner in subscription.nested:
            self._nested_users[inner.id] -= 1
            if not self._nested_users[inner.id]:
                self.remove(inner.id)
        if subscription.publish is not None:
            del self.published[subscription.publish]
            self._note_stream(subscription.publish)
        span = subscription.reach
        self._spans[span] -= 1
        if not self._spans[span]:
            del self._spans[span]
        canonical = subscription.canonical
        canonical.leave(subscription)
        if subscription.pattern is not None:
            del self.patterns[subscription.number]
            self.changed.add(subscription.number)
            if not canonical.subscribed:
                del self.canonical[canonical.number]
                form = subscription.shape.blueprint.form
                del self._of_patterns[form, subscription.literals]
            return subscription
        if id.startswith(TAP):
            self.taps[canonical.number].discard(id)
            if not self.taps[canonical.number]:
                del self.taps[canonical.number]
        self.dirty.add(canonical.number)
        if not canonical.subscribed:
            del self.canonical[canonical.number]
            self._forget(canonical)
            self.edges.release(canonical)
            self.variables.release(subscription.shape.texts(subscription.literals))
            for stream in subscription.delivery.streams:
                self.read[stream] -= 1
        return subscription

    def _canonical(self, compiled: Compiled) -> Canonical:
        shape, literals = compiled.shape, compiled.literals
        number = self.templates.setdefault(shape.template, len(self.templates))
        size = len(shape.template.nodes)
        found = [*map(self.variables.number, shape.texts(literals))]
        fresh = Canonical(
            number=self._next_canonical,
            template=number,
            variables=tuple(found[:size]),
            selected=shape.selected,
            ties=shape.ties,
            values=shape.values(literals),
            quantified=tuple(found[size:]),
            constants=shape.constants(literals),
        )
        canonical = self._known(fresh)
        if canonical is fresh:
            self._next_canonical += 1
            self.variables.use(found)
            self.edges.use(canonical, shape.definitions(literals))
            for stream in shape.delivery.streams:
                self.read[stream] += 1
            self.canonical[canonical.number] = canonical
        return canonical

    def _known(self, fresh: Canonical) -> Canonical:
        """The canonical query that equals this one; this one itself if it is new."""
        there = self._by_variables.setdefault(fresh.variables, fresh)
        if there is fresh:
            return fresh
        found = _CANONICAL.get(there, _rest(fresh))
        if found is None:
            found = fresh
            self._by_variables[fresh.variables] = _CANONICAL.add(there, fresh)
        return found

    def _forget(self, canonical: Canonical) -> None:
        left = _CANONICAL.remove(self._by_variables.pop(canonical.variables), canonical)
        if left is not None:
            self._by_variables[canonical.variables] = left

    def owner(self, id: str) -> str:
        """The id of the query in whose FROM this one stands, its own if it is none of these."""
        while id.startswith("~"):
            users = (
                each
                for each in self.subscriptions.values()
                if any(inner.id == id for inner in each.nested)
            )
            id = next(users).id
        return id

    def registered(self) -> int:
        """How many subscriptions there are, without the queries in their FROM."""
        return len(self.subscriptions) - sum(1 for users in self._nested_users.values() if users)

    def makes_points(self, stream: str) -> bool:
        """Whether the documents that a query publishes are points at the ends of its matches."""
        maker = self.subscriptions[self.published[stream]]
        return maker.pattern is not None and maker.pattern.plan.query.at_end

    def widest_window(self) -> int:
        """The longest time that any match may span, in microseconds."""
        return max(self._spans, default=0)


def _rest(canonical: Canonical) -> object:
    """What distinguishes a canonical query from others over the same variables."""
    return (
        canonical.template,
        canonical.selected,
        canonical.quantified,
        canonical.constants,
    )


_CANONICAL: OneOrMany[object, Canonical] = OneOrMany(_rest)
"""Canonical queries over the same variables, of which there mostly is one."""
