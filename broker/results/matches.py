"""From candidates to matches, one for all subscribers that share it, and to the documents that
matches publish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.join.candidates import Found, admitted, lengths
from broker.model import Match
from broker.results.contents import Contents
from broker.results.publisher import Plans, Publisher, confirmed
from broker.shared_match import SharedMatch
from broker.state.relations import MatchRelations, StoredDocument
from broker.subscriptions.limits import Limits
from feeds.rows import DocumentRow
from xscl.normal.template import Template


class Result(NamedTuple):
    """A match, the numbers of its documents, of the oldest document that it is made of, and of its
    subscriptions."""

    match: SharedMatch
    docs: tuple[int, ...]
    base: int
    numbers: Sequence[int]

    @property
    def hidden(self) -> bool:
        """Whether it is a match of a query in another query's FROM, and not for subscribers."""
        return self.numbers[0] < 0


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
        docs = candidate.docs
        documents = [matched[doc] for doc in docs]
        stored = [each.stored for each in documents]
        base, lasting = min([each.base for each in stored]), lengths(shape, stored)
        groups = admitted(canonical, base, lasting)
        if limits.cuts:
            left = [[s for s in group if limits.receives(s.number, docs)] for group in groups]
            groups = [group for group in left if group]
        if groups and confirmed(canonical, shape, candidate, documents):
            found += [
                Result(
                    publisher.match(group, shape, candidate, documents),
                    docs,
                    base,
                    [s.number for s in group],
                )
                for group in groups
            ]
    return found


def without_cut(found: Result, limits: Limits) -> Result | None:
    """A match for those of its subscribers that are not beyond their limit."""
    places = [i for i, n in enumerate(found.numbers) if limits.receives(n, found.docs)]
    if not places:
        return None
    numbers = [found.numbers[i] for i in places]
    return found._replace(match=found.match.only(places), numbers=numbers)


class Derived(NamedTuple):
    """A match whose result is a document of a stream; see `Result`."""

    match: Match
    docs: tuple[int, ...]
    base: int


def derived(found: Iterable[Result]) -> list[Derived]:
    """Those matches one by one, in the order in which their results become documents."""
    each = [Derived(match, f.docs, f.base) for f in found for match in f.match]
    each.sort(key=lambda d: (d.match.end_us, d.match.start_us, d.match.id))
    return each


def apart(relations: MatchRelations, candidates: Sequence[Found]) -> list[Found]:
    """The candidates in which no two documents are versions of the same document."""
    docs = {doc for _, candidate in candidates for doc in candidate.docs}
    identity = relations.identities(docs)
    return [
        found
        for found in candidates
        if len({identity[doc] for doc in found[1].docs}) == len(found[1].docs)
    ]


def in_order(found: list[Result]) -> list[SharedMatch]:
    """The matches, for people in the order of their ends, of their documents, and of the nodes in
    those."""
    found.sort(
        key=lambda f: (f.match.end_us, f.match.start_us, f.docs, f.match.nodes, f.numbers[0])
    )
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
