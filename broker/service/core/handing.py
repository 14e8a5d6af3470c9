"""The hand-over of matches from the engine's outbox to the mailbox.

While many documents wait, a thread stores the matches of a batch in the mailbox while the next one
is matched: SQLite and the disk leave Python to the others. All that follows in their order, also
what is told of them, is done by those who match: before anything else is handed over, before
anybody drops a subscription, and when no batch follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import structlog

from broker.delivery import Mailbox, MailboxError
from broker.delivery.log import Stored
from broker.engine import Engine
from broker.shared_match import SharedMatch, count_matches, portions

_log = structlog.get_logger(__name__)


class Handing:
    """Hands over what the engine has found, at most so many matches (`portion`) at a time; `now`
    gives the time of the wall clock in microseconds. To be called with the engine's lock held.

    What raises MailboxError stays in the outbox.
    """

    def __init__(
        self, engine: Engine, mailbox: Mailbox, now: Callable[[], int], portion: int
    ) -> None:
        self._engine = engine
        self._mailbox = mailbox
        self._now = now
        self._portion = portion
        self._thread = ThreadPoolExecutor(1, "handing")
        self._begun: tuple[Sequence[SharedMatch], Future[Stored] | None] | None = None
        """Matches, and what the thread stores of them; None if it could not."""
        self.on_suspension: Callable[[str, str], None] = lambda id, reason: None

    def close(self) -> None:
        """Wait for the thread."""
        with suppress(MailboxError):  # what it could not store is in the outbox
            self.finish()
        self._thread.shutdown()

    def hand_over(self, matches: Sequence[SharedMatch]) -> None:
        """Move matches from the outbox into the mailbox, and record suspensions as events."""
        self.finish()
        for part in portions(matches, self._portion):
            self._mailbox.take(part, self._now())
            self._engine.acknowledge(part)
        self._tell_suspensions()

    def begin(self, matches: Sequence[SharedMatch]) -> None:
        """The same, by the thread until `finish`, where there is anything to gain and nothing has
        to be parsed for it: that is for those who match, who have the documents."""
        self.finish()
        few = not matches or count_matches(matches) > self._portion
        if few or not self._mailbox.stores_as_found(matches):
            self.hand_over(matches)
        else:
            stored = self._thread.submit(self._mailbox.store, matches, self._now())
            self._begun = matches, stored

    def finish(self) -> None:
        """Wait until what was begun is handed over. Raises MailboxError; the next call then tries
        again."""
        if self._begun is not None:
            matches, stored = self._begun
            self._begun = matches, None
            done = stored.result() if stored else self._mailbox.store(matches, self._now())
            self._begun = None
            self._mailbox.tell(done)
            self._engine.acknowledge(matches)
            self._tell_suspensions()

    def _tell_suspensions(self) -> None:
        # The call confirms the suspensions of the last call, which were recorded below.
        for suspension in self._engine.take_suspensions():
            _log.warning("subscription.suspended", id=suspension.id, reason=suspension.reason)
            text = f"{suspension.id} is suspended: {suspension.reason}"
            self._mailbox.record_event("subscription.suspended", text, subscription=suspension.id)
            self.on_suspension(suspension.id, suspension.reason)
