"""Random blocks: a path and its filters are taken from an actual document and then relaxed.

So a good part of what is asked has an answer. Inside a block's text a variable stands as `§k§`, and
gets its name when a query takes the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from lxml import etree

from tests.oracle.generate_documents import ATTRIBUTES, STREAMS, TAGS, TEXTS, Level
from tests.oracle.oracle import Arrival

NUMBERS = ("0", "1", "2", "1.5")
POSITIONS = (
    *("1", "1", "2", "last()", "last()", "position() = 1", "position() < last()", "last() - 1"),
    *("position() mod 2 = 1", "not(position() = 2)", "count(./*)", "position() = 1 or @i"),
)


@dataclass(slots=True)
class Shape:
    """A block's text with `§k§` for its variables; of each the value it has where it was read."""

    text: str = ""
    values: list[str] = field(default_factory=list)

    def bind(self, value: str) -> str:
        self.values.append(value)
        return f"§{len(self.values) - 1}§"


class Blocks:
    """Blocks over some documents."""

    whole_xpath = True
    """Whether filters look around a node, and functions are drawn that XPath 2.0 has otherwise."""

    def __init__(self, r: Random, level: Level, documents: Sequence[Arrival]) -> None:
        self.r = r
        self.level = level
        self.documents = [(d, etree.fromstring(d.xml)) for d in documents]

    def beyond(self, percent: int) -> bool:
        return self.whole_xpath and self.level == "full" and self.chance(percent)

    def chance(self, percent: int) -> bool:
        # Written so that 0, where a failing example shrinks to, is the plain case.
        return self.r.randint(0, 99) >= 100 - percent

    def stream_block(self) -> Shape:
        """A block of a stream that comes in, or of a stream that the documents name."""
        arrival, root = self.r.choice(self.documents)
        stream = self.r.choice(arrival.streams) if self.chance(90) else self.r.choice(STREAMS)
        return self.block_off(root, "" if stream == "S" and self.chance(50) else stream)

    def block_off(self, root: etree._Element, stream: str) -> Shape:
        """A block that is read off a document."""
        shape = Shape()
        target = self.r.choice([e for e in root.iter() if isinstance(e.tag, str)])
        chain = [*reversed(list(target.iterancestors())), target]
        text = stream + self.steps(shape, chain, bind_last=75, filters=2)
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
        elif self.beyond(8):
            inner = f"[{self.r.choice(POSITIONS)}]"
        else:
            inner = ""
        slashes = "//" if len(chain) > 1 or self.chance(15) else "/"
        return slashes + self.name(chain[-1]) + inner

    # -- filters -----------------------------------------------------------------------------

    def filter(self, shape: Shape, element: etree._Element, nested: int) -> str:
        """What may bind: a path, or a conjunction of paths and conditions."""
        if self.beyond(8):
            return self.r.choice(POSITIONS)
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
        if self.beyond(12):
            return self.around(element)
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
        if self.beyond(8):
            left = self.tokens(left)
        if dice < 3:
            constant = (near.text or "") if self.chance(60) else self.r.choice(TEXTS[self.level])
            return f"{left} {self.r.choice(('=', '=', '!='))} {quoted(constant)}"
        return f"{left} {self.operator()} {self.r.choice(NUMBERS)}"

    def around(self, element: etree._Element) -> str:
        """What asks for more than is below: other axes, unions, arithmetic, XPath's functions."""
        r = self.r
        path, near = self.relative(None, element, 0)
        other = self.relative(None, element, 0)[0]
        name, text = r.choice(TAGS), quoted(near.text or "")
        return r.choice((
            f"../{name}", f"ancestor::{name}", "ancestor::*[2]", "not(preceding-sibling::*)",
            f"following-sibling::{name}[1]", f"following::{name}", f"preceding::*[1] = {text}",
            f"count({path}) {self.operator()} {r.choice(NUMBERS)}", f"sum({path}) > 1",
            f"({path} | ../{name}) = {text}", f"({path} | {other})[last()] = {text}",
            f"local-name({path}) = '{name}'", "namespace-uri() != ''", f"string({path}) = {text}",
            f"//{name}[{r.choice(POSITIONS)}] = {path}", f"{path} * 2 = {r.choice(NUMBERS)}",
            f"{path} = ../*[last()]", f"boolean({path}) != boolean({other})",
            f"({path} = {text}) = ({other} = {text})", f"{path} + {other} > -1",
        ))  # fmt: skip

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
        names = [
            "lower-case", "upper-case", "normalize-space", "string-length", "number", "concat",
            "substring", "date", "url", "words",
        ]  # fmt: skip
        if self.whole_xpath:
            names += ["substring-before", "substring-after", "translate", "string"]
            names += ["round", "floor", "ceiling"]
        name = self.r.choice(names)
        if name == "concat":
            return f"concat({operand}, {self.r.choice((quoted('x'), '1', operand))})"
        if name == "substring":
            return f"substring({operand}, {self.r.choice(('1', '2', '1, 1', '0, 2', '1.5, 1'))})"
        if name in ("substring-before", "substring-after"):
            part = self.r.choice(("'.'", "' '", "'x'", "''"))
            return f"{name}({operand}, {part})"
        if name == "translate":
            change = self.r.choice(("'xy', 'yx'", "'x1', 'z'", "' ', ''"))
            return f"translate({operand}, {change})"
        return f"{name}({operand})"

    def tokens(self, operand: str) -> str:
        """Several strings of an operand, for a side of a comparison."""
        separators = self.r.choice(("' '", "','", "',| '", "'[.]'"))
        return f"tokenize({operand}, {separators})"


def string_value(element: etree._Element) -> str:
    return "".join(str(text) for text in element.itertext(etree.Element))


def quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'
