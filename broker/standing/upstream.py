"""The queries that a pattern reads from: how far its watermark is behind, and after whom it
decides.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.documents.watermark import Watermark
from broker.model import UNBOUNDED
from broker.query.canonical import Subscription
from broker.query.catalog import Catalog


class Upstream:
    """What the streams of the queries of a catalog are made of."""

    def __init__(self, catalog: Catalog, watermark: Watermark) -> None:
        self._catalog = catalog
        self._watermark = watermark
        self._depths: dict[str, int] = {}

    def forget(self) -> None:
        """Forget the depths, as queries have changed."""
        self._depths.clear()

    def lateness(self, subscription: Subscription, inside: Collection[str] = ()) -> int:
        """By how much the watermark of a query is behind the highest time."""
        published = self._catalog.published
        query = None if subscription.pattern is None else subscription.pattern.plan.query
        found = []
        base = []
        for stream in subscription.delivery.streams:
            maker = published.get(stream)
            if maker is None:
                base.append(stream)
            elif maker not in inside:
                inner = self._catalog.subscriptions[maker]
                found.append(self.lateness(inner, {*inside, subscription.id}))
        if query is not None and query.wait is not None:
            wait = query.wait.microseconds
            if base or not found:
                found.append(UNBOUNDED if wait is None else wait)
        else:
            found += [self._watermark.allowed((stream,)) for stream in base]
        return max(found)

    def depth(self, subscription: Subscription) -> int:
        """How many queries stand between its matches and documents that came in: a pattern decides
        behind those whose results it reads."""
        found = self._depths.get(subscription.id)
        if found is None:
            published = self._catalog.published
            makers = [published.get(stream) for stream in subscription.delivery.streams]
            inner = [self._catalog.subscriptions[maker] for maker in makers if maker is not None]
            # A cycle through PUBLISH is refused when it is registered.
            found = 1 + max(map(self.depth, inner)) if inner else 0
            self._depths[subscription.id] = found
        return found
