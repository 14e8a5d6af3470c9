"""The broker as a library: subscribe, process documents, get matches. No Spark, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType

import xscl
from broker.backfill import Backfilled, backfill, dry_run
from broker.documents.arrow import Arrival, Arrivals, rows_from_witnesses, witness_document
from broker.engine import LATENESS, Engine
from broker.join.joiner import MEMORY
from broker.model import DeadLetter, Document, Limit, Match, to_microseconds
from broker.query.prepared import Compiled, compile_query
from broker.state.store import Store
from xscl.growth import growing
from xscl.stage1.document import encode_text
from xscl.stage1.witness import Witness


class Broker:
    """An XSCL broker. Not thread-safe.

    `state` is a directory in which everything survives a crash; without it all is in memory.
    `lateness` says how much older than the newest document one may arrive (a timedelta, or
    microseconds); what is older becomes a dead letter. `lateness_of` says the same for streams that
    have their own; a document of several streams may be as late as the latest of them. `limit`
    suspends a subscription that matches more (`engine.resume` lets it go on). `memory` is the number of documents whose
    values are held in memory; older ones are read from the state when a value of theirs comes again.
    """

    def __init__(
        self,
        state: str | Path | None = None,
        lateness: timedelta | int = LATENESS,
        memory: int = MEMORY,
        *,
        lateness_of: Mapping[str, timedelta | int] | None = None,
        limit: Limit | None = None,
    ) -> None:
        general = _microseconds(lateness)
        streams = {name: _microseconds(own) for name, own in (lateness_of or {}).items()}
        if min([general, *streams.values()]) < 0 or memory < 1:
            raise ValueError("lateness cannot be negative, nor memory less than one document")
        store = Store(state)
        try:
            self.engine = Engine(store, general, memory, lateness_of=streams, limit=limit)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.engine.store.close()

    def subscribe(self, text: str, name: str = "<query>") -> list[str]:
        """Register the queries of an XSCL text; their ids. Raises `XsclError`, registering none.

        A query counts from the next document on. One already registered with the same canonical
        text goes on; one whose text changed takes the place of the old.
        """
        return self.subscribe_files([xscl.parse(text, name)])

    def backfill(self, text: str, since: datetime | float, name: str = "<query>") -> Backfilled:
        """Register queries over history as well: what they match among the stored documents from
        `since` on is found now, and what arrives later joins with history too.

        Raises `XsclError`, registering none.
        """
        return self.backfill_files([xscl.parse(text, name)], to_microseconds(since))

    def dry_run(
        self, text: str, since: datetime | float, name: str = "<query>", most: int | None = None
    ) -> Backfilled:
        """What queries would match among the stored documents from `since` on; registers nothing.

        One that matches more than `most` times is stopped there, and told. Raises `XsclError`.
        """
        compiled = self._compile([xscl.parse(text, name)])
        return dry_run(self.engine, compiled, to_microseconds(since), most)

    def backfill_files(self, files: Sequence[xscl.ast.File], since: int) -> Backfilled:
        """The same for query files; `since` in microseconds."""
        return backfill(self.engine, self._compile(files), since)

    def subscribe_files(self, files: Sequence[xscl.ast.File]) -> list[str]:
        return [s.id for s in self.engine.subscribe(self._compile(files))]

    def _compile(self, files: Sequence[xscl.ast.File]) -> list[Compiled]:
        program = xscl.check(files)
        with growing(len(program.queries)):
            return [compile_query(query) for query in program.queries]

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription; KeyError if there is none of that id."""
        self.engine.unsubscribe(id)

    @property
    def subscriptions(self) -> dict[str, str]:
        """Ids and canonical texts of all subscriptions, those that are not active too."""
        return self.engine.registry.texts()

    def process(self, documents: Iterable[Document], now: int | None = None) -> list[Match]:
        """Process a batch of documents in order of arrival; the matches that it completes.

        `now` is the time of the wall clock in microseconds, for who has one: limits count by it, and
        a date beyond it makes no other document late.

        A document that is not well-formed, or too late, becomes a dead letter. ValueError for a
        timestamp that is no finite number, or no stream.
        """
        return self.engine.apply(self.arrivals(documents), now)

    def arrivals(self, documents: Iterable[Document]) -> Arrivals:
        """Documents as the engine takes them, matched with the patterns of now. Raises ValueError."""
        arrivals: list[Arrival] = []
        witnesses: list[Witness] = []
        for document in documents:
            if not document.streams or not all(document.streams):
                raise ValueError(f"document {document.id!r} flows through no stream")
            xml = document.xml if isinstance(document.xml, bytes) else encode_text(document.xml)
            witness, error = witness_document(self.engine.matcher, xml, document.streams)
            source = document.source if document.source is not None else document.streams[0]
            arrivals.append(
                Arrival(
                    source=source,
                    id=document.id,
                    streams=document.streams,
                    timestamp=to_microseconds(document.timestamp),
                    dated=True,
                    seq=document.seq,
                    revision=document.revision,
                    xml=xml,
                    error=error,
                    place=f"{source}/{document.id}",
                )
            )
            witnesses.append(witness)
        return Arrivals(arrivals, rows_from_witnesses(witnesses))

    def undelivered(self, limit: int = 1_000) -> list[Match]:
        """With a state directory: matches not yet acknowledged, oldest first."""
        return self.engine.undelivered(limit)

    def acknowledge(self, matches: Iterable[Match | str]) -> None:
        """Take matches (or their ids) out of the outbox."""
        self.engine.acknowledge(m.id if isinstance(m, Match) else m for m in matches)

    def dead_letters(self) -> list[DeadLetter]:
        """Documents that were kept aside, oldest first."""
        return self.engine.letters(limit=self.engine.count_letters())


def _microseconds(duration: timedelta | int) -> int:
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    return duration
