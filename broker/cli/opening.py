"""A broker whose subscriptions are those of query files, as `run`, `replay` and `demo` have it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import xscl
from broker import advice
from broker.cli.progress import Work
from broker.cli.query_files import MANY, check_queries, require_queries
from broker.cli.shared import Failed, console, plural, suspended
from broker.cli.signals import if_stopped

if TYPE_CHECKING:
    # DuckDB and Arrow take half a second to import; most commands need neither.
    from broker.broker import Broker
    from broker.cli.sharding import Sharding
    from broker.model import Revisions
    from broker.query.prepared import Compiled

_WARNED = 10
"""Paths that no document has, of which there may be many, are reported up to so many."""

_SINGLY = 50
"""The number of queries up to which each is reported on a line of its own."""


def open_broker(
    state: Path | None,
    lateness: int,
    files: Sequence[xscl.ast.File],
    backfill: int | None = None,
    revisions: Revisions = "replace",
    sharding: Sharding | None = None,
) -> Broker:
    """A broker whose subscriptions are exactly those of the query files.

    With `backfill`, new ones begin that long (in microseconds) before the newest stored document.
    """
    from broker.broker import Broker
    from broker.state.store import StateError, Store

    if state is not None and (state / "mailbox.sqlite").exists():
        # Its subscriptions would go, and what is found here would never come to its channels.
        raise Failed(
            f"{state}: the state of a service; give this command a directory of its own, or use "
            f"broker serve --state {state}, broker subscribe and broker publish"
        )
    program = check_queries(files)
    for warning in advice.warnings(program):
        console.print(warning.render())
    require_queries(program.queries)
    try:
        if sharding is not None and sharding.count:
            store = Store(state)
            broker = Broker.over(sharding.engine(store, lateness=lateness, revisions=revisions))
        else:
            broker = Broker(state, timedelta(microseconds=lateness), revisions=revisions)
    except StateError as error:
        raise Failed(str(error)) from None
    try:
        before = broker.subscriptions
        # First out, then in: a query under a new label may publish the stream of the old one.
        gone = before.keys() - {query.id for query in program.queries}
        broker.engine.unsubscribe(*gone)
        _print_first([f"unsubscribed {id}: it is in none of the query files" for id in gone])
        if backfill is not None:
            _backfill(broker, files, backfill)
        else:
            _report_dear(broker, program, before)
            _register(broker, program, state)
    except BaseException:
        broker.close()
        raise
    changed = [id for id, text in broker.subscriptions.items() if before.get(id, text) != text]
    _print_first([f"{id} has changed: it starts anew" for id in changed])
    halted = broker.engine.registered(status="suspended", limit=_SINGLY + 1)
    _print_first([suspended(each.id, each.reason) for each in halted])
    broker.engine.take_suspensions()  # these were among them
    return broker


def report_unseen(broker: Broker, files: Sequence[xscl.ast.File]) -> None:
    """Warn of paths in the queries that no stored document has."""
    if sum(len(file.statements) for file in files) > MANY:
        return
    streams = broker.engine.streams
    look = advice.observed(lambda name: streams.stream(name, values=0))
    found = advice.unseen(xscl.check(files), look)
    for warning in found[:_WARNED]:
        console.print(warning.render())
    if len(found) > _WARNED:
        console.print(f"and {len(found) - _WARNED:,} more")


def _report_dear(broker: Broker, program: xscl.Program, before: Mapping[str, str]) -> None:
    """Warn of new queries that are expected to make very many candidates, by what is stored."""
    from broker.price import dear, quickly
    from broker.query.prepared import compile_query

    if len(program.queries) > MANY or broker.engine.newest() is None:
        return
    new = [compile_query(q) for q in program.queries if before.get(q.id) != q.text]
    for warning in dear(new, quickly(broker.engine.streams))[0]:
        console.print(warning.render())


def _backfill(broker: Broker, files: Sequence[xscl.ast.File], duration: int) -> None:
    newest = broker.engine.newest() or 0
    with Work("document", note="of history") as work:

        def on_documents(count: int, total: int) -> None:
            work.expect(total)
            work.advance(count)

        past = broker.backfill_files(files, newest - duration, on_documents)
    found = plural(len(past.matches), "match", "matches")
    console.print(f"history: {plural(past.documents, 'document')}, {found}")


def _register(broker: Broker, program: xscl.Program, state: Path | None) -> None:
    """All at once, or where they are many, some at a time: stopped, it goes on with the others."""
    from broker.query.prepared import compile_query

    total, done = len(program.queries), 0
    if total < MANY:
        broker.engine.subscribe([compile_query(query) for query in program.queries])
        return

    def how_to_go_on() -> None:
        said = f"{done:,} of {plural(total, 'query', 'queries')} were registered"
        on = f" in {state}; the same command goes on with the others" if state else ""
        console.print(f"{said}{on}")

    with (
        Work("query", many="queries", total=total, note="registered") as work,
        if_stopped(how_to_go_on),
    ):
        for part in _parts(program, broker.engine.catalog.published):
            compiled: list[Compiled] = [compile_query(query) for query in part]
            broker.engine.subscribe(compiled)
            done += len(part)
            work.advance(len(part))


def _parts(program: xscl.Program, published: Collection[str]) -> Iterator[list[xscl.ResolvedQuery]]:
    """A thousand at a time; where queries publish streams all at once, for who publishes what and
    who reads it must change together."""
    linked = bool(published) or any(query.query.publish for query in program.queries)
    rest = iter(program.queries)
    while part := list(islice(rest, None if linked else MANY)):
        yield part


def _print_first(lines: list[str]) -> None:
    for line in lines[:_SINGLY]:
        console.print(line)
    if len(lines) > _SINGLY:
        console.print(f"and {len(lines) - _SINGLY:,} more")
