"""Writes reports of deliveries to the mailbox: all that arrive while the disk is busy go into one
transaction (group commit).

Channels go on before their reports are on the disk. After a crash matches whose reports were not
written yet are delivered again, from the cursor on and so in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Done, Event, Report
from broker.delivery.tables import MailboxError

_log = logging.getLogger(__name__)

_MOST = 5_000
"""Reports that may wait; beyond it channels wait too."""
_PAUSE = 1.0
"""Seconds until the next try if the mailbox cannot be written."""


class Reports:
    """Collects reports inside one event loop. In the loop's thread, `on_event` is called with the
    events that reports cause, and `on_trouble` with the reason if the mailbox cannot be
    written."""

    def __init__(
        self,
        mailbox: Mailbox,
        on_event: Callable[[Event], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._mailbox = mailbox
        self._on_event = on_event
        self._on_trouble = on_trouble
        self._waiting: list[Report] = []
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._entered = asyncio.Condition()
        self._posted = self._done = 0
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="mailbox")

    def post(self, report: Report) -> None:
        self._waiting.append(report)
        self._posted += 1
        self._some.set()
        if len(self._waiting) >= _MOST:
            self._room.clear()

    async def flush(self) -> None:
        """Wait until all reports posted so far are on the disk."""
        wanted = self._posted
        async with self._entered:
            await self._entered.wait_for(lambda: self._done >= wanted)

    async def room(self) -> None:
        """Wait until there is room for more reports, and the mailbox can be written."""
        await self._room.wait()

    async def run(self) -> None:
        """Write reports until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            self._some.clear()
            batch, self._waiting = self._waiting, []
            try:
                events = await loop.run_in_executor(
                    self._disk, self._mailbox.apply_reports, _joined(batch)
                )
            except MailboxError as error:
                self._waiting = batch + self._waiting
                self._room.clear()
                self._on_trouble(str(error))
                await asyncio.sleep(_PAUSE)
                self._some.set()
                continue
            except Exception:
                # A bug of ours: matches whose reports are lost are delivered again; others go on.
                _log.exception("%d reports of deliveries were not written", len(batch))
                events = []
            async with self._entered:
                self._done += len(batch)
                self._entered.notify_all()
            if len(self._waiting) < _MOST:
                self._room.set()
            for event in events:
                try:
                    self._on_event(event)
                except Exception:
                    _log.exception("a listener for events failed")

    def close(self) -> None:
        self._disk.shutdown(wait=False)


def _joined(reports: list[Report]) -> list[Report]:
    """The reports, with consecutive successes of a channel merged into one."""
    joined: list[Report] = []
    last: dict[int, int] = {}
    for report in reports:
        number = report.channel.number
        at = last.get(number)
        before = None if at is None else joined[at]
        if (
            at is not None
            and isinstance(report, Done)
            and isinstance(before, Done)
            and before.channel.generation == report.channel.generation
        ):
            joined[at] = replace(
                report,
                count=before.count + report.count,
                cursor=max(before.cursor or 0, report.cursor or 0) or None,
                retried=before.retried + report.retried,
                state=before.state if report.state is None else report.state,
            )
        else:
            last[number] = len(joined)
            joined.append(report)
    return joined
