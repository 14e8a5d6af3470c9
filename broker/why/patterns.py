"""What is said of an event pattern: one sentence, with the cure where it has matched nothing.

A cure is tried before it is told: the pattern with one change (`edits`) finds something among the
rows of the stored documents. What else would come is not asked: all that waits counts as found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from broker.pattern.instances import END, Instance, Row
from broker.pattern.plan import (
    Absence,
    Choice,
    Fold,
    Group,
    Judged,
    Leaf,
    Next,
    Ordered,
    Plan,
    Tap,
    Together,
    Tree,
)
from broker.pattern.published import scope_of
from broker.pattern.standing import Standing
from broker.pattern.trying import TooMuch, allowed
from broker.pattern.values import Scope, compile_known
from broker.query.patterns import PatternQuery, pattern_query
from broker.standing.why import Question, Why, shown
from broker.text.people import moment
from broker.text.units import duration_up, parse_duration
from broker.why import cures, edits
from broker.why.edits import Edit
from broker.why.explaining import explain
from broker.why.history import History
from broker.why.telling import plural
from xscl import ast
from xscl.check.program import ResolvedQuery, check
from xscl.errors import XsclError
from xscl.functions.table import to_string
from xscl.normal.lower import NOWHERE
from xscl.syntax.printer import format_expression, format_pattern, quoted

_ROWS = 4_000
"""A change is tried on so many rows, the newest."""

_TRIES = 500
"""So many changes are tried."""

_TIME = 5.0
"""Seconds of this thread after which no other change is tried."""

_SAMPLES = 100

_NAMED = 3


def tell(asked: Question, past: History) -> Why:
    """What became of the documents of a pattern, with its sentence."""
    found = asked.answer(past.rest)
    said = _sentence(asked, found, past)
    return replace(found, sentence=f"{found.query}: {said}")


def _sentence(asked: Question, found: Why, past: History) -> str:
    def missing(block: ast.Block) -> str:
        return _of_block(asked, block, past)

    return _said(asked, found, past, "the stored documents", missing)


def together(asked: Question, past: History) -> str:
    """What becomes of the documents that a question is about, `StoredRows.only`, in words."""
    found = asked.answer(past.rest)
    return _said(asked, found, past, "these documents", lambda b: f"none is there for {shown(b)}")


def _said(
    asked: Question, found: Why, past: History, which: str, missing: Callable[[ast.Block], str]
) -> str:
    """What became of documents, `which` they are; `missing` is said of a block without any."""
    if found.found is None:
        return f"there is too much to try among {which}; narrow its windows or joins"
    if found.found:
        return _all_left_out(asked, found.found) or (
            f"{plural(found.found, 'match', 'matches')} among {which}"
        )
    if found.waiting_count:
        return _waits(asked, found)
    for place in _missing(asked.plan, [each.documents for each in found.blocks]):
        return f"no matches: {missing(asked.plan.taps[place].block)}"
    return f"no matches: {_cure(asked, found, past) or f'{which} do not go together'}"


def _cure(asked: Question, found: Why, past: History) -> str | None:
    """The likeliest change that would have a match, or that not all were tried."""
    try:
        for cure in _Trial(asked, past.rest).cures():
            return f"{cure}{_by(found, cure)}"
    except _Enough:
        return "there are too many changes to try; narrow its windows or joins"
    return None


def as_query(asked: Question, block: ast.Block) -> ResolvedQuery:
    """A block of a pattern as if it were the whole query."""
    query = ast.Query(block, span=NOWHERE)
    text = format_pattern(block)
    return ResolvedQuery(asked.name, query, asked.pattern.namespaces, text, text, ())


def _waits(asked: Question, found: Why) -> str:
    first = found.waiting[0].decides
    said = f"no matches yet, and {plural(found.waiting_count, 'waits', 'wait')}"
    if first is None:
        return f"{said} for ever"
    sooner = "" if asked.plan.query.wait else "; WAIT has it decided sooner"
    return f"{said}, the first until a document or the clock is at {moment(first)}{sooner}"


def _by(found: Why, cure: str) -> str:
    """What a NOT forbids that is to be left out."""
    for blocked in found.blocked:
        if cure.endswith(f"without {blocked.absent}"):
            if blocked.by:
                return f": there is {', '.join([each.id for each in blocked.by])}"
            return ", which looks back to before it was registered: subscribe with --backfill"
    return ""


# -- blocks ------------------------------------------------------------------------------------


def _missing(plan: Plan, documents: Sequence[int]) -> list[int]:
    """The places of the blocks that are needed, and take no document."""

    def of(tree: Tree) -> list[int]:
        match tree:
            case Leaf():
                return [] if documents[tree.tap] else [tree.tap]
            case Ordered() | Together():
                return [place for item in tree.items for place in of(item)]
            case Choice():
                return min([of(branch) for branch in tree.branches], key=len)
            case Next() | Fold():
                return [*of(tree.left.tree), *of(tree.right.tree)]
            case Judged():
                return of(tree.unit.tree)
            case Group():
                return of(tree.unit.tree) if tree.least else []
            case Absence():
                return []

    return of(plan.unit.tree)


def _of_block(asked: Question, block: ast.Block, past: History) -> str:
    """Why a block takes no document, as if it were the whole query."""
    alone = explain(as_query(asked, block), past)
    passed = alone.blocks[0].passed
    if not passed:
        return alone.sentence.removeprefix(f"{asked.name}: ")
    would = f"{plural(passed, 'document')} would pass {shown(block)}"
    if past.oldest() >= asked.rows.entry.first_doc:
        return f"{would}, but came too late for it: leave out WAIT, or write a longer one"
    return (
        f"{would}, but came before it was registered: subscribe with --backfill to have those too"
    )


# -- changes -----------------------------------------------------------------------------------


class _Enough(Exception):
    """More than enough was tried."""


@dataclass
class _Trial:
    """Tries changes of a pattern on the newest of the rows that it takes."""

    asked: Question
    rest: Callable[[], object]
    left: int = _TRIES
    rows: dict[tuple[str, bool], Sequence[Row]] = field(default_factory=dict)
    longest: int = 0
    """How long it is from the first to the last row, in microseconds."""
    until: float = field(default_factory=lambda: time.thread_time() + _TIME)

    def __post_init__(self) -> None:
        try:
            with allowed(self.asked.tries):
                read = self.asked.rows.read(self.rest)
        except TooMuch:
            read = {}
        ends = sorted([row.end for rows in read.values() for row in rows])[-_ROWS:]
        if not ends:
            return
        kept = {at: [row for row in rows if row.end >= ends[0]] for at, rows in read.items()}
        self.rows = {_key(tap): kept.get(at, ()) for at, tap in enumerate(self.asked.plan.taps)}
        starts = [row.start for rows in kept.values() for row in rows]
        self.longest = ends[-1] - min(starts)

    def cures(self) -> Iterator[str]:
        """What helps, the likeliest first. Raises _Enough."""
        query = self.asked.plan.query
        yield from self._of(edits.without_nots(query))
        yield from self._wider(query)
        yield from self._of(edits.softer(query))
        yield from self._of(edits.selected(query))
        yield from self._of(edits.fewer(query))
        yield from self._of(edits.chosen(query))
        yield from self._of(edits.turned(query))
        yield from self._without_conjuncts(query)
        yield from self._of(edits.without_items(query))

    def _of(self, changed: Iterator[Edit]) -> Iterator[str]:
        for edit in changed:
            found = self.found(edit.query)
            if found:
                yield f"{_would(found)} {edit.said}"

    def _wider(self, query: ast.Query) -> Iterator[str]:
        for window in edits.windows(query):
            low, high = window.width, self.longest
            if low >= high or not self.found(window.widened(high)):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                if self.found(window.widened(middle)):
                    high = middle
                else:
                    low = middle
            text = duration_up(high)
            found = self.found(window.widened(parse_duration(text)))
            if found:
                yield f"{_would(found)} {edits.window_said(window.width, text)}: write {text}"

    def _without_conjuncts(self, query: ast.Query) -> Iterator[str]:
        for each in edits.asked(query):
            found = self.found(each.put(None))
            if found:
                text = format_expression(each.conjunct)
                said = self._values(each.conjunct, found[:_SAMPLES])
                yield f"{text} holds for none of {len(found):,} that would match without it{said}"

    def _values(self, part: ast.Expr, found: Sequence[Instance]) -> str:
        """What a conjunct compares in these instances, in words."""
        sides = _sides(part, [scope_of(self.asked.plan, each) for each in found])
        said = sides or cures.values_of(part, [each.rows for each in found])
        return f": {'; '.join(said)}" if said else ""

    def found(self, query: ast.Query) -> list[Instance]:
        """What a changed query finds, with all that would wait. Raises _Enough."""
        if not self.left or time.thread_time() > self.until:
            raise _Enough
        self.left -= 1
        pattern = self._compiled(query)
        if pattern is None:
            return []
        rows = {at: self.rows[_key(tap)] for at, tap in enumerate(pattern.plan.taps)}
        if not query.partition and self.asked.plan.query.partition:
            rows = {at: [replace(row, tuples=None) for row in of] for at, of in rows.items()}
        standing = Standing(pattern.plan, self.asked.registered, self.asked.tries)
        try:
            with allowed(self.asked.tries):
                return standing.found(rows)
        except TooMuch:
            return []
        finally:
            self.rest()

    def _compiled(self, query: ast.Query) -> PatternQuery | None:
        """A query compiled; None if it is invalid, or reads what was not read."""
        spaces = [
            ast.LetNamespace(prefix, uri, span=NOWHERE)
            for prefix, uri in self.asked.pattern.namespaces.items()
            if prefix != "xml"
        ]
        named = replace(query, label=self.asked.name, publish=None)
        try:
            (resolved,) = check([ast.File((*spaces, named), span=NOWHERE)]).queries
        except XsclError:
            return None
        made = pattern_query(resolved)
        return made if all(_key(tap) in self.rows for tap in made.plan.taps) else None


def _key(tap: Tap) -> tuple[str, bool]:
    """What rows are the same for: the block, and whether what is read is only that it is there."""
    return format_pattern(tap.block), tap.plain


def _would(found: Sequence[object]) -> str:
    return f"{len(found):,} would match"


# -- what HAVING leaves ------------------------------------------------------------------------


def _all_left_out(asked: Question, count: int) -> str | None:
    """What is said where HAVING leaves none of the matches."""
    over = asked.plan.query.over
    if over is None or over.having is None:
        return None
    try:
        with allowed(asked.tries):
            rows = asked.rows.read(lambda: None)
            if Standing(asked.plan, asked.registered, asked.tries).advance(rows, END):
                return None
            free = replace(asked.plan, having=None)
            every = Standing(free, asked.registered, asked.tries).advance(rows, END)
    except TooMuch:
        return None
    said = _sides(over.having, [each.scope for each in every])
    return (
        f"{plural(count, 'match', 'matches')}, and none with HAVING"
        f" {format_expression(over.having)}: {'; '.join(said)}"
    )


def _sides(part: ast.Expr, scopes: Sequence[Scope]) -> list[str]:
    """What a predicate compares is in these scopes, in words; nothing about constants."""
    match part:
        case ast.Comparison(left=left, right=right):
            sides = [e for e in (left, right) if not isinstance(e, ast.String | ast.Number)]
            return [said for side in sides for said in _side(side, scopes)]
        case ast.And(parts=parts) | ast.Or(parts=parts):
            return [said for each in parts for said in _sides(each, scopes)]
    return []


def _side(side: ast.Expr, scopes: Sequence[Scope]) -> Iterator[str]:
    evaluate = compile_known(side)
    found = [evaluate(scope) for scope in scopes]
    texts = [[*v] if isinstance(v, list | tuple) else [to_string(v)] for v in found]
    values = [*dict.fromkeys([text for each in texts for text in each])]
    if any(values):
        shown = [quoted(v) if isinstance(side, ast.Path) else v for v in values[:_NAMED]]
        more = ", …" if len(values) > _NAMED else ""
        yield f"{format_expression(side)} is {', '.join(shown)}{more}"
