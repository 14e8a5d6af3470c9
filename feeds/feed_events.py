"""Events of feeds (gone, dead, back, moved), as documents of the stream `broker.feeds`.

In: a feed's state before and after a fetch. Out: a row for each event, to be stored in the same
transaction as the fetched items. A subscription reads them like any item:

    <feed-event kind="gone">
      <url/> <title/> <address/> <problem/> <errors/> <last_success/> <timestamp/>
    </feed-event>

`address`, `problem` and `last_success` are left out where there is none. The kinds:

    gone    the server says that the feed is gone for good (410); it is not fetched again
    dead    it has failed at least 10 times in a row, and for 14 days since it last worked
    back    it works again after one of those
    moved   it has a new address, to which it redirected for good
"""

from __future__ import annotations

from typing import Literal

from feeds.feed_state import FeedState
from feeds.item import escape, iso8601, one_line
from feeds.rows import DocumentRow

STREAM = "broker.feeds"
DEAD_AFTER = 14 * 86_400 * 1_000_000
DEAD_ERRORS = 10

Kind = Literal["gone", "dead", "back", "moved"]


def is_dead(state: FeedState, at: int) -> bool:
    """Whether a feed that is still fetched has failed for so long that it will hardly come back.

    A feed that never worked is dead after as many failures.
    """
    if state.errors < DEAD_ERRORS:
        return False
    return state.last_success is None or at - state.last_success >= DEAD_AFTER


def event_rows(before: FeedState, after: FeedState, at: int) -> tuple[DocumentRow, ...]:
    """The events that led from one state of a feed to the next; `at` (microseconds since the
    epoch) is the time of the fetch between them."""
    gone = after.status == "gone"
    # A feed that a user sets active again is not back until a fetch succeeds; until then its last
    # problem (410) stays.
    gone_before = before.status == "gone" or (before.problem or "").endswith("(410)")
    dead_before = is_dead(before, at if before.last_fetch is None else before.last_fetch)
    kinds: list[Kind] = []
    if gone and before.status != "gone":
        kinds.append("gone")
    elif is_dead(after, at) and not dead_before:
        kinds.append("dead")
    elif not gone and after.errors == 0 and (dead_before or gone_before):
        kinds.append("back")
    if after.address != before.address:
        kinds.append("moved")
    return tuple(_row(kind, after, at) for kind in kinds)


def _row(kind: Kind, state: FeedState, at: int) -> DocumentRow:
    values = {
        "url": state.url,
        "title": state.title,
        "address": state.address if state.address != state.url else "",
        "problem": state.problem or "",
        "errors": str(state.errors),
        "last_success": "" if state.last_success is None else iso8601(state.last_success),
        "timestamp": iso8601(at),
    }
    children = "".join(
        f"<{name}>{escape(one_line(value))}</{name}>"
        for name, value in values.items()
        if value or name == "title"
    )
    return DocumentRow(
        source=state.url,
        id=f"{STREAM} {kind} {iso8601(at)}",
        streams=(STREAM,),
        timestamp=at,
        dated=True,
        seq=None,
        revision=False,
        xml=f'<feed-event kind="{kind}">{children}</feed-event>'.encode(),
        place=state.url,
    )
