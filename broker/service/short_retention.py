"""Warnings about windows that are longer than documents are kept.

In: queries, the setting `retention.documents`, the lateness of streams. Out: of each query whose
window may outlast its documents, what it does not find then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from broker.query.prepared import Compiled
from broker.query.streams import reads, windows
from xscl.errors import Diagnostic
from xscl.syntax.durations import format_microseconds

_TOLD = 100
"""Queries of a text that are looked at; those of more were made by a program."""

Allowed = Callable[[tuple[str, ...]], int]
"""By streams, the lateness that is allowed for their documents, in microseconds."""


def short_retention(queries: Sequence[Compiled], kept: int, allowed: Allowed) -> list[Diagnostic]:
    """Warnings about windows that are longer than documents are kept, in microseconds; of each
    query about the longest one. Event patterns decide when the lateness has passed as well, which
    is `allowed` for their streams."""
    found: list[Diagnostic] = []
    for query in queries[:_TOLD]:
        late = _lateness(query, allowed)
        long = [
            (each.microseconds, each.span)
            for each in windows(query.resolved.query)
            if each.microseconds is not None and each.microseconds + late > kept
        ]
        if not long:
            continue
        window, span = max(long, key=itemgetter(0))
        needed = f"this window is {format_microseconds(window)}"
        if late:
            needed += f", and {format_microseconds(late)} is waited for what comes late"
        found.append(
            Diagnostic(
                "short-retention",
                f"documents are kept for {format_microseconds(kept)} (retention.documents), but"
                f" {needed}: nothing is found that is further apart, and nothing of which a NOT is"
                " decided later",
                span,
                "a shorter window, or a longer retention.documents",
                "warning",
            )
        )
    return found


def _lateness(query: Compiled, allowed: Allowed) -> int:
    if not query.shape.is_pattern:
        return 0
    written = query.resolved.query
    if written.wait is None:
        return allowed((*sorted(reads(written)),))
    return written.wait.microseconds or 0  # with INFINITY it never decides
