"""Where the documents of an event pattern go: by the value that ties its blocks, or to its home."""

from __future__ import annotations

from broker.cluster.keys import Keyed
from broker.cluster.routes import Part, Route, bucket, edges_of_block, trigger_of
from broker.query.canonical import Canonical
from broker.query.catalog import Catalog
from broker.standing.live import tap_names
from xscl.stage1.document import value_code


def pattern_route(canonical: Canonical, catalog: Catalog, keyed: Keyed | None) -> Route | None:
    """The route of an event pattern, a part for each of its blocks: its documents go to the shards
    of their keys, or without a tie all of them to its home, which its form and its constants name.
    None if a block has nothing that its documents are known by."""
    subscription = next(iter(canonical.subscribers.values()))
    said = repr((subscription.shape.blueprint.form, canonical.constants))
    home = bucket(value_code(said))
    parts: list[Part] = []
    for place, name in enumerate(tap_names(subscription)):
        tap = catalog.subscriptions[name]
        trigger = trigger_of(tap.canonical, tap.shape.template, 0)
        if trigger is None:
            return None
        edges = edges_of_block(tap.canonical, tap.shape.template, 0)
        if keyed is None:
            parts.append(Part(place, "home", trigger, edges, home))
        else:
            parts.append(Part(place, "key", keyed.triggers[place], edges))
    return Route(tuple(parts))


def home_of(found: Route, shards: int) -> int | None:
    """The shard that is the home of a pattern; None if all shards have it."""
    return found.parts[0].second % shards if found.parts[0].by == "home" else None
