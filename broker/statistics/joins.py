"""Pairs of label paths whose values meet, between documents of streams: what could be joined.

In: samples of the documents of streams, with their sources. Out: the pairs, best first. A pair is
good if many documents have a partner, and each has few: the address of a page, not the name of a
channel. Values that meet by chance, as small numbers do, are told apart by how much of one side is
contained in the other, and by what the paths are called.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import NamedTuple

from lxml import etree

from broker.statistics.values import PathValues, values_of

_PATHS = 24
"""Label paths that may share a value; what more have, such as an empty flag, joins nothing."""
_GAPS = 200
"""Documents with a partner whose distance in time is looked at, for each pair of paths."""
_LEAST = 2
"""Values that meet in two paths, at least."""
_PARTNERS = 30
"""Partners of a document, on average, beyond which a pair is no join that anybody wants."""
_CONTAINED = 0.95
"""Share of one side's values that the other side has, from which on that is no chance."""
_NUMBERED = 0.1
"""By how much a pair is worse where both sides count documents: 1, 2, 3 are in each of them."""
_NAMES = 2.0
"""By how much a pair is better for each word that the names of both sides have in common."""


class Place(NamedTuple):
    """A label path of a stream."""

    stream: str
    path: str


class Met(NamedTuple):
    """A document of a sample: its source, and when it ended (microseconds)."""

    source: str
    end: int


@dataclass(slots=True)
class Joinable:
    """Two places whose values meet. `values` do, in `documents` of the two samples; `partners` is
    how many a document has on average, on the side where they are more. `gap` is the distance in
    time (microseconds) within which most partners are; `together`: most are at the same time.
    `across`: only partners of other sources were counted."""

    left: Place
    right: Place
    across: bool
    values: int = 0
    documents: int = 0
    partners: float = 0.0
    gap: int = 0
    together: bool = False
    score: float = 0.0


@dataclass(slots=True)
class _Tally:
    values: int = 0
    pairs: int = 0
    left: int = 0
    right: int = 0
    gaps: list[int] = field(default_factory=list)
    meeting: dict[int, int] = field(default_factory=dict)
    """Of a document that is asked about: how near in time the nearest of its partners is."""


class Sample(NamedTuple):
    """The documents of a stream, by number: each parsed, and its source and time."""

    stream: str
    roots: Mapping[int, etree._Element]
    met: Mapping[int, Met]


def joinable(
    samples: Sequence[Sample], most: int, least: int = _LEAST, of: int | None = None
) -> list[Joinable]:
    """At most `most` pairs of places where `least` values meet, best first; with `of` only those
    where the values of the document of this number meet those of others."""
    met: dict[int, Met] = {}
    places: dict[Place, PathValues] = {}
    by_value: dict[int, list[Place]] = defaultdict(list)
    for sample in samples:
        met.update(sample.met)
        for path, values in values_of(sample.roots.items()).paths.items():
            if path.count("/") > 1 and values.docs:
                place = Place(sample.stream, path)
                places[place] = values
                for code in values.docs:
                    by_value[code].append(place)
    streams = {sample.stream for sample in samples}
    sources = {each.source for each in met.values()}
    # The feeds of one stream tell each other's stories; the tables of a dump are one source.
    across = len(streams) == 1 and len(sources) > 1
    tallies: dict[tuple[Place, Place], _Tally] = defaultdict(_Tally)
    for code, having in by_value.items():
        if len(having) > _PATHS:
            continue
        for left, right in combinations_with_replacement(having, 2):
            if len(streams) > 1 and left.stream == right.stream:
                continue
            docs = places[left].docs[code], places[right].docs[code]
            _count(tallies[left, right], *docs, met, across)
            if of is not None:
                _note(tallies[left, right], of, *docs, met, across)
    found = [
        _joinable(pair, tally, places, across)
        for pair, tally in tallies.items()
        if tally.values >= least
        and tally.pairs <= _PARTNERS * min(tally.left, tally.right)
        and (of is None or of in tally.meeting)
    ]
    found.sort(key=lambda each: (-each.score, each.left, each.right))
    return found[:most]


def _count(
    tally: _Tally, left: list[int], right: list[int], met: Mapping[int, Met], across: bool
) -> None:
    """Count a value that the documents `left` and `right` have."""
    partners, others = _partners(left, right, met, across), _partners(right, left, met, across)
    pairs = sum(partners.values())
    if not pairs:
        return
    tally.values += 1
    tally.pairs += pairs
    tally.left += sum(1 for count in partners.values() if count)
    tally.right += sum(1 for count in others.values() if count)
    for doc in left[: _GAPS - len(tally.gaps)]:
        near = [
            abs(met[doc].end - met[other].end)
            for other in right[:_GAPS]
            if other != doc and not (across and met[doc].source == met[other].source)
        ]
        tally.gaps += [min(near)] if near else []


def _note(
    tally: _Tally, of: int, left: list[int], right: list[int], met: Mapping[int, Met], across: bool
) -> None:
    """Note how near the partners of a document are that have a value with it in common."""
    for docs, others in ((left, right), (right, left)):
        if of in docs:
            for other in others:
                if other != of and not (across and met[of].source == met[other].source):
                    gap = abs(met[of].end - met[other].end)
                    tally.meeting[of] = min(gap, tally.meeting.get(of, gap))


def _partners(
    docs: list[int], others: list[int], met: Mapping[int, Met], across: bool
) -> dict[int, int]:
    """How many partners each document has among the others."""
    if not across:
        there = set(others)
        return {doc: len(others) - (doc in there) for doc in docs}
    of_source: dict[str, int] = defaultdict(int)
    for other in others:
        of_source[met[other].source] += 1
    return {doc: len(others) - of_source[met[doc].source] for doc in docs}


def _joinable(
    pair: tuple[Place, Place],
    tally: _Tally,
    places: Mapping[Place, PathValues],
    across: bool,
) -> Joinable:
    left, right = pair
    partners = tally.pairs / min(tally.left, tally.right)
    distinct = min(len(places[left].docs), len(places[right].docs))
    contained = tally.values / distinct
    # A value that stands alone on one side is a key there, so it means one thing.
    score = tally.values * contained**2 / partners**0.5 * _NAMES ** len(_common(left, right))
    named = left.path.rpartition("/")[2] == right.path.rpartition("/")[2]
    numbered = left != right and all(map(_numbered, (places[left], places[right])))
    if numbered and (named or contained < _CONTAINED):
        score *= _NUMBERED
    gaps = sorted(tally.gaps)
    gap = max([gaps[len(gaps) * 9 // 10] if gaps else 0, *tally.meeting.values()])
    documents = tally.left if left == right else tally.left + tally.right
    together = bool(gaps) and not gaps[len(gaps) // 2]
    return Joinable(*(left, right, across, tally.values, documents, partners, gap, together, score))


def _numbered(values: PathValues) -> bool:
    """Whether the values are numbers that count the documents of a stream, each one its own."""
    digits = sum(map(str.isdigit, values.shown.values()))
    return len(values.docs) == values.documents and digits > 0.9 * len(values.shown)


def _common(left: Place, right: Place) -> set[str]:
    """The words that the names of two places have in common; those of their streams too, if they
    are different ones: PostId of a comment is the Id of Posts."""
    sides = [left.path.rpartition("/")[2], right.path.rpartition("/")[2]]
    if left.stream != right.stream:
        sides = [f"{left.stream}_{sides[0]}", f"{right.stream}_{sides[1]}"]
    words = [{_word(each) for each in _WORDS.findall(side)} for side in sides]
    return words[0] & words[1]


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""The words of a name: Owner, User, Id of @OwnerUserId."""


def _word(text: str) -> str:
    """A word in lower case, and in the singular."""
    lower = text.lower()
    return lower.removesuffix("s") if len(lower) > 3 else lower


def parsed_sample(
    stream: str, documents: Iterable[tuple[int, etree._Element]], met: Mapping[int, Met]
) -> Sample:
    """A sample of parsed documents."""
    roots = dict(documents)
    return Sample(stream, roots, {doc: met[doc] for doc in roots})
