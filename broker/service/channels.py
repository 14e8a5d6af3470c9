"""Where matches go: channels, what they could not deliver, and the matches themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from broker.delivery import Channel, Dead, Delivered, Event, Mailbox
from broker.service.core.answers import ChannelSpec
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, Invalid, NotFound


class ChannelOperations:
    """What may be asked of the channels and of the mailbox behind them."""

    core: Core

    def matches(
        self, subscription: str | None = None, after: int = 0, limit: int = 1_000
    ) -> list[Delivered]:
        """What was found, by number, of one subscription or all; those after a number."""
        return self.core.mailbox.matches(subscription, after, limit)

    def channels(self, subscription: str | None = None) -> list[Channel]:
        return self.core.mailbox.channels(subscription)

    def channel(self, name: str) -> Channel:
        with _found("channel", name):
            return self.core.mailbox.channel(name)

    def put_channel(self, spec: ChannelSpec, subscription: str | None = None) -> Channel:
        """Make a channel, or change one; without a subscription it delivers all matches."""
        if spec.name is None:
            raise Invalid("a channel has a name", "name")
        check_channel(self.core, spec)
        if subscription is not None:
            with self.core.lock, _found("subscription", subscription):
                self.core.engine.registered_one(subscription)
        put_channel(self.core.mailbox, spec.name, spec, subscription)
        return self.channel(spec.name)

    def drop_channel(self, name: str) -> None:
        """Remove a channel; what it has not delivered is not delivered."""
        with _found("channel", name):
            self.core.mailbox.remove_channel(name)

    def pause_channel(self, name: str) -> Channel:
        with _found("channel", name):
            self.core.mailbox.pause_channel(name)
        return self.channel(name)

    def resume_channel(self, name: str) -> Channel:
        """Go on with a channel that is paused or disabled; it tries at once."""
        with _found("channel", name):
            self.core.mailbox.resume_channel(name)
        return self.channel(name)

    def reset_channel(self, name: str, after: int) -> Channel:
        """Begin again behind a place in the log, also an earlier one."""
        with _found("channel", name):
            self.core.mailbox.reset_channel(name, after)
        return self.channel(name)

    def take(self, channel: str, limit: int = 1_000) -> list[Delivered]:
        """What a consumer that pulls has not acknowledged yet."""
        with _found("channel", channel):
            return self.core.mailbox.pull(channel, limit)

    def ack(self, channel: str, n: int) -> Channel:
        """All matches up to this number have reached the consumer. A channel whose subscription was
        dropped goes with the last of them, and is told as it was."""
        mailbox = self.core.mailbox
        with _found("channel", channel):
            before = mailbox.channel(channel)
            cursor = mailbox.ack(channel, n)
        try:
            return mailbox.channel(channel)
        except KeyError:
            return replace(before, cursor=cursor)

    def dead_deliveries(
        self, after: int = 0, limit: int = 1_000, channel: str | None = None
    ) -> list[Dead]:
        """Deliveries that were given up, by number."""
        return self.core.mailbox.dead(after, limit, channel)

    def resend(self, numbers: Sequence[int] | None, channel: str | None = None) -> int:
        """Try deliveries again that were given up: these, or all (of a channel); how many."""
        return self.core.mailbox.resend(numbers, channel)

    def forget_dead(self, numbers: Sequence[int] | None, channel: str | None = None) -> int:
        """Forget deliveries that were given up: these, or all (of a channel); how many."""
        return self.core.mailbox.forget_dead(numbers, channel=channel)

    def events(self, after: int = 0, limit: int = 1_000) -> list[Event]:
        """What owners should hear of, by number."""
        return self.core.mailbox.events(after, limit)

    def resend_match(self, match_id: str, channel: str) -> None:
        """Deliver a match once more."""
        with _found("match or channel", f"{match_id} / {channel}"):
            self.core.mailbox.resend_match(match_id, channel)


def check_channel(core: Core, spec: ChannelSpec) -> None:
    """Raises Invalid for a channel that the settings leave no way to deliver."""
    if spec.kind == "mail" and core.settings.delivery.smtp.host is None:
        raise Invalid("there is no mail server to send with: set delivery.smtp.host", "kind")


def put_channel(mailbox: Mailbox, name: str, spec: ChannelSpec, subscription: str | None) -> bool:
    """Make a channel, or change one; whether it is new. Raises Invalid."""
    try:
        mailbox.channel(name)
        new = False
    except KeyError:
        new = True
    try:
        mailbox.put_channel(
            name,
            spec.kind,
            subscription=subscription,
            settings=dict(spec.settings),
            ordered=spec.ordered,
        )
    except ValueError as error:
        raise Invalid(str(error), "channels") from None
    return new


@contextmanager
def _found(what: str, name: str) -> Iterator[None]:
    try:
        yield
    except KeyError:
        raise NotFound(what, name) from None
    except ValueError as error:
        raise Conflict(str(error)) from None
