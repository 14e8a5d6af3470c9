"""Random cases of event patterns: dense ties, late documents, subscriptions in the middle, revisions.

Texts are made piece by piece and those that the checks refuse are thrown away, so the generator knows
little of the rules. Streams are short, since the oracle tries every choice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

import xscl
from tests.oracle.generate import Batch, Case, Event, Subscribe, Unsubscribe
from tests.oracle.generate_documents import SECOND
from tests.oracle.generate_hard import Restart
from tests.oracle.oracle import Arrival

TAGS = ("a", "b", "c")
_FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last")


@dataclass
class _Query:
    """A query that is being written: its variables so far, by what binds them; `short_ones` is the
    share of those that are of few blocks."""

    random: Random
    short_ones: float = 0.0
    number: int = 0
    single: list[str] = field(default_factory=list)
    several: list[str] = field(default_factory=list)
    negated: list[str] = field(default_factory=list)

    def window(self) -> str:
        return str(self.random.choice((0, 1, 2, 3, 4, 6)))

    def block(self, into: list[str]) -> str:
        self.number += 1
        n, random = self.number, self.random
        bound = ""
        for name in ("k", "v"):
            if random.random() < 0.6:
                into.append(f"{name}{n}")
                bound += f"[./{name}->{name}{n}]"
        if random.random() < 0.15:
            bound += f"[./k = {random.randint(0, 1)}]"
        stream = random.choice(("S", "S", "S", "S", "T"))
        return f"{stream}/{random.choice(TAGS)}{bound}"

    def condition(self, variables: list[str]) -> str:
        random = self.random
        known = [name for name in variables if random.random() < 0.9] or ["k1"]
        one, other = random.choice(known), random.choice(known)
        kind = random.random()
        if kind < 0.35:
            return f"{one} = {other}"
        if kind < 0.5:
            return f"{one} {random.choice(('<', '>', '!=', '<='))} {other}"
        if kind < 0.6:
            return f"{one} {random.choice(('<', '>', '='))} {random.randint(0, 2)}"
        if kind < 0.75:
            function = random.choice(_FUNCTIONS)
            return (
                f"{function}({one}) {random.choice(('<', '>', '>=', '!='))} {random.randint(0, 3)}"
            )
        if kind < 0.85:
            before = f"prev({one})" if kind < 0.8 else f"prev({one}, {other})"
            return f"{one} {random.choice(('>=', '<=', '=', '!='))} {before}"
        if kind < 0.9:
            return f"{one} <= {random.choice(_FUNCTIONS)}({one})"
        if kind < 0.95:
            return f"duration() {random.choice(('<', '>'))} {random.randint(0, 4)}"
        return f"({one} = {other} OR {one} > 1)"

    def every(self) -> list[str]:
        return [*self.single, *self.several, *self.negated]

    def braces(self, after: bool = True) -> str:
        random = self.random
        parts = []
        if random.random() < 0.35:
            parts.append(self.condition(self.every() or ["k1"]))
        if random.random() < 0.5:
            window = self.window()
            parts.append(window + (" AFTER" if after and random.random() < 0.3 else ""))
        return f" {{{', '.join(parts)}}}" if parts else ""

    def term(self, depth: int) -> str:
        random, kind = self.random, self.random.random()
        if kind < 0.5 or depth <= 0:
            return self.block(self.single)
        if kind < 0.65:
            inner = self.block(self.negated)
            if random.random() < 0.2:
                inner = f"({inner} FOLLOWED BY {self.block(self.negated)})"
            elif random.random() < 0.15:
                inner = f"({inner}){{{random.randint(1, 2)},}}"
            elif random.random() < 0.15:
                inner = f"({inner} OR {self.block(self.negated)})"
            return f"NOT {inner}"
        if kind < 0.82:
            inner = self.block(self.several)
            if random.random() < 0.2:
                inner += f" FOLLOWED BY {self.block(self.several)}"
            elif random.random() < 0.2:
                inner += f" OR {self.block(self.several)}"
            quantifier = random.choice(("+", "+", "*", "{2}", "{1,2}", "{2,}", "{1}"))
            return f"({inner}){quantifier}"
        if kind < 0.9:
            return f"({self.block(self.single)} OR {self.block(self.single)})"
        inner = self.chain(depth - 1)
        clauses = ""
        if random.random() < 0.4:
            clauses += f" WHERE {self.condition(self.every() or ['k1'])}"
        if random.random() < 0.4:
            clauses += f" WITHIN {self.window()}"
        return f"({inner}{clauses})"

    def chain(self, depth: int) -> str:
        random = self.random
        text = self.term(depth)
        for _ in range(random.choice((0, 1, 1, 1, 2, 2))):
            kind = random.random()
            if kind < 0.6:
                right = self.term(depth)
                text += f" FOLLOWED BY{self.braces()} {right}"
            elif kind < 0.75:
                right = self.term(depth)
                text += f" JOIN{self.braces(False)} {right}"
            elif kind < 0.88:
                right = self.block(self.single)
                text += f" NEXT{self.braces()} {right}"
            else:
                before = self.every() or ["k1"]
                right = self.block(self.several)
                own = self.several[-1] if self.several else "k1"
                text += f" FOLD {{{self.fold(before, own)}}} {right}"
        return text

    def short(self) -> str:
        """One of the patterns of which queries are matched together."""
        random = self.random
        kind = random.choice(("NEXT", "NEXT", "list", "FOLD", "NOT", "group"))
        text = self.block(self.single)
        if kind == "list":
            for _ in range(random.choice((1, 1, 2))):
                right = self.block(self.single)
                text += f" FOLLOWED BY{self.braces()} {right}"
            return text
        if kind == "NEXT":
            for _ in range(random.choice((1, 2))):
                right = self.block(self.single)
                text += f" NEXT{self.braces()} {right}"
            return text
        if kind == "FOLD":
            before = self.every() or ["k1"]
            right = self.block(self.several)
            own = self.several[-1] if self.several else "k1"
            return f"{text} FOLD {{{self.fold(before, own)}}} {right}"
        if kind == "NOT":
            text += f" FOLLOWED BY{self.braces()} NOT {self.block(self.negated)}"
        else:
            element = self.block(self.several)
            quantifier = random.choice(("+", "+", "*", "{2}", "{1,2}"))
            text += f" FOLLOWED BY{self.braces(False)} ({element}){quantifier}"
        if random.random() < 0.7:
            text += f" FOLLOWED BY{self.braces(False)} {self.block(self.single)}"
        return text

    def fold(self, before: list[str], own: str) -> str:
        random = self.random
        one = random.choice(before)
        choosing = random.choice(("", f"{one} = {own}", f"{own} != {one}"))
        going = random.choice(("", f"{own} >= prev({own}, {one})", f"{own} > {one}"))
        value = ""
        if random.random() < 0.4:
            name = f"t{self.number}"
            self.single.append(name)
            value = f", {name} + {own} AS {name} FROM {random.choice(('0', one))}"
        return (
            f"{choosing},{' ' + going if going else ''}{value}"
            if choosing or going
            else f",{value}"
        )

    def text(self) -> str:
        random = self.random
        short = bool(self.short_ones) and random.random() < self.short_ones
        pattern = self.short() if short else self.chain(2)
        if random.random() < 0.1 and not short:
            pattern += f" OR {self.chain(1)}"
        clauses = ""
        if random.random() < (0.4 if short else 0.2):
            clauses += " PARTITION BY ./k"
        if random.random() < (0.1 if short else 0.4):
            selection = random.choice(
                (
                    *("SKIP TILL ANY MATCH", "SKIP TILL NEXT MATCH", "SKIP TILL NEXT MATCH"),
                    *("STRICT CONTIGUITY", "PARTITION CONTIGUITY", ""),
                )
            )
            choosing = random.choice(("", "", "NON OVERLAPPING", "ONE PER START"))
            if selection or choosing:
                clauses += f" USING {selection} {choosing}".rstrip()
        if random.random() < 0.5:
            conditions = [self.condition(self.every() or ["k1"])]
            if random.random() < 0.3:
                conditions.append(self.condition(self.every() or ["k1"]))
            clauses += f" WHERE {' AND '.join(conditions)}"
        if random.random() < 0.75:
            clauses += f" WITHIN {self.window()}"
        if random.random() < 0.2:
            clauses += f" WAIT {random.randint(0, 3)}"
        if random.random() < 0.12:
            name = random.choice(self.single or ["k1"])
            clauses += f" GROUP BY {name} OVER {self.window()}"
            if random.random() < 0.5:
                clauses += f" HAVING count({name}) > {random.randint(0, 2)}"
        return self.select() + pattern + clauses

    def select(self) -> str:
        random = self.random
        if random.random() < 0.5:
            return ""
        chosen = random.sample(self.single, min(len(self.single), random.randint(0, 2)))
        items = [*chosen]
        for name in random.sample(self.several, min(len(self.several), 1)):
            items.append(random.choice((name, f"{random.choice(_FUNCTIONS)}({name})")))
        return f"SELECT {', '.join(items)} FROM " if items else ""


class _Tied(_Query):
    """One in which mostly all blocks have one value."""

    def block(self, into: list[str]) -> str:
        text = super().block(into)
        name = f"k{self.number}"
        if f"->{name}]" not in text and self.random.random() < 0.9:
            into.append(name)
            text += f"[./k->{name}]"
        return text

    def condition(self, variables: list[str]) -> str:
        known = sorted([v for v in variables if v[0] == "k"], key=lambda name: int(name[1:]))
        if len(known) < 2 or self.random.random() < 0.15:
            return super().condition(variables)
        return f"{self.random.choice(known[:-1])} = {known[-1]}"

    def braces(self, after: bool = True) -> str:
        if self.random.random() < 0.2:
            return super().braces(after)
        return f" {{{self.condition(self.every() or ['k1'])}, {self.random.choice((2, 4, 6))}}}"


class _Several(_Tied):
    """One that looks at several of its matches, and is matched together with others of its shape.
    It asks little, so that there are several."""

    def condition(self, variables: list[str]) -> str:
        if self.random.random() < 0.5:
            return "k1 = k1"
        return super().condition(variables)

    def braces(self, after: bool = True) -> str:
        return super().braces(after) if self.random.random() < 0.4 else ""

    def text(self) -> str:
        random = self.random
        text = self.short()
        if random.random() < 0.3:
            text += " PARTITION BY ./k"
        if random.random() < 0.7:
            runs = "" if " NEXT " in text or " FOLD " in text else "SKIP TILL NEXT MATCH "
            selection = random.choice(("", "", runs))
            choosing = random.choice(("NON OVERLAPPING", "ONE PER START"))
            text += f" USING {selection}{choosing}"
        if random.random() < 0.2:
            text += f" WHERE {self.condition(self.every() or ['k1'])}"
        text += f" WITHIN {random.choice((3, 4, 6))}"
        if " USING " not in text or random.random() < 0.2:
            name = random.choice(self.single or ["k1"])
            text += f" GROUP BY {name} OVER {self.window()}"
            if random.random() < 0.3:
                text += f" HAVING count({name}) > 1"
        return self.select() + text


def several_text(random: Random) -> str:
    """A query that the checks take, and that looks at several of its matches, without a label."""
    while True:
        text = _Several(random).text()
        try:
            xscl.check([xscl.parse(text)])
        except xscl.XsclError:
            continue
        return text


def pattern_text(random: Random, *, tied: bool = False, short_ones: float = 0.0) -> str:
    """A query of Part 2 that the checks take, without a label; if it is to be `tied`, most of its
    blocks have one value. That share is of few blocks."""
    while True:
        text = (_Tied if tied else _Query)(random, short_ones).text()
        try:
            xscl.check([xscl.parse(text)])
        except xscl.XsclError:
            continue
        if any(
            word in text for word in ("NOT", ")+", ")*", ")}", "NEXT", "FOLD", "OR", "USING", "{")
        ):
            return text


def _of_one_form(text: str) -> list[str]:
    """Queries that differ in a constant of their last block."""
    at = [each.end() for each in re.finditer("[ST]/[abc]", text)][-1]
    return [f"{text[:at]}[./v = {n}]{text[at:]}" for n in range(3)]


def pattern_documents(
    random: Random, count: int, keys_each: tuple[int, ...] = (1, 1, 1, 1, 2)
) -> list[Arrival]:
    found = []
    time = 0
    for number in range(count):
        time += random.choice((0, 0, 1, 1, 1, 2))
        tag = random.choice(TAGS)
        keys = "".join(f"<k>{random.randint(0, 1)}</k>" for _ in range(random.choice(keys_each)))
        xml = f"<{tag}>{keys}<v>{random.randint(0, 2)}</v></{tag}>"
        streams = random.choice((("S",), ("S",), ("S",), ("T",), ("S", "T")))
        found.append(Arrival(f"d{number}", streams, time * SECOND, xml))
    return found


def pattern_case(random: Random, *, tied: bool = False, several: bool = False) -> Case:
    """Queries and a short stream: cut anyhow, late, restarted, revised, with more time at the end.
    Where they are `tied`, documents seldom have several keys. All of them look at `several` of
    their matches, or as it comes."""
    count = random.choice((1, 2, 3))
    if several:
        texts = [several_text(random) for _ in range(count)]
        if random.random() < 0.6:
            texts = _of_one_form(texts[0])
    else:
        texts = [pattern_text(random, tied=tied, short_ones=0.25) for _ in range(count)]
        if random.random() < 0.15:
            texts = _of_one_form(pattern_text(random, tied=tied, short_ones=1.0))
    queries = [f"p{n}: {text}" for n, text in enumerate(texts)]
    if random.random() < 0.25:
        # Of an OR two matches may have the same documents, and only the engine tells them apart.
        inner = pattern_text(random)
        while " OR " in inner:
            inner = pattern_text(random)
        queries.append(f"{inner} PUBLISH R{random.choice(('', ' AT END'))}")
        queries.append(random.choice(_READING))
    text = ";\n".join(queries)
    ids = tuple(query.id for query in xscl.check([xscl.parse(text)]).queries)
    keys = random.choice(((1,), (1,), (*[1] * 9, 2))) if tied else (1, 1, 1, 1, 2)
    documents = pattern_documents(random, random.randint(4, 8) + 4 * several, keys)
    lateness = random.choice((0, 0, 1, 2, 3))
    order = [(d.timestamp + random.randint(0, lateness + 1) * SECOND, d) for d in documents]
    arrived = [d for _, d in sorted(order, key=lambda each: each[0])]
    events: list[Event] = []
    at = random.choice((0, 0, 0, 1, 2))
    if at:
        events.append(Batch(tuple(arrived[:at])))
    events.append(Subscribe(text, ids))
    rest = arrived[at:]
    while rest:
        size = random.choice((1, 1, 2, 3, len(rest)))
        events.append(Batch(tuple(rest[:size])))
        rest = rest[size:]
        if random.random() < 0.15:
            events.append(Restart())
        while random.random() < 0.2:
            old = random.choice(arrived)
            new = random.choice(documents)
            at = old.timestamp + random.choice((0, 0, 1, 3, 6)) * SECOND
            events.append(Batch((Arrival(old.id, old.streams, at, new.xml, revision=True),)))
        if random.random() < 0.04:
            events.append(Unsubscribe(random.choice(ids)))
            break
    end = max(d.timestamp for d in documents)
    for n in (3, 40):
        events.append(Batch((Arrival(f"end{n}", ("~",), end + n * SECOND, "<end/>"),)))
    return Case(
        lateness * SECOND, tuple(events), random.choice((2, 8)), random.choice((1, 1_000_000))
    )


_READING = (
    "r: R/result->x FOLLOWED BY {2} NOT S/c",
    "r: R/result->x NEXT S/a",
    "r: S/b FOLLOWED BY {3} R/result->x",
    "r: S/c->z FOLLOWED BY R/result->x FOLLOWED BY NOT S/b FOLLOWED BY {6} S/a->y",
    "r: S/a->y FOLLOWED BY NOT R/result FOLLOWED BY {4} S/b->z",
)
