"""A batch of documents in one transaction.

The transaction holds everything that a batch changes: documents, match relations, the matches in
the outbox, dead letters, suspended subscriptions, and the sequence numbers applied. Documents that
were applied before are dropped, so a batch may be replayed after a crash. If a transaction fails,
memory is rolled back with the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from broker.documents.admitted import Admitted
from broker.documents.arrow import Arrivals
from broker.engine.parts import Parts
from broker.engine.passing import Passing
from broker.engine.search import Search
from broker.engine.suspending import halt_stopped, refuse_known
from broker.engine.transactions import begin, searching
from broker.join.budget import Again
from broker.results.matches import Result, in_order, uncut
from broker.shared_match import SharedMatch


class Batches:
    """The batches of an engine."""

    def __init__(self, parts: Parts, search: Search, passing: Passing) -> None:
        self._parts = parts
        self._search = search
        self._passing = passing

    def apply(self, arrivals: Arrivals, now: int | None, position: int | None) -> list[SharedMatch]:
        """See `Engine.apply`."""
        parts = self._parts
        believed = parts.wall.correct(now)
        again = False
        while True:
            if parts.elsewhere is not None:
                parts.elsewhere.prepare(arrivals)
            parts.joiner.refresh()
            try:
                matches = self._apply(arrivals, believed, now, position, again=again)
                break
            except Again:
                again = True
        parts.limits.commit(now)
        parts.admission.committed()
        parts.clock.lap("commit")
        return matches

    def _apply(
        self,
        arrivals: Arrivals,
        believed: int,
        now: int | None,
        position: int | None,
        *,
        again: bool,
    ) -> list[SharedMatch]:
        """One try to apply a batch. Raises Again; tried again, documents come one by one, so that
        what each of them causes is known before the next one comes."""
        parts, search = self._parts, self._search
        with parts.store.transaction(), searching(parts):
            begin(parts, again, len(arrivals.documents) == 1, believed)
            parts.clock.start()
            held = bool(parts.standings) and parts.admission.history_is_pending()
            admitted = parts.admission.admit(arrivals.documents, believed, now, position)
            parts.clock.lap("admit")
            refuse_known(parts, admitted)
            found: list[Result] = []
            runs = _runs(admitted)
            for group in [runs] if parts.elsewhere is None else parts.elsewhere.begin(runs):
                found += self._group(group, arrivals, now, held=held, again=again)
            if held and not parts.admission.history_is_pending():
                highest = parts.watermark.highest_at(believed)
                found += search.settle_all(parts.admission.next_doc - 1, highest, now)
                halt_stopped(parts, now)
            if parts.elsewhere is not None:
                found = uncut(found, parts.limits)
            matches = in_order(found)
            parts.outbox.post(matches, {a.document.doc for a in admitted if a.revision})
            if parts.elsewhere is not None:
                parts.elsewhere.post()
            self._passing.advance()
            parts.clock.lap("store")
            if parts.work.care is not None:
                parts.work.care.end()
        return matches

    def _group(
        self,
        runs: Sequence[Sequence[Admitted]],
        arrivals: Arrivals,
        now: int | None,
        *,
        held: bool,
        again: bool,
    ) -> list[Result]:
        """The matches that runs of documents complete, here and elsewhere."""
        parts, search = self._parts, self._search
        found: list[Result] = []
        if parts.elsewhere is not None:
            parts.elsewhere.send(runs, arrivals, held=held, again=again)
        for run in runs:
            for piece in self._pieces(run, again):
                found += search.cascade(search.process(piece, arrivals, now, held), now)
                if parts.standings and not piece[-1].revision:
                    highest = parts.standings.settled if held else piece[-1].highest
                    found += search.settle(piece[-1].document.doc, highest, now)
                halt_stopped(parts, now)
        return found + search.received(now)

    def _pieces(self, run: Sequence[Admitted], again: bool) -> Iterable[Sequence[Admitted]]:
        """A run in pieces that are searched at once."""
        if again or (self._parts.standings and self._parts.limits):
            return [[each] for each in run]
        return self._parts.limits.pieces(run)


def _runs(admitted: list[Admitted]) -> list[list[Admitted]]:
    """Cut a batch into runs of new documents and runs of revisions: a revision replaces the stored
    document for all documents that arrive after it."""
    return [list(group) for _, group in groupby(admitted, key=lambda a: a.revision)]
