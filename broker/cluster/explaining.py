"""How a query is divided among shards, in words, for `broker explain`."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.keys import Keys
from broker.cluster.pattern_routes import pattern_route
from broker.cluster.queries import NO_WAY
from broker.cluster.routes import Part, Route, Surroundings, reason_to_stay, route
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog
from broker.query.prepared import Compiled

_SHARDS = 16
"""How many shards there are, about, in what is told. Fewer than four form no rows and columns."""


def shards_stage(query: Compiled, catalog: Catalog) -> str:
    """Where the documents of each block go, or why the coordinator alone matches the query."""
    subscription = catalog.subscriptions[query.id]
    canonical = subscription.canonical
    why = reason_to_stay(canonical, catalog, Surroundings.of(catalog, limited=False))
    if why is None:
        if subscription.pattern is not None:
            return _told_of_pattern(subscription, catalog)
        found = route(canonical, query.shape.template, lambda variable: 0.0, _SHARDS)
        if found is not None:
            return _lines(found, catalog)
        why = NO_WAY
    return f"matched by the coordinator: {why}"


def _told_of_pattern(subscription: Subscription, catalog: Catalog) -> str:
    keys = Keys(catalog)
    keys.came(subscription)
    number = subscription.canonical.number
    found = pattern_route(subscription.canonical, catalog, keys.of.get(number))
    if found is None:
        return f"matched by the coordinator: {NO_WAY}"
    lines = [_lines(found, catalog)]
    if number in keys.why:
        lines.append(f"all to one: {keys.why[number]}")
    elif keys.of[number].alone:
        lines.append("until a document has several of these values: then all go to one")
    return "\n".join(lines)


def _lines(found: Route, catalog: Catalog) -> str:
    paths = {number: path for path, number in catalog.variables.items()}
    return "\n".join([_told(part, paths) for part in found.parts])


def _told(part: Part, paths: Mapping[int, str]) -> str:
    """Where the documents of a block go; `paths` are the definitions of variables."""
    first, second = paths.get(part.trigger), paths.get(part.second)
    match part.by:
        case "key":
            where = f"to the shard of its value of {first}"
        case "value":
            where = f"to the shards of its values of {first}"
        case "row" | "column":
            where = f"to a {part.by} of shards for each of its values of {first}"
        case "cell":
            where = f"to the shards where its values of {first} and of {second} meet"
        case "home":
            where = "to one shard, the home of this event pattern"
        case "document":
            where = "to one shard, by its number"
        case _:
            where = "to every shard"
    return f"a document of block {part.block + 1} goes {where}"
