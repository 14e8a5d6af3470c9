"""From candidates to matches, one for all subscribers that share it, and to the documents that
matches publish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.join.budget import Budget, Pair
from broker.join.candidates import Found, admitted, lengths
from broker.join.work import Work
from broker.model import Match
from broker.results.contents import Contents
from broker.results.publisher import Plans, Publisher, confirmed
from broker.shared_match import SharedMatch
from broker.state.relations import MatchRelations
from broker.state.stored_documents import StoredDocument
from broker.subscriptions.limits import Limits
from feeds.rows import DocumentRow
from xscl.functions.texts import TextTooLong
from xscl.interruption import PENDING, check
from xscl.normal.template import Template


class Result:
    """A match, the numbers of its documents, of the oldest document that it is made of, and of its
    subscriptions; and the pair of its canonical query and the document that completes it."""

    __slots__ = ("base", "docs", "match", "numbers", "pair")

    def __init__(
        self,
        match: SharedMatch,
        docs: tuple[int, ...],
        base: int,
        numbers: Sequence[int],
        pair: Pair,
    ) -> None:
        self.match = match
        self.docs = docs
        self.base = base
        self.numbers = numbers
        self.pair = pair

    @property
    def hidden(self) -> bool:
        """Whether it is a match of a query in another query's FROM, and not for subscribers."""
        return self.numbers[0] < 0


class Making(NamedTuple):
    """What matches are made with; `shapes` are the templates by number."""

    contents: Contents
    plans: Plans
    shapes: Sequence[Template]
    limits: Limits
    budget: Budget


def results(
    making: Making, run: Sequence[StoredDocument], candidates: Sequence[Found]
) -> list[Result]:
    """The matches of the subscribers of each candidate; `run` holds the new documents. Pairs whose
    results are too long are set aside."""
    used = {doc for _, candidate in candidates for doc in candidate.docs}
    limits, budget = making.limits, making.budget
    matched = making.contents.of(used, run)
    publisher = Publisher(making.plans, budget)
    found: list[Result] = []
    shapes, cuts = making.shapes, limits.cuts
    for canonical, candidate in _entered(candidates, budget.work):
        shape = shapes[canonical.template]
        docs = candidate.docs
        documents = [matched[doc] for doc in docs]
        stored = [each.stored for each in documents]
        base = min([each.base for each in stored])
        groups = admitted(canonical, base, lengths(shape, stored))
        if cuts:
            left = [[s for s in group if limits.receives(s.number, docs)] for group in groups]
            groups = [group for group in left if group]
        if not groups:
            continue
        pair = (canonical.number, budget.completing(docs))
        if budget.exceeded and pair in budget.exceeded:
            continue
        try:
            if not confirmed(canonical, shape, candidate, documents):
                continue
        except TextTooLong:
            budget.too_long(pair)
            continue
        gone = budget.too_long_for.get(pair, ()) if budget.too_long_for else ()
        for group in groups:
            numbers = [group[0].number] if len(group) == 1 else [s.number for s in group]
            if numbers[0] in gone:
                continue
            try:
                match = publisher.match(group, shape, candidate, documents)
                found.append(Result(match, docs, base, numbers, pair))
            except TextTooLong:
                budget.too_long(pair, canonical.with_delivery(group[0].delivery))
                gone = budget.too_long_for[pair]
    return without_set_aside(found, budget)


def _entered(candidates: Sequence[Found], work: Work) -> Iterator[Found]:
    """The candidates one after the other; with care, those of each query together."""
    is_careful = work.care is not None
    if is_careful:
        candidates = sorted(candidates, key=lambda each: each[0].number)
    for found in candidates:
        if PENDING:
            check()
        if is_careful:
            work.enter((found[0].name, found[0].name))
        yield found
    if is_careful:
        work.leave()


def without_set_aside(found: list[Result], budget: Budget) -> list[Result]:
    """The matches of pairs that are not set aside."""
    gone, some = budget.exceeded, budget.too_long_for
    if not gone and not some:
        return found
    return [
        each
        for each in found
        if each.pair not in gone and each.numbers[0] not in some.get(each.pair, ())
    ]


def uncut(found: list[Result], limits: Limits) -> list[Result]:
    """The matches without those that are beyond a limit."""
    if not limits.cuts:
        return found
    left = [_without_cut(each, limits) for each in found]
    return [each for each in left if each is not None]


def _without_cut(found: Result, limits: Limits) -> Result | None:
    """A match for those of its subscribers that are not beyond their limit."""
    places = [i for i, n in enumerate(found.numbers) if limits.receives(n, found.docs)]
    if not places:
        return None
    numbers = [found.numbers[i] for i in places]
    return Result(found.match.only(places), found.docs, found.base, numbers, found.pair)


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
