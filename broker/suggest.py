"""Joins that the documents of streams suggest, each with a query that is ready to be subscribed.

In: the catalogue of streams. Out: suggestions, best first. What the values of a sample promise is
verified: the queries run over the documents of the sample, as they would run over the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xscl
from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.engine import Engine
from broker.model import Limit
from broker.query.prepared import compile_query
from broker.state.store import Store
from broker.state.stream_counts import Sampled
from broker.statistics.joins import Joinable, Met, Place, Sample, joinable, parsed_sample
from broker.statistics.streams import StreamCatalogue, parsed
from feeds.rows import DocumentRow
from xscl.syntax.durations import format_microseconds

SAMPLE = 2_000
"""Documents of each stream that are looked at."""

_TRIED = 2
"""For each suggestion that is wanted, how many are verified."""
_STREAMS = 8
"""Streams in which partners of a document are looked for, the largest ones."""
_GLANCE = 50
"""Documents by which it is seen that a stream is contained in another."""
_MOST_MATCHES = 10_000
"""Matches of a query in the sample, after which it is given up: it is not selective."""
_HOUR = 3_600 * 1_000_000
_WINDOWS = tuple(_HOUR * hours for hours in (1, 6, 24, 48, 168, 720, 2_160, 8_760))
"""Windows that a query may have, in microseconds."""
_ALWAYS = 1 << 61
"""A lateness beyond any sample."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A join that documents suggest. `query` is its text; over the sample it found `matches`, whose
    documents are `documents` of the `sampled` ones; `values` met. `window` is in microseconds.
    The higher the `score`, the better. `partners` are the ids of those that it joined with the
    document that was asked about."""

    id: str
    query: str
    left: Place
    right: Place
    values: int
    matches: int
    documents: int
    sampled: int
    window: int
    score: float
    partners: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The suggestion as the API and the command show it."""
        return {
            "id": self.id,
            "query": self.query,
            "left": self.left._asdict(),
            "right": self.right._asdict(),
            "values": self.values,
            "matches": self.matches,
            "documents": self.documents,
            "sampled": self.sampled,
            "partners": [*self.partners],
        }


def suggest(catalogue: StreamCatalogue, streams: Sequence[str], most: int) -> list[Suggestion]:
    """At most `most` joins within a stream, or between several streams. Those that match nothing in
    the sample are left out."""
    found = {name: catalogue.sample(name, SAMPLE) for name in dict.fromkeys(streams)}
    pairs = joinable(_samples(found), most * _TRIED)
    return _suggested(pairs, found, None)[:most]


def suggest_for(
    catalogue: StreamCatalogue, document: Sampled, streams: Sequence[str], most: int
) -> list[Suggestion]:
    """At most `most` joins of a stored document with others of these streams, best first. Each
    stream is looked at in a sample, and near the document in time."""
    own, rest = _without_copies(catalogue, document, streams)
    found: list[Suggestion] = []
    for name in dict.fromkeys([own, *rest]):
        looked = {each: _around(catalogue, each, document) for each in dict.fromkeys([own, name])}
        pairs = joinable(_samples(looked), most * _TRIED, least=1, of=document.doc)
        found += _suggested(pairs, looked, document)
    found.sort(key=lambda each: -each.score)
    return _distinct(found)[:most]


def _without_copies(
    catalogue: StreamCatalogue, document: Sampled, streams: Sequence[str]
) -> tuple[str, list[str]]:
    """The largest stream of a document, and those of the others that are not contained in one
    before them: the items of a feed are all in S."""
    counts = {each.name: each.documents for each in catalogue.streams()}
    ordered = sorted([s for s in streams if s in counts], key=lambda name: -counts[name])
    own = next((name for name in ordered if name in document.streams), document.streams[0])
    kept = [own]
    for name in ordered[:_STREAMS]:
        contained = all({*each.streams} & {*kept} for each in catalogue.sample(name, _GLANCE))
        if name != own and not contained:
            kept.append(name)
    return own, kept[1:]


def _around(catalogue: StreamCatalogue, stream: str, document: Sampled) -> list[Sampled]:
    """A sample of a stream, its documents near another in time, and that itself if it is there."""
    near = catalogue.near(stream, document.end, SAMPLE)
    own = [document] if stream in document.streams else []
    found = {each.doc: each for each in (*catalogue.sample(stream, SAMPLE), *near, *own)}
    return [found[doc] for doc in sorted(found)]


def _distinct(found: list[Suggestion]) -> list[Suggestion]:
    """Each with a name of its own, so that all can be kept in one file."""
    ids: Counter[str] = Counter()
    kept = []
    for each in found:
        ids[each.id] += 1
        if ids[each.id] > 1:
            id = f"{each.id}-{ids[each.id]}"
            each = replace(each, id=id, query=each.query.replace(f"{each.id}:", f"{id}:", 1))
        kept.append(each)
    return kept


def _samples(found: Mapping[str, list[Sampled]]) -> list[Sample]:
    met = {each.doc: Met(each.source, each.end) for sample in found.values() for each in sample}
    return [parsed_sample(name, parsed(sample), met) for name, sample in found.items()]


def _suggested(
    pairs: Sequence[Joinable], found: Mapping[str, list[Sampled]], about: Sampled | None
) -> list[Suggestion]:
    """The pairs as queries that have been tried, without those that match nothing; if a document is
    asked about, nothing of it."""
    documents = {each.doc: each for sample in found.values() for each in sample}
    feeds = {name for name, sample in found.items() if any(map(_of_feed, sample))}
    ids: Counter[str] = Counter()
    texts = [(pair, *_query(pair, feeds, ids)) for pair in pairs]
    tried = _tried([text for *_, text in texts], [documents[doc] for doc in sorted(documents)])
    suggestions = []
    for pair, id, text in texts:
        matches = tried.get(id, [])
        partners: tuple[str, ...] = ()
        if about is not None:
            matched = {doc for match in matches if about.doc in match for doc in match}
            partners = tuple([documents[doc].id for doc in sorted(matched - {about.doc})])
        if matches and (about is None or partners):
            having = {doc for match in matches for doc in match}
            suggestions.append(
                Suggestion(
                    *(id, text, pair.left, pair.right, pair.values, len(matches), len(having)),
                    *(len(documents), _window(pair), pair.score, partners),
                )
            )
    return suggestions


def _of_feed(document: Sampled) -> bool:
    return b"channel_title" in document.xml


def _query(pair: Joinable, feeds: set[str], ids: Counter[str]) -> tuple[str, str]:
    """The id and the text of the query of a pair."""
    left, right = pair.left, pair.right
    names = [_name(place.path) for place in (left, right)]
    id = f"same-{names[0]}" if names[0] == names[1] else f"{names[0]}-{names[1]}"
    ids[id] += 1
    if ids[id] > 1:
        id = f"{id}-{ids[id]}"
    apart = pair.across and {left.stream, right.stream} <= feeds
    sides = [_block(place, name, apart) for place, name in ((left, "a"), (right, "b"))]
    condition = "a = b AND site_a != site_b" if apart else "a = b"
    # In any order, except where each pair would be found twice; a feed and its copy have one time.
    operator = "FOLLOWED BY" if left == right and not pair.together else "JOIN"
    window = format_microseconds(_window(pair))
    return id, f"{id}:\n  {sides[0]}\n  {operator} {{{condition}, {window}}}\n  {sides[1]}"


def _block(place: Place, variable: str, apart: bool) -> str:
    root, *below = place.path.split("/")[1:]
    site = f"[./channel_title->site_{variable}]" if apart else ""
    return f"{place.stream}//{root}[./{'/'.join(below)}->{variable}]{site}"


def _name(path: str) -> str:
    return path.rpartition("/")[2].removeprefix("@")


def _window(pair: Joinable) -> int:
    """The window of a pair's query: most partners are within it."""
    return next((window for window in _WINDOWS if window >= pair.gap), _WINDOWS[-1])


def _tried(texts: Sequence[str], documents: list[Sampled]) -> dict[str, list[tuple[int, ...]]]:
    """The matches of each query among the documents, by its id, as the numbers of their documents.
    Queries without matches, or with too many, are left out."""
    if not texts:
        return {}
    store = Store(None)
    try:
        engine = Engine(store, _ALWAYS, limit=Limit(_MOST_MATCHES, 1e9))
        program = xscl.check([xscl.parse(";\n".join(texts), "suggested")])
        engine.subscribe([compile_query(query) for query in program.queries])
        matches: dict[str, list[tuple[int, ...]]] = {}
        for shared in engine.apply(_arrivals(engine, documents)):
            for match in shared:
                docs = tuple([int(each.id) for each in match.documents])
                matches.setdefault(match.query, []).append(docs)
        halted = engine.registry.halted
        return {id: found for id, found in matches.items() if id not in halted}
    finally:
        store.close()


def _arrivals(engine: Engine, documents: list[Sampled]) -> Arrivals:
    rows = []
    for each in documents:
        id = str(each.doc)
        rows.append(DocumentRow(id, id, each.streams, each.end, True, None, False, each.xml))
    return arrivals(engine.matcher, rows)
