"""Why an event pattern has matched, has not, or not yet: what `broker why` tells.

In: a registered pattern and the rows of its documents. Out: how many documents each block took, the
matches among them, what waits and until when, and what was blocked and by what. It is worked out
anew from the rows, so it is exact on what is stored and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.model import UNBOUNDED
from broker.pattern.answers import answers
from broker.pattern.growth import growth
from broker.pattern.instances import Instance, Row
from broker.pattern.plan import Leaf, Plan, Single
from broker.pattern.standing import Standing
from broker.pattern.steps import Planned
from broker.pattern.trace import Trace
from broker.pattern.trying import TooMuch, allowed
from broker.query.patterns import PatternQuery
from broker.standing.live import Block, takes, time_of
from broker.standing.taps import row_of
from broker.state.pattern_tables import Entry, tap_rows
from broker.state.statements import Statements
from xscl import ast
from xscl.syntax.printer import format_pattern

SHOWN = 20
"""Of what waits and of what was blocked, so many are told."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A document of a pattern; `time` is its end in microseconds."""

    id: str
    time: int


@dataclass(frozen=True, slots=True)
class Taken:
    """How many stored documents a block takes."""

    block: str
    documents: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What is not decided, and the highest time (microseconds) that decides it; None: never."""

    documents: tuple[Seen, ...]
    decides: int | None


@dataclass(frozen=True, slots=True)
class Blocked:
    """What would be a match, but for a NOT. `by` is what it forbids; empty: it looks back to before
    the query was registered."""

    documents: tuple[Seen, ...]
    absent: str
    by: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """What became of the stored documents. `answers` says when the pattern answers, `growth` how
    many matches there may be. `found` is None where too much would have to be tried.
    `plans` are the trees by which the stored documents were searched, in words. `sentence` says
    the most important thing; `broker/why/patterns.py` writes it."""

    query: str
    answers: str
    growth: str
    blocks: tuple[Taken, ...]
    found: int | None
    waiting: tuple[Pending, ...]
    waiting_count: int
    blocked: tuple[Blocked, ...]
    blocked_count: int
    plans: tuple[str, ...]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a pattern that is registered as `entry`, as a snapshot has them, for its `blocks`
    by tap. Of documents, given by number, `only` these if there are any."""

    statements: Statements
    entry: Entry
    blocks: Mapping[str, Sequence[Block]]
    combinations: int
    only: frozenset[int] = frozenset()

    def read(self, rest: Callable[[], object]) -> Mapping[int, Sequence[Row]]:
        """The rows that it takes, by place. Raises TooMuch."""
        found: dict[int, list[Row]] = {}
        for part in tap_rows(self.statements, self.blocks.keys(), self.entry.first_doc):
            for row, seen in part:
                if self.only and row.doc not in self.only:
                    continue
                if takes(self.entry, row.base, row.end, seen if row.base == row.doc else None):
                    for place, query in self.blocks[row.tap]:
                        own = row_of(query, row, self.combinations)
                        found.setdefault(place, []).append(own)
            rest()
        return found


@dataclass(frozen=True, slots=True)
class Question:
    """All that is needed to tell what became of rows: nothing of it changes any more, so it is
    answered beside an engine that goes on, while the snapshot is open. At most `tries` choices are
    tried, and what waits is counted up to `counted`. Times are in microseconds."""

    name: str
    pattern: PatternQuery
    registered: int | None
    lateness: int
    watermark: int | None
    rows: StoredRows
    tries: int
    counted: int

    @property
    def plan(self) -> Plan:
        return self.pattern.plan

    def answer(self, rest: Callable[[], object] = lambda: None) -> Why:
        """What became of the rows; `rest` is called now and then."""
        return _look(self, rest)


def _look(asked: Question, rest: Callable[[], object]) -> Why:
    plan, rows = asked.plan, dict[int, Sequence[Row]]()
    trace = Trace(rest)
    standing = Standing(plan, asked.registered, asked.tries, trace=trace)
    decided: int | None = None
    waiting: list[Instance] = []
    by = -UNBOUNDED if asked.watermark is None else 2 * asked.watermark
    try:
        with allowed(asked.tries):
            rows.update(asked.rows.read(rest))
            found = sorted(standing.found(rows), key=lambda each: each.due)
            decided = sum(each.due <= by for each in found)
            waiting = found[decided : decided + asked.counted]
    except TooMuch:
        trace.blocked.clear()
    blocked = sorted(trace.blocked.values(), key=lambda each: each.instance.last, reverse=True)
    return Why(
        asked.name,
        answers(plan, asked.lateness),
        growth(plan),
        tuple(
            [
                Taken(shown(tap.block), len({row.doc for row in rows.get(place, ())}))
                for place, tap in enumerate(plan.taps)
                if not tap.plain
            ]
        ),
        decided,
        tuple(
            [Pending(_seen([i]), _known(time_of(i.due, asked.lateness))) for i in waiting[:SHOWN]]
        ),
        len(waiting),
        tuple(
            [
                Blocked(
                    _seen([each.instance]), format_pattern(each.absence.pattern), _seen(each.by)
                )
                for each in blocked[:SHOWN]
            ]
        ),
        len(blocked),
        tuple([line for each in trace.plans for line in _told(plan, each)]),
    )


def shown(block: ast.Block) -> str:
    """A block as text; the stream of a query in FROM has no name."""
    return re.sub("^~[^/]*", "(a query)", format_pattern(block))


def _told(plan: Plan, planned: Planned) -> list[str]:
    """A plan as a tree, with what its steps were expected to find and what they found."""

    def name(item: Single) -> str:
        if isinstance(item, Leaf):
            return shown(plan.taps[item.tap].block)
        return f"what is judged by itself, {', '.join(sorted(item.variables))}"

    return ["planned:", *planned.lines(name)]


def _known(time: int) -> int | None:
    return None if time >= UNBOUNDED else time


def _seen(instances: Iterable[Instance]) -> tuple[Seen, ...]:
    found = {row.doc: Seen(row.id, row.end) for each in instances for row in each.rows}
    return tuple(found.values())
