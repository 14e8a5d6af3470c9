"""Runs one case with the engine and with the oracle, and gives their differences.

An answer is, per event of the case, the sorted matches that it brought, in the oracle's form; and
the documents that were kept aside as dead letters.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from lxml import etree

import xscl
from broker import Broker, Document
from broker.join.frequent import Sizes
from broker.model import Match
from broker.shared_match import each_match
from tests.oracle.generate import Batch, Case, Event, Subscribe
from tests.oracle.generate_hard import Restart
from tests.oracle.matches import Found, derived_id
from tests.oracle.oracle import Arrival, Oracle
from tests.oracle.trees import canonical
from tests.properties.reduce import reduce
from xscl.check.patterns import holds_pattern

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Answer:
    """`dead` are the dead letters as (source, id), sorted."""

    matches: list[list[Found]]
    dead: list[tuple[str, str]]


@lru_cache(maxsize=1)
def expected(case: Case) -> Answer:
    """The results of the oracle, which tests ask for again to count them."""
    oracle = Oracle(case.lateness)
    answer: list[list[Found]] = []
    patterns: set[str] = set()
    for event in case.events:
        answer.append([])
        if isinstance(event, Subscribe):
            for query in xscl.check([xscl.parse(event.text)]).queries:
                oracle.subscribe(query)
                if holds_pattern(query.query):
                    patterns.add(query.id)
        elif isinstance(event, Batch):
            found = [
                replace(each, values=(), reported=frozenset()) if each.query in patterns else each
                for each in oracle.process(event.documents)
            ]
            answer[-1] = sorted(found, key=repr)
        else:
            oracle.unsubscribe(event.id)
    # The same bytes kept aside twice, as a replay brings them, are kept once.
    kept = {(arrival.key, arrival.xml): None for arrival in oracle.dead}
    return Answer(answer, sorted(key for key, _ in kept))


Opening = Callable[[Case, Path | None], Broker]
"""Opens the broker of a case over a state directory, or in memory."""


def one_machine(case: Case, state: Path | None) -> Broker:
    broker = Broker(state, lateness=case.lateness / 10**6, memory=case.memory)
    _bound(broker, case)
    return broker


def _bound(broker: Broker, case: Case) -> None:
    broker.engine.joiner.sizes = Sizes(case.hot, {2: 64, 3: 2}.get(case.hot, 1))
    broker.engine.joiner.reset()


def observed(
    case: Case,
    restart_before: Callable[[int], bool] | None = None,
    opening: Opening = one_machine,
) -> Answer:
    """What the engine says, under the case's bounds of its index. Where values are hot late, few
    lists in common are kept, and documents expire seldom. It is closed and opened again before each
    `Restart`, and before the events that `restart_before` names by their number: a fourth of the
    cases over a directory, as all with another `opening`, the others over tables in memory, which
    are read in the same way and take half the time."""

    def restarts(number: int) -> bool:
        return isinstance(case.events[number], Restart) or (
            restart_before is not None and restart_before(number)
        )

    stays = restart_before is None and not any(isinstance(e, Restart) for e in case.events)
    in_memory = opening is one_machine and crc32(repr(case.events).encode()) % 4
    if stays or in_memory:
        return _observed(case, None, restarts, opening)
    with tempfile.TemporaryDirectory() as state:
        return _observed(case, Path(state) / "state", restarts, opening)


def _observed(
    case: Case, state: Path | None, restart_before: Callable[[int], bool], opening: Opening
) -> Answer:
    answer: list[list[Found]] = []
    seen: set[str] = set()
    batches = [event for event in case.events if isinstance(event, Batch)]
    names = Names({name for batch in batches for d in batch.documents for name in d.streams})
    broker = _opened(case, state, names, opening)
    try:
        for number, event in enumerate(case.events):
            if restart_before(number):
                if state is None:
                    _reopened(broker, case, names)
                else:
                    broker.close()
                    broker = _opened(case, state, names, opening)
            matches, ids = _put(broker, event, names)
            repeated = seen.intersection(ids)
            assert not repeated, f"published again: {repeated}"
            assert len(set(ids)) == len(ids), f"published twice: {ids}"
            seen.update(ids)
            answer.append(matches)
        return Answer(answer, sorted((dead.source, dead.id) for dead in broker.dead_letters()))
    finally:
        broker.close()


def _opened(case: Case, state: Path | None, names: Names, opening: Opening) -> Broker:
    broker = opening(case, state)
    broker.engine.expiry_every = case.hot
    names.listen(broker)
    return broker


def _reopened(broker: Broker, case: Case, names: Names) -> None:
    """As the engine does when DuckDB has given up: over a new connection, with all that it holds
    built again from the tables."""
    broker.engine.store.broken = True
    broker.engine.ready()
    _bound(broker, case)
    names.listen(broker)


class Names:
    """What the documents that the engine derives are made of.

    It gives their matches as ids that say nothing, and of nested queries nobody hears; so this
    listens to the engine, and calls each as the oracle does. `streams` are those of documents that
    are not derived.
    """

    def __init__(self, streams: Set[str]) -> None:
        self.streams = streams
        self.derived: dict[str, tuple[str, str | None]] = {}  # id: name and stream

    def listen(self, broker: Broker) -> None:
        engine = broker.engine

        def recorded(make: Callable[..., Any]) -> Callable[..., Any]:
            def listening(*args: Any) -> Any:
                found = make(*args)
                for match in each_match(each.match for each in found):
                    self.derived[match.id] = (self.name(match), match.stream)
                return found

            return listening

        engine.search.process = recorded(engine.search.process)  # type: ignore[method-assign]
        if (shards := engine.elsewhere) is not None:
            shards.receive = recorded(shards.receive)  # type: ignore[method-assign]
        engine.deciding.of_pattern = recorded(engine.deciding.of_pattern)  # type: ignore[method-assign]

    def name(self, match: Match) -> str:
        return derived_id(match.query, (self.of(d.id) for d in match.documents), match.nodes)

    def of(self, document: str) -> str:
        return self.derived[document][0] if document in self.derived else document

    def documents(self, match: Match) -> tuple[Any, ...]:
        """The documents of a match with their times; of an event pattern by block."""
        each = [(self.of(ref.id), ref.timestamp_us) for ref in match.documents]

        def block(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(map(block, part))
            return None if part is None else each[part]

        return tuple(each) if match.blocks is None else tuple(map(block, match.blocks))

    def check(self, match: Match) -> None:
        """The streams of a match's documents are theirs."""
        for ref in match.documents:
            known = self.derived.get(ref.id)
            assert ref.stream in self.streams if known is None else ref.stream == known[1], ref


def _put(broker: Broker, event: Event, names: Names) -> tuple[list[Found], list[str]]:
    if isinstance(event, Subscribe):
        broker.subscribe(event.text)
        return [], []
    if not isinstance(event, Batch):
        broker.unsubscribe(event.id)
        return [], []
    matches = broker.process([_document(arrival) for arrival in event.documents])
    for match in matches:
        names.check(match)
    found = [
        Found(
            match.query,
            names.documents(match),
            match.nodes,
            match.start_us,
            match.end_us,
            _values(match),
            canonical(etree.fromstring(match.result)),
        )
        for match in matches
    ]
    return sorted(found, key=repr), [match.id for match in matches]


def _values(match: Match) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The values of a match, but of event patterns, of which the oracle says none."""
    if match.blocks is not None:
        return ()
    return tuple((name, tuple(sorted(match.values[name]))) for name in sorted(match.values))


def _document(arrival: Arrival) -> Document:
    return Document(
        arrival.id,
        stream=arrival.streams,
        timestamp=EPOCH + timedelta(microseconds=arrival.timestamp),
        xml=arrival.xml,
        source=arrival.source,
        seq=arrival.seq,
        revision=arrival.revision,
    )


def comparable(wanted: Answer, got: Answer) -> tuple[Answer, Answer]:
    """Both answers with the values that both have to have: those that join or are selected.

    The engine may say more: values of paths (`x1/author`), of variables in other predicates. Where
    it speaks of a variable, it has to be right.
    """
    named = {_key(m): {name for name, _ in m.values} for found in got.matches for m in found}
    kept = [
        [_only(m, m.reported | named.get(_key(m), frozenset())) for m in found]
        for found in wanted.matches
    ]
    bare = [[_only(m, {n for n, _ in m.values if "/" not in n}) for m in ms] for ms in got.matches]
    return Answer(kept, wanted.dead), Answer(bare, got.dead)


def _key(match: Found) -> Found:
    return replace(match, values=(), result="")


def _only(match: Found, names: Set[str]) -> Found:
    return replace(match, values=tuple(pair for pair in match.values if pair[0] in names))


def difference(case: Case, wanted: Answer, got: Answer) -> str | None:
    """None if the results are the same; else the case and the smallest difference."""
    wanted, got = comparable(wanted, got)
    if wanted == got:
        return None
    lines = [f"lateness: {case.lateness} us"]
    for event, want, have in zip(case.events, wanted.matches, got.matches, strict=True):
        if isinstance(event, Batch):
            lines.append("batch:")
            lines += [f"  {document}" for document in event.documents]
        else:
            lines.append(
                f"subscribe:\n{event.text}" if isinstance(event, Subscribe) else str(event)
            )
        lines += _listed("both:       ", [match for match in want if match in have])
        lines += _listed("ORACLE ONLY:", [match for match in want if match not in have])
        lines += _listed("ENGINE ONLY:", [match for match in have if match not in want])
        if want != have and set(want) == set(have):
            lines.append("  the same matches, but not as often")
    if wanted.dead != got.dead:
        lines.append(f"dead letters: the oracle's {wanted.dead}, the engine's {got.dead}")
    return "\n".join(lines)


def _listed(label: str, matches: list[Found], most: int = 6) -> list[str]:
    lines = [f"  {label} {match}" for match in matches[:most]]
    lines += [f"    result {match.result}" for match in matches[:1] if "ONLY" in label]
    return lines + ([f"    and {len(matches) - most} more"] if len(matches) > most else [])


def flat(answer: Answer) -> list[Found]:
    """All matches, without the events that brought them."""
    return sorted((match for found in answer.matches for match in found), key=repr)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """`kind` tells failures apart while one is being reduced; `text` is for people."""

    kind: str
    text: str


def disagreement(case: Case) -> Disagreement | None:
    """The difference between engine and oracle, or how either of them failed."""
    side = "oracle"
    try:
        wanted = expected(case)
        side = "engine"
        got = observed(case)
        found = difference(case, wanted, got)
    except xscl.XsclError as error:
        codes = ",".join(sorted({d.code for d in error.diagnostics}))
        return Disagreement(f"refused {codes}", f"{case}\nthe {side} refuses a query: {error}")
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-4:])
        kind = f"{side} raised {type(error).__name__}"
        return Disagreement(kind, f"{case}\n{kind}: {trace}")
    if found is None:
        return None
    same = [[_key(m) for m in ms] for ms in wanted.matches] == [
        [_key(m) for m in ms] for ms in got.matches
    ]
    return Disagreement("differs in values or results" if same else "differs", found)


def reduced(case: Case, trials: int) -> str:
    """A failing case as a text, made as small as `trials` allow while it fails alike."""
    first = disagreement(case)
    assert first is not None

    def alike(smaller: Case) -> bool:
        found = disagreement(smaller)
        return found is not None and found.kind == first.kind

    found = disagreement(reduce(case, alike, trials))
    assert found is not None
    return found.text
