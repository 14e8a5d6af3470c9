"""Runs a case with the engine and with the oracle, and gives the results in the form of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

from lxml import etree

from tests.cases.reading import FOREVER, SECOND, CaseFiles
from tests.oracle.generate import Batch, Case, Event, Subscribe
from tests.oracle.generate_hard import Restart
from tests.oracle.matches import Found
from tests.oracle.oracle import Arrival, Oracle
from tests.oracle.part2.standing import PatternStanding
from tests.oracle.trees import canonical
from tests.properties.harness import Answer, difference, expected, observed
from tests.seeds import is_long

Row = tuple[str, ...]
"""A match and what else is said of it, as texts that can be compared."""

_DERIVED = re.compile(r"([^(), ;]+)\(([^(),;]*(?:, [^(),;]*)*); [\d ]*\)")
_PIECE = re.compile(r"<(?:[^'\">]|'[^']*'|\"[^\"]*\")*>|[^<]+")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a case. `cut` makes batches of documents; `shuffled`: in another order of
    arrival; `restarts`: closed and opened again after a batch; `hot` and `memory` as in
    `Case`."""

    name: str
    cut: Callable[[Random, Sequence[Arrival]], list[Batch]]
    shuffled: bool = False
    restarts: bool = False
    hot: int = 8
    memory: int = 1_000_000


def _whole(_: Random, documents: Sequence[Arrival]) -> list[Batch]:
    return [Batch(tuple(documents))]


def _singly(_: Random, documents: Sequence[Arrival]) -> list[Batch]:
    return [Batch((document,)) for document in documents]


def _anyhow(random: Random, documents: Sequence[Arrival]) -> list[Batch]:
    batches: list[Batch] = []
    rest = list(documents)
    while rest:
        size = random.choice((1, 2, 3, len(rest)))
        batches.append(Batch(tuple(rest[:size])))
        rest = rest[size:]
    return batches


SINGLY = Way("one by one, in a small memory", _singly, hot=2, memory=1)
SHUFFLED = Way("shuffled, cut and restarted", _anyhow, True, restarts=True, hot=3, memory=4)
WAYS = (Way("whole", _whole), SINGLY, SHUFFLED)
"""Few, and one restart, since to open an engine takes longer than a case does. A case whose order of
arrival matters is only cut and restarted where others are shuffled too."""


def ways(case: CaseFiles) -> Sequence[Way]:
    """Those in which a case is run: one of them, by its name; in a long run all. What each document
    brings is only told where they come one by one."""
    if is_long():
        return WAYS
    if "published" in case.expected:
        return (SINGLY,)
    return (WAYS[crc32(case.name.encode()) % len(WAYS)],)


def arranged(case: CaseFiles, way: Way, seed: int = 0) -> Case:
    """The events of a case in one of the ways."""
    random = Random(f"{case.name} {way.name} {seed}")
    documents = list(case.documents)
    if way.shuffled and case.may_be_shuffled:
        documents = _shuffled(random, documents, case.lateness)
    at = case.expected.get("registered", 0)
    before, after = documents[:at], documents[at:]
    ids = tuple(query.id for query in case.program.queries)
    events: list[Event] = [*way.cut(random, before), Subscribe(case.query, ids)]
    batches = way.cut(random, after)
    restart = random.randrange(len(batches)) if way.restarts and batches else None
    for number, batch in enumerate(batches):
        events.append(batch)
        if number == restart:
            events.append(Restart())
    if case.is_pattern and "lateness" not in case.expected:
        events.append(Batch((_LAST,)))
    return Case(case.lateness, tuple(events), way.hot, way.memory)


_LAST = Arrival("last", ("~",), 3 * FOREVER * SECOND, "<last/>")
"""Behind it everything is decided."""


def _shuffled(random: Random, documents: Iterable[Arrival], lateness: int) -> list[Arrival]:
    """Each arrives as late as is allowed, at most."""
    order = [(d.timestamp + random.randint(0, lateness), random.random(), d) for d in documents]
    return [document for *_, document in sorted(order, key=lambda each: each[:2])]


# -- what came of it -------------------------------------------------------------------------------


def check(case: CaseFiles, way: Way) -> None:
    """Raises AssertionError where engine, oracle and files disagree."""
    events = arranged(case, way)
    wanted, got = expected(events), observed(events)
    assert rows(case, _all(wanted)) == wanted_rows(case), "the oracle says otherwise"
    assert rows(case, _all(got)) == wanted_rows(case), "the engine says otherwise"
    found = difference(events, wanted, got)
    assert found is None, found
    dead = sorted(id for _, id in got.dead)
    if way is SINGLY and "published" in case.expected:
        assert published(case, got) == case.expected["published"]
    if case.is_pattern:
        # What is unknown to a pattern, since it decides earlier, is no dead letter.
        assert set(dead) <= set(case.expected.get("late", []))
        check_undecided(case, way)
        return
    assert dead == sorted(case.expected.get("late", []))
    assert not case.expected.get("undecided"), "nothing is undecided in other queries"


def check_undecided(case: CaseFiles, way: Way) -> None:
    """What the oracle says of what is not decided, and of what came too late."""
    if "lateness" not in case.expected:
        return
    oracle, _ = _asked(case, way)
    standing = oracle.standing(case.asked[-1])
    assert isinstance(standing, PatternStanding)
    late = [*(document.id for document in oracle.dead), *standing.late]
    assert sorted(late) == sorted(case.expected.get("late", []))
    undecided = [names(case, documents) for documents in standing.waiting()]
    assert sorted(map(repr, undecided)) == sorted(map(repr, case.expected["undecided"]))


@cache
def _asked(case: CaseFiles, way: Way) -> tuple[Oracle, list[list[Found]]]:
    """The oracle, and what it finds at each document."""
    oracle = Oracle(case.lateness)
    found: list[list[Found]] = []
    for event in arranged(case, way).events:
        if isinstance(event, Subscribe):
            for query in case.program.queries:
                oracle.subscribe(query)
        elif isinstance(event, Batch):
            found += [oracle.arrive(document) for document in event.documents]
    return oracle, found


def published(case: CaseFiles, got: Answer) -> list[list[Any]]:
    """Which document brings which matches, where documents came one by one."""
    told: list[list[Any]] = []
    for number, found in enumerate(each for each in _batches(case, got)):
        brought = [m for m in found if m.query == case.asked[-1]]
        if brought:
            told.append([number, [_documents(case, m) for m in sorted(brought, key=_order)]])
    return told


def _batches(case: CaseFiles, got: Answer) -> Iterator[list[Found]]:
    """Those of each document; the subscription is an event as well."""
    at = case.expected.get("registered", 0)
    return (found for number, found in enumerate(got.matches) if number != at)


def _all(answer: Answer) -> list[Found]:
    return [found for batch in answer.matches for found in batch]


def rows(case: CaseFiles, found: Iterable[Found]) -> dict[str, list[Row]]:
    """By query: its matches with what the case says of them."""
    sorted_by = {id: [] for id in case.asked}  # type: dict[str, list[Row]]
    for match in found:
        if match.query in sorted_by:
            told = facets(case, match)
            sorted_by[match.query].append(_row(told, case.facets))
    return {id: sorted(each) for id, each in sorted_by.items()}


def wanted_rows(case: CaseFiles) -> dict[str, list[Row]]:
    """What the files say."""
    wanted: dict[str, list[Row]] = {}
    given = {name: case.given(name) for name in ("matches", *case.facets)}
    for id, matches in given["matches"].items():
        for name in case.facets:
            assert len(given[name][id]) == len(matches), f"{name}: one for each match"
        told = [{name: given[name][id][n] for name in given} for n in range(len(matches))]
        for each in told:
            if "results" in each:
                each["results"] = canonical(etree.fromstring(each["results"]))
            if "values" in each:
                each["values"] = [text for texts in each["values"] for text in texts]
        wanted[id] = sorted(_row(each, case.facets) for each in told)
    return wanted


def _row(told: dict[str, Any], names: Iterable[str]) -> Row:
    return tuple(
        json.dumps(told[name], ensure_ascii=False, sort_keys=True) for name in ("matches", *names)
    )


def facets(case: CaseFiles, match: Found) -> dict[str, Any]:
    """Everything that can be said of a match."""
    return {
        "matches": _documents(case, match),
        "values": _texts(match.result),
        "intervals": [match.start / SECOND, match.end / SECOND],
        "results": match.result,
    }


def _order(match: Found) -> tuple[int, int, str]:
    return match.end, match.start, repr(match.documents)


def _documents(case: CaseFiles, match: Found) -> list[Any]:
    return names(case, match.documents)


def names(case: CaseFiles, documents: Iterable[Any]) -> list[Any]:
    """The documents' names: of a derived one its stream's and those that it is made of. Of a pattern
    there may be None, and lists."""
    streams = {query.id: query.query.publish or "nested" for query in case.program.queries}

    def named(found: re.Match[str]) -> str:
        stream = streams.get(found[1], "nested")
        return f"{stream}:{found[2].replace(', ', '/')}"

    def name(part: Any) -> Any:
        match part:
            case None:
                return None
            case (str(id), int()):
                while _DERIVED.search(id):
                    id = _DERIVED.sub(named, id)
                return id
        return [name(each) for each in part]

    return [name(part) for part in documents]


def _texts(result: str) -> list[str]:
    """The text of each thing that a canonical result holds: of an element all text in it."""
    texts: list[str] = []
    depth = 0
    for piece in _PIECE.findall(result):
        if piece == "</>":
            depth -= 1
        elif piece.startswith("<"):
            depth += 1
            if depth == 2:
                texts.append("")
        elif depth == 1:
            texts.append(piece)
        else:
            texts[-1] += piece
    return texts


def renewed(case: CaseFiles) -> str:
    """The text of `expected.json`, with what the oracle says where that is something else. The
    results of new matches are to be written by hand."""
    _, each = _asked(case, SINGLY)
    found = [match for matches in each for match in matches]
    if rows(case, found) == wanted_rows(case):
        return formatted(case.expected)
    told: dict[str, dict[str, list[Any]]] = {}
    for name in ("matches", *case.facets):
        told[name] = {}
        for id in case.asked:
            own = sorted((match for match in found if match.query == id), key=_order)
            told[name][id] = [facets(case, match)[name] for match in own]
            if name == "values":
                told[name][id] = [[[text] for text in texts] for texts in told[name][id]]
    several = isinstance(case.expected["matches"], dict)
    plain = {name: of if several else of[case.asked[0]] for name, of in told.items()}
    return formatted(case.expected | plain)


def formatted(fields: dict[str, Any], depth: int = 0) -> str:
    """JSON with a match on a line."""
    pad = "  " * (depth + 1)
    lines = []
    for name, value in fields.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            text = formatted(value, depth + 1).rstrip("\n")
        elif isinstance(value, list) and len(text) > 70:
            inner = ",\n".join(f"{pad}  {json.dumps(each, ensure_ascii=False)}" for each in value)
            text = f"[\n{inner}\n{pad}]"
        lines.append(f"{pad}{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}\n"
