"""What the service knows of its streams: by their stored documents, and by the queries that publish
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import xscl
from broker import advice
from broker.price import Price, Prices, dear, quickly
from broker.query.prepared import Compiled
from broker.service.core.core import Core
from broker.service.core.errors import NotFound
from broker.service.short_retention import short_retention
from broker.state.stream_counts import StreamCount
from broker.statistics.model import StreamSeen
from broker.suggest import Suggestion, suggest, suggest_for
from xscl.check.known import Known, published_by
from xscl.errors import Diagnostic, XsclError

_FRESH = 10.0
"""Seconds for which it is remembered what a stream's documents hold: very many queries may ask."""
_PRICED = 100
"""Queries of one text of which the price is told."""
_REMEMBERED = 100
"""Streams of which it is."""
_DEAR = frozenset(["dear-query", "no-value-join", "exponential"])
"""The codes of warnings about queries whose cost is quadratic or worse, or very high."""
_SAMPLE = 200
"""Documents of a stream whose attributes are read for that."""


class Streams:
    """The streams of a state. No call waits for a batch."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked: dict[str, tuple[float, Known | None]] = {}

    def all(self) -> list[StreamCount]:
        """The streams that have stored documents, by name."""
        return self._core.engine.streams.streams()

    def get(self, name: str, values: int) -> StreamSeen:
        """What is known of a stream, with so many values of each path. Raises NotFound."""
        seen = self._core.engine.streams.stream(name, values=values)
        if seen is None:
            raise NotFound("stream", name)
        return seen

    def suggest(self, names: Sequence[str], most: int) -> list[Suggestion]:
        """Joins within a stream, or between several. Raises NotFound."""
        there = {each.name for each in self.all()}
        for name in names:
            if name not in there:
                raise NotFound("stream", name)
        return suggest(self._core.engine.streams, names, most)

    def suggest_for(
        self, id: str, names: Sequence[str], most: int, may_read: Callable[[str], bool]
    ) -> list[Suggestion]:
        """Joins of a stored document with others of these streams, or of all that `may_read`
        allows. Raises NotFound."""
        catalogue = self._core.engine.streams
        found = [each for each in catalogue.named(id) if any(map(may_read, each.streams))]
        if not found:
            raise NotFound("document", id)
        streams = names or [each.name for each in self.all() if may_read(each.name)]
        return suggest_for(catalogue, found[0], streams, most)

    def dear(self, compiled: Sequence[Compiled]) -> tuple[Diagnostic, ...]:
        """Warnings about queries that are expected to make very many candidates, by the documents
        that are stored; of very many such queries about the first."""
        limits = self._core.settings.limits
        find = quickly(self._core.engine.streams)
        warnings, count = dear(compiled, find, limits.candidates)
        if count > len(warnings):
            last = warnings[-1]
            more = f"; so are {count - len(warnings):,} more queries"
            warnings[-1] = replace(last, message=last.message + more)
        return (*warnings,)

    def short(self, compiled: Sequence[Compiled]) -> list[Diagnostic]:
        """Warnings about windows that are longer than documents are kept."""
        kept = self._core.settings.retention.documents
        if kept is None:
            return []
        return short_retention(compiled, kept, self._core.engine.watermark.allowed)

    def prices(self, compiled: Sequence[Compiled]) -> list[Price | None]:
        """What queries are expected to cost, by the documents that are stored; None of those of
        which it is not known, and of those behind very many."""
        prices = Prices(quickly(self._core.engine.streams))
        found = [prices.of(query) for query in compiled[:_PRICED]]
        return [*found, *[None] * (len(compiled) - len(found))]

    def refuse(self, warnings: Sequence[Diagnostic], unchanged: Sequence[Compiled]) -> None:
        """Raises XsclError about dear queries if the settings want them refused; what is registered
        and `unchanged` stays."""
        if self._core.settings.limits.dear_queries == "warn":
            return
        refused = [each for each in warnings if each.code in _DEAR]
        kept = [query.resolved.query.span for query in unchanged] if refused else []
        refused = [
            replace(
                each, message=f"{each.message}; such queries are refused here", severity="error"
            )
            for each in refused
            if not any(span.start <= each.span.start < span.end for span in kept)
        ]
        if refused:
            raise XsclError(refused)

    def look(self, stream: str) -> Known | None:
        """What the documents of a stream hold, for the warnings about a query that reads it."""
        now = time.monotonic()
        found = self._looked.get(stream)
        if found is None or found[0] < now:
            if len(self._looked) >= _REMEMBERED:
                self._looked.clear()
            found = (now + _FRESH, self._known(stream))
            if found[1] is not None:  # of a stream without documents that is seen at once
                self._looked[stream] = found
        return found[1]

    def _known(self, stream: str) -> Known | None:
        engine = self._core.engine
        maker = engine.catalog.published.get(stream)
        publisher = None if maker is None else engine.registry.known(maker)
        if publisher is not None:
            (query,) = xscl.check([xscl.parse(publisher.text, stream)]).queries
            return published_by(query.query)
        return advice.observed(lambda name: engine.streams.stream(name, values=0, sample=_SAMPLE))(
            stream
        )
