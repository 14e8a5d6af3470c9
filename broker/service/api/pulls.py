"""Requests for all matches behind a number, with the service's own token, answered without the
framework.

In: such requests. Out: the page that the application would send, as soon as there is a match. A
reader that waits asks again and again, many times a second where matches come steadily, and all
that it gets is in memory (`newest.py`): dependencies, checks of parameters and a thread for each
look would cost several times what the page does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

from broker.delivery import Mailbox
from broker.service.api.match_pages import LONGEST, MOST, USUAL, Page, Wanted, read
from broker.service.api.newest import Newest
from broker.service.api.own_requests import Observe, OwnCycle, OwnToken
from broker.service.api.schemas import LARGEST
from broker.service.api.waiting import Waiting

_PATH = b"/v1/matches?"
_ROUTE = "/v1/matches"
_PARAMETER = re.compile(
    rb"(?:after=(?P<after>\d{1,18})|limit=(?P<limit>\d{1,4})"
    rb"|wait=(?P<wait>\d{1,2}(?:\.\d{1,6})?))",
    re.ASCII,
)
Answer = Callable[[Page | Exception], None]
"""Sends a page, or the problem because of which there is none."""
_HEAD = (
    b"next-cursor: %d\r\ncontent-length: %d\r\ncontent-type: application/x-ndjson\r\n"
    b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
)


class Pulls:
    """What the connections of a server have in common for such requests. `run` runs what blocks, in
    a thread."""

    def __init__(
        self,
        own: OwnToken,
        mailbox: Mailbox,
        waiting: Waiting,
        run: Callable[[Callable[[], Page]], Awaitable[Page]],
        observe: Observe,
    ) -> None:
        self.newest = Newest(mailbox)
        self.waiting = waiting
        self.observe = observe
        self._own = own
        self._mailbox = mailbox
        self._run = run

    def wanted(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> Pull | None:
        """What a GET with this address and headers wants, and its first page; None if it is for the
        application."""
        if not url.startswith(_PATH):
            return None
        given: dict[str, bytes] = {}
        for parameter in url[len(_PATH) :].split(b"&"):
            found = _PARAMETER.fullmatch(parameter)
            if found is None or found.lastgroup is None or found.lastgroup in given:
                return None
            given[found.lastgroup] = found[found.lastgroup]
        after, limit = int(given.get("after", b"0")), int(given.get("limit", b"%d" % USUAL))
        wait = float(given.get("wait", b"0"))
        if not (after <= LARGEST and 1 <= limit <= MOST and wait <= LONGEST):
            return None
        own = self._own.headers(headers)
        if own is None or own.get(b"content-length", b"0") != b"0":
            return None
        page = self.newest.page(after, limit)
        return None if page is None else Pull(self, after, limit, wait, page)

    def response(self, page: Page) -> tuple[bytes, bytes]:
        """Head and body of the response with a page."""
        body = b"".join(page.lines)
        return _HEAD % (page.cursor, len(body)), body

    async def read(self, after: int, limit: int) -> Page:
        """A page of the log."""
        return await self._run(partial(read, self._mailbox, Wanted(None, after), limit))


class Pull(OwnCycle):
    """A request for a page, and a client that waits for it."""

    route = _ROUTE

    def __init__(self, pulls: Pulls, after: int, limit: int, wait: float, page: Page) -> None:
        super().__init__()
        self.concerns: Callable[[str], bool] | None = None
        self._pulls = pulls
        self._after = after
        self._limit = limit
        self._wait = wait
        self._page = page
        self._answer: Answer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._again = False
        """Whether something has come while the log is read."""

    def begin(self, answer: Answer) -> None:
        """Call `answer` now or when there is a match, in the event loop."""
        waiting = self._pulls.waiting
        if self._page.lines or not self._wait or waiting.draining:
            answer(self._page)
            return
        self._answer = answer
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._finish)
        waiting.add(self)
        self.wake()  # something may have come since the page was made

    def wake(self) -> None:
        """Look again."""
        if self._answer is None:
            return
        page = self._pulls.newest.page(self._after, self._limit)
        if page is not None:
            self._look(page)
        elif self._reading is None:  # more came at once than is held
            self._reading = asyncio.get_running_loop().create_task(self._read())
        else:
            self._again = True

    async def _read(self) -> None:
        try:
            page = await self._pulls.read(self._after, self._limit)
        except Exception as error:
            self._finish(error)
            return
        self._reading = None
        self._look(page)
        if self._again:
            self._again = False
            self.wake()

    def _look(self, page: Page) -> None:
        self._page = page
        if page.lines or self._pulls.waiting.draining:
            self._finish()

    def _finish(self, error: Exception | None = None) -> None:
        """Answer with what there is."""
        answer = self._answer
        self.end()
        if answer is not None:
            answer(error or self._page)

    def end(self) -> None:
        if self._answer is not None:
            self._answer = None
            self._pulls.waiting.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
