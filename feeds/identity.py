"""Identity over time: which items of a feed were seen before under another id, and which are
history.

In: the items of one document of a feed, and the ids and traces of the feed's earlier ones. Out: the
same items under the ids that they had when they were first seen. No I/O and no clock.

Within one document an item is its guid, else its link, else its title and date (`adapter`). Over
time guids drift: a site moves from `http` to `https`, to another host or another program, a feed
changes from RSS to Atom, a counter hangs from the guid. So an item whose guid is new is an earlier
one that the document no longer holds, if both have the same path in their link and the same date
(where they have no date, the same link, title and text). It keeps the guid it had, so it is not
new, and not even edited if nothing else changed. Where a feed begins or ceases to give one guid to
several items the same rule keeps them apart under the ids that they had.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from feeds.item import Item

ALL = -(2**63)
"""A value of `since` (see `is_history`) by which all items are news, however old."""
CROWD = 20
"""A link that more feeds than this share is ignored when formats of one feed are looked for."""


def trace(item: Item) -> bytes:
    """A fingerprint that stays when the guid drifts: 8 bytes, a hash of the item's link and date;
    empty without a link.

    The date counts to the second, so two items of one page differ unless they were published in the
    same second. Of the link only the path counts, or host and path where the date has no time of
    day. An undated item has its link and its text hashed: a page that is announced every day under
    a new guid is news every day.
    """
    if not item.item_url:
        return b""
    host, slash, path = (item.item_url.partition("://")[2] or item.item_url).partition("/")
    seconds = item.timestamp // 1_000_000
    place = host + slash + path
    if not item.dated:
        mark = f"{item.title}\0{item.description}"
    else:
        mark = str(seconds)
        if path and seconds % 86_400:
            place = path  # sites move, and mirrors take turns
    return hashlib.blake2b(f"{place}\0{mark}".encode(), digest_size=8).digest()


def reuse_ids(items: Sequence[Item], known: Mapping[str, bytes]) -> list[Item]:
    """The items; one that is an earlier item under a new guid gets the earlier item's id.

    `known` maps the id of each item that was seen before to its `trace`. An id is taken over only
    by one item, only from one that the document does not hold, and only if no other has its trace.
    """
    traces = {item.id: trace(item) for item in items}
    moved = _unique((mark, id) for id, mark in traces.items() if mark and known.get(id) != mark)
    if not moved:
        return list(items)
    absent = _unique((mark, id) for id, mark in known.items() if mark in moved and id not in traces)
    taken = {moved[mark]: id for mark, id in absent.items()}
    return [
        replace(item, id=taken[item.id], guid=_guid(item, taken[item.id]))
        if item.id in taken
        else item
        for item in items
    ]


def is_history(item: Item, since: int, arrival: int) -> bool:
    """Whether an item of a feed's first document was there before the feed was subscribed.

    `since` is when the feed was subscribed (microseconds; `ALL` where the user wants everything).
    An item is news if it is dated after that and not after its `arrival`. One without a date of its
    own, or with one in the future, counts as history.
    """
    if since == ALL:
        return False
    return not (item.dated and since < item.timestamp <= arrival)


def duplicate_feeds(channels: Mapping[str, Iterable[Item]]) -> list[tuple[str, str]]:
    """Pairs of feeds, by their keys, that are two formats of one feed.

    The smaller of the two has at least three links, and shares nine in ten with the other. Links
    that more than `CROWD` feeds have do not count.
    """
    feeds: dict[str, set[str]] = {}
    sizes: Counter[str] = Counter()
    for key, items in channels.items():
        for link in {_bare(item.item_url) for item in items if item.item_url}:
            feeds.setdefault(link, set()).add(key)
            sizes[key] += 1
    shared: Counter[tuple[str, str]] = Counter()
    for keys in feeds.values():
        if 2 <= len(keys) <= CROWD:
            shared.update(itertools.combinations(sorted(keys), 2))
    return sorted(
        pair
        for pair, count in shared.items()
        if count >= max(3, 0.9 * min(sizes[pair[0]], sizes[pair[1]]))
    )


def _bare(url: str) -> str:
    return url.partition("://")[2].partition("#")[0].rstrip("/") or url


def _guid(item: Item, id: str) -> str:
    """The guid of an item that gets the earlier id `id`: that id, unless it consists of the item's
    guid and a link."""
    return item.guid if item.guid and id.startswith(f"{item.guid} ") else id


def _unique(pairs: Iterable[tuple[bytes, str]]) -> dict[bytes, str]:
    """As a dictionary, without the keys that occur more than once."""
    listed = list(pairs)
    counts = Counter(mark for mark, _ in listed)
    return {mark: id for mark, id in listed if counts[mark] == 1}
