"""What queries find, each match once: several choices of nodes may be the same match."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from broker.pattern.in_order.shared import Shared
from broker.pattern.instances import Instance
from broker.pattern.published import Decided, identity_of, nodes_of, order_of


def distinct(shared: Shared, found: list[tuple[int, Instance]]) -> list[Decided]:
    """The matches that a query has found, each once and in order; each is given with the number of
    what waited."""
    if len(found) == 1:
        instance = found[0][1]
        return [Decided(instance, _nodes(shared, instance))]
    found.sort(key=_first)
    of_blocks = shared.of_blocks
    seen: dict[object, Decided] = {}
    made: list[tuple[Any, Decided]] = []
    for _, instance in found:
        nodes = _nodes(shared, instance)
        rows: Any = instance.parts.values() if of_blocks else ()
        identity: object = (tuple([row.doc for row in rows]), nodes)
        if not of_blocks:
            identity = identity_of(instance, nodes)
        if identity in seen:
            seen[identity].prefer(instance)
            continue
        decided = seen[identity] = Decided(instance, nodes)
        order: object = (instance.end, instance.start, [row.id for row in rows], nodes)
        if not of_blocks:
            order = order_of(instance, nodes)
        made.append((order, decided))
    made.sort(key=_first)
    return [decided for _, decided in made]


def _nodes(shared: Shared, instance: Instance) -> tuple[int, ...]:
    """The nodes that SELECT names."""
    names = shared.names
    if names is not None or not shared.of_blocks:
        return nodes_of(instance, names)
    rows: Any = instance.parts.values()
    return tuple([row.node for row in rows])


_first = itemgetter(0)
