"""From documents that are admitted to the matches that they complete, within a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from broker.documents.admitted import (
    Admitted,
    document_key,
    numbered,
    stored_documents,
    witness_rows,
)
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals as witnessed
from broker.engine.parts import Parts
from broker.engine.suspending import halt_stopped, report_set_aside
from broker.results.matches import (
    Derived,
    Making,
    Result,
    apart,
    as_document,
    derived,
    results,
    uncut,
)
from broker.state.stored_documents import StoredDocument
from broker.subscriptions.witnessing import with_care
from feeds.rows import DocumentRow


class Search:
    """The search of an engine."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def witnessed(self, rows: Sequence[DocumentRow]) -> Arrivals:
        """Stage 1 in this process."""
        parts = self._parts
        if parts.work.care is None:
            return witnessed(parts.matcher, rows)
        return with_care(parts.matcher, parts.catalog, parts.work, rows)

    def process(
        self, run: Sequence[Admitted], arrivals: Arrivals, now: int | None, held: bool = False
    ) -> list[Result]:
        """Insert a run of new documents and find its matches, or replace a run of revised ones.
        `held`: time stands still for event patterns, so nothing is late for them."""
        parts = self._parts
        documents, rows = stored_documents(run), witness_rows(run, arrivals.rows)
        revised = [a.document.doc for a in run if a.revision]
        if revised:
            parts.contents.forget(revised)
            parts.relations.delete(revised)
        elif arrivals.texts:
            parts.contents.add(documents, [arrivals.texts[a.position] for a in run])
        parts.relations.insert(documents, rows, self._outlines(run, arrivals))
        parts.clock.lap("store")
        if revised:
            parts.joiner.replace(revised, rows)
            if parts.standings:
                parts.standings.replace(parts.joiner.of_one(rows), documents)
            return []
        seen: dict[int, int] = {}
        if parts.standings:
            settled = parts.standings.settled
            late: list[tuple[int, int, int]] = []
            for _, document, _, highest in run:
                doc, end = document.doc, document.end
                if document.base == doc:
                    seen[doc] = at = settled if held or highest < settled else highest
                    if end < at:
                        late.append((doc, end, at))
            if late:
                parts.standings.note(late)
        return self.evaluate(documents, rows, now, seen)

    def _outlines(self, run: Sequence[Admitted], arrivals: Arrivals) -> list[int]:
        """The outlines of a run's documents, in order of `stored_documents`."""
        last = {a.document.doc: a for a in run}.values()
        return self._parts.outlines.keep(
            [(arrivals.outlines[a.position], a.document.source) for a in last]
        )

    def evaluate(
        self,
        documents: Sequence[StoredDocument],
        rows: pa.Table,
        now: int | None,
        seen: Mapping[int, int],
    ) -> list[Result]:
        """The matches that new documents, whose witness rows these are, complete. `seen` is the
        highest time when each of those came that are not made of results."""
        parts = self._parts
        limits, templates = parts.limits, parts.joiner.templates
        tapping = parts.standings.tapping()
        found_here = parts.joiner.candidates(rows, tapping)
        candidates = parts.standings.take(found_here, documents, seen, tapping)
        parts.budget.check()
        if candidates and parts.relations.versioned:
            candidates = apart(parts.relations, candidates)
        searched = len(candidates)
        parts.clock.lap("join")
        report_set_aside(parts, now)
        if limits and candidates:
            limits.find_exceeded(candidates, templates.shapes, parts.relations.intervals, now)
            limits.stop_outer_queries(parts.catalog)
        if limits.cuts:
            candidates = limits.wanted(candidates)
        found: list[Result] = []
        if candidates:
            making = Making(parts.contents, parts.plans, templates.shapes, limits, parts.budget)
            found = results(making, documents, candidates)
            parts.budget.check()
            if report_set_aside(parts, now):
                found = uncut(found, limits)
        limits.count(len(documents), searched, [n for f in found for n in f.numbers])
        parts.clock.lap("publish")
        return found

    def cascade(self, found: list[Result], now: int | None) -> list[Result]:
        """The given matches, and those that their results complete as documents of the streams
        that they are published to."""
        parts = self._parts
        complete: list[Result] = []
        while found:
            complete += [f for f in found if not f.hidden]
            flowing = self._flowing(found)
            if not flowing:
                break
            published = self.witnessed([as_document(f.match) for f in flowing])
            run: list[Admitted] = []
            for position, (f, row) in enumerate(zip(flowing, published.documents, strict=True)):
                doc = parts.admission.allocate_number()
                if row.error is not None:
                    parts.letter_table.add([(row, row.error)], now)
                    continue
                parts.limits.derive(doc, f.docs)
                parts.budget.derive(doc, f.docs)
                key = document_key(row.source, row.id)
                start = f.match.start_us
                if parts.catalog.makes_points(row.source):
                    start = f.match.end_us
                document = numbered(row, key, doc, f.base, start)
                run.append(Admitted(position, document))
            if run and parts.elsewhere is not None:
                parts.elsewhere.add(run, published)
            believed = parts.wall.believed()
            ahead = [each.document.doc for each in run if each.document.end > believed]
            parts.admission.postdated.add(ahead, believed)
            found = self.process(run, published, now) if run else []
        # Matches of derived documents count towards the limit of the document that caused them, so
        # only now is it known which results are beyond a limit.
        return uncut(complete, parts.limits)

    def _flowing(self, found: list[Result]) -> list[Derived]:
        """Those of the matches whose results become documents. Raises Again if one document would
        become too many."""
        budget, read = self._parts.budget, self._parts.catalog.read
        flowing = [f for f in found if f.match.stream is not None and read[f.match.stream]]
        for f in flowing:
            budget.become(f.pair, len(f.numbers))
        budget.check()
        return derived(flowing)

    def received(self, now: int | None) -> list[Result]:
        """What is found elsewhere, round by round, and what its results complete here."""
        elsewhere = self._parts.elsewhere
        found: list[Result] = []
        while elsewhere is not None and elsewhere.waits:
            found += self.cascade(elsewhere.receive(now), now)
            halt_stopped(self._parts, now)
        return found

    def settle_all(self, doc: int, highest: int, now: int | None) -> list[Result]:
        """The same as `settle`, and elsewhere too."""
        if self._parts.elsewhere is not None:
            self._parts.elsewhere.settle(doc, highest)
        found = self.settle(doc, highest, now)
        return found + self.received(now)

    def settle(self, doc: int, highest: int, now: int | None) -> list[Result]:
        """The matches of event patterns that are decided at this highest time, after document
        number `doc`, and what their results complete."""
        found: list[Result] = []
        cuts = self._parts.limits.cuts
        for made in self._parts.deciding.results(doc, highest, now):
            found += self.cascade(made, now) if cuts or any(map(_flows, made)) else made
        self._parts.clock.lap("patterns")
        return found


def _flows(found: Result) -> bool:
    """Whether a match is more than one for subscribers who are given it."""
    return found.match.stream is not None or found.hidden
