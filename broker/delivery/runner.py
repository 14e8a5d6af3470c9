"""One channel's deliveries: which match is next, when it is sent, and what follows from the
outcome."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from broker.delivery.lanes import Lane
from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Channel, Delivered, Disabled, Done, EventsSent, Failed
from broker.delivery.reports import Reports
from broker.delivery.sending import Sender, Sent, outcome
from broker.delivery.settings import DAY, DeliverySettings
from broker.delivery.tables import MailboxError
from broker.delivery.targets import MATCH
from broker.model import MICROSECONDS

_log = logging.getLogger(__name__)

_AHEAD = 64
"""Matches read from the log at once, for a channel that sends them one by one."""
_LOOK = 60.0
"""Seconds after which a waiting channel checks the clock again: it may have been set."""
_PATIENT = 300.0
"""Seconds; the longest delay of a channel that never gives up, and of a failing unordered one."""
_RECOVERED = 3_600 * MICROSECONDS
_EVENT_ATTEMPTS = 5
"""Attempts to send an event to a channel."""
_IN_A_ROW = 5
"""Failures in a row before a channel is disabled, at least: the days of failure may come from a
clock that was set."""
_SOON = 1 * MICROSECONDS
"""Delay until the retries are read again after one was removed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Matches that are being sent. `again`: a retry out of order, tried `before` times already.
    `row`: failures in a row when the attempt began."""

    matches: Sequence[Delivered]
    again: bool
    before: int
    row: int


class Runner:
    """Delivers a channel's matches inside the worker's event loop, until cancelled.

    `channel` is the channel's state in memory: ahead of the file by the reports not written yet.
    `clock` gives microseconds.
    """

    def __init__(
        self,
        channel: Channel,
        changes: int,
        sender: Sender,
        mailbox: Mailbox,
        reports: Reports,
        settings: DeliverySettings,
        clock: Callable[[], int],
    ) -> None:
        self.channel = channel
        self._changes = changes
        self.woken = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.stopping = False
        self._sender = sender
        self._mailbox = mailbox
        self._reports = reports
        self._settings = settings
        self._clock = clock
        self._busy = 0
        self._flying: dict[int, int] = {}  # place in the log -> generation; not those tried again
        self._retrying: set[int] = set()
        self._last: Lane | None = None
        """The lane that suits the last attempt."""
        self._failures = self._row = channel.failures
        """Failures in a row: all of them, and those of attempts at the same time as one."""
        self._event_failures = self._events_at = 0
        self._begin()

    def _begin(self) -> None:
        """Start at the cursor."""
        self._position = self.channel.cursor
        self._ahead: deque[Delivered] = deque()
        self._again_at: int | None = 0

    def update(self, fresh: Channel, changes: int) -> None:
        """Take over a change of the channel, or check for retries. Nothing is sent while the
        mailbox has had more changes than `changes`."""
        old = self.channel
        self._changes = changes
        self._again_at = 0
        if fresh.version != old.version:
            self.channel = fresh
            self._failures = 0
            self._row = fresh.failures
            if fresh.generation != old.generation or fresh.subscription != old.subscription:
                self._begin()
            self._ahead.clear()  # it may be draining now
        self.woken.set()

    async def run(self) -> None:
        """Start attempts as they become due."""
        loop = asyncio.get_running_loop()
        while True:
            self.woken.clear()
            await self._reports.room()
            try:
                wait = await self._step()
            except MailboxError as error:
                if self.channel.last_error != str(error):
                    _log.error("%s: waiting, as it cannot read: %s", self.channel.name, error)
                    self.channel = replace(self.channel, last_error=str(error))
                wait = 1.0
            if wait > 0:
                alarm = loop.call_later(min(wait, _LOOK), self.woken.set)
                await self.woken.wait()
                alarm.cancel()

    async def _step(self) -> float:
        """Start one attempt if one is due and return 0; else return the seconds until the next
        check."""
        channel = self.channel
        room = 1 if channel.ordered else self._sender.at_once
        if self._changes != self._mailbox.changes:
            return _LOOK
        if self.stopping or channel.status != "active" or self._busy >= room:
            return _LOOK
        now = self._clock()
        attempt = self._due_again(now)
        if attempt is None:
            wait = channel.next_try - now
            if wait > 0:
                return self._until(now, channel.next_try)
            await self._send_events(now)
            if MATCH not in channel.settings.get("events", (MATCH,)):
                self._pass_over(now)
                return self._until(now, None)
            heads = self._heads()
            if not heads:
                return self._until(now, None)
            due = self._sender.due(channel, heads[0])
            if due > now:
                return self._until(now, due)
            for head in heads:
                self._ahead.popleft()
                self._position = head.n
            before = channel.attempts if channel.ordered else 0
            attempt = Attempt(heads, False, before, self._row)
        for delivered in attempt.matches:
            if attempt.again:
                self._retrying.add(delivered.n)
            else:
                self._flying[delivered.n] = channel.generation
        self._busy += 1
        task = asyncio.create_task(self._attempt(channel, attempt))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return 0.0

    def _pass_over(self, now: int) -> None:
        """Move the cursor to the end, for a receiver that wants events only and no matches."""
        last = self._mailbox.last()
        if last > self._position:
            self._position = last
            self._reports.post(Done(self.channel, now, 0, last))

    def _until(self, now: int, time: int | None) -> float:
        """Seconds until a time, or until the next retry if that is earlier."""
        events_at = self._events_at if self._events_at > now else None
        times = [t for t in (time, self._again_at, events_at) if t is not None]
        return max(min(times) - now, 1_000) / MICROSECONDS if times else _LOOK

    def _due_again(self, now: int) -> Attempt | None:
        if self._again_at is None or self._again_at > now:
            return None
        removed = False
        due = self._mailbox.retries(self.channel, now, len(self._retrying) + 1)
        for n, before in due:
            if n not in self._retrying:
                found = self._mailbox.at([n])
                if found:
                    return Attempt(found, True, before, self._row)
                # Removed meanwhile: there is nothing left to deliver.
                self._reports.post(Done(self.channel, now, 0, retried=(n,)))
                removed = True
        self._again_at = self._mailbox.next_retry(self.channel)
        if self._again_at is not None and self._again_at <= now:
            # A retry that is under way triggers the next check when it ends. One that was removed
            # does not, so a time is set.
            self._again_at = now + _SOON if removed else None
        return None

    def _heads(self) -> list[Delivered]:
        """The next matches in order."""
        size = self._sender.batch(self.channel)
        if len(self._ahead) < size:
            after = self._ahead[-1].n if self._ahead else self._position
            more = max(size, _AHEAD) - len(self._ahead)
            self._ahead.extend(self._mailbox.heads(self.channel, after, more))
        return [self._ahead[i] for i in range(min(size, len(self._ahead)))]

    # -- how it went -------------------------------------------------------------------------------

    async def _attempt(self, channel: Channel, attempt: Attempt) -> None:
        numbers = [delivered.n for delivered in attempt.matches]
        try:
            sent = await outcome(self._sender.send(channel, attempt.matches, self._lane()))
            self._last = "failing" if sent.reason else "slow" if sent.slow else "quick"
            current = self.channel.generation == channel.generation
            if sent.reason is None:
                self._succeeded(channel, attempt, sent, current)
            else:
                self._failed(channel, attempt, sent, current)
            self._landed(channel, numbers)
            if attempt.again or sent.state is not None or sent.reason is not None:
                # The retries must be written before they are read from the mailbox again.
                await self._reports.flush()
                self._again_at = 0
        finally:
            self._busy -= 1
            self._landed(channel, numbers)
            if attempt.again:
                self._retrying.difference_update(numbers)
            self.woken.set()

    def _lane(self) -> Lane:
        if self.channel.failing_since is not None:
            return "failing"
        return self._last or ("new" if self.channel.last_success is None else "quick")

    def _landed(self, channel: Channel, numbers: Sequence[int]) -> None:
        for n in numbers:
            if self._flying.get(n) == channel.generation:
                del self._flying[n]

    def _cursor(self, channel: Channel, done: Sequence[int]) -> int:
        """The number up to which all is done, once those in `done` are."""
        flying = [
            n
            for n, generation in self._flying.items()
            if generation == channel.generation and n not in done and n > channel.cursor
        ]
        return min(flying, default=self._position + 1) - 1

    def _succeeded(self, channel: Channel, attempt: Attempt, sent: Sent, current: bool) -> None:
        now = self._clock()
        done = [delivered.n for delivered in attempt.matches[: sent.count]]
        self._failures = self._row = 0
        cursor = None
        if not attempt.again and current:
            if len(done) < len(attempt.matches):
                left = attempt.matches[len(done) :]
                self._ahead.extendleft(reversed(left))
                self._position = done[-1]
                self._landed(channel, [delivered.n for delivered in left])
            cursor = self._cursor(channel, done)
        retried = tuple(done) if attempt.again else ()
        self._reports.post(Done(channel, now, len(done), cursor, retried, sent.state))
        if current:
            since = self.channel.failing_since
            if since is not None and now - since >= _RECOVERED:
                self._event("channel.recovered", f"{channel.name}: deliveries succeed again")
            self.channel = replace(
                self.channel,
                attempts=0,
                next_try=0,
                failures=0,
                failing_since=None,
                last_error=None,
                last_success=now,
                cursor=cursor if cursor is not None else self.channel.cursor,
                state=self.channel.state if sent.state is None else sent.state,
            )
        if sent.state and "refused" in sent.state:
            self._event("mail.refused", f"{channel.name}: {sent.state['refused']}")

    def _failed(self, channel: Channel, attempt: Attempt, sent: Sent, current: bool) -> None:
        now = self._clock()
        assert sent.reason is not None
        self._failures += 1
        if attempt.row == self._row:
            self._row += 1
        since = self.channel.failing_since or now
        attempts = attempt.before + 1
        later = attempt.again or not channel.ordered
        disabled = sent.gone or (
            self._sender.gives_up
            and now - since >= self._settings.disable_after * MICROSECONDS
            and self._row >= _IN_A_ROW
        )
        dead = self._sender.gives_up and (
            sent.hopeless or (attempts > len(self._settings.schedule) and not disabled)
        )
        next_try = now + round(max(self._delay(attempts), sent.wait) * MICROSECONDS)
        back = not later and not dead
        cursor = None
        if current and not attempt.again and not back:
            cursor = self._cursor(channel, [delivered.n for delivered in attempt.matches])
        pause = next_try if back else self._rest(now, sent)
        if attempt.again and channel.ordered:
            # The next match waits for its own retry, and as long as the receiver's Retry-After.
            pause = max(self.channel.next_try, now + round(sent.wait * MICROSECONDS))
        for delivered in attempt.matches:
            match = delivered.match
            self._reports.post(
                Failed(
                    channel,
                    now,
                    delivered.n,
                    match.id,
                    match.query,
                    sent.reason,
                    attempts,
                    self._row,
                    next_try,
                    pause,
                    dead,
                    later,
                    cursor,
                    attempt.again,
                )
            )
        if disabled:
            kind = "channel.gone" if sent.gone else "channel.disabled"
            self._reports.post(Disabled(channel, now, kind, _why(sent, now - since)))
        if not current:
            return
        if back:
            self._ahead.extendleft(reversed(attempt.matches))
            self._position = attempt.matches[0].n - 1
        self.channel = replace(
            self.channel,
            attempts=self.channel.attempts if attempt.again else attempts if back else 0,
            next_try=pause,
            failures=self._row,
            failing_since=since,
            last_error=sent.reason,
            status="disabled" if disabled else self.channel.status,
            cursor=cursor if cursor is not None else self.channel.cursor,
        )

    def _delay(self, attempts: int) -> float:
        """Seconds before the next attempt, after `attempts` attempts."""
        schedule = self._settings.schedule
        delay = schedule[min(attempts, len(schedule)) - 1] if schedule else _PATIENT
        if not self._sender.gives_up:
            delay = min(delay, _PATIENT)
        return delay * (1 + random.uniform(0, self._settings.jitter))

    def _rest(self, now: int, sent: Sent) -> int:
        """Until when the channel's other matches wait: as long as Retry-After says, and longer the
        more attempts failed in a row."""
        if sent.hopeless:
            return 0
        growing = min(2.0 ** min(self._failures - 2, 10), _PATIENT) if self._failures > 2 else 0.0
        return now + round(max(sent.wait, growing) * MICROSECONDS)

    # -- events ------------------------------------------------------------------------------------

    def _event(self, kind: str, text: str) -> None:
        channel = self.channel
        loop = asyncio.get_running_loop()
        loop.run_in_executor(
            None,
            lambda: self._mailbox.record_event(
                kind, text, subscription=channel.subscription, channel=channel.name
            ),
        )

    async def _send_events(self, now: int) -> None:
        """Send the receiver the events that it listens to; failures are retried some times."""
        wanted = [kind for kind in self.channel.settings.get("events", ()) if kind != MATCH]
        if not wanted or now < self._events_at:
            return
        for event in self._mailbox.unreported(self.channel, wanted):
            sent = await outcome(self._sender.send_event(self.channel, event))
            if sent.reason is not None and self._event_failures < _EVENT_ATTEMPTS:
                self._event_failures += 1
                self._events_at = now + round(self._delay(self._event_failures) * MICROSECONDS)
                return
            self._event_failures = self._events_at = 0
            self._reports.post(EventsSent(self.channel, event.number))
            await self._reports.flush()


def _why(sent: Sent, failing: int) -> str:
    if sent.gone:
        return f"the receiver wants nothing more: {sent.reason}"
    days = failing / MICROSECONDS / DAY
    return f"nothing but failures for {days:.1f} days: {sent.reason}"
