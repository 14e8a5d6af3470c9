"""What becomes of a token's subscriptions when it may no longer read what they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Literal

from broker.query import streams
from broker.query.prepared import resolve
from broker.registered import Registered
from broker.service.access.access import Access, Token
from broker.service.access.quotas import OverQuota
from broker.service.access.scopes import Forbidden, Identity, Quota
from broker.service.core.core import Core
from broker.service.core.errors import Conflict
from xscl import ast
from xscl.errors import XsclError

Fate = Literal["pause", "drop", "keep"]
"""What becomes of the subscriptions of a token that is revoked."""

_LATER = 60.0
"""Seconds after which it may be tried again where only the client itself can make room."""


def check_streams(who: Identity, query: ast.Query) -> None:
    """Raises Forbidden unless an identity may read what a query reads, and publish what it
    publishes."""
    if who.operates:
        return
    for stream in sorted(streams.reads(query)):
        who.check_read(stream)
    for stream in sorted(streams.publishes(query)):
        who.check_publish(stream)


class Tenants:
    """Who has which subscriptions, in all files."""

    def __init__(self, core: Core, access: Access) -> None:
        self._core = core
        self._access = access

    @contextmanager
    def registering(self, who: Identity, ids: Collection[str]) -> Iterator[None]:
        """A block that registers subscriptions for an identity. Raises Conflict for an id that is
        another's, OverQuota if they would be too many."""
        access = self._access
        with access.claiming:
            if who.operates:
                yield
                return
            for id in ids:
                if not access.owns(who, id) and self._is_in_use(id):
                    raise Conflict(
                        f"the id {id!r} is taken: give the query another label, with a beginning of"
                        " your own"
                    )
            most = who.quota.subscriptions
            if most is not None:
                known = self._core.engine.registry.known
                have = {id for id in access.owned(who.name) if known(id) is not None}
                if len(have | {*ids}) > most:
                    raise OverQuota(
                        f"the token {who.name!r} may have {most:,} subscriptions, and has "
                        f"{len(have):,}: drop some",
                        _LATER,
                    )
            with access.claimed(who.name, ids):
                yield

    def check_channel(self, who: Identity, name: str) -> None:
        """Raises Conflict for the name of a channel that is another's."""
        try:
            channel = self._core.mailbox.channel(name)
        except KeyError:
            return
        if not self._access.owns(who, channel.subscription):
            raise Conflict(f"the name {name!r} of a channel is taken: choose another one")

    def check_streams_of(self, who: Identity, ids: Collection[str]) -> None:
        """Raises Forbidden for subscriptions that read or publish what an identity may not now."""
        if not who.operates:
            for each in self._core.engine.committed_of([*ids]):
                check_streams(who, resolve(each.id, each.text).query)

    def release(self, ids: Collection[str]) -> None:
        """Let ids be free again of which nothing is left, in the engine or in the log."""
        known = self._core.engine.registry.known
        owned = [id for id in ids if self._access.owner(id)]
        self._access.release([id for id in owned if known(id) is None and not self._is_in_use(id)])

    def retain(self) -> None:
        """Release all ids of which nothing is left any more, and forget old changes."""
        for token in self._access.owners():
            self.release(self._access.owned(token))
        kept = self._core.settings.retention.changes
        if kept is not None:
            self._access.log.forget(self._core.believed() - kept)

    def _is_in_use(self, id: str) -> bool:
        """Whether there is a subscription of an id, or something that one of that id has found."""
        mailbox = self._core.mailbox
        return (
            self._core.engine.registry.known(id) is not None
            or bool(mailbox.latest(id, 1))
            or bool(mailbox.channels(id))
        )

    # -- changes of tokens ---------------------------------------------------------------------

    def add(self, name: str, scopes: Collection[str], quota: Quota) -> tuple[Token, str, list[str]]:
        """Make a token; returns it with its secret. Subscriptions of a former one of this name that
        read or publish what it may not are paused, and returned."""
        with self._access.claiming:
            token, secret = self._access.add(name, scopes, quota)
            return token, secret, self._pause_beyond(token)

    def change(
        self, name: str, scopes: Collection[str] | None, quota: Quota | None
    ) -> tuple[Token, list[str]]:
        """Give a token other scopes or another quota. Its subscriptions that read or publish what
        it may not any more are paused, and returned."""
        token = self._access.change(name, scopes, quota)
        return token, self._pause_beyond(token)

    def _pause_beyond(self, token: Token) -> list[str]:
        who = Identity(token.name, frozenset(token.scopes))
        beyond = [
            each.id
            for each in self._core.engine.committed_of(self._access.owned(token.name))
            if _is_beyond(who, each)
        ]
        self._pause(beyond, "its token may no longer read or publish what it does")
        return beyond

    def revoke(self, name: str, fate: Fate) -> list[str]:
        """End a token; returns the ids of its subscriptions. They and their channels are paused,
        dropped together with what they have not delivered, or kept as they are."""
        self._access.revoke(name)
        core = self._core
        with self._access.claiming:
            ids = [each.id for each in core.engine.committed_of(self._access.owned(name))]
            if fate == "pause":
                self._pause(ids, f"the token {name!r} was revoked")
            elif fate == "drop" and ids:
                with core.at_once():
                    core.empty_outbox()
                    core.engine.unsubscribe(*ids)
                    core.mailbox.drop_all(ids, "drop")
                self.release(ids)
        return ids

    def _pause(self, ids: Collection[str], reason: str) -> None:
        """Pause subscriptions, and the channels that deliver what they have found."""
        if not ids:
            return
        core, wanted = self._core, {*ids}
        with core.at_once():
            active = [id for id in ids if id not in core.engine.registry.halted]
            core.engine.pause_all(active, reason, core.now())
        for channel in core.mailbox.channels():
            if channel.subscription in wanted and channel.status == "active":
                core.mailbox.pause_channel(channel.name)


def _is_beyond(who: Identity, registered: Registered) -> bool:
    """Whether a subscription reads or publishes what an identity may not. One that the checks
    refuse now does neither."""
    try:
        check_streams(who, resolve(registered.id, registered.text).query)
    except Forbidden:
        return True
    except XsclError:
        return False
    return False
