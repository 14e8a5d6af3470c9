"""Streams that queries publish: one query each, none derived from itself, none the broker's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.advice import reserved_stream
from broker.query.prepared import Compiled
from xscl.check.cycles import find_cycles
from xscl.errors import Diagnostic, XsclError


class Streams:
    """Which query publishes each stream: `published` are ids by stream; `reads` returns the streams
    that the query of an id reads."""

    def __init__(self, published: Mapping[str, str], reads: Callable[[str], set[str]]) -> None:
        self._published = published
        self._reads = reads

    def check(self, fresh: Sequence[Compiled]) -> None:
        """Check the published streams of new queries against those of the registered ones. Raises
        `XsclError`."""
        problems = []
        renewed = {query.id for query in fresh}
        publishing = [query for query in fresh if query.publish is not None]
        for query in publishing:
            if (reserved := reserved_stream(query.resolved.query)) is not None:
                problems.append(reserved)
            owner = self._published.get(query.publish or "", query.id)
            if owner not in renewed:
                parsed = query.resolved.query
                problems.append(
                    Diagnostic(
                        "duplicate-publish",
                        f"the stream {query.publish} is published by the subscription {owner}"
                        " already",
                        parsed.publish_span or parsed.span,
                        "choose another name, or unsubscribe that one first",
                    )
                )
        # A new cycle passes through a new query, so the cheap search among the streams that these
        # reach comes first; the search over all streams only makes the message complete.
        if find_cycles(self._reachable(publishing, renewed)):
            reads = self._staying(self._published, renewed)
            reads |= {str(query.publish): query.reads for query in publishing}
            for cycle in find_cycles(reads):
                path = " -> ".join([*cycle, cycle[0]])
                span = publishing[0].resolved.query.span
                problems.append(
                    Diagnostic("publish-cycle", f"streams derived from themselves: {path}", span)
                )
        if problems:
            raise XsclError(problems)

    def _staying(self, streams: Iterable[str], renewed: set[str]) -> dict[str, set[str]]:
        """What the queries that publish these streams, and stay as they are, read."""
        return {
            stream: self._reads(self._published[stream])
            for stream in streams
            if stream in self._published and self._published[stream] not in renewed
        }

    def _reachable(self, publishing: Sequence[Compiled], renewed: set[str]) -> dict[str, set[str]]:
        """The streams that these queries are derived from, with what each reads."""
        reads = {str(query.publish): query.reads for query in publishing}
        waiting = set().union(*reads.values()) - reads.keys()
        while waiting:
            found = self._staying(waiting, renewed)
            reads |= found
            waiting = set().union(*found.values()) - reads.keys()
        return reads
