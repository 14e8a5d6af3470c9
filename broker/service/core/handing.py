"""The hand-over of matches from the engine's outbox to the mailbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from broker.delivery import Mailbox
from broker.engine import Engine
from broker.shared_match import SharedMatch, portions

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
        self.on_suspension: Callable[[str, str], None] = lambda id, reason: None

    def hand_over(self, matches: Sequence[SharedMatch]) -> None:
        """Move matches from the outbox into the mailbox, and record suspensions as events."""
        for part in portions(matches, self._portion):
            self._mailbox.take(part, self._now())
            self._engine.acknowledge(part)
        # The call confirms the suspensions of the last call, which were recorded below.
        for suspension in self._engine.take_suspensions():
            _log.warning("subscription.suspended", id=suspension.id, reason=suspension.reason)
            text = f"{suspension.id} is suspended: {suspension.reason}"
            self._mailbox.record_event("subscription.suspended", text, subscription=suspension.id)
            self.on_suspension(suspension.id, suspension.reason)
