"""Matches as the outbox holds them become matches again."""

from __future__ import annotations

from collections.abc import Sequence

from broker.rendering.content import Content
from broker.rendering.rendering import loads
from broker.shared_match import SharedMatch
from broker.state.outbox import Posted


def restored(posted: Sequence[Posted]) -> list[SharedMatch]:
    """The matches; documents that several of them share are parsed once, when they are read."""
    contents: dict[tuple[int, bytes], Content] = {}
    found: list[SharedMatch] = []
    for each in posted:
        if each.result is not None:
            match = SharedMatch.loads(each.ids, each.queries, each.match, each.result)
        else:
            own = [
                contents.setdefault(key, Content(key[1], {}))
                for key in zip(each.docs, each.xml, strict=True)
            ]
            match = loads(each.ids, each.queries, each.match, each.docs, own)
        match.posted = each.n
        found.append(match)
    return found
