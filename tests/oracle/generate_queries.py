"""Random queries as XSCL text, so that the parser is exercised too.

Several queries of one broker draw from one pool of blocks, so that they share definitions under
other variable names.

With `derived`, some queries publish, and their results are among the documents that blocks are
read off from then on; and some blocks are paths into a query in parentheses, read off its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from lxml import etree

import xscl
from tests.oracle.generate_blocks import NUMBERS, POSITIONS, Blocks, Shape
from tests.oracle.generate_blocks import quoted as quoted
from tests.oracle.generate_documents import TAGS, URI, Level
from tests.oracle.oracle import Arrival, Oracle

WINDOWS = ("3 s", "2 seconds", "4000 ms", "W", "2", "1 s", "5 s", "0.5 s", "0 s", "INFINITY")
MOST_RESULTS = 8
"""A query with more results than this is read by no other: the brute force would not end."""
MOST_MATCHES = 60
"""A query with more matches than this is made anew, where queries may read its results."""
PREAMBLE = f'LET W = 2 s;\nLET NAMESPACE n = "{URI}";\n'


@dataclass(slots=True)
class Names:
    """The variables of one query, each with the value it had where its block was read."""

    r: Random
    taken: dict[str, str] = field(default_factory=dict)

    def fresh(self, value: str) -> str:
        number = len(self.taken) + 1
        style = self.r.randint(0, 5)
        name = {0: f"x{(number + 1) // 2}" + "'" * number, 1: f"v_{number}"}.get(
            style, f"x{number}"
        )
        while name in self.taken:
            name += "'"
        self.taken[name] = value
        return name


class Maker(Blocks):
    """Queries over some documents. One maker per broker: its blocks are shared.

    `derived`: whether queries read other queries' results.
    """

    def __init__(
        self, r: Random, level: Level, documents: Sequence[Arrival], derived: bool = False
    ) -> None:
        super().__init__(r, level, documents)
        self.derived = derived
        self.arrivals = list(documents)
        self.published: set[str] = set()
        self.depth = 0  # of parentheses around the query that is being made
        self.readers: list[Shape] = []  # blocks of published streams
        self.pool: list[Shape] = []
        for _ in range(r.randint(1, 4)):
            self.pool.append(self.block())

    # -- blocks ------------------------------------------------------------------------------

    def answered(self, text: str) -> bool:
        """Does it match anything in the documents? Of several tries, one that does is better.

        What the language refuses counts as answered, so that whoever uses it finds out. What has
        far too many answers does not.
        """
        oracle = Oracle()
        try:
            for resolved in xscl.check([xscl.parse(PREAMBLE + text)]).queries:
                oracle.subscribe(resolved)
        except xscl.XsclError:
            return True
        # No more is found than it takes to know.
        most = MOST_MATCHES if self.derived else 0
        count = 0
        for arrival in self.arrivals:
            count += len(oracle.arrive(arrival))
            if count > most:
                return not self.derived
        return count > 0

    def block(self) -> Shape:
        for _ in range(4):
            shape = self.any_block()
            if self.answered(shape.text.replace("§", "_")):
                break
        return shape

    def any_block(self) -> Shape:
        if self.derived and self.depth < 2 and self.chance(12):
            return self.nested_block()
        return self.stream_block()

    # -- results that others read ------------------------------------------------------------

    def results(self, text: str, stream: str) -> list[Arrival]:
        """What a query publishes over the documents and results that are known, if not too much.

        Their intervals are forgotten: this is to know what blocks can find in them.
        """
        oracle = Oracle()
        try:
            (resolved,) = xscl.check([xscl.parse(PREAMBLE + text)]).queries
        except xscl.XsclError:
            return []
        oracle.subscribe(resolved)
        found = oracle.published(self.arrivals)
        if len(found) > MOST_RESULTS:
            return []
        return [Arrival(f"{stream}{i}", (stream,), end, xml) for i, (end, xml) in enumerate(found)]

    def nested_block(self) -> Shape:
        """A path into a query in parentheses; a block of a stream where that has no results."""
        self.depth += 1
        try:
            inner = self.any_query(None, self.r.choice((1, 1, 2)))
        finally:
            self.depth -= 1
        if not inner.upper().startswith("SELECT"):
            inner = f"SELECT * FROM {inner}"
        results = self.results(inner, "nested")
        if not results:
            arrival, root = self.r.choice(self.documents)
            return self.block_off(root, arrival.streams[0])
        shape = self.block_off(etree.fromstring(self.r.choice(results).xml), "")
        return replace(shape, text=f"({inner}){self.r.choice(('', ' '))}{shape.text}")

    def publish(self, text: str, stream: str) -> str:
        """Let a query publish, so that those made after it may read its results."""
        results = self.results(text, stream)
        if not results and not self.chance(10):
            return text
        self.published.add(stream)
        self.arrivals += results
        parsed = [(d, etree.fromstring(d.xml)) for d in results]
        self.documents += parsed
        for document, root in parsed[:2]:
            self.readers.append(self.block_off(root, document.streams[0]))
        return f"{text} {self.keyword('PUBLISH')} {stream}"

    # -- queries -----------------------------------------------------------------------------

    def query(self, label: str | None) -> str:
        """One statement, without its semicolon; it may use the names of the preamble."""
        count = self.r.choice((2, 2, 2, 1, 3, 3, 4))
        for _ in range(7):
            text = self.any_query(label, count)
            if self.answered(text):
                break
        else:
            text = self.any_query(label, 1) if self.derived else text
        if self.derived and label and f"{label}.out" not in self.published and self.chance(70):
            return self.publish(text, f"{label}.out")
        return text

    def any_query(self, label: str | None, count: int) -> str:
        names = Names(self.r)
        text, variables, _ = self.pattern(names, count)
        select = self.select(list(names.taken))
        parts = [f"{label}:"] if label else []
        if select is not None:
            parts += [self.keyword("SELECT"), select, self.keyword("FROM")]
        parts.append(text)
        if variables and self.chance(20):
            parts += [self.keyword("WHERE"), self.predicate(names, variables, variables)]
        if self.chance(20):
            parts += [self.keyword("WITHIN"), self.r.choice(WINDOWS)]
        return " ".join(parts)

    def keyword(self, word: str) -> str:
        return word.lower() if self.chance(10) else word

    def pattern(self, names: Names, count: int) -> tuple[str, list[str], bool]:
        """Text and variables of a pattern of `count` blocks, and whether it is a block alone."""
        if count == 1:
            fresh = not self.pool or self.chance(25)
            shape = self.block() if fresh else self.r.choice(self.pool)
            if self.readers and self.chance(40):
                shape = self.r.choice(self.readers)
            text, mine = shape.text, [names.fresh(value) for value in shape.values]
            for k, name in enumerate(mine):
                text = text.replace(f"§{k}§", name)
            return (f"({text})", mine, True) if self.chance(4) else (text, mine, True)
        on_left = self.r.randint(1, count - 1) if self.chance(40) else count - 1
        left, left_names, left_alone = self.pattern(names, on_left)
        right, right_names, right_alone = self.pattern(names, count - on_left)
        if not left_alone and self.chance(30):
            left = f"({left})"
        if not right_alone:
            right = f"({right})"
        operator = self.keyword(self.r.choice(("JOIN", "JOIN", "FOLLOWED BY")))
        inside = []
        if left_names and right_names and self.chance(88):
            inside.append(self.predicate(names, left_names, right_names))
        if self.chance(35):
            inside.append(self.r.choice(WINDOWS))
        braces = f" {{{', '.join(inside)}}}" if inside else ""
        return f"{left} {operator}{braces}\n  {right}", [*left_names, *right_names], False

    def select(self, names: list[str]) -> str | None:
        if not names or self.chance(35):
            return None if self.chance(60) else "*"
        if self.level == "full" and self.chance(20):
            return self.elaborate(names) if self.derived else self.constructor(names)
        items = []
        for i in range(self.r.randint(1, min(3, len(names)))):
            item = self.r.choice(names)
            if self.level == "full" and self.chance(25):
                item = self.expression([item], 1)
                items.append(f"{item} AS n{i}")
                continue
            items.append(f"{item} AS n{i}" if self.chance(30) else item)
        return ", ".join(items)

    def constructor(self, names: list[str]) -> str:
        inner = f"<k>{{{self.r.choice(names)}}}</k>" if self.chance(50) else ""
        return (
            f'<out n="{{{self.r.choice(names)}}}">t {inner}'
            f"{{{self.expression([self.r.choice(names)], 1)}}}</out>"
        )

    def elaborate(self, names: list[str]) -> str:
        """A constructor of all that there is: namespaces, references, braces, nested elements."""
        r = self.r
        tag = r.choice(("out", "a", "n:a", "out"))
        head = r.choice(("", "", f' xmlns="{URI}"', ' xmlns:q="urn:q" q:i="q"', " i='{{'"))
        if self.chance(50):
            many = r.choice(names) + r.choice(("//text()", "//*", "/@*"))
            head += f' j="{{{many if self.chance(50) else self.expression(names, 1)}}}"'
        content = ""
        for _ in range(r.randint(0, 3)):
            content += r.choice(("", "", "\n  ", " t ", "&amp;", "&#32;", "}}", "<!-- c -->"))
            inner = f"{{{self.expression(names, r.randint(0, 1))}}}"
            name = r.choice((None, "a", "b", "n:c"))
            content += inner if name is None else f"<{name}>{inner}</{name}>"
        return f"<{tag}{head}>{content}</{tag}>"

    # -- predicates --------------------------------------------------------------------------

    def predicate(self, names: Names, left: list[str], right: list[str]) -> str:
        """Something between two sets of variables: in the core, equalities of bare variables."""
        if self.level == "full" and self.chance(50):
            return self.full_predicate(left, right, 2)
        parts = [self.equality(names, left, right) for _ in range(2 if self.chance(25) else 1)]
        if self.chance(8):
            parts.append(self.equality(names, left, left))
        return f" {self.keyword('AND')} ".join(parts)

    def equality(self, names: Names, left: list[str], right: list[str]) -> str:
        """Mostly between two variables that had one value where their blocks were read."""
        alike = [(a, b) for a in left for b in right if names.taken[a] == names.taken[b] and a != b]
        one, other = self.r.choice(left), self.r.choice(right)
        if alike and self.chance(85):
            one, other = self.r.choice(alike)
        return f"{one} = {other}"

    def full_predicate(self, left: list[str], right: list[str], depth: int) -> str:
        dice = self.r.randint(0, 9)
        if depth > 0 and dice >= 6:
            first = self.full_predicate(left, right, depth - 1)
            if dice == 6:
                return f"NOT ({first})"
            second = self.full_predicate(left, right, depth - 1)
            return f"({first}) {'OR' if dice == 7 else 'AND'} ({second})"
        if dice == 5:
            if self.chance(30):
                return self.narrowed(self.path(self.r.choice(left)))
            return self.boolean(self.narrowed(self.expression(left, 1)))
        one, other = (self.narrowed(self.expression(names, 1)) for names in (left, right))
        if self.beyond(8):
            one = self.tokens(one) if one[-1] != ")" and " " not in one else one
        if self.chance(15):
            other = self.r.choice((*NUMBERS, quoted("x"), quoted("1")))
        return f"{one} {self.r.choice(('=', '=', '=', self.operator()))} {other}"

    def expression(self, names: list[str], depth: int) -> str:
        name = self.r.choice(names)
        dice = self.r.randint(0, 9)
        if dice < 4:
            return name
        if dice < 7 or depth == 0:
            return self.path(name)
        if dice < 9:
            return self.applied(self.expression([name], depth - 1))
        operator = self.r.choice(("+", "-", "*", "div", "mod"))
        return f"{self.expression([name], depth - 1)} {operator} {self.r.choice(NUMBERS)}"

    def narrowed(self, expression: str) -> str:
        """A path, at times with a filter that looks around its last step."""
        if expression[-1] not in ")]" and "/" in expression and " " not in expression:
            if self.beyond(20):
                return f"{expression}[{self.r.choice(POSITIONS)}]"
            if self.beyond(10):
                return f"{expression}[../{self.r.choice(('a', 'b', '*'))}]"
        return expression

    def path(self, name: str) -> str:
        step = self.r.choice((*TAGS[:3], "*", "@i", "@*", "text()", "n:a"))
        return f"{name}{self.r.choice(('/', '/', '//'))}{step}"
