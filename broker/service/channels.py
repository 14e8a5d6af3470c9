"""Operations on channels: create, change, test, pause, read and acknowledge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from broker.delivery import Channel, Delivered, DeliveryWorker, Mailbox, Replaces
from broker.delivery.network import reachable_by_name
from broker.service.core.answers import ChannelSpec
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, Invalid, NotFound
from feeds.transport import BlockedAddress


class Channels:
    """The channels of a state, and the worker that delivers through them."""

    def __init__(self, core: Core, worker: DeliveryWorker) -> None:
        self._core = core
        self._mailbox = core.mailbox
        self._worker = worker

    def all(self, subscription: str | None = None) -> list[Channel]:
        """The channels of one subscription, or all, by name."""
        return self._mailbox.channels(subscription)

    def get(self, name: str) -> Channel:
        with _found("channel", name):
            return self._mailbox.channel(name)

    def put(
        self, spec: ChannelSpec, subscription: str | None = None, *, replace: bool = True
    ) -> tuple[Channel, Channel | None]:
        """Create or change a channel; without a subscription it delivers all matches.

        Returns the channel, and the former one if there was any. Raises Conflict if a channel of
        that name has another purpose and may not be replaced.
        """
        if spec.name is None:
            raise Invalid("a channel has a name", "name")
        check_channel(self._core, spec)
        if subscription is not None:
            with self._core.at_once(), _found("subscription", subscription):
                self._core.engine.registered_one(subscription)
        before = put_channel(self._mailbox, spec.name, spec, subscription, replace=replace)
        return self.get(spec.name), before

    def drop(self, name: str) -> None:
        """Remove a channel; its undelivered matches are not delivered."""
        with _found("channel", name):
            self._mailbox.remove_channel(name)

    def pause(self, name: str) -> Channel:
        with _found("channel", name):
            self._mailbox.pause_channel(name)
        return self.get(name)

    def resume(self, name: str) -> Channel:
        """Resume a channel that is paused or disabled; it delivers at once."""
        with _found("channel", name):
            self._mailbox.resume_channel(name)
        return self.get(name)

    def reset(self, name: str, after: int) -> Channel:
        """Set the cursor of a channel to a number in the log, which may be an earlier one."""
        with _found("channel", name):
            self._mailbox.reset_channel(name, after)
        return self.get(name)

    def pull(self, name: str, limit: int = 1_000) -> list[Delivered]:
        """The matches that the consumer of a pull channel has not acknowledged."""
        with _found("channel", name):
            return self._mailbox.pull(name, limit)

    def ack(self, name: str, n: int) -> Channel:
        """Acknowledge all matches up to a number. A channel whose subscription was dropped is
        removed with the last of them; it is returned as it was."""
        with _found("channel", name):
            before = self._mailbox.channel(name)
            cursor = self._mailbox.ack(name, n)
        try:
            return self._mailbox.channel(name)
        except KeyError:
            return replace(before, cursor=cursor)

    def test(self, name: str) -> tuple[bool, str]:
        """Send a test message now; returns whether it was delivered, and details. Raises NotFound,
        and Conflict for a pull channel."""
        with _found("channel", name):
            return self._worker.test(name)

    def resend_match(self, match_id: str, name: str) -> None:
        """Deliver a match once more."""
        with _found("match or channel", f"{match_id} / {name}"):
            self._mailbox.resend_match(match_id, name)


def check_channel(core: Core, spec: ChannelSpec) -> None:
    """Raises Invalid for a channel that cannot deliver with the present settings."""
    delivery, settings = core.settings.delivery, spec.settings
    if spec.kind == "mail" and delivery.smtp.host is None:
        raise Invalid("there is no mail server to send with: set delivery.smtp.host", "kind")
    if spec.kind == "webhook":
        try:
            reachable_by_name(str(settings.get("url", "")), delivery.allow_private)
        except BlockedAddress as error:
            raise Invalid(str(error), "url") from None


def put_channel(
    mailbox: Mailbox,
    name: str,
    spec: ChannelSpec,
    subscription: str | None,
    *,
    replace: bool = True,
) -> Channel | None:
    """Create or change a channel; returns the former one. Raises Invalid and Conflict."""
    try:
        wanted = Channel(name, spec.kind, subscription, dict(spec.settings), spec.ordered)
        return mailbox.change_channel(wanted, replace=replace)
    except ValueError as error:
        raise Invalid(str(error), "channels") from None
    except Replaces as error:
        raise Conflict(
            f"the channel {name!r} is there, and is for something else: "
            f"{purpose_of(error.channel)}; "
            "to have it replaced say so (replace, --replace)"
        ) from None


def purpose_of(channel: Channel) -> str:
    """The kind, the target and the subscription of a channel, in a few words."""
    kind, where, subscription = channel.goal
    to = ", ".join(where) if isinstance(where, list) else where
    return f"{kind}{f' {to}' if to else ''}, for {subscription or 'all subscriptions'}"


@contextmanager
def _found(what: str, name: str) -> Iterator[None]:
    try:
        yield
    except KeyError:
        raise NotFound(what, name) from None
    except ValueError as error:
        raise Conflict(str(error)) from None
