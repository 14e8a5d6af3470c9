"""The broker as a library: subscribe, process documents, get matches. No Spark.

In this interface times are datetimes or seconds since 1970, durations timedeltas or seconds, and
invalid arguments raise `BrokerError`; behind it both are integers of microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType, TracebackType
from typing import get_args

import xscl
from broker.asking import Asking, Told
from broker.backfill import Backfilled, backfill, dry_run
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.engine import DEFAULT_BUDGETS, LATENESS, Engine
from broker.errors import ArgumentError, ClosedError
from broker.join.joiner import MEMORY
from broker.model import (
    Budgets,
    DeadLetter,
    Document,
    Limit,
    Match,
    Revisions,
    Waiting,
    duration_microseconds,
    to_microseconds,
)
from broker.planner import DEFAULT, METHODS, SECONDS, Method, Planning
from broker.query.prepared import Compiled, compile_query
from broker.shared_match import each_match
from broker.state.store import Store
from broker.why.given import Given
from feeds.rows import DocumentRow
from xscl.growth import growing, paused
from xscl.stage1.document import encode_text


class Broker:
    """An XSCL broker. Not thread-safe.

    `state` is a directory in which everything survives a crash; without it all is in memory.
    `lateness` says how much older than the newest document one may arrive (a timedelta or seconds,
    7 days by default); what is older becomes a dead letter. `lateness_of` says the same for
    streams that have their own; a document of several streams may be as late as the latest of them.
    `limit` suspends a subscription that matches more (`resume` lets it go on). `memory` is the
    number of documents whose values are held in memory; older ones are read from the state when a
    value of theirs comes again. With `revisions="flow"` a revision does not replace what is stored:
    it is a document of its own, which never matches other versions of itself. `planner` is the
    method by which the orders of event patterns are found, and `planning` how long that may take at
    most (a timedelta or seconds; None: to its end); neither changes what is found.

    Raises `StateError` if the state cannot be used, `ArgumentError` for an invalid argument, and
    `ClosedError` after `close`.
    """

    def __init__(  # noqa: PLR0913  # each by its keyword
        self,
        state: str | Path | None = None,
        lateness: timedelta | float = timedelta(microseconds=LATENESS),
        memory: int = MEMORY,
        *,
        lateness_of: Mapping[str, timedelta | float] | None = None,
        limit: Limit | None = None,
        budgets: Budgets = DEFAULT_BUDGETS,
        revisions: Revisions = "replace",
        planner: Method = DEFAULT,
        planning: timedelta | float | None = SECONDS,
    ) -> None:
        general = duration_microseconds(lateness)
        streams = {name: duration_microseconds(own) for name, own in (lateness_of or {}).items()}
        if memory < 1:
            raise ArgumentError("memory cannot be less than one document")
        if revisions not in get_args(Revisions):
            raise ArgumentError(f'revisions are "replace" or "flow", not {revisions!r}')
        if planner not in METHODS:
            raise ArgumentError(f"a planner is one of {', '.join(METHODS)}, not {planner!r}")
        if "\0" in str(state):
            raise ArgumentError(f"no directory can be called {str(state)!r}")
        most = None if planning is None else duration_microseconds(planning) / 1e6
        store = Store(state)
        try:
            self._engine = Engine(
                store,
                general,
                memory,
                lateness_of=streams,
                limit=limit,
                budgets=budgets,
                revisions=revisions,
                planning=Planning(planner, most),
            )
            self._closed = False
        except BaseException:
            store.close()
            raise

    @classmethod
    def over(cls, engine: Engine) -> Broker:
        """A broker over an engine, which it closes."""
        broker = cls.__new__(cls)
        broker._engine = engine
        broker._closed = False
        return broker

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """The engine under this broker. Raises `ClosedError` once the broker is closed."""
        if self._closed:
            raise ClosedError("this broker is closed; make a new one over the same state directory")
        return self._engine

    def close(self) -> None:
        """Close the state; a second call does nothing."""
        self._closed = True
        self._engine.close()

    def subscribe(self, text: str, name: str = "<query>") -> list[str]:
        """Register the queries of an XSCL text; returns their ids. Raises `XsclError`, registering
        none.

        A query matches from the next document on. One already registered with the same canonical
        text goes on; one whose text has changed replaces the old one.
        """
        return self.subscribe_files([_parsed(text, name)])

    def backfill(self, text: str, since: datetime | float, name: str = "<query>") -> Backfilled:
        """Register queries over history as well: their matches among the stored documents from
        `since` on are found now, and documents that arrive later join with history too.

        Raises `XsclError`, registering none.
        """
        return self.backfill_files([_parsed(text, name)], to_microseconds(since))

    def dry_run(
        self, text: str, since: datetime | float, name: str = "<query>", most: int | None = None
    ) -> Backfilled:
        """The matches that queries would have among the stored documents from `since` on; registers
        nothing.

        A query with more than `most` matches is stopped there, and named in `suspended` of the
        result. Raises `XsclError`.
        """
        compiled = self._compile([_parsed(text, name)])
        return dry_run(self.engine, compiled, to_microseconds(since), most)

    def backfill_files(
        self,
        files: Sequence[xscl.ast.File],
        since: int,
        on_documents: Callable[[int, int], object] = lambda count, total: None,
    ) -> Backfilled:
        """The same for query files; `since` in microseconds. `on_documents` is called with how many
        documents more were looked at, and of how many."""
        compiled = self._compile(files)
        return backfill(self.engine, compiled, since, on_documents=on_documents)

    def subscribe_files(self, files: Sequence[xscl.ast.File]) -> list[str]:
        return [s.id for s in self.engine.subscribe(self._compile(files))]

    def _compile(self, files: Sequence[xscl.ast.File]) -> list[Compiled]:
        program = xscl.check(files)
        with growing(len(program.queries)):
            return [compile_query(query) for query in program.queries]

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription; KeyError if there is none of that id."""
        self.engine.unsubscribe(id)

    def pause(self, id: str) -> None:
        """Pause a subscription: it sees no documents from the next one on. KeyError if there is
        none of that id."""
        self.engine.pause(id)

    def resume(self, id: str) -> None:
        """Make a paused or suspended subscription active again, from the next document on, as if it
        were new. KeyError if there is none of that id."""
        self.engine.resume(id)

    @property
    def subscriptions(self) -> dict[str, str]:
        """Ids and canonical texts of all subscriptions, those that are not active too."""
        return self.engine.registry.texts()

    def process(
        self, documents: Iterable[Document], now: datetime | float | None = None
    ) -> list[Match]:
        """Process a batch of documents in order of arrival; returns the matches that it completes.

        `now` is the time of the wall clock, if it is known: limits count by it, a date beyond it
        makes no other document late, and it is the time of documents without a timestamp. If it is
        not given, these get the time of this machine's clock.

        A document that is not well-formed, or too late, becomes a dead letter. Raises
        `ArgumentError` if one of the batch is not a valid `Document`; then none is processed.
        Python's garbage collector is paused meanwhile, in all threads.
        """
        at = None if now is None else to_microseconds(now)
        rows = _rows(documents, at)
        # Of what a batch makes most stays, its documents above all; Python's collector would go
        # through it tens of times, which takes a sixth of the batch's time.
        with paused():
            return each_match(self.engine.apply(arrivals(self.engine.matcher, rows), at))

    def arrivals(self, documents: Iterable[Document], now: int | None = None) -> Arrivals:
        """Documents with their witnesses by the current patterns, as the engine takes them. `now`
        (microseconds) is the time of those without a timestamp. Raises `ArgumentError`."""
        return arrivals(self.engine.matcher, _rows(documents, now))

    def undelivered(self, limit: int = 1_000) -> list[Match]:
        """With a state directory: matches not yet acknowledged, oldest first. Raises
        `ArgumentError` for a negative limit."""
        if limit < 0:
            raise ArgumentError(f"a limit is no negative number, such as {limit}")
        return each_match(self.engine.undelivered(limit))[:limit]

    def acknowledge(self, matches: Iterable[Match | str]) -> None:
        """Delete matches, given as such or by their ids, from the outbox."""
        self.engine.acknowledge_ids(m.id if isinstance(m, Match) else m for m in matches)

    def waiting(self) -> list[Waiting]:
        """What event patterns have not decided yet, what is decided first in front."""
        return self.engine.waiting()

    def why(self, id: str) -> list[Told]:
        """What became of the stored documents of a subscription: which blocks they passed, how many
        pairs agree, what order and windows leave of them; of an event pattern what waits, and what
        was blocked. Behind a query come those in its FROM. KeyError if there is no subscription of
        this id, ValueError if it is an event pattern that is not active."""
        return Asking(self.engine).of_subscription(id)

    def why_text(self, text: str) -> list[Told]:
        """The same for the queries of a text, which need not be registered. Raises `XsclError`."""
        return Asking(self.engine).of_queries(xscl.check([xscl.parse(text)]).queries)

    def why_between(self, id: str, documents: Sequence[str]) -> Given:
        """What holds and what does not between stored documents, given by their ids, for a
        subscription: step by step, with the nodes and values, and of an event pattern what becomes
        of these documents together. KeyError if there is no such subscription, `NotStored` for a
        document that is not there, ValueError for an event pattern that is not active."""
        return Asking(self.engine).between(id, documents)

    def decide(self) -> list[Match]:
        """Decide what event patterns wait for, as if enough time had passed without documents: for
        the end of an input. Documents that come afterwards, for times that are decided, are late
        for these patterns."""
        return each_match(self.engine.decide())

    def dead_letters(self) -> list[DeadLetter]:
        """Documents that were not admitted, oldest first."""
        return self.engine.letters(limit=self.engine.count_letters())


def _parsed(text: str, name: str) -> xscl.ast.File:
    if not isinstance(text, str):
        raise ArgumentError(f"queries are a text of XSCL, not {type(text).__name__} {text!r}")
    return xscl.parse(text, name)


def _rows(documents: Iterable[Document], now: int | None) -> list[DocumentRow]:
    """The documents as the engine takes them; `now` (microseconds) is the time of those without a
    timestamp. Raises `ArgumentError`."""
    arrived = time.time_ns() // 1_000 if now is None else now
    return [_row(document, arrived) for document in _documents(documents)]


def _documents(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, each checked. Raises `ArgumentError`."""
    if isinstance(documents, Document | str | bytes):
        raise ArgumentError("a batch is a list of documents: process([document])")
    for document in documents:
        if not isinstance(document, Document) or not (
            type(document.id) is str
            and type(document.stream) is str
            and document.stream
            and type(document.xml) in (str, bytes)
            and document.id.isascii()
            and document.stream.isascii()
            and document.source is None
            and document.seq is None
        ):
            _complain(document)
        yield document


def _complain(document: object) -> None:
    """Raise an `ArgumentError` that says why this is not a valid `Document`."""
    if not isinstance(document, Document):
        kind = type(document).__name__
        raise ArgumentError(f"a batch is a list of `Document`s, not of {kind}: {document!r:.80}")
    own = f"document {document.id!r}"
    for name, kinds, what in _KINDS:
        found = getattr(document, name)
        if not isinstance(found, kinds):
            raise ArgumentError(f"{own}: its {name} is {what}, not {found!r:.80}")
    if not document.streams or not all(document.streams):
        raise ArgumentError(f"{own} flows through no stream")
    if not all(isinstance(stream, str) for stream in document.streams):
        raise ArgumentError(f"{own}: its stream is a name or a tuple of names")
    try:
        "".join((document.id, *document.streams, document.source or "")).encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{own}: half of a surrogate pair is in its names") from None


_KINDS = (
    ("id", str, "a text"),
    ("stream", str | Sequence, "a name or a tuple of names"),
    ("xml", str | bytes, "a text or bytes"),
    ("source", str | NoneType, "a text"),
    ("seq", int | NoneType, "a number"),
)
"""The fields of a document, their types for `isinstance`, and these in words."""


def _row(document: Document, arrived: int) -> DocumentRow:
    """A document as stage 1 takes it; one without a timestamp has that of its arrival."""
    id, streams, stamp = document.id, document.streams, document.timestamp
    source = document.source if document.source is not None else streams[0]
    timestamp = arrived if stamp is None else to_microseconds(stamp)
    xml = document.xml if isinstance(document.xml, bytes) else encode_text(document.xml)
    # By place, which takes two thirds of the time.
    given = (source, id, streams, timestamp, stamp is not None, document.seq, document.revision)
    return DocumentRow(*given, xml, None, f"{source}/{id}")
