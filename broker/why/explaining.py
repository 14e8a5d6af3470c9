"""All that is told of one query: the stored documents, block by block and join by join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from broker.pattern.conditions import compile_condition
from broker.pattern.instances import Row
from broker.registered import Registered
from broker.text.people import shorten
from broker.text.units import duration_up
from broker.why import cures
from broker.why.asked import Asked, Judged
from broker.why.blocks import BlockReader
from broker.why.elsewhere import elsewhere
from broker.why.history import History
from broker.why.joins import Pairs, Side, count, satisfied, span
from broker.why.model import (
    BlockCount,
    Budget,
    Equality,
    Explanation,
    Failing,
    Fell,
    JoinCount,
    NearMiss,
    WholeCount,
)
from broker.why.telling import written
from broker.why.whole import Combinations, combine
from xscl.check.program import ResolvedQuery
from xscl.stage1.tree import Tree
from xscl.syntax.durations import format_microseconds
from xscl.syntax.printer import format_expression

_SAMPLES = 20
_NAMED = 3
_LONGEST = 60


@dataclass(slots=True)
class _Seen:
    """What was seen at one block: how many documents, the rows of those that passed, and those that
    failed, by condition."""

    documents: int = 0
    rows: list[Row] = field(default_factory=list)
    passed: int = 0
    fell: dict[int, int] = field(default_factory=dict)
    named: dict[int, list[str]] = field(default_factory=dict)
    samples: dict[int, list[Tree]] = field(default_factory=dict)
    left: dict[int, list[Row]] = field(default_factory=dict)


def explain(
    resolved: ResolvedQuery,
    history: History,
    budget: Budget | None = None,
    registered: Registered | None = None,
) -> Explanation:
    """What became of the stored documents of a query of Part 1. `registered` is its subscription,
    if there is one."""
    budget = budget or Budget()
    asked = Asked(resolved)
    stored = history.count(asked.streams)
    seen = [_Seen() for _ in asked.readers]
    looked = 0
    for documents in history.newest(asked.streams, budget.documents):
        looked += len(documents)
        for document in documents:
            tree, judged = asked.judge(document)
            for number, each in judged.items():
                _note(seen[number], asked.readers[number], document.id, tree, each)
    streams = history.streams() if any(not each.documents for each in seen) else {}
    blocks = tuple([_block(r, s, streams) for r, s in zip(asked.readers, seen, strict=True)])
    blocks = tuple([_sought(asked, block, history) for block in blocks])
    rows = [each.rows for each in seen]
    pairs = {
        (b.left, b.right): count(b, rows[b.left], rows[b.right], budget.pairs, history.rest)
        for b in asked.betweens
    }
    joins = tuple([_join(asked, p, rows, history.rest) for p in pairs.values()])
    several = [compile_condition(each) for each in asked.several]
    combined = combine(
        *(asked.operators, asked.windows, rows, pairs, several, budget.pairs), history.rest
    )
    exact = combined.exact and all(each.exact for each in pairs.values())
    whole = replace(_whole(combined, registered), exact=exact)
    made = Explanation(
        *(resolved.id, resolved.text, "", (), blocks, joins, whole, looked, stored),
        None if registered is None else registered.status,
    )
    return written(made)


def _note(seen: _Seen, reader: BlockReader, id: str, tree: Tree, judged: Judged) -> None:
    seen.documents += 1
    failed = judged.failed
    if failed is None:
        seen.passed += 1
        seen.rows += judged.rows
        return
    seen.fell[failed] = seen.fell.get(failed, 0) + 1
    named = seen.named.setdefault(failed, [])
    if len(named) < _NAMED:
        named.append(id)
    if failed >= len(reader.conditions):
        seen.left.setdefault(failed, []).extend(judged.rows[:_SAMPLES])
    elif len(samples := seen.samples.setdefault(failed, [])) < _SAMPLES:
        samples.append(tree)


# -- blocks ------------------------------------------------------------------------------------


def _block(reader: BlockReader, seen: _Seen, streams: dict[str, int]) -> BlockCount:
    asked = reader.asked
    fell = tuple(
        [
            Fell(at, asked[at], seen.fell[at], tuple(seen.named[at]), _cure(reader, seen, at))
            for at in sorted(seen.fell)
        ]
    )
    stream = reader.block.stream
    return BlockCount(
        *(reader.number, reader.shown, stream, tuple(asked), seen.documents, seen.passed),
        *(fell, None if seen.documents else _no_stream(stream, streams)),
    )


def _sought(asked: Asked, block: BlockCount, history: History) -> BlockCount:
    """A block that nothing passes, with what there is elsewhere if nothing nearer helps."""
    reader = asked.readers[block.number]
    if block.passed or not block.fell or block.fell[-1].place >= len(reader.conditions):
        return block
    *others, last = block.fell
    if last.hint is not None and cures.helps(last.hint):
        return block
    found = elsewhere(reader, last.place, asked.resolved.namespaces, history)
    return replace(block, fell=(*others, replace(last, hint=found or last.hint)))


def _cure(reader: BlockReader, seen: _Seen, place: int) -> str | None:
    count = len(reader.conditions)
    if place < count:
        return cures.of_condition(reader, reader.conditions[place], seen.samples[place])
    return cures.of_predicate(reader.conjuncts[place - count], seen.left[place])


def _no_stream(stream: str, streams: dict[str, int]) -> str:
    own = [name for name in streams if not name.startswith("~")]
    if stream.startswith("~"):
        return "the query in FROM has no results that are stored"
    near = cures.nearest(stream, own)
    if near is not None:
        return f"write {near}, of which {streams[near]:,} are stored"
    if not own:
        return "no documents are stored at all"
    return f"there are: {', '.join(own[:10])}"


# -- joins -------------------------------------------------------------------------------------


def _join(
    asked: Asked, pairs: Pairs, rows: Sequence[Sequence[Row]], rest: Callable[[], object]
) -> JoinCount:
    between = pairs.between
    near, hint = _misses(asked, pairs, rows[between.left], rows[between.right], rest)
    return JoinCount(
        between.left,
        between.right,
        "FOLLOWED BY" if between.order else "JOIN",
        tuple([Equality(j.text, *n) for j, n in zip(between.equalities, pairs.each, strict=True)]),
        tuple([format_expression(each) for each in between.residuals]),
        between.window,
        len(pairs.agree),
        len(pairs.ordered),
        len(pairs.within),
        len(pairs.passed),
        near,
        hint,
        pairs.exact,
    )


def _misses(
    asked: Asked,
    pairs: Pairs,
    left: Sequence[Row],
    right: Sequence[Row],
    rest: Callable[[], object],
) -> tuple[tuple[NearMiss, ...], str | None]:
    """The pairs that came the farthest, and what to write instead, if none passes."""
    between = pairs.between
    if pairs.passed or not left or not right:
        return (), None
    if pairs.within:
        return _other_predicates(pairs)
    if pairs.ordered:
        far = sorted(pairs.ordered, key=lambda pair: span(pairs.agree[pair][0][:2]))
        closest = span(pairs.agree[far[0]][0])
        assert between.window is not None
        near = [
            _near(pairs, pair, "window", f"{_apart(pairs, pair)} apart") for pair in far[:_NAMED]
        ]
        return tuple(near), (
            f"the closest are {duration_up(closest)} apart, and the window is"
            f" {format_microseconds(between.window)}: write {duration_up(closest)}"
        )
    if pairs.agree:
        close = sorted(pairs.agree, key=lambda pair: _gap(pairs, pair))[:_NAMED]
        near = [_near(pairs, pair, "order", _turned(pairs, pair)) for pair in close]
        turned = any(b.end < a.start for pair in pairs.agree for a, b in pairs.agree[pair][:1])
        cure = "exchange the two sides" if turned else "they come at the same time"
        return tuple(near), f"{cure}{', or' if turned else ':'} write JOIN"
    for join, (agreeing, _) in zip(between.equalities, pairs.each, strict=True):
        if not agreeing:
            hint, example = cures.of_join(join, left, right, between.left, asked.home, rest)
            if example is None:
                return (), hint
            one, other = example
            values = (_value(join.left, one), _value(join.right, other))
            return (NearMiss(one.id, other.id, "join", values, "nearly equal"),), hint
    if between.equalities:
        return (), "each equality holds for some pairs, and no pair satisfies all of them"
    return (), "there are no two different documents for the two blocks"


def _other_predicates(pairs: Pairs) -> tuple[tuple[NearMiss, ...], str | None]:
    between = pairs.between
    rows = [each for pair in pairs.within for each in pairs.agree[pair]][:1_000]
    for predicate in between.residuals:
        holds = compile_condition(predicate)
        left = [(a, b) for a, b in rows if satisfied(holds, a, b)]
        if not left:
            text = format_expression(predicate)
            values = cures.values_of(predicate, rows)
            near = [
                NearMiss(a.id, b.id, "predicate", cures.values_of(predicate, [(a, b)]), text)
                for a, b in rows[:_NAMED]
            ]
            hint = cures.of_pairs(predicate, rows)
            return tuple(near), f"{text} holds for none: {hint or '; '.join(values)}"
        rows = left
    return (), "no pair satisfies all predicates at once"


def _near(pairs: Pairs, pair: tuple[int, int], failed: Failing, detail: str) -> NearMiss:
    one, other = pairs.agree[pair][0]
    values = tuple([f"{join.text}: {_value(join.left, one)}" for join in pairs.between.equalities])
    return NearMiss(one.id, other.id, failed, values, detail)


def _value(side: Side, row: Row) -> str:
    keys = sorted(map(str, side.keys(row)))
    return shorten(", ".join(keys), _LONGEST)


def _apart(pairs: Pairs, pair: tuple[int, int]) -> str:
    return duration_up(span(pairs.agree[pair][0]))


def _gap(pairs: Pairs, pair: tuple[int, int]) -> int:
    one, other = pairs.agree[pair][0]
    return one.end - other.start


def _turned(pairs: Pairs, pair: tuple[int, int]) -> str:
    gap = _gap(pairs, pair)
    return f"{duration_up(gap)} the other way round" if gap else "at the same time"


# -- the whole ---------------------------------------------------------------------------------


def _whole(found: Combinations, registered: Registered | None) -> WholeCount:
    examples = tuple(
        [tuple([row.id for row in found.joined[docs]]) for docs in sorted(found.matched)[-_NAMED:]]
    )
    counted = None
    if registered is not None:
        periods = registered.periods
        counted = 0
        for docs in found.matched:
            first, last = min([row.base for row in found.joined[docs]]), max(docs)
            counted += any(a <= first and (b is None or last < b) for a, b in periods)
    return WholeCount(len(found.joined), len(found.ordered), len(found.matched), counted, examples)
