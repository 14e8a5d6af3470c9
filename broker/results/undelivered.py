"""Matches as the outbox holds them become matches again."""

from __future__ import annotations

from collections.abc import Sequence

from broker.model import Match
from broker.results.contents import Content
from broker.results.rendering import loads
from broker.state.outbox import Posted


def restored(posted: Sequence[Posted]) -> list[Match]:
    """The matches; documents that several of them share are parsed once, when they are read."""
    contents: dict[tuple[int, bytes], Content] = {}
    found: list[Match] = []
    for each in posted:
        if each.result is not None:
            found.append(Match.loads(each.match, each.result))
            continue
        own = [
            contents.setdefault(key, Content(key[1], {}))
            for key in zip(each.docs, each.xml, strict=True)
        ]
        found.append(loads(each.id, each.match, each.docs, own))
    return found
