"""From candidates to matches, one for each subscriber, and to the documents that matches
publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.join.candidates import Found, admits, lengths
from broker.model import Match
from broker.results.contents import Contents
from broker.results.publisher import Plans, Publisher, confirmed
from broker.state.relations import MatchRelations, StoredDocument
from broker.subscriptions.limits import Limits
from feeds.rows import DocumentRow
from xscl.normal.template import Template


class Result(NamedTuple):
    """A match, the numbers of its documents, of the oldest document that it is made of, and of its
    subscription."""

    match: Match
    docs: tuple[int, ...]
    base: int
    number: int

    @property
    def hidden(self) -> bool:
        """Whether it is a match of a query in another query's FROM, and not for subscribers."""
        return self.number < 0

    def order(self) -> tuple[int, int, str]:
        return (self.match.end_us, self.match.start_us, self.match.id)


def results(
    contents: Contents,
    plans: Plans,
    shapes: Sequence[Template],
    limits: Limits,
    run: Sequence[StoredDocument],
    candidates: Sequence[Found],
) -> list[Result]:
    """The matches of the subscribers of each candidate; `run` holds the new documents, and `shapes`
    are the templates by number."""
    used = {doc for _, candidate in candidates for doc in candidate.docs}
    matched = contents.of(used, run)
    publisher = Publisher(plans)
    found: list[Result] = []
    for canonical, candidate in candidates:
        shape = shapes[canonical.template]
        documents = [matched[doc] for doc in candidate.docs]
        stored = [each.stored for each in documents]
        base, lasting = min([each.base for each in stored]), lengths(shape, stored)
        wanted = [s for s in canonical.subscribers.values() if admits(s, base, lasting)]
        if limits.cuts:
            wanted = [s for s in wanted if limits.receives(s.number, candidate.docs)]
        if wanted and confirmed(canonical, shape, candidate, documents):
            found += [
                Result(
                    publisher.match(s, shape, candidate, documents), candidate.docs, base, s.number
                )
                for s in wanted
            ]
    return found


def apart(relations: MatchRelations, candidates: Sequence[Found]) -> list[Found]:
    """The candidates in which no two documents are versions of the same document."""
    docs = {doc for _, candidate in candidates for doc in candidate.docs}
    identity = relations.identities(docs)
    return [
        found
        for found in candidates
        if len({identity[doc] for doc in found[1].docs}) == len(found[1].docs)
    ]


def in_order(found: list[Result]) -> list[Match]:
    """The matches, for people in the order of their ends, of their documents, and of the nodes in
    those."""
    found.sort(key=lambda f: (f.match.end_us, f.match.start_us, f.docs, f.match.nodes, f.number))
    return [f.match for f in found]


def as_document(match: Match) -> DocumentRow:
    """The result of a match as a document of the stream that its query publishes."""
    assert match.stream is not None
    return DocumentRow(
        source=match.stream,
        id=match.id,
        streams=(match.stream,),
        timestamp=match.end_us,
        dated=True,
        seq=None,
        revision=False,
        xml=match.result.encode("utf-8"),
        error=None,
        place=f"{match.query}/{match.id}",
    )
