"""The delivery worker: a thread with an event loop, and in it a runner for each channel.

In: the mailbox. Out: deliveries to the channels' receivers, and events for the owners. The event
loop waits for receivers, so a thousand that do not answer cost next to nothing; `lanes` decides
which attempts may run at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection

from broker.delivery.files import FileSender
from broker.delivery.mail import MailSender
from broker.delivery.mailbox import Mailbox
from broker.delivery.model import Event
from broker.delivery.reports import Reports
from broker.delivery.runner import Runner
from broker.delivery.sending import Sender, outcome
from broker.delivery.settings import DAY, DeliverySettings
from broker.delivery.tables import MailboxError
from broker.delivery.webhook import WebhookSender
from broker.model import MICROSECONDS

_FILES_PER_PLACE = 8
"""Open files allowed for each place: attempts that take long keep theirs while they wait for
another place."""
_GATHER = 0.02
"""Seconds for which changes of channels are collected before they are applied."""
_SET_BACK = 60 * MICROSECONDS
"""A clock that goes back by more than this was set."""
_LONGEST = 2 * DAY
"""Seconds; the longest delay, whatever Retry-After says, unless the schedule has a longer one."""

_log = logging.getLogger(__name__)


class DeliveryWorker:
    """Delivers from a mailbox until stopped. `clock` returns seconds since 1970; retries, digests
    and signatures go by it, so that a test can let days pass (it then calls `poke`). If the clock
    is set back, retries scheduled by the former time run at once.

    `on_event` is called, in the worker's thread, with each event that a delivery causes.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        settings: DeliverySettings,
        clock: Callable[[], float] = time.time,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._settings = settings
        self._clock = clock
        self._on_event = on_event
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._changed: asyncio.Event | None = None
        self._deadline = 0.0
        self._finished = False
        self._latest = 0
        self._runners: dict[int, tuple[Runner, asyncio.Task[None]]] = {}
        self._by_subscription: defaultdict[str | None, set[Runner]] = defaultdict(set)
        self._background: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start delivering; returns when the thread runs."""
        assert self._thread is None, "started already"
        stretched = max(self._settings.schedule, default=0.0) * (1 + self._settings.jitter)
        longest = round(max(_LONGEST, stretched) * MICROSECONDS)
        self._mailbox.retry_now(self._now() + longest + _SET_BACK)
        _allow_connections(_FILES_PER_PLACE * self._settings.in_flight)
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()
        self._ready.wait()

    def stop(self, timeout: float) -> bool:
        """Start no more attempts, wait at most `timeout` seconds for those under way, and write
        their reports. Returns whether all of them ended; the others are sent again at the next
        start.
        """
        thread, loop, stopped = self._thread, self._loop, self._stopped
        if thread is None or loop is None or stopped is None:
            return True
        self._deadline = time.monotonic() + timeout
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(stopped.set)
        thread.join(timeout + 10)
        self._thread = None
        return self._finished and not thread.is_alive()

    @property
    def has_channels(self) -> bool:
        """Whether there is any channel to deliver through."""
        return bool(self._runners)

    def poke(self) -> None:
        """Check the clock at once, after a test has set it."""
        self._wake_from_any_thread(None)

    def test(self, name: str, timeout: float = 60.0) -> tuple[bool, str]:
        """Send a test message through a channel; returns whether it arrived, and a description.

        The cursor stays. KeyError: no such channel; ValueError: a pull channel, or the worker is
        not running.
        """
        channel = self._mailbox.channel(name)
        if channel.kind == "pull":
            raise ValueError(f"{name} is a pull channel: there is nothing to try")
        if self._loop is None or self._thread is None:
            raise ValueError("delivery does not run")
        event = Event(0, self._now(), "test", name, channel.subscription, "a test of this channel")
        began = time.monotonic()
        trying = asyncio.run_coroutine_threadsafe(
            outcome(self._senders[channel.kind].send_event(channel, event)), self._loop
        )
        try:
            sent = trying.result(timeout)
        except TimeoutError:
            trying.cancel()
            return False, f"no end within {timeout:g} s"
        return sent.reason is None, sent.reason or f"arrived in {time.monotonic() - began:.1f} s"

    # -- inside the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:
            _log.exception("delivery has stopped")
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped, self._changed = asyncio.Event(), asyncio.Event()
        self._changed.set()
        webhooks = WebhookSender(self._settings, self._clock)
        self._senders: dict[str, Sender] = {
            "webhook": webhooks,
            "file": FileSender(self._settings.keep_out),
            "mail": MailSender(self._settings.smtp, self._clock),
        }
        self._reports = Reports(self._mailbox, self._event_caused, self._log_trouble)
        entering = asyncio.create_task(self._reports.run())
        following = asyncio.create_task(self._follow())
        unwatch = self._mailbox.watch(self._wake_from_any_thread)
        self._ready.set()
        try:
            await self._stopped.wait()
        finally:
            unwatch()
            following.cancel()
            for task in self._background:
                task.cancel()
            self._finished = await self._drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._deadline - time.monotonic(), 0) + 5):
                    await self._reports.flush()
            entering.cancel()
            self._reports.close()
            await webhooks.aclose()

    async def _drain(self) -> bool:
        """Wait for the attempts under way until the deadline; returns whether all of them ended."""
        tasks: set[asyncio.Task[None]] = set()
        for runner, task in self._runners.values():
            runner.stopping = True
            task.cancel()
            tasks |= runner.tasks
        if not tasks:
            return True
        _, left = await asyncio.wait(tasks, timeout=max(self._deadline - time.monotonic(), 0))
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=2)
        return not left

    async def _follow(self) -> None:
        """Keep a runner for each channel."""
        assert self._changed is not None
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER)
            self._changed.clear()
            try:
                # The reports of runners must be written before channels are read.
                await self._reports.flush()
                self._update()
            except MailboxError as error:
                self._log_trouble(str(error))
                await asyncio.sleep(1)
                self._changed.set()

    def _update(self) -> None:
        changes = self._mailbox.changes
        channels = {c.number: c for c in self._mailbox.channels() if c.kind in self._senders}
        for number in self._runners.keys() - channels.keys():
            _, task = self._runners.pop(number)
            task.cancel()
        for number, channel in channels.items():
            if number in self._runners:
                self._runners[number][0].update(channel, changes)
                continue
            runner = Runner(
                channel,
                changes,
                self._senders[channel.kind],
                self._mailbox,
                self._reports,
                self._settings,
                self._now,
            )
            self._runners[number] = runner, asyncio.create_task(self._guarded(runner))
        self._by_subscription.clear()
        for runner, _ in self._runners.values():
            self._by_subscription[runner.channel.subscription].add(runner)

    async def _guarded(self, runner: Runner) -> None:
        """Run a channel's runner; after a bug of ours it is started again, and others go on."""
        while True:
            try:
                await runner.run()
            except Exception:
                _log.exception("the delivery of channel %s failed", runner.channel.name)
                await asyncio.sleep(5)

    def _now(self) -> int:
        now = round(self._clock() * MICROSECONDS)
        before, self._latest = self._latest, now
        if now < before - _SET_BACK and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._clock_was_set_back, now)
        return now

    def _clock_was_set_back(self, now: int) -> None:
        task = asyncio.get_running_loop().create_task(self._retry_now(now))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _retry_now(self, now: int) -> None:
        _log.warning("the clock was set back: what is to be tried again is tried at once")
        # Retries by the former time may wait to be written, and would be scheduled by it then.
        await self._reports.flush()
        try:
            self._mailbox.retry_now(now)
        except MailboxError as error:
            self._log_trouble(str(error))

    def _event_caused(self, event: Event) -> None:
        _log.warning("%s: %s: %s", event.kind, event.channel, event.text)
        if self._on_event is not None:
            self._on_event(event)

    def _log_trouble(self, text: str) -> None:
        _log.error("the mailbox cannot be used; trying again: %s", text)

    def _wake_from_any_thread(self, names: Collection[str] | None) -> None:
        if names is not None and not self._runners:
            return  # one that is made later reads what is in the log by then
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake, names)

    def _wake(self, names: Collection[str] | None) -> None:
        if names is None:
            assert self._changed is not None
            self._changed.set()
            for runner, _ in self._runners.values():
                runner.woken.set()
            return
        for runner in self._by_subscription[None]:
            runner.woken.set()
        for name in names:
            for runner in self._by_subscription.get(name, ()):
                runner.woken.set()


def _allow_connections(files: int) -> None:
    """Raise the limit of open files, as far as the process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = soft + files
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < 4 * files and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
