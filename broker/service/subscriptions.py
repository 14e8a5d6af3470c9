"""Subscriptions while documents flow: asked for, replaced, paused, dropped.

The engine's lock is held for each change, so it falls between two batches: the number of the first
document that counts is exact, and no document passes a subscription by. What is in the mailbox for
a subscription (its channels, its throttle) is there before it finds anything, and goes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

import structlog

import xscl
from broker import backfill
from broker.delivery import Mailbox, Throttle
from broker.model import UNBOUNDED, Limit, Registered, Status
from broker.query.prepared import Compiled, compile_query
from broker.service.channels import check_channel, put_channel
from broker.service.core.answers import Bounds, ChannelSpec, History, Outcome, Pending, Subscribed
from broker.service.core.core import Core
from broker.service.core.errors import Invalid, NotFound
from xscl.errors import Diagnostic
from xscl.growth import growing

_log = structlog.get_logger(__name__)

MOST = 10_000
"""Matches of a query after which a look into history ends."""

LONGEST_ID = 1_000
"""Characters of an id, which stands in addresses."""


class Subscriptions:
    """The subscriptions of a state. Raises XsclError for what is wrong in a text."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def subscribe(
        self,
        text: str,
        name: str = "<request>",
        *,
        backfill: int | None = None,
        throttle: Throttle | None = None,
        limit: Limit | None = None,
        channels: Sequence[ChannelSpec] = (),
    ) -> list[Subscribed]:
        """Register the queries of a text, all or none; they count from the next document on.

        One whose text is registered under its id already goes on as it is; a changed text takes the
        place of the former and begins anew. With `backfill` (microseconds) new ones begin that long
        before the newest stored document, and what they match there is delivered. The throttle, the
        limit and the channels become those of each query.
        """
        compiled, warnings = _compile(text, name)
        for spec in channels:
            check_channel(self._core, spec)
        named = [spec.name for spec in channels if spec.name is not None]
        if named and len(compiled) > 1:
            raise Invalid(
                f"the text has {len(compiled)} queries: leave out the name of the channel, "
                "so that each gets its own",
                "channels",
            )
        ids = [query.id for query in compiled]
        throttles = {id: self._core.mailbox.throttle(id) for id in ids}
        for query in compiled:
            own = throttle or throttles[query.id]
            if own is not None and own.variable is not None:
                _check_variable(query, own.variable)
        was = self._bounds(throttles)
        with self._prepared(throttles, throttle, channels):
            outcomes, history = self._register(compiled, backfill, limit)
        with self._core.lock:
            registered = {each.id: each for each in self._core.engine.registered_of(ids)}
        results = []
        for id, outcome in zip(ids, outcomes, strict=True):
            if id not in registered:
                raise NotFound("subscription", id)
            _log.info("subscription." + outcome, id=id, first_doc=registered[id].first_doc)
            results.append(Subscribed(registered[id], outcome, warnings, history, was[id]))
        return results

    def _bounds(self, throttles: Mapping[str, Throttle | None]) -> dict[str, Bounds]:
        """Those of subscriptions with these throttles; of one that is not registered, none."""
        with self._core.lock:
            registered = self._core.engine.registered_of([*throttles])
        own = {each.id: Bounds(throttles[each.id], each.limit) for each in registered}
        return {id: own.get(id, Bounds()) for id in throttles}

    def _register(
        self, compiled: list[Compiled], duration: int | None, limit: Limit | None
    ) -> tuple[list[Outcome], History | None]:
        """What became of each, and what was found in history."""
        core = self._core
        history = None
        with core.lock:
            engine, now = core.engine, core.now()
            newest = engine.newest()
            outcomes = [self._outcome(query) for query in compiled]
            with engine.store.transaction():
                if duration is None or newest is None:
                    engine.subscribe(compiled, now)
                else:
                    past = backfill.backfill(engine, compiled, newest - duration, now, limit)
                    history = History(past.documents, past.matches, past.suspended)
                for query in compiled if limit is not None else ():
                    engine.set_limit(query.id, limit)
        if history is not None:
            core.empty_outbox()
        return outcomes, history

    def _outcome(self, query: Compiled) -> Outcome:
        """What will become of a query."""
        known = self._core.engine.registry.known(query.id)
        if known is None:
            return "new"
        return "unchanged" if known.text == query.text else "replaced"

    @contextmanager
    def _prepared(
        self,
        before: Mapping[str, Throttle | None],
        throttle: Throttle | None,
        specs: Sequence[ChannelSpec],
    ) -> Iterator[None]:
        """Make the throttle and the channels of queries, which had these throttles before, before
        anything is found; if the block fails, those that were new are gone again."""
        mailbox = self._core.mailbox
        with ExitStack() as undo:
            for id, had in before.items():
                if throttle is not None:
                    if had is None:
                        undo.callback(mailbox.remove_throttle, id)
                    try:
                        mailbox.set_throttle(id, throttle.variable, throttle.period)
                    except ValueError as error:
                        raise Invalid(str(error), "throttle") from None
                for spec in specs:
                    name = spec.name or f"{id}.{spec.kind}"
                    if put_channel(mailbox, name, spec, id) is None:
                        undo.callback(mailbox.remove_channel, name)
            yield
            undo.pop_all()

    def dry_run(
        self, text: str, since: int | None = None, name: str = "<request>", most: int = MOST
    ) -> History:
        """What a text would have matched among the stored documents, of the last `since`
        microseconds or all; nothing is registered. A query is given up after `most` matches."""
        compiled, _ = _compile(text, name)
        core = self._core
        with core.lock:
            newest = core.engine.newest()
            engine = core.engine
        begin = -UNBOUNDED if since is None or newest is None else newest - since
        past = backfill.dry_run(engine, compiled, begin, most)
        return History(past.documents, past.matches, past.suspended)

    def drop(self, id: str, pending: Pending = "deliver") -> None:
        """Remove a subscription. Its undelivered matches are still delivered, or dropped too.

        Pending matches of an earlier subscription of the same id, which was removed with "deliver",
        are delivered in any case; removing the channel ends that. Raises NotFound.
        """
        core = self._core
        with core.lock:
            core.empty_outbox()
            try:
                core.engine.unsubscribe(id)
            except KeyError:
                # It may have been dropped by a process that died before the mailbox knew of it.
                if not half_gone(core.mailbox, id):
                    raise NotFound("subscription", id) from None
            core.mailbox.drop(id, pending)
        _log.info("subscription.dropped", id=id, pending=pending)

    def pause(self, id: str) -> Registered:
        """Let a subscription see no documents until it is resumed; the gap is recorded."""
        self._change("pause", id)
        return self.get(id)

    def resume(self, id: str) -> Registered:
        """Go on with one that is paused or suspended, from the next document on."""
        self._change("resume", id)
        return self.get(id)

    def _change(self, what: Literal["pause", "resume"], id: str) -> None:
        core = self._core
        with core.lock:
            try:
                if what == "pause":
                    core.engine.pause(id, now=core.now())
                else:
                    core.engine.resume(id, core.now())
            except KeyError:
                raise NotFound("subscription", id) from None
        _log.info(f"subscription.{what}d", id=id)

    def get(self, id: str) -> Registered:
        with self._core.lock:
            try:
                return self._core.engine.registered_one(id)
            except KeyError:
                raise NotFound("subscription", id) from None

    def page(
        self,
        status: Status | None = None,
        prefix: str = "",
        after: str = "",
        limit: int = 1_000,
    ) -> list[Registered]:
        """At most `limit` subscriptions of a status whose ids begin with `prefix` and come after
        `after`, by id. Neither the caller nor the engine waits for the other."""
        return self._core.engine.registered(status=status, prefix=prefix, after=after, limit=limit)


def half_gone(mailbox: Mailbox, id: str) -> bool:
    """Whether the mailbox does not know yet that the last subscription of an id is dropped."""
    return (
        mailbox.holds(id)
        or mailbox.throttle(id) is not None
        or not all(channel.draining for channel in mailbox.channels(id))
    )


def _compile(text: str, name: str) -> tuple[list[Compiled], tuple[Diagnostic, ...]]:
    program = xscl.check([xscl.parse(text, name)])
    if not program.queries:
        raise Invalid("the text holds no query", "text")
    with growing(len(program.queries)):
        compiled = [compile_query(query) for query in program.queries]
    for query in compiled:
        if len(query.id) > LONGEST_ID:
            raise Invalid(
                f"the label {query.id[:40]}… has {len(query.id):,} characters, and may have"
                f" {LONGEST_ID:,}",
                "text",
            )
    return compiled, tuple(program.warnings)


def _check_variable(query: Compiled, variable: str) -> None:
    """Matches have values of a variable only if it joins or is selected."""
    known = [name for name, _ in query.shape.delivery.variables]
    if variable not in known:
        there = f"those of {', '.join(known)}" if known else "none at all"
        raise Invalid(
            f"matches of {query.id} have no values of {variable}; they have {there}: what joins, or"
            " stands in SELECT. A throttle goes by such values",
            "throttle.variable",
        )
