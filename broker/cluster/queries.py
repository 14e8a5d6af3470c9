"""The queries of a coordinator: which stay with it, where those of the others go, what changed.

In: the catalog of the engine, whenever it has changed. Out: the routes of the queries that shards
match, and the changes that shards have to be told, subscription by subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from broker.cluster.owning import Home
from broker.cluster.routes import (
    Part,
    Rarity,
    Route,
    Surroundings,
    pattern_route,
    reason_to_stay,
    route,
    shard_of_pattern,
)
from broker.cluster.segments import Change
from broker.query.canonical import Canonical, Subscription
from broker.query.catalog import Catalog
from broker.query.patterns import TAP
from broker.standing.live import tap_names

NO_WAY = "a block has no value, and no path, that its documents are known by"


def is_pattern(canonical: Canonical) -> bool:
    """Whether it is that of an event pattern."""
    return any(each.pattern is not None for each in canonical.subscribers.values())


class Queries:
    """The queries of a catalog, as they are divided. A query that has to stay with the coordinator
    for a while stays there until the next start."""

    def __init__(
        self, catalog: Catalog, home: Home, shards: int, recorded: Mapping[str, Any]
    ) -> None:
        self._catalog = catalog
        self._home = home
        self._shards = shards
        self._recorded = recorded
        """By subscription, the parts of the routes that segments were made by."""
        self._staying: dict[int, str] = {}
        self._sent: dict[str, tuple[int, int]] = {}
        """By id, the number of each subscription that shards have, and its first document."""
        self._templates: list[Any] = []

    def why_here(self, canonical: Canonical) -> str | None:
        """Why a query is matched by the coordinator, None if it is not."""
        return self._staying.get(canonical.number)

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
            if number not in patterns and pattern_route(canonical, catalog) is None:
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
            found = patterns.get(number) or pattern_route(canonical, self._catalog)
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

    def routes(self) -> list[Route]:
        """All routes."""
        return [*self._home.routes.values(), *self._home.patterns.values()]

    def _here(self) -> Iterator[tuple[Subscription, Route]]:
        """The subscriptions that shards match, with their routes."""
        canonical = self._catalog.canonical
        for routes in (self._home.routes, self._home.patterns):
            for number, found in routes.items():
                for each in canonical[number].subscribers.values():
                    if not each.id.startswith(TAP):
                        yield each, found

    def _route(self, canonical: Canonical, rarity: Rarity) -> Route | None:
        found = route(canonical, self._templates[canonical.template], rarity, self._shards)
        for each in canonical.subscribers.values():
            known = self._recorded.get(each.id)
            if found is not None and known is not None and known["text"] == each.text:
                # The pivot that segments were divided by, if the variables are still the same.
                parts = [Part(b, by, v, tuple(e), *more) for b, by, v, e, *more in known["parts"]]
                edges = {e for part in parts for e in part.edges}
                if edges == {e for part in found.parts for e in part.edges}:
                    return Route(tuple(parts))
        return found

    def changes(self) -> tuple[list[Change], int]:
        """What shards have to be told since the last call, and the lowest first document of a
        subscription that is new to them."""
        wanted = {each.id: (each, of) for each, of in self._here()}
        found: list[Change] = []
        for id, (number, first_doc) in [*self._sent.items()]:
            there, _ = wanted.get(id, (None, None))
            if there is None or (there.number, there.first_doc) != (number, first_doc):
                found.append(Change(id))
                del self._sent[id]
        lowest = 1 << 62
        fresh = [each for id, each in wanted.items() if id not in self._sent]
        for each, of in sorted(fresh, key=lambda each: each[0].number):
            found.append(self._change(each, of))
            self._sent[each.id] = (each.number, each.first_doc)
            lowest = min(lowest, each.first_doc)
        return found, lowest

    def _change(self, each: Subscription, of: Route) -> Change:
        found: dict[str, int] = {}
        parts = [each]
        if each.pattern is not None:
            parts = [self._catalog.subscriptions[name] for name in tap_names(each)]
        for part in parts:
            texts = part.shape.texts(part.literals)
            own = part.canonical.variables + part.canonical.quantified
            found.update(zip(texts, own, strict=True))
        home = shard_of_pattern(of, self._shards) if each.pattern is not None else None
        return Change(
            each.id, each.number, each.text, each.publish, each.first_doc, found, of, home
        )

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

    def forget(self) -> None:
        """Forget what shards were told."""
        self._sent.clear()

    def record(self) -> dict[str, Any]:
        """The routes by subscription, to be stored beside the segments that are made by them."""
        return {each.id: {"text": each.text, "parts": of.parts} for each, of in self._here()}

    def recorded(self, record: Mapping[str, Any]) -> bool:
        """Whether segments that were made by recorded routes serve the routes of now."""
        return all(
            id in record
            and record[id]["text"] == now["text"]
            and [[b, by, v, [*e], *more] for b, by, v, e, *more in now["parts"]]
            == record[id]["parts"]
            for id, now in self.record().items()
        )
