"""Operations on subscriptions while documents flow: add, replace, pause, resume, drop.

Each change holds the engine's lock, so it falls between two batches: the number of the first
document that counts is exact, and no later document is missed. The channels and the throttle of a
subscription are in the mailbox before its first match, and are removed after the subscription.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

import structlog

import xscl
from broker import advice, backfill
from broker.delivery import Mailbox, Throttle
from broker.join.work import Work
from broker.model import UNBOUNDED, Limit
from broker.query.prepared import Compiled, compile_query
from broker.registered import Registered, Status
from broker.service.access.scopes import SERVICE, Identity
from broker.service.channels import check_channel, put_channel
from broker.service.core.answers import (
    Bound,
    Bounds,
    ChannelSpec,
    Checked,
    CheckedQuery,
    History,
    Outcome,
    Pending,
    Subscribed,
)
from broker.service.core.core import Core
from broker.service.core.errors import Invalid, NotFound
from broker.service.core.outline import outline
from broker.service.core.watchdog import not_too_long
from broker.service.streams import Streams
from broker.service.tenants import Tenants, check_streams
from xscl.check.known import Look
from xscl.errors import Diagnostic, XsclError
from xscl.growth import growing

_log = structlog.get_logger(__name__)

MOST = 10_000
"""Matches of a query after which its dry run ends."""

LONGEST_ID = 1_000
"""The largest number of characters of an id, which is a part of URLs."""


class Subscriptions:
    """The subscriptions of a state. Raises XsclError for an invalid text."""

    def __init__(self, core: Core, streams: Streams, tenants: Tenants) -> None:
        self._core = core
        self._streams = streams
        self._tenants = tenants

    def subscribe(
        self,
        text: str,
        name: str = "<request>",
        *,
        backfill: int | None = None,
        throttle: Throttle | None = None,
        limit: Limit | None = None,
        lift: Collection[Bound] = (),
        channels: Sequence[ChannelSpec] = (),
        who: Identity = SERVICE,
    ) -> list[Subscribed]:
        """Register the queries of a text, all or none; they count from the next document on.

        A query that is registered with the same id and text is unchanged; a changed text replaces
        the former and begins anew. With `backfill` (microseconds) new queries begin that long
        before the newest stored document, and their matches there are delivered. Each query gets
        the throttle, the limit and the channels, and loses what is to `lift`. They belong to `who`.
        Raises Forbidden for a stream that it may not read or publish, and Conflict for what is
        another's.
        """
        compiled, warnings = _compile(text, name, who, self._streams.look)
        with self._core.at_once():
            unchanged = [query for query in compiled if self._outcome(query) == "unchanged"]
        old = {query.id for query in unchanged}
        dear = self._streams.dear([query for query in compiled if query.id not in old])
        warnings = (*warnings, *dear, *self._streams.short(compiled))
        self._streams.refuse(warnings, unchanged)
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
            own = throttle or (None if "throttle" in lift else throttles[query.id])
            if own is not None and own.variable is not None:
                _check_variable(query, own.variable)
        for spec in channels:
            for id in ids:
                self._tenants.check_channel(who, name_of(spec, id))
        before = self._bounds(throttles)
        with (
            self._tenants.registering(who, ids),
            self._prepared(throttles, throttle, channels),
        ):
            outcomes, history = self._register(compiled, backfill, limit, "limit" in lift)
            for id in ids if "throttle" in lift else ():
                self._core.mailbox.remove_throttle(id)
        with self._core.at_once():
            registered = {entry.id: entry for entry in self._core.engine.registered_of(ids)}
        results = []
        for id, outcome in zip(ids, outcomes, strict=True):
            if id not in registered:
                raise NotFound("subscription", id)
            _log.info("subscription." + outcome, id=id, first_doc=registered[id].first_doc)
            results.append(Subscribed(registered[id], outcome, warnings, history, before[id]))
        return results

    def _bounds(self, throttles: Mapping[str, Throttle | None]) -> dict[str, Bounds]:
        """The throttles, by id, together with the limits of those subscriptions that exist."""
        with self._core.at_once():
            registered = self._core.engine.registered_of([*throttles])
        own = {entry.id: Bounds(throttles[entry.id], entry.limit) for entry in registered}
        return {id: own.get(id, Bounds()) for id in throttles}

    def _register(
        self, compiled: list[Compiled], duration: int | None, limit: Limit | None, unlimited: bool
    ) -> tuple[list[Outcome], History | None]:
        """Register the queries; returns the outcome of each, and the matches in history. With
        `unlimited` they lose the limits that they have."""
        core = self._core
        history = None
        with core.at_once():
            engine, now = core.engine, core.now()
            newest = engine.newest()
            outcomes = [self._outcome(query) for query in compiled]
            with engine.store.transaction():
                if duration is None or newest is None:
                    engine.subscribe(compiled, now)
                else:
                    with not_too_long():
                        past = backfill.backfill(engine, compiled, newest - duration, now, limit)
                    history = History(past.documents, past.matches, past.suspended)
                for query in compiled if limit is not None or unlimited else ():
                    engine.set_limit(query.id, limit)
        if history is not None:
            core.empty_outbox()
        return outcomes, history

    def _outcome(self, query: Compiled) -> Outcome:
        """The outcome that registering a query will have."""
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
        """Create the throttle and the channels of queries before their first match; `before` are
        the present throttles by id. If the block fails, new ones are removed again."""
        mailbox = self._core.mailbox
        with ExitStack() as undo:
            for id, old_throttle in before.items():
                if throttle is not None:
                    if old_throttle is None:
                        undo.callback(mailbox.remove_throttle, id)
                    try:
                        mailbox.set_throttle(id, throttle.variable, throttle.period)
                    except ValueError as error:
                        raise Invalid(str(error), "throttle") from None
                for spec in specs:
                    name = name_of(spec, id)
                    if put_channel(mailbox, name, spec, id) is None:
                        undo.callback(mailbox.remove_channel, name)
            yield
            undo.pop_all()

    def check(self, text: str, name: str = "<request>", who: Identity = SERVICE) -> Checked:
        """What is wrong with a text, and what subscribing it would do."""
        try:
            compiled, warnings = _compile(text, name, who, self._streams.look)
        except XsclError as error:
            return Checked((), tuple(error.diagnostics))
        prices = self._streams.prices(compiled)
        with self._core.lock:
            outcomes = [self._outcome(query) for query in compiled]
        queries = [
            CheckedQuery(q.id, q.text, outcome, outline(q.resolved.query.pattern), price)
            for q, outcome, price in zip(compiled, outcomes, prices, strict=True)
        ]
        return Checked(tuple(queries), (*warnings, *self._streams.short(compiled)))

    def dry_run(
        self,
        text: str,
        since: int | None = None,
        name: str = "<request>",
        most: int = MOST,
        who: Identity = SERVICE,
    ) -> History:
        """The matches of a text among the stored documents of the last `since` microseconds, or
        all; nothing is registered. A query ends after `most` matches."""
        compiled, _ = _compile(text, name, who)
        core = self._core
        with core.at_once():
            newest = core.engine.newest()
            engine = core.engine
        work = Work()
        begin = -UNBOUNDED if since is None or newest is None else newest - since
        with core.watchdog.watching(work), not_too_long():
            past = backfill.dry_run(engine, compiled, begin, most, work)
        return History(past.documents, past.matches, past.suspended)

    def drop(self, id: str, pending: Pending = "deliver") -> None:
        """Remove a subscription. Its undelivered matches are still delivered, or dropped too.

        Pending matches of an earlier subscription of the same id, which was removed with "deliver",
        are delivered in any case; removing the channel ends that. Raises NotFound.
        """
        core = self._core
        with core.at_once():
            core.empty_outbox()
            try:
                core.engine.unsubscribe(id)
            except KeyError:
                # A process may have died between dropping it in the engine and in the mailbox.
                if not is_partly_dropped(core.mailbox, id):
                    raise NotFound("subscription", id) from None
            core.mailbox.drop(id, pending)
        self._tenants.release([id])
        _log.info("subscription.dropped", id=id, pending=pending)

    def pause(self, id: str) -> Registered:
        """Let a subscription see no documents until it is resumed; the gap is recorded."""
        self._change("pause", id)
        return self.get(id)

    def resume(self, id: str, who: Identity = SERVICE) -> Registered:
        """Resume a subscription that is paused or suspended, from the next document on. Raises
        Forbidden if it reads what `who` may not read now."""
        self._tenants.check_streams_of(who, [id])
        self._change("resume", id)
        return self.get(id)

    def _change(self, change: Literal["pause", "resume"], id: str) -> None:
        core = self._core
        with core.at_once():
            try:
                if change == "pause":
                    core.engine.pause(id, now=core.now())
                else:
                    core.engine.resume(id, core.now())
            except KeyError:
                raise NotFound("subscription", id) from None
        _log.info(f"subscription.{change}d", id=id)

    def get(self, id: str) -> Registered:
        """A subscription as last committed; waits for nothing. Raises NotFound."""
        found = self._core.engine.registered(prefix=id, limit=1)
        if not found or found[0].id != id:
            raise NotFound("subscription", id)
        return found[0]

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


def name_of(spec: ChannelSpec, id: str) -> str:
    """The name of a channel that is made for a subscription."""
    return spec.name or f"{id}.{spec.kind}"


def is_partly_dropped(mailbox: Mailbox, id: str) -> bool:
    """Whether an id that the engine does not have was not yet dropped in the mailbox."""
    return (
        mailbox.holds(id)
        or mailbox.throttle(id) is not None
        or not all(channel.draining for channel in mailbox.channels(id))
    )


def _compile(
    text: str, name: str, who: Identity, look: Look = lambda _: None
) -> tuple[list[Compiled], tuple[Diagnostic, ...]]:
    program = xscl.check([xscl.parse(text, name)])
    if not program.queries:
        raise Invalid("the text holds no query", "text")
    for resolved in program.queries:
        check_streams(who, resolved.query)
    with growing(len(program.queries)):
        compiled = [compile_query(query) for query in program.queries]
    for query in compiled:
        if len(query.id) > LONGEST_ID:
            raise Invalid(
                f"the label {query.id[:40]}… has {len(query.id):,} characters, and may have"
                f" {LONGEST_ID:,}",
                "text",
            )
    return compiled, advice.warnings(program, look)


def _check_variable(query: Compiled, variable: str) -> None:
    """Matches have values of a variable only if it joins or is selected."""
    pattern = query.own_pattern
    known = [name for name, _ in query.shape.delivery.variables]
    if pattern is not None:
        known = pattern.values
    if variable not in known:
        names = f"those of {', '.join(known)}" if known else "none at all"
        raise Invalid(
            f"matches of {query.id} have no values of {variable}; they have {names}: what joins, or"
            " stands in SELECT. A throttle goes by such values",
            "throttle.variable",
        )
