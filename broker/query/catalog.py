"""Subscriptions, compiled: from XSCL text to edges for stage 1 and parameter rows for stage 2.

Those with one join graph over the same variables are one canonical query (`canonical.py`).

A subscription is kept small, for there may be millions: its text and its literals are all that is
its own, and the rest is shared with those of its shape. Trees are bound again where somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Protocol

from broker.query.canonical import Canonical, Subscription
from broker.query.edges import Edges
from broker.query.patterns import TAP
from broker.query.prepared import Compiled
from broker.query.shape import Shape
from broker.query.variables import Variables
from xscl.compact import OneOrMany
from xscl.normal.bind import Literals
from xscl.normal.template import Template

_FEW = 12
"""Queries of one shape that are registered one by one."""

Query = tuple[int, Compiled, int]
"""A query to register: its number, and the first document that it matches from on."""


class Watcher(Protocol):
    """Somebody who is told of the event patterns of a catalog, each once for all subscriptions."""

    def came(self, subscription: Subscription) -> None:
        """One has its first subscription."""

    def went(self, number: int) -> None:
        """That of this canonical query has no subscription any more."""


class Catalog:
    """All subscriptions of a broker in memory; the registry stores their texts. A catalog that is
    `bare` has no queries that stand in the FROM of others, as these are somebody else's; the taps
    of event patterns it has."""

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare
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
        self.taps: dict[int, tuple[str, ...]] = {}
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
        self._watcher: Watcher | None = None

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody of the event patterns, those that are there and those to come."""
        self._watcher = watcher
        for subscription in self.patterns.values():
            if _is_first(subscription):
                watcher.came(subscription)

    def add(self, compiled: Compiled, number: int, first_doc: int) -> Subscription:
        """Register a query, and with it those in its FROM, which equal ones share."""
        for inner in self._own(compiled.nested):
            self._nested_users[inner.id] += 1
            if inner.id not in self.subscriptions:
                self._last_hidden -= 1
                self.add(inner, self._last_hidden, first_doc)
            else:
                self._begin(inner, first_doc)
        shape, literals = compiled.shape, compiled.literals
        pattern = compiled.pattern
        canonical = (
            self._entered(compiled) if pattern is None else self._of_pattern(shape, literals)
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
            if self._watcher is not None and _is_first(subscription):
                self._watcher.came(subscription)
        elif compiled.id.startswith(TAP):
            known = self.taps.get(canonical.number, ())
            self.taps[canonical.number] = tuple(sorted({*known, compiled.id}))
        if compiled.publish is not None:
            self.published[compiled.publish] = subscription.id
            self._note_stream(compiled.publish)
        if pattern is None:
            self.dirty.add(canonical.number)
        return subscription

    def add_all(self, queries: Sequence[Query], entered: list[str] | None = None) -> None:
        """Register queries, many of one shape together; their ids go to a list as it goes on."""
        entered = [] if entered is None else entered
        by_shape: dict[Shape, list[Query]] = {}
        for query in queries:
            by_shape.setdefault(query[1].shape, []).append(query)
        for shape, alike in by_shape.items():
            if len(alike) > _FEW and shape.alike is not None:
                self.add_alike(shape, alike)
                entered += [compiled.id for _, compiled, _ in alike]
                continue
            for number, compiled, first_doc in alike:
                self.add(compiled, number, first_doc)
                entered.append(compiled.id)

    def add_alike(self, shape: Shape, queries: Sequence[Query]) -> None:
        """Register very many queries of one shape, as `add` does, a column at a time: what the
        shape decides is done once. `shape.alike` says whether it can be done."""
        definitions = shape.alike
        assert definitions is not None
        count, size, numbers = len(queries), len(shape.template.nodes), self.variables
        template = self.templates.setdefault(shape.template, len(self.templates))
        literals = [compiled.literals for _, compiled, _ in queries]
        columns: list[int | Sequence[int]] = [
            numbers.number(definitions.fixed(place)) if own is None else numbers.numbers(own)
            for place, own in enumerate(definitions.columns(literals))
        ]
        rows = zip(*[repeat(c, count) if isinstance(c, int) else c for c in columns], strict=True)
        fresh: list[Canonical] = []
        windows = [*map(shape.windows_by_text(), literals)]
        every = zip(queries, rows, windows, shape.deliver_all(literals), strict=True)
        subscriptions, dirty = self.subscriptions, self.dirty
        for (number, compiled, first_doc), own, within, delivery in every:
            bound, id, publish = compiled.literals, compiled.id, compiled.publish
            canonical = self._canonical(shape, template, own[:size], own[size:], bound)
            subscription = subscriptions[id] = Subscription(
                number,
                id,
                compiled.text,
                publish,
                first_doc,
                within,
                delivery,
                shape,
                bound,
                canonical,
            )
            if canonical.join(subscription):
                fresh.append(canonical)
            if publish is not None:
                self.published[publish] = id
                self._note_stream(publish)
            dirty.add(canonical.number)
        single = shape.template.blocks == 1
        self._spans.update({0: count} if single else map(itemgetter(-1), windows))
        if not fresh:
            return
        if len(fresh) < count:
            literals = [next(iter(each.subscribers.values())).literals for each in fresh]
            left = zip(*[each.variables + each.quantified for each in fresh], strict=True)
            columns = [c if isinstance(c, int) else o for c, o in zip(columns, left, strict=True)]
        self._use_alike(shape, columns, fresh, literals)

    def _use_alike(
        self,
        shape: Shape,
        columns: Sequence[int | Sequence[int]],
        fresh: Sequence[Canonical],
        literals: Sequence[Literals],
    ) -> None:
        """Enter what the first queries of canonical ones need, with their literals: by place they
        have the same variable or one each."""
        shared = {each for each in columns if isinstance(each, int)}
        for number in shared:
            self.variables.use_by(number, len(fresh))
        own = [each for each in columns if not isinstance(each, int)]
        if own:
            self.variables.use_columns(own, shared)
        form, forms = shape.blueprint.definitions, shape.forms
        for tie in shape.ties:
            position, parent, _, _ = tie
            below, above = columns[position], 0 if parent is None else columns[parent]
            edges: int | list[int]
            if isinstance(above, int):
                high = above << 32
                edges = high | below if isinstance(below, int) else [high | b for b in below]
            else:
                lower = repeat(below) if isinstance(below, int) else below
                edges = [a << 32 | b for a, b in zip(above, lower, strict=False)]
            self.edges.use_alike(fresh, tie, edges, form, forms, literals)
        for stream in shape.delivery.streams:
            self.read[stream] += len(fresh)

    def users(self, id: str) -> int:
        """In how many places a query stands in the FROM of others; of a tap, its blocks."""
        return self._nested_users[id]

    def _own(self, nested: tuple[Compiled, ...]) -> Sequence[Compiled]:
        """The queries of those in a FROM that come and go with the query around them."""
        return [each for each in nested if each.id.startswith(TAP)] if self._bare else nested

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
        for inner in self._own(subscription.nested):
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
                if self._watcher is not None:
                    self._watcher.went(canonical.number)
                form = subscription.shape.blueprint.form
                del self._of_patterns[form, subscription.literals]
            return subscription
        if id.startswith(TAP):
            left = tuple([name for name in self.taps[canonical.number] if name != id])
            if left:
                self.taps[canonical.number] = left
            else:
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

    def _entered(self, compiled: Compiled) -> Canonical:
        shape, literals = compiled.shape, compiled.literals
        template = self.templates.setdefault(shape.template, len(self.templates))
        size = len(shape.template.nodes)
        found = tuple(map(self.variables.number, shape.texts(literals)))
        canonical = self._canonical(shape, template, found[:size], found[size:], literals)
        if not canonical.subscribed:
            self.variables.use(found)
            self.edges.use(canonical, shape.definitions(literals), shape.forms)
            for stream in shape.delivery.streams:
                self.read[stream] += 1
        return canonical

    def _canonical(
        self,
        shape: Shape,
        template: int,
        variables: tuple[int, ...],
        quantified: tuple[int, ...],
        literals: Literals,
    ) -> Canonical:
        """The canonical query over these variables, made if it is new."""
        there = self._by_variables.get(variables)
        constants = shape.constants(literals)
        if there is not None:
            known = _CANONICAL.get(there, (template, shape.selected, quantified, constants))
            if known is not None:
                return known
        number = self._next_canonical
        self._next_canonical += 1
        values = shape.values(literals)
        found = self.canonical[number] = Canonical(
            number, template, variables, shape.selected, shape.ties, values, quantified, constants
        )
        self._by_variables[variables] = found if there is None else _CANONICAL.add(there, found)
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


def _is_first(subscription: Subscription) -> bool:
    return next(iter(subscription.canonical.subscribers.values())) is subscription


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
