"""Random queries as XSCL text, so that the parser is exercised too.

Blocks are mostly guided: a path and its filters are read off a real document and then loosened,
so that a good part of what is asked has an answer. Several queries of one broker draw from one
pool of blocks, so that they share definitions under other variable names. Inside a block's text
a variable stands as `§k§`, and gets its name when a query takes the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from lxml import etree

import xscl
from tests.oracle.generate_documents import ATTRIBUTES, STREAMS, TAGS, TEXTS, URI, Level
from tests.oracle.oracle import Arrival, Oracle

WINDOWS = ("3 s", "2 seconds", "4000 ms", "W", "2", "1 s", "5 s", "0.5 s", "0 s", "INFINITY")
PREAMBLE = f'LET W = 2 s;\nLET NAMESPACE n = "{URI}";\n'
NUMBERS = ("0", "1", "2", "1.5")


@dataclass(slots=True)
class Shape:
    """A block's text with `§k§` for its variables; of each the value it has where it was read."""

    text: str = ""
    values: list[str] = field(default_factory=list)

    def bind(self, value: str) -> str:
        self.values.append(value)
        return f"§{len(self.values) - 1}§"


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


class Maker:
    """Queries over some documents. One maker per broker: its blocks are shared."""

    def __init__(self, r: Random, level: Level, documents: Sequence[Arrival]) -> None:
        self.r = r
        self.level = level
        self.documents = [(d, etree.fromstring(d.xml)) for d in documents]
        self.arrivals = documents
        self.pool = [self.block() for _ in range(r.randint(1, 4))]

    def chance(self, percent: int) -> bool:
        # Written so that 0, where a failing example shrinks to, is the plain case.
        return self.r.randint(0, 99) >= 100 - percent

    # -- blocks ------------------------------------------------------------------------------

    def answered(self, text: str) -> bool:
        """Does it match anything in the documents? Of several tries, one that does is better.

        What the language refuses counts as answered, so that whoever uses it finds out.
        """
        oracle = Oracle()
        try:
            for resolved in xscl.check([xscl.parse(PREAMBLE + text)]).queries:
                oracle.subscribe(resolved)
        except xscl.XsclError:
            return True
        return bool(oracle.process(self.arrivals))

    def block(self) -> Shape:
        for _ in range(4):
            shape = self.any_block()
            if self.answered(shape.text.replace("§", "_")):
                break
        return shape

    def any_block(self) -> Shape:
        shape = Shape()
        arrival, root = self.r.choice(self.documents)
        stream = self.r.choice(arrival.streams) if self.chance(90) else self.r.choice(STREAMS)
        target = self.r.choice([e for e in root.iter() if isinstance(e.tag, str)])
        chain = [*reversed(list(target.iterancestors())), target]
        text = "" if stream == "S" and self.chance(50) else stream
        text += self.steps(shape, chain, bind_last=75, filters=2)
        if self.chance(10):
            text += self.tail(shape, target)
        shape.text = text
        return shape

    def steps(self, shape: Shape, chain: list[etree._Element], bind_last: int, filters: int) -> str:
        """Location steps down a chain of elements, some of them skipped by `//`."""
        text, skipped = "", False
        for element in chain:
            last = element is chain[-1]
            if not last and self.chance(45):
                skipped = True
                continue
            text += "//" if skipped or self.chance(10) else "/"
            skipped = False
            text += self.name(element)
            if self.chance(bind_last if last else 15):
                text += self.variable(shape, string_value(element))
            count = self.r.randint(0, filters) if last else int(self.chance(10))
            text += "".join(f"[{self.filter(shape, element, 2)}]" for _ in range(count))
        return text

    def name(self, element: etree._Element) -> str:
        dice = self.r.randint(0, 19)
        if dice >= 18:
            return "*"
        if dice == 17:
            return self.r.choice(TAGS)
        qualified = etree.QName(element)
        if qualified.namespace and dice >= 10:
            return f"n:{qualified.localname}"
        return qualified.localname

    def variable(self, shape: Shape, value: str) -> str:
        return f"->{shape.bind(value)}" if self.chance(80) else f" AS {shape.bind(value)}"

    def tail(self, shape: Shape, element: etree._Element, binding: int = 70) -> str:
        """A last step that is no element."""
        kind = self.r.randint(0, 4)
        if kind < 2:
            step, value = ("/text()", "//text()")[kind], element.text or ""
        elif kind == 2:
            step, value = "/.", string_value(element)
        else:
            name = self.attribute(element)
            step = ("/@" if self.chance(70) else "//@") + name
            value = {etree.QName(str(k)).localname: str(v) for k, v in element.items()}.get(
                name, ""
            )
        return step + (self.variable(shape, value) if self.chance(binding) else "")

    def attribute(self, element: etree._Element) -> str:
        names = [etree.QName(str(name)).localname for name in element.attrib]
        if self.chance(10):
            return "*"
        return self.r.choice(names) if names else self.r.choice(ATTRIBUTES)

    def relative(
        self, shape: Shape | None, element: etree._Element, nested: int
    ) -> tuple[str, etree._Element]:
        """A path from `element` that most likely finds something, and the element it ends near."""
        below = [e for e in element.iterdescendants() if isinstance(e.tag, str)]
        binding = 0 if shape is None else 80
        own = Shape() if shape is None else shape
        if below and self.chance(70):
            target = self.r.choice(below)
            up = []
            while target is not element:
                up.append(target)
                parent = target.getparent()
                assert parent is not None
                target = parent
            chain = up[::-1]
            text = self.steps_without(chain) if shape is None else ""
            text = text or self.steps(own, chain, binding, min(nested, 1))
            target = chain[-1]
        else:
            text, target = "", element
        if not text or self.chance(15):
            last = self.tail(own, target, binding)
            if not text and last == "/.":
                return ".", target
            text += last
        if text.startswith("//") or self.chance(70):
            return "." + text, target
        return text[1:], target

    def steps_without(self, chain: list[etree._Element]) -> str:
        """Like `steps`, binding nothing."""
        if self.level == "full" and self.chance(15):
            inner = f"[{self.condition(chain[-1], 0)}]"
        else:
            inner = ""
        slashes = "//" if len(chain) > 1 or self.chance(15) else "/"
        return slashes + self.name(chain[-1]) + inner

    # -- filters -----------------------------------------------------------------------------

    def filter(self, shape: Shape, element: etree._Element, nested: int) -> str:
        """What may bind: a path, or a conjunction of paths and conditions."""
        dice = self.r.randint(0, 9)
        if dice < 6:
            return self.relative(shape, element, nested)[0]
        if dice == 6:
            left = self.relative(shape, element, nested)[0]
            right = self.condition(element, 1)
            return f"{left} and ({right})" if self.chance(50) else f"({right}) and {left}"
        return self.condition(element, 1)

    def condition(self, element: etree._Element, depth: int) -> str:
        """What binds nothing: comparisons, existence, functions, and, or, not."""
        dice = self.r.randint(0, 9)
        if depth > 0 and dice >= 7:
            left = self.condition(element, depth - 1)
            if dice == 7:
                return f"not({left})"
            right = self.condition(element, depth - 1)
            return f"({left}) {'and' if dice == 8 else 'or'} ({right})"
        if dice == 6:
            return self.relative(None, element, 0)[0]
        if dice == 5:
            return self.boolean(self.relative(None, element, 0)[0])
        path, near = self.relative(None, element, 0)
        left = self.applied(path) if self.level == "full" and self.chance(30) else path
        if dice < 3:
            constant = (near.text or "") if self.chance(60) else self.r.choice(TEXTS[self.level])
            return f"{left} {self.r.choice(('=', '=', '!='))} {quoted(constant)}"
        return f"{left} {self.operator()} {self.r.choice(NUMBERS)}"

    def operator(self) -> str:
        return self.r.choice(("=", "!=", "<", "<=", ">", ">="))

    def boolean(self, operand: str) -> str:
        names = ["contains", "starts-with"]
        if self.level == "full":
            names += ["ends-with", "matches"]
        name = self.r.choice(names)
        if name == "matches":
            pattern = self.r.choice(("^x", "y$", "[0-9]+", "^.?$", "x|1", "(?i)X"))
            return f"matches({operand}, {quoted(pattern)})"
        return f"{name}({operand}, {quoted(self.r.choice(('x', '1', '.', '', 'y')))})"

    def applied(self, operand: str) -> str:
        """A function of an operand: string or number, as it comes."""
        name = self.r.choice((
            "lower-case", "upper-case", "normalize-space", "string-length", "number", "concat",
            "substring", "date", "url", "words",
        ))  # fmt: skip
        if name == "concat":
            return f"concat({operand}, {self.r.choice((quoted('x'), '1', operand))})"
        if name == "substring":
            return f"substring({operand}, {self.r.choice(('1', '2', '1, 1', '0, 2', '1.5, 1'))})"
        return f"{name}({operand})"

    # -- queries -----------------------------------------------------------------------------

    def query(self, label: str | None) -> str:
        """One statement, without its semicolon; it may use the names of the preamble."""
        count = self.r.choice((2, 2, 2, 1, 3, 3, 4))
        for _ in range(7):
            text = self.any_query(label, count)
            if self.answered(text):
                break
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
            shape = self.block() if self.chance(25) else self.r.choice(self.pool)
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
            return self.constructor(names)
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
            return self.boolean(self.expression(left, 1))
        one, other = self.expression(left, 1), self.expression(right, 1)
        if self.chance(15):
            other = self.r.choice((*NUMBERS, quoted("x"), quoted("1")))
        return f"{one} {self.r.choice(('=', '=', '=', self.operator()))} {other}"

    def expression(self, names: list[str], depth: int) -> str:
        name = self.r.choice(names)
        dice = self.r.randint(0, 9)
        if dice < 4:
            return name
        if dice < 7 or depth == 0:
            step = self.r.choice((*TAGS[:3], "*", "@i", "@*", "text()", "n:a"))
            return f"{name}{self.r.choice(('/', '/', '//'))}{step}"
        if dice < 9:
            return self.applied(self.expression([name], depth - 1))
        operator = self.r.choice(("+", "-", "*", "div", "mod"))
        return f"{self.expression([name], depth - 1)} {operator} {self.r.choice(NUMBERS)}"


def string_value(element: etree._Element) -> str:
    return "".join(str(text) for text in element.itertext(etree.Element))


def quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'
