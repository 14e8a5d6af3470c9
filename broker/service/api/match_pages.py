"""Pages of matches: read forwards or backwards, filtered, and shared by streams.

In: what is wanted. Out: lines of JSON with their numbers, and where the next page begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from fastapi.sse import format_sse_event

from broker.delivery import Delivered, Mailbox
from broker.text.json_text import to_json

PAGE_BYTES = 8_000_000
"""The size in bytes at which a page ends."""

USUAL, MOST, LONGEST = 100, 1_000, 60.0
"""Matches of a page that does not say how many, matches of a page at most, and the longest wait for
the first, in seconds."""

_CHUNK = 100
"""The number of matches that are read at once."""

SEARCHED = 2_000
"""Matches that are looked at for a filtered page at most, so that no request takes long."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which matches: of a subscription, of several, or (None) of all, that have a text in a title,
    the name of a feed or a value, and a document of a feed; those above a number, or below
    `before`. With `most`, of more matches only the newest so many."""

    subscription: str | tuple[str, ...] | None
    after: int = 0
    before: int | None = None
    text: str = ""
    feed: str = ""
    most: int | None = None

    def holds(self, match: dict[str, Any]) -> bool:
        """Whether a match, as JSON, is one of them, wherever it is in the log."""
        if self.feed and all(self.feed != document.get("feed") for document in match["documents"]):
            return False
        wanted = self.text.casefold()
        return not wanted or any(wanted in text.casefold() for text in _texts(match))

    @property
    def filtered(self) -> bool:
        return bool(self.text or self.feed)


def _texts(match: dict[str, Any]) -> Iterator[str]:
    yield match["query"]
    for document in match["documents"]:
        yield from (document.get(name) or "" for name in ("title", "feed", "link"))
    for texts in match["values"].values():
        yield from texts


@dataclass(frozen=True)
class Page:
    """Lines of JSON, the number of each, and the cursor for the next page: `before` or `after`.
    `skipped`: there are more between the former cursor and the first of them."""

    lines: list[bytes]
    numbers: list[int]
    cursor: int
    skipped: bool = False

    @cached_property
    def events(self) -> bytes:
        """All of it as server-sent events, whose ids are the numbers."""
        pairs = zip(self.numbers, self.lines, strict=True)
        # JSON has no line breaks inside, so that a line needs no taking apart.
        events = [b"data: %bid: %d\n\n" % (line, n) for n, line in pairs]
        if self.skipped:
            below = f'{{"below": {self.numbers[0]}}}'
            events.insert(0, format_sse_event(event="skipped", data_str=below))
        return b"".join(events)


def read(mailbox: Mailbox, wanted: Wanted, limit: int, searched: int = SEARCHED) -> Page:
    """A page of at most `limit` matches: oldest first behind `after`, newest first below `before`.

    It has fewer where they are large, or where very many do not pass the filter: then its cursor is
    behind what was looked at, `searched` and some more. Backwards, 0 as the cursor means that there
    are no more.
    """
    if wanted.most is not None and mailbox.last() - wanted.after > wanted.most:
        return _newest(mailbox, wanted, wanted.most)
    lines: list[bytes] = []
    numbers: list[int] = []
    backwards = wanted.before is not None
    cursor = wanted.after if wanted.before is None else wanted.before
    size = looked_at = 0
    enough = searched if wanted.filtered else limit
    while len(lines) < limit and size < PAGE_BYTES and looked_at < enough:
        count = _CHUNK if wanted.filtered else min(_CHUNK, limit - len(lines))
        found = _next(mailbox, wanted.subscription, cursor, count, backwards)
        for each in found:
            looked_at += 1
            cursor = each.n
            json = each.to_json()
            if wanted.filtered and not wanted.holds(json):
                continue
            lines.append(to_json(json) + b"\n")
            numbers.append(each.n)
            size += len(lines[-1])
            if len(lines) == limit or size >= PAGE_BYTES:
                break
        else:
            if len(found) < count:
                cursor = 0 if backwards else cursor
                break
    return Page(lines, numbers, cursor)


def _newest(mailbox: Mailbox, wanted: Wanted, most: int) -> Page:
    """The newest matches above `after`, oldest first; more of them are skipped. Of those that are
    filtered so many are looked at."""
    count = _CHUNK if wanted.filtered else most + 1
    found = [each for each in mailbox.latest(wanted.subscription, count) if each.n > wanted.after]
    cursor = found[0].n if found else wanted.after
    held = [(each.n, json) for each in found if wanted.holds(json := each.to_json())]
    lines: list[bytes] = []
    for _, json in held[:most]:
        lines.append(to_json(json) + b"\n")
        if sum(map(len, lines)) >= PAGE_BYTES:
            break
    numbers = [n for n, _ in held[: len(lines)]]
    skipped = bool(lines) and (len(found) == count or len(held) > len(lines))
    return Page(lines[::-1], numbers[::-1], cursor, skipped)


def _next(
    mailbox: Mailbox,
    subscription: str | tuple[str, ...] | None,
    cursor: int,
    count: int,
    backwards: bool,
) -> list[Delivered]:
    if not backwards:
        return mailbox.matches(subscription, cursor, count)
    return mailbox.latest(subscription, count, cursor - 1) if cursor > 0 else []


@dataclass(slots=True)
class SharedReads:
    """Reads a page once for all streams that want it at the same time; in the event loop."""

    reading: dict[Wanted, asyncio.Task[Page]] = field(default_factory=dict)

    async def page(
        self,
        wanted: Wanted,
        mailbox: Mailbox,
        run: Callable[[Callable[[], Page]], Awaitable[Page]],
    ) -> Page:
        """A page of up to a hundred matches; `run` runs what blocks, in a thread."""
        task = self.reading.get(wanted)
        if task is not None:
            found = await asyncio.shield(task)
            if found.lines:
                return found
            # That read may have begun before the news for which this stream was woken.
        task = asyncio.ensure_future(run(partial(read, mailbox, wanted, _CHUNK)))
        self.reading[wanted] = task
        task.add_done_callback(lambda done: self._forget(wanted, done))
        return await asyncio.shield(task)

    def _forget(self, wanted: Wanted, done: asyncio.Future[Page]) -> None:
        if self.reading.get(wanted) is done:
            del self.reading[wanted]
