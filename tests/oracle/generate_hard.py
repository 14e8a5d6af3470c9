"""Random cases in which nearly everything joins with nearly everything, the difficult ones of stage
2.

`generate.case` draws from the whole language, and few of its documents share two values. Here the
vocabulary is tiny and so are the queries' choices: posts with leaves a, b, c and persons (name n,
mail m) that belong together, alone or several in one feed; four values, of which one or two are in
most documents. So values are hot, pairs agree on several of them, and matches are many.

The queries of a case are made of few *bodies*, each asked several times with different windows, so
that they share canonical queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import xscl
from tests.oracle.generate import WEEK, Batch, Case, Event, Subscribe, Unsubscribe
from tests.oracle.generate_documents import SECOND
from tests.oracle.generate_hard_documents import EVEN, HOT, World
from tests.oracle.oracle import Arrival, Oracle

WINDOWS = ("0 s", "1 s", "2 s", "2 s", "3 s", "3 s", "4 s", "6 s", "INFINITY", "")
MOST_RESULTS = 10
"""A query with more results than this publishes no stream, or the brute force would not end."""


@dataclass(frozen=True, slots=True)
class Restart(Batch):
    """An empty batch, before which a broker is closed and opened again."""

    documents: tuple[Arrival, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """How long patterns are, how many documents there are, how common the values in them. `equal`:
    whether queries say nothing but that values are equal."""

    blocks: tuple[int, ...]
    documents: tuple[int, int]
    weights: tuple[tuple[int, ...], ...]
    equal: bool = False


KINDS = (
    Kind((2, 2, 2, 2, 2, 1), (14, 30), HOT),
    Kind((2, 2, 2, 2, 2, 1), (14, 30), HOT),
    Kind((2, 3, 3), (12, 18), HOT + EVEN),
    Kind((4, 4, 3), (10, 14), HOT[1:3] + EVEN),
)
LONG = (
    Kind((3, 3, 3, 2), (12, 18), HOT + EVEN, equal=True),
    Kind((4, 4, 3), (10, 14), HOT[1:3] + EVEN, equal=True),
)
"""Queries that are searched from document to document."""


def hard_case(r: Random, kinds: Sequence[Kind] = KINDS) -> Case:
    """Documents in and out of order, echoes of them, queries that come and go, a restart."""
    kind = r.choice(kinds)
    world = World(r, kind.weights)
    stream = world.echoes(world.stream(r.randint(*kind.documents)))
    maker = Bodies(r, kind, world, stream)
    events: list[Event] = []
    standing: list[Subscribe] = []
    batches = world.cut(stream)
    restart = r.randrange(len(batches)) if r.random() < 0.3 else None
    for number, batch in enumerate(batches):
        for _ in range(r.choice((0, 0, 0, 1, 2)) if events else r.randint(3, 5)):
            events += maker.change(standing)
        if number == restart:
            events.append(Restart())
        events.append(batch)
    lateness = r.choice((WEEK, WEEK, WEEK, 6 * SECOND, 3 * SECOND))
    memory = r.choice((1, 2, 4, 8, 1_000_000) if kind.weights is HOT else (1, 2, 3, 1_000_000))
    if kind.equal:
        memory = r.choice((8, 1_000_000, 1_000_000))
    return Case(lateness, tuple(events), r.choice((2, 3, 8)), memory)


@dataclass(slots=True)
class Block:
    """Text of a block; `joins` are its variables that may join, `others` those that stand for
    inner nodes, and `number` is a variable of a number, if it has one."""

    text: str
    joins: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    number: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A query but for its windows, each of which is a `§`."""

    select: str
    pattern: str


class Bodies:
    """The queries of one case."""

    def __init__(self, r: Random, kind: Kind, world: World, stream: Sequence[Arrival]) -> None:
        self.r = r
        self.kind = kind
        self.world = world
        self.stream = stream
        self.streams: list[str] = []  # of results
        self.pool: list[Body] = []
        self._names = self._labels = 0

    # -- subscriptions that come and go ------------------------------------------------------

    def change(self, standing: list[Subscribe]) -> list[Event]:
        """One more query, or one less, or one that comes again; `standing` is kept up to date."""
        r = self.r
        if self._labels > 2 and standing and r.random() < 0.5:
            old = standing.pop(r.randrange(len(standing)))
            dice = r.randint(0, 3)
            if dice == 0:
                return [Unsubscribe(old.ids[0])]
            if dice == 1 and " PUBLISH " not in old.text:  # another text under its id
                new = Subscribe(f"{old.ids[0]}: {self.instance(self.body(plain=True))}", old.ids)
            else:
                new = old
            standing.append(new)
            return [Unsubscribe(old.ids[0]), new] if dice == 2 else [new]
        if self._labels >= 8:
            return []
        self._labels += 1
        standing.append(self.query(f"q{self._labels}"))
        return [standing[-1]]

    def query(self, label: str) -> Subscribe:
        """A new body, or one that was there with other windows."""
        if self.pool and self.r.random() < 0.5:
            body = self.r.choice(self.pool)
        else:
            body = self.body()
            for _ in range(5):
                if self.results(self.instance(body)) or self.streams:
                    break
                body = self.body()
            self.pool.append(body)
            if self.r.random() < 0.35 and (text := self.publishing(label)) is not None:
                return Subscribe(text, (label,))
        return Subscribe(f"{label}: {self.instance(body)}", (label,))

    def instance(self, body: Body) -> str:
        text = body.pattern
        short = text.count("§") > 2
        while "§" in text:
            text = text.replace("§", self.window(short), 1)
        text = text.replace("{, ", "{").replace(" {}", "")
        within = self.window(short) if self.r.random() < 0.3 else ""
        select = f"SELECT {body.select} FROM " if body.select else ""
        return select + text + within.replace(", ", " WITHIN ")

    def window(self, short: bool) -> str:
        found = self.r.choice(WINDOWS[2:] if short else WINDOWS)
        return f", {found}" if found else ""

    def publishing(self, label: str) -> str | None:
        """A query whose results are posts in a stream, of which others are made from then on."""
        if 4 in self.kind.blocks:
            return None
        left, right = self.flat("S"), self.flat(self.r.choice("SSSSSR"))
        x, y = self.r.choice(left.joins), self.r.choice(right.joins)
        select = (
            f'<p k="{{{x}}}"><a>{{{x}}}</a><b>{{{y}}}</b><c>{{{right.joins[0]}}}</c><s>2</s></p>'
        )
        operator = self.r.choice(("JOIN", "FOLLOWED BY"))
        joined = self.equalities(left, right, self.r.choice((1, 2)))
        for window in ("3 s", "1 s", "0 s"):
            text = (
                f"SELECT {select} FROM {left.text} {operator} {{{joined}, {window}}} {right.text}"
            )
            if 0 < self.results(text) <= MOST_RESULTS:
                self.streams.append(f"{label}.o")
                return f"{label}: {text} PUBLISH {label}.o"
        return None

    def results(self, text: str) -> int:
        """How many matches a query has that stands from the first document on."""
        oracle = Oracle()
        for resolved in xscl.check([xscl.parse(text)]).queries:
            oracle.subscribe(resolved)
        return len(oracle.process(self.stream))

    # -- bodies ------------------------------------------------------------------------------

    def body(self, plain: bool = False) -> Body:
        """`plain`: reading no stream of results, so that it may stand under any id."""
        r = self.r
        self._names = 0
        count = r.choice(self.kind.blocks)
        blocks = [self.block(plain) for _ in range(count)]
        pattern = self.joined(blocks)
        variables = [v for b in blocks for v in (*b.joins, *b.others)]
        select = ""
        if r.random() < 0.6:
            items = r.sample(variables, min(len(variables), r.choice((1, 1, 2, 3))))
            if r.random() < 0.15 and (inner := [v for b in blocks for v in b.others]):
                items.append(f"{r.choice(inner)}//{r.choice('abnm')} AS n0")
            select = ", ".join(items)
        return Body(select, pattern)

    def joined(self, blocks: list[Block]) -> str:
        """The blocks with operators between them: a chain to the left, or to the right."""
        r = self.r
        if len(blocks) == 1:
            return blocks[0].text
        if len(blocks) > 2 and r.random() < 0.3:
            inner = self.joined(blocks[1:])
            return f"{blocks[0].text} {self.operator(blocks[:1], blocks[1:])} ({inner})"
        left = self.joined(blocks[:-1])
        return f"{left} {self.operator(blocks[:-1], blocks[-1:])} {blocks[-1].text}"

    def operator(self, lefts: list[Block], rights: list[Block]) -> str:
        r = self.r
        left, right = r.choice(lefts), r.choice(rights)
        many = len(lefts) + len(rights) > 2
        if r.random() < 0.12 and not many and not self.kind.equal:
            return f"FOLLOWED BY {{{self.residual(left, right)}, 1 s}}"  # nothing ties the blocks
        parts = [self.equalities(left, right, r.choice((1, 1, 1, 2) if many else (1, 1, 2, 2, 3)))]
        if len(lefts) > 1 and r.random() < 0.25:
            parts.append(self.equalities(r.choice(lefts), right, 1))
        if r.random() < 0.15 and not self.kind.equal:
            parts.append(self.residual(left, right))
        kind = "FOLLOWED BY" if r.random() < (0.7 if many else 0.5) else "JOIN"
        return f"{kind} {{{' AND '.join(dict.fromkeys(parts))}§}}"

    def equalities(self, left: Block, right: Block, count: int) -> str:
        """Joins of different variables, mostly in the order in which the blocks name them, so that
        names join with names; sometimes one variable joins two."""
        r = self.r
        count = min(count, len(left.joins), len(right.joins))
        if r.random() < 0.5:
            pairs = list(zip(left.joins[:count], right.joins[:count], strict=True))
        else:
            pairs = list(
                zip(r.sample(left.joins, count), r.sample(right.joins, count), strict=True)
            )
        if r.random() < 0.1:
            pairs.append((r.choice(left.joins), r.choice(right.joins)))
        return " AND ".join(f"{a} = {b}" for a, b in dict.fromkeys(pairs))

    def residual(self, left: Block, right: Block) -> str:
        r = self.r
        x, y = r.choice(left.joins), r.choice(right.joins)
        z, t = r.choice(left.joins), r.choice(right.joins)
        if left.number and right.number and r.random() < 0.7:
            return f"{left.number} {r.choice(('<', '<=', '!='))} {right.number}"
        return r.choice((f"{x} != {y}", f"NOT ({x} = {y})", f"({x} = {y} OR {z} = {t})"))

    # -- blocks ------------------------------------------------------------------------------

    def block(self, plain: bool) -> Block:
        r = self.r
        if self.streams and not plain and r.random() < 0.4:
            return self.flat(r.choice(self.streams))
        make = r.choice((self.flat, self.flat, self.flat, self.people, self.people, self.feed))
        return make(r.choice("SSSSSR"))

    def name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def leaf(self, block: Block, path: str) -> str:
        """A leaf that may join. A constant beside it makes another variable of the same value."""
        name = self.name()
        block.joins.append(name)
        same = f"[. = '{self.world.value()}']" if self.r.random() < 0.1 else ""
        return f"[./{path}->{name}{same}]"

    def inner(self, block: Block) -> str:
        """A variable of an inner node, mostly there."""
        if self.r.random() < 0.3:
            return ""
        block.others.append(self.name())
        return f"->{block.others[-1]}"

    def leaves(self, block: Block) -> str:
        r = self.r
        text = "".join(
            self.leaf(block, path)
            for path in r.sample(("a", "b", "c", "@k"), r.choice((1, 1, 2, 2, 3)))
        )
        if r.random() < 0.2:
            block.number = self.name()
            text += f"[./s->{block.number}]"
        if r.random() < 0.08:
            text += r.choice((f"[./c = '{self.world.value()}']", "[./s > 1]", "[./w]"))
        return text

    def person(self, block: Block) -> str:
        return f"[./w{self.inner(block)}{self.leaf(block, 'n')}{self.leaf(block, 'm')}]"

    def flat(self, stream: str) -> Block:
        made = Block("")
        made.text = f"{stream}//p{self.inner(made)}{self.leaves(made)}"
        return made

    def people(self, stream: str) -> Block:
        """A name and a mail of one person, in whatever post; or two levels of it."""
        made = Block("")
        if self.r.random() < 0.3:
            top, names = self.inner(made), self.leaf(made, "n") + self.leaf(made, "m")
            made.text = f"{stream}//w{top}{names}"
        else:
            top, person = self.inner(made), self.person(made)
            more = self.leaves(made) if self.r.random() < 0.3 else ""
            made.text = f"{stream}//p{top}{person}{more}"
        return made

    def feed(self, stream: str) -> Block:
        """Three levels: what joins comes from one post, or from one person in it."""
        made = Block("")
        top, post = self.inner(made), self.inner(made)
        below = self.person(made) if self.r.random() < 0.5 else self.leaves(made)
        above = self.leaf(made, "h") if self.r.random() < 0.5 else ""
        made.text = f"{stream}/f{top}[./p{post}{below}]{above}"
        return made
