"""The queries of a coordinator: which stay with it, where those of the others go, what changed.

In: the catalog of the engine, whenever it has changed. Out: the routes of the queries that shards
match, and the changes that shards have to be told of their variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from broker.cluster.keys import Keys
from broker.cluster.owning import Home
from broker.cluster.pattern_routes import home_of, pattern_route
from broker.cluster.routes import (
    Part,
    Rarity,
    Route,
    Surroundings,
    reason_to_stay,
    route,
)
from broker.cluster.segments import Change
from broker.cluster.variants import Variants, is_pattern
from broker.model import compact_json
from broker.query.canonical import Canonical, Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.standing.live import tap_names
from broker.state.pattern_tables import Entry

NO_WAY = "a block has no value, and no path, that its documents are known by"


class Queries:
    """The queries of a catalog, as they are divided. A query that has to stay with the coordinator
    for a while stays there until the next start. `entries` gives how event patterns are registered
    that shards match."""

    def __init__(
        self,
        catalog: Catalog,
        home: Home,
        shards: int,
        recorded: Mapping[str, Any],
        entries: Callable[[], Mapping[int, Entry]],
    ) -> None:
        self._catalog = catalog
        self._entries = entries
        self.keys = Keys(catalog)
        catalog.watch(self.keys)
        self._home = home
        self._shards = shards
        self._recorded = recorded
        """By `_key`, the parts of the routes that segments were made by, and from which document
        on."""
        self._staying: dict[int, str] = {}
        self.variants = Variants()
        self._sent: dict[str, _Here] = {}
        """By id, what shards have."""
        self._covered: dict[int, int] = {}
        """By canonical query, from which document on shards were sent what it needs."""
        self._templates: list[Any] = []

    def divide(self, rarity: Rarity, *, limited: bool) -> bool:
        """Decide about new queries, and again about those whose surroundings have changed; returns
        whether queries have come home whose documents may be elsewhere. `limited`: whether any
        subscription has a limit."""
        catalog, routes, patterns = self._catalog, self._home.routes, self._home.patterns
        self._templates = [*catalog.templates]
        for known in (routes, patterns, self._staying):
            for number in [n for n in known if n not in catalog.canonical]:
                del known[number]
        for canonical in [s.canonical for s in catalog.patterns.values()]:
            # One without a way stays whatever else does.
            number = canonical.number
            if number not in patterns and pattern_route(canonical, catalog, None) is None:
                self._staying.setdefault(number, NO_WAY)
        surroundings = Surroundings.of(catalog, self._staying, limited=limited)
        came = False
        for number, canonical in catalog.canonical.items():
            if number in self._staying:
                continue
            why = reason_to_stay(canonical, catalog, surroundings)
            if why is None:
                why = self._send(canonical, rarity)
            if why is not None:
                self._staying[number] = why
                if patterns.pop(number, None) is not None:
                    came = True
                if routes.pop(number, None) is not None:
                    came = True
                    catalog.dirty.add(number)
        edges = {e for n in self._staying for e in catalog.canonical[n].edges}
        self._home.edges = np.array(sorted(edges), np.int64)
        return came

    def _send(self, canonical: Canonical, rarity: Rarity) -> str | None:
        """Give a query its route, unless it has one; returns why there is none."""
        routes, patterns = self._home.routes, self._home.patterns
        number = canonical.number
        if is_pattern(canonical):
            found = patterns.get(number) or self._route_of_pattern(canonical)
            if found is not None:
                patterns[number] = found
        elif all(each.id.startswith(TAP) for each in canonical.subscribers.values()):
            # Its documents go where the patterns are whose block it is.
            found = routes[number] = Route(())
        else:
            found = routes.get(number)
            if not (found and found.parts):
                found = self._route(canonical, rarity)
            if found is not None:
                routes[number] = found
        return NO_WAY if found is None else None

    def _route_of_pattern(self, canonical: Canonical) -> Route | None:
        known = self._recorded.get(_key(next(iter(canonical.subscribers.values()))))
        if known is not None and any(part.by == "home" for part in _parts(known["parts"])):
            self.keys.untie([canonical.number])  # as it was before
        return pattern_route(canonical, self._catalog, self.keys.of.get(canonical.number))

    def untie(self, numbers: Iterable[int]) -> None:
        """Event patterns cannot be divided by a value any more, and get a home."""
        self.keys.untie([*numbers])
        for number in numbers:
            self._home.patterns.pop(number, None)

    def routes(self) -> list[Route]:
        """All routes."""
        return [*self._home.routes.values(), *self._home.patterns.values()]

    def _here(self) -> Iterator[_Here]:
        """What shards match."""
        canonical = self._catalog.canonical
        routes = {**self._home.routes, **self._home.patterns}
        self.variants.keep([canonical[number] for number in routes], self._entries())
        for variant in self.variants.numbered.values():
            route = routes[variant.canonical.number]
            yield _Here(variant.id, variant.number, variant.first_doc, variant.any, route)

    def _route(self, canonical: Canonical, rarity: Rarity) -> Route | None:
        found = route(canonical, self._templates[canonical.template], rarity, self._shards)
        for each in canonical.subscribers.values():
            known = self._recorded.get(_key(each))
            if found is not None and known is not None:
                # The pivot that segments were divided by, if the variables are still the same.
                parts = _parts(known["parts"])
                edges = {e for part in parts for e in part.edges}
                if edges == {e for part in found.parts for e in part.edges}:
                    return Route(parts)
        return found

    def changes(self, next_doc: int, *, whole: bool) -> tuple[list[Change], bool]:
        """What shards have to be told since the last call, or all of it; and whether any of that
        counts from documents on that were not sent for it. `next_doc` is the next document."""
        wanted = {each.id: each for each in self._here()}
        before, self._sent = self._sent, wanted
        same = {id for id, sent in before.items() if id in wanted and wanted[id].goes_on(sent)}
        if before:
            kept = {wanted[id].canonical.number for id in same}
            self._covered = {n: first for n, first in self._covered.items() if n in kept}
        found = [] if whole else [Change(id) for id in before if id not in same]
        behind = False
        for each in sorted(wanted.values(), key=lambda each: each.subscription.number):
            goes_on = each.id in same
            if whole or not goes_on:
                found.append(self._change(each))
            elif each.first_doc != before[each.id].first_doc:
                found.append(Change(each.id, first_doc=each.first_doc))
            since = self._covered.setdefault(each.canonical.number, next_doc)
            if each.subscription.pattern is not None and before and not goes_on:
                since = next_doc  # a pattern that has begun elsewhere is made anew
            behind = behind or each.first_doc < since
        return found, behind

    def _change(self, each: _Here) -> Change:
        subscription = each.subscription
        pattern = subscription.pattern is not None
        found: dict[str, int] = {}
        parts = [subscription]
        if pattern:
            parts = [self._catalog.subscriptions[name] for name in tap_names(subscription)]
        for part in parts:
            texts = part.shape.texts(part.literals)
            own = part.canonical.variables + part.canonical.quantified
            found.update(zip(texts, own, strict=True))
        said = (subscription.id, subscription.text, each.first_doc)
        if not pattern:
            return Change(each.id, each.number, *said, found, each.route)
        home = home_of(each.route, self._shards)
        keys = () if home is not None else self.keys.of[each.canonical.number].keys
        return Change(each.id, each.number, *said, found, each.route, home, keys)

    def divided(self) -> None:
        """Note that all documents were divided by the routes of now."""
        self._covered = dict.fromkeys((*self._home.routes, *self._home.patterns), 0)

    def flows(self) -> tuple[frozenset[str], frozenset[str]]:
        """The subscriptions whose matches are found in shards and become documents, and the streams
        of results that queries in shards read."""
        catalog, routes = self._catalog, self._home.routes
        published = {s: catalog.subscriptions[id] for s, id in catalog.published.items()}
        flowing = [
            each.id
            for stream, each in published.items()
            if catalog.read[stream]
            and (each.canonical.number in routes or each.canonical.number in self._home.patterns)
        ]
        read: set[str] = set()
        for number in routes if published else ():
            for each in catalog.canonical[number].subscribers.values():
                read.update(each.delivery.streams)
        return frozenset(flowing), frozenset(read & published.keys())

    def readers(self, read: frozenset[str]) -> list[int]:
        """The canonical queries in shards that read these streams of results."""
        canonical = self._catalog.canonical
        return [
            number
            for number in (self._home.routes if read else ())
            for each in canonical[number].subscribers.values()
            if not read.isdisjoint(each.delivery.streams)
        ]

    def record(self) -> dict[str, Any]:
        """The routes by `_key`, and from which document on their documents were divided by them; to
        be stored beside the segments."""
        found: dict[str, Any] = {}
        for each in self._here():
            first = self._covered.get(each.canonical.number, each.first_doc)
            said = {"first": first, "parts": each.route.parts}
            known = found.setdefault(_key(each.subscription), said)
            known["first"] = min(first, known["first"])
        return found

    def recorded(self, record: Mapping[str, Any]) -> bool:
        """Whether segments that were made by recorded routes serve the routes of now."""
        covered: dict[int, int] = {}
        for each in self._here():
            known = record.get(_key(each.subscription))
            if known is None or known["first"] > each.first_doc:
                return False
            if _parts(known["parts"]) != each.route.parts:
                return False
            covered[each.canonical.number] = known["first"]
        self._covered = covered
        return True


class _Here(NamedTuple):
    """What shards match: a variant, with one of those who have subscribed to it."""

    id: str
    number: int
    first_doc: int
    subscription: Subscription
    route: Route

    @property
    def canonical(self) -> Canonical:
        return self.subscription.canonical

    def goes_on(self, before: _Here) -> bool:
        """Whether shards go on with what they had by this id."""
        if self.number != before.number:
            return False
        return self.subscription.pattern is None or self.first_doc == before.first_doc


def _key(subscription: Subscription) -> str:
    """What all subscribers of a variant, or of a pattern, have in common, also after a restart."""
    return compact_json([subscription.shape.blueprint.form, subscription.literals])


def _parts(recorded: Iterable[Any]) -> tuple[Part, ...]:
    """The parts of a route that was stored as JSON."""
    return tuple([Part(b, by, v, tuple(e), *more) for b, by, v, e, *more in recorded])
