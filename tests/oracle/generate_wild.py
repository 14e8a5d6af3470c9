"""Random queries of all that the grammar has, put together with little regard for the rules: queries
and patterns in parentheses anywhere, groups and NOTs of them, any clause behind any pattern.

Most are refused. What is not is one case with a few documents of ties and nested elements.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import xscl
from tests.oracle.generate import Batch, Case, Subscribe
from tests.oracle.generate_documents import SECOND
from tests.oracle.oracle import Arrival

_WINDOWS = ("1 h", "2 s", "0", "INFINITY", "5", "1 day", "T1")
_FUNCTIONS = ("count", "sum", "first", "last", "prev", "avg", "min", "max", "duration")
_TEXTS = ("string-length", "url", "words", "number")
_TESTS = ("= '1'", "> 2", "!= 'x'")
_USING = (
    *("SKIP TILL ANY MATCH", "SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", "PARTITION CONTIGUITY"),
    *("NON OVERLAPPING", "ONE PER START", "SKIP TILL NEXT MATCH NON OVERLAPPING"),
)


class _Unbound(Exception):
    """No variable is bound where one is needed."""


class _Writer:
    """A query that is being written, with its variables so far; their numbers begin at `number`."""

    def __init__(self, random: Random, number: int = 0) -> None:
        self.random = random
        self.number = number
        self.bound: list[str] = []

    def one(self, *texts: str) -> str:
        return self.random.choice(texts)

    def sometimes(self, share: float, text: Callable[[], str]) -> str:
        return text() if self.random.random() < share else ""

    def binding(self) -> str:
        if self.bound and self.random.random() < 0.01:
            return f"->{self.known()}"
        self.number += 1
        self.bound.append(f"v{self.number}")
        return f"->v{self.number}"

    def known(self) -> str:
        if not self.bound:
            raise _Unbound
        return self.random.choice(self.bound)

    # -- blocks --------------------------------------------------------------------------------

    def steps(self) -> str:
        text = ""
        for n in range(self.random.choice((1, 1, 2))):
            names = ("a", "b", "c", "*") if n == 0 else ("b", "*", "c", "@d", "text()")
            text += self.one("/", "//") + self.one(*names)
            text += self.binding() if n == 0 else ""
            for _ in range(self.random.choice((0, 0, 1, 2))):
                text += f"[{self.inside()}]"
        return text

    def inside(self) -> str:
        path = self.one("./b", "./c/@d", "./@d", ".//b", "./text()", "./*", "./b/c")
        if self.random.random() < 0.6:
            return path + self.binding()
        return self.one(
            *(path, f"{path} {self.one(*_TESTS)}", f"contains({path}, 'x')", f"not({path})"),
            *(f"count({path}) = 1", f"{path} and @d", "1", "last()"),
        )

    # -- predicates ----------------------------------------------------------------------------

    def value(self, depth: int = 0) -> str:
        name, kind = self.known(), self.random.random()
        if kind < 0.4:
            text = name
        elif kind < 0.5:
            text = name + self.one("/b", "/@d", "//c", "/text()")
        elif kind < 0.6:
            text = self.one("1", "'x'")
        elif kind < 0.9:
            text = f"{self.one(*_FUNCTIONS)}({name}{self.one('', '', '/b')})"
        else:
            text = f"{self.one(*_TEXTS)}({name})"
        if depth < 2 and self.random.random() < 0.15:
            text += f" {self.one('+', '-', '*', 'div', 'mod')} {self.value(depth + 1)}"
        return text

    def condition(self, depth: int = 0) -> str:
        kind = self.random.random()
        if depth < 2 and kind < 0.2:
            return (
                f"{self.condition(depth + 1)} {self.one('AND', 'OR')} {self.condition(depth + 1)}"
            )
        if kind < 0.27:
            return f"NOT ({self.condition(depth + 1)})"
        if kind < 0.35:
            return f"{self.one('contains', 'starts-with')}({self.value()}, {self.value()})"
        return f"{self.value()} {self.one('=', '=', '=', '!=', '<', '>=')} {self.value()}"

    # -- patterns ------------------------------------------------------------------------------

    def term(self, depth: int) -> str:
        kind = self.random.random()
        if depth <= 0 or kind < 0.55:
            text = self.one("S", "S", "S", "U") + self.steps()
        elif kind < 0.65:
            text = f"({self.inner(depth - 1)}){self.path()}"
        elif kind < 0.85:
            quantifier = self.one("", "+", "*", "{2}", "{1,2}", "{2,}")
            text = f"({self.pattern(depth - 1)}){quantifier}"
        else:
            judged = self.pattern(depth - 1)
            judged += self.sometimes(0.5, lambda: f" WHERE {self.condition()}")
            judged += self.sometimes(0.5, lambda: f" WITHIN {self.one(*_WINDOWS)}")
            text = f"({judged})"
        return self.sometimes(0.05, lambda: "NOT ") + text

    def inner(self, depth: int) -> str:
        """A query for parentheses, whose variables are its own."""
        self.number += 100
        return _Writer(self.random, self.number + 50).query(depth, True)

    def path(self) -> str:
        return self.random.choice(
            (
                lambda: "",
                lambda: "/result",
                lambda: f"//*{self.binding()}",
                lambda: f"/result[./b{self.binding()}]",
                lambda: "//b",
            )
        )()

    def chain(self, depth: int) -> str:
        text = self.term(depth)
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            if self.random.random() < 0.12:
                text += self.fold(depth)
            else:
                operator = self.one("JOIN", "FOLLOWED BY", "FOLLOWED BY", "NEXT")
                right = self.term(depth)
                text += f" {operator}{self.braces()} {right}"
        return text

    def braces(self) -> str:
        parts = [self.condition()] if self.random.random() < 0.6 else []
        if self.random.random() < 0.6:
            parts.append(self.one(*_WINDOWS) + self.sometimes(0.1, lambda: " AFTER"))
        return f" {{{', '.join(parts)}}}" if parts else ""

    def fold(self, depth: int) -> str:
        right = self.term(depth)
        parts = [self.sometimes(0.5, self.condition) for _ in range(2)]
        for _ in range(self.random.choice((0, 0, 1))):
            value, first = self.value(), self.value()
            parts.append(f"{value} AS {self.binding().removeprefix('->')} FROM {first}")
        return f" FOLD {{{', '.join(parts)}}} {right}"

    def pattern(self, depth: int) -> str:
        return self.chain(depth) + self.sometimes(0.12, lambda: f" OR {self.chain(depth)}")

    # -- queries -------------------------------------------------------------------------------

    def query(self, depth: int, nested: bool = False) -> str:
        pattern = self.pattern(depth)
        text = ""
        if nested or self.random.random() < 0.5:
            text = f"SELECT {self.selected()} FROM "
        text += pattern
        text += self.sometimes(
            0.15, lambda: f" PARTITION BY {self.one('./b', './c/@d', '@d, ./b')}"
        )
        text += self.sometimes(0.2, lambda: f" USING {self.one(*_USING)}")
        text += self.sometimes(0.3, lambda: f" WHERE {self.condition()}")
        text += self.sometimes(0.4, lambda: f" WITHIN {self.one(*_WINDOWS)}")
        text += self.sometimes(0.1, lambda: f" WAIT {self.one(*_WINDOWS)}")
        text += self.sometimes(0.1, self.over)
        if not nested:
            text += self.sometimes(0.2, lambda: f" PUBLISH T{self.one('', ' AT END')}")
        return text

    def selected(self) -> str:
        kind = self.random.random()
        if kind < 0.3:
            return "*"
        if kind < 0.7:
            return ", ".join(self.one(self.known(), f"{self.value()} AS k") for _ in range(2))
        return f"<r a='{{{self.known()}}}'>{{{self.value()}}}<k/>{{{self.known()}}}</r>"

    def over(self) -> str:
        text = self.sometimes(0.5, lambda: f" GROUP BY {self.value()}")
        text += f" OVER {self.one('1 h', '2 s', 'INFINITY')}"
        return text + self.sometimes(0.5, lambda: f" HAVING {self.condition()}")


def wild_text(random: Random) -> str | None:
    """A file of one or two queries; None where a variable was needed and none bound."""
    try:
        text = f"q: {_Writer(random).query(random.choice((0, 1, 1, 2)))};"
        if random.random() < 0.2:
            text += f"\nr: {_Writer(random).query(1)};"
    except _Unbound:
        return None
    return f"LET T1 = 3 s;\n{text}"


def wild_case(random: Random) -> Case:
    """A case of queries that the checks let through. Raises nothing but what they should not."""
    while True:
        text = wild_text(random)
        if text is None:
            continue
        try:
            queries = xscl.check([xscl.parse(text)]).queries
        except xscl.XsclError:
            continue
        break
    published = any(each.query.publish for each in queries)
    streams = [("S",), ("S",), ("U",), ("S", "U"), ("S",) if published else ("T",)]
    time, documents = 1_000 * SECOND, []
    for n in range(random.choice((5, 8, 11))):
        time += random.choice((0, 0, 1, 1, 2)) * SECOND // random.choice((1, 1, 2))
        documents.append(Arrival(f"d{n}", random.choice(streams), time, _element(random, 2)))
    cut = random.randrange(len(documents) + 1)
    end = Arrival("end", ("S", "U", "T"), 10**7 * SECOND, "<end/>")
    if published:
        end = Arrival("end", ("S", "U"), 10**7 * SECOND, "<end/>")
    parts = (tuple(documents[:cut]), tuple(documents[cut:]), (end,))
    ids = tuple([each.id for each in queries])
    lateness = random.choice((0, 0, 2)) * SECOND
    return Case(lateness, (Subscribe(text, ids), *[Batch(part) for part in parts if part]))


def _element(random: Random, depth: int) -> str:
    name = random.choice(("a", "b", "c", "e"))
    attribute = random.choice(("", " d='1'", " d='x'"))
    count = random.choice((0, 1, 2)) if depth else 0
    inner = "".join(_element(random, depth - 1) for _ in range(count))
    return f"<{name}{attribute}>{inner}{random.choice(('1', '2', 'x', ''))}</{name}>"
