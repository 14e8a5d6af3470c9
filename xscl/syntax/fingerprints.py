"""Statements like earlier ones are not read again, if they differ in label and literals only.

Very many subscriptions are a few texts with different constants. The *fingerprint* of a statement
is its text without label and literals. When a fingerprint occurs again, it is worked out which
literals are *free* (`free_literals.py`). A statement that differs from a known one in label and
free literals only becomes a `Query` that holds these, and whose tree is made when it is asked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from xscl import ast
from xscl.errors import Source, Span
from xscl.syntax.free_literals import Free, NotAlone, Side, free_literals, may_hold
from xscl.syntax.printer import MARK

_STATEMENT = re.compile(r"""(?:[^;'"]++|'[^']*+'|"[^"]*+")*(?=;|\Z)""")
_LABEL = re.compile(r"([A-Za-z_](?:[A-Za-z0-9_.]++|-(?![->]))*):(?=[ \t\r\n])")
# It begins with a class of characters, to which `re` leaps.
_LITERAL = re.compile(
    r"""(['"0-9](?:(?<=')[^']*+'|(?<=")[^"]*+"|(?<=[0-9])(?<![\w.-][0-9])[0-9]*+(?![\w.])))"""
)

_LONGEST_TEXT = 2_000
"""Characters of a statement that is remembered."""
MOST = 8_192
"""Fingerprints that are remembered."""
_MADE = frozenset(
    [
        *("pattern", "select", "where", "within", "label_span", "publish_span"),
        *("partition", "strategy", "wait", "over"),
    ]
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checks found of a query without errors and warnings: its canonical text as a format
    of its literals, its form, its literals, which of them are free, and the streams that it
    reads."""

    text: str
    form: str
    literals: tuple[str, ...]
    free: tuple[int, ...]
    streams: frozenset[str]

    def literals_with(self, own: Sequence[str]) -> tuple[str, ...]:
        """The literals of one like it, whose free literals are `own`."""
        found = [*self.literals]
        for number, literal in zip(self.free, own, strict=True):
            found[number] = literal
        return tuple(found)


class Known:
    """A statement that was read: all that its like share."""

    __slots__ = (
        *("at_end", "before", "behind", "checked", "free", "literals", "publish", "read"),
        *("compared", "usable"),
    )

    def __init__(
        self,
        query: ast.Query,
        free: tuple[Free, ...],
        compared: tuple[tuple[Side, ...], ...],
        literals: int,
        around: tuple[int, int],
        read: Callable[[Source, int], ast.Query],
    ) -> None:
        self.publish = query.publish
        self.at_end = query.at_end
        self.free = free
        self.compared = compared
        self.literals = literals
        self.before, self.behind = around
        self.read = read
        self.checked: Checked | None = None
        self.usable = True
        """False once its checks found something, which is to be found in those like it too."""

    def checks(self, form: str | None, literals: tuple[str, ...], streams: Iterable[str]) -> None:
        """Remember what the checks of one like it gave; None where they found something."""
        if form is None or len(literals) != self.literals:
            self.usable = False
            return
        _, *between = form.split(MARK)
        text = "%s".join([each.replace("%", "%%") for each in between])
        free = tuple([each.number for each in self.free])
        self.checked = Checked(text, form, literals, free, frozenset(streams))


class Query(ast.Query):
    """A query like one that was read before. Its tree is made when it is asked for."""

    __slots__ = ("_begins", "known", "own")

    known: Known
    own: list[str]
    """Its free literals, canonical."""
    _begins: int

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE:
            raise AttributeError(name)
        _fill(self, self.known.read(self.span.source, self._begins))
        return getattr(self, name)

    def like(self) -> Known | None:
        """What is known of it; nothing of one that was copied, maybe with changes."""
        return getattr(self, "known", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ast.Query) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))


def _compared(query: ast.Query) -> tuple[Any, ...]:
    return tuple([getattr(query, each.name) for each in fields(ast.Query) if each.compare])


def _fill(query: Query, made: ast.Query) -> None:
    for name in _MADE:
        object.__setattr__(query, name, getattr(made, name))


@dataclass(slots=True)
class Statement:
    """A statement's text taken apart: its label, the text between its literals, and these."""

    start: int
    end: int
    label: str | None
    begins: int
    """Where it begins behind the label."""
    key: str
    first: int
    last: int
    """How long its text is before the first literal, and behind the last."""
    literals: list[str]


_fixed: dict[str, tuple[int, ...] | None] = {}
"""By fingerprint the places of the literals that are not free; None if it occurred once."""
_known: dict[tuple[str, ...], Known | None] = {}
"""By fingerprint and fixed literals what is known of such statements; None if one occurred."""
_learning = threading.RLock()
"""Held by those who add or forget; those who recall need none."""


def forget() -> None:
    """Forget all statements."""
    with _learning:
        _fixed.clear()
        _known.clear()


def take_apart(text: str, start: int) -> Statement | None:
    """The statement at a place, None for one that is not worth remembering."""
    found = _STATEMENT.match(text, start)
    if found is None or found.end() - start > _LONGEST_TEXT:
        return None
    label = _LABEL.match(text, start, found.end())
    begins = start if label is None else label.end()
    parts = _LITERAL.split(text[begins : found.end()])
    between = parts[::2]
    return Statement(
        *(start, found.end(), None if label is None else label[1], begins, "\0".join(between)),
        *(len(between[0]), len(between[-1]), parts[1::2]),
    )


def recall(statement: Statement, source: Source) -> Query | None:
    """The query of a statement that differs from a known one in label and free literals only."""
    fixed = _fixed.get(statement.key)
    if fixed is None:
        return None
    literals = statement.literals
    known = _known.get((statement.key, *[literals[place] for place in fixed]))
    if known is None or not known.usable:
        return None
    own = []
    for free in known.free:
        literal = free.canonical(literals[free.place])
        if literal is None:
            return None
        own.append(literal)
    if known.compared and not may_hold(known.compared, own):
        return None
    span = Span(source, statement.begins + known.before, statement.end - known.behind)
    return _query(known, own, statement, span)


def remember(
    statement: Statement, query: ast.Query, read: Callable[[Source, int], ast.Query]
) -> ast.Query:
    """Learn from a statement that was read, if one like it was read before. Returns the query;
    after it has learnt, as one that knows what those like it share. `read` reads the query at a
    place of a source."""
    with _learning:
        return _remember(statement, query, read)


def _remember(
    statement: Statement, query: ast.Query, read: Callable[[Source, int], ast.Query]
) -> ast.Query:
    key, literals = statement.key, statement.literals
    if key not in _fixed:
        if len(_fixed) >= MOST:
            forget()
        _fixed[key] = None
        return query
    fixed = _fixed[key]
    if fixed is not None:
        member = (key, *[literals[place] for place in fixed])
        if member not in _known:
            if len(_known) >= MOST:
                forget()
            _known[member] = None
            return query
        if _known[member] is not None:  # not usable, or a literal that is not free after all
            return query
    before, behind = query.span.start - statement.begins, statement.end - query.span.end
    if before > statement.first or behind > statement.last or query.label != statement.label:
        return query
    try:
        free, compared, count = free_literals(
            statement.begins, statement.key, statement.literals, query
        )
    except NotAlone:
        return query
    places = {each.place for each in free}
    found = tuple([place for place in range(len(literals)) if place not in places])
    if fixed is None:
        fixed = _fixed[key] = found
    if fixed != found:
        return query
    known = Known(query, free, compared, count, (before, behind), read)
    _known[(key, *[literals[place] for place in fixed])] = known
    own = [each.canonical(literals[each.place]) or "" for each in free]
    made = _query(known, own, statement, query.span)
    _fill(made, query)
    return made


def _query(known: Known, own: list[str], statement: Statement, span: Span) -> Query:
    query = Query.__new__(Query)
    put = object.__setattr__
    put(query, "known", known)
    put(query, "own", own)
    put(query, "_begins", statement.start)
    put(query, "label", statement.label)
    put(query, "publish", known.publish)
    put(query, "at_end", known.at_end)
    put(query, "span", span)
    return query
