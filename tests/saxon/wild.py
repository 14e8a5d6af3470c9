"""More unusual queries and documents than the generator's: deeper expressions, odd values.

Functions of several variables, arithmetic between them, paths with filters and of several steps in
predicates, numbers as text and text as numbers, at their edges.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from lxml import etree

from tests.oracle.generate_documents import ATTRIBUTES, TAGS, TEXTS
from tests.oracle.generate_queries import Maker, quoted
from tests.oracle.oracle import Arrival

VALUES = (
    *("0", "-0", "-0.0", "01", "+1", "1e3", "1.", ".5", "-.5", "--1", ".", "0.1", "0.30000000000000004"),
    *("9007199254740993", "9007199254740992", "123456789012345678901234567890", "1e21"),
    *("0.0000001", "0.000000000000000000000012345", "9" * 400),
    *("NaN", "Infinity", "INF", "\u00a01", "1\t", "\n1\n", "a\tb  c", "١"),
    *("İ", "ﬀ", "e\u0301", "é", "\U0001f600x", "don't", "a_b", "$1+1"),
)  # fmt: skip
CONSTANTS = ("0", "1", "2", "0.1", "10000000", "0.0001")
STRING = ("lower-case", "upper-case", "normalize-space", "words", "substring", "concat")
NUMBER = ("string-length", "number")


def respelled(r: Random, arrivals: list[Arrival]) -> list[Arrival]:
    """The same documents with some texts and attributes replaced by a few odd values."""
    some = r.sample(VALUES, 3)

    def other(found: re.Match[str]) -> str:
        value = r.choice(some) if r.randint(0, 3) == 0 else found[2]
        return found[1] + value.replace("\t", "&#9;").replace("\n", "&#10;") + found[3]

    texts, values = re.compile("(>)([^<>]*)(</)"), re.compile('( [ij]=")([^"]*)(")')
    return [replace(a, xml=values.sub(other, texts.sub(other, str(a.xml)))) for a in arrivals]


class Plain(Maker):
    """What Saxon is asked; of the rest of XPath 1.0, libxml2 is the witness."""

    whole_xpath = False


class Wild(Plain):
    """Another grammar for predicates and what is compared in them."""

    def full_predicate(self, left: list[str], right: list[str], depth: int) -> str:
        dice = self.r.randint(0, 11)
        if depth > 0 and dice >= 8:
            first = self.full_predicate(left, right, depth - 1)
            if dice == 8:
                return f"NOT ({first})"
            second = self.full_predicate(right, left, depth - 1)
            return f"({first}) {'OR' if dice == 9 else 'AND'} ({second})"
        one, other = self.expression(left, 2), self.expression(right, 2)
        if dice == 0:
            one = self.expression([*left, *right], 2)
        if dice == 1:
            return f"{self.r.choice(('contains', 'starts-with', 'ends-with'))}({one}, {other})"
        return f"{one} {self.r.choice(('=', '=', '=', self.operator()))} {other}"

    def expression(self, names: list[str], depth: int) -> str:
        dice = self.r.randint(0, 11)
        if dice < 3 or depth == 0:
            return self.r.choice(names)
        if dice < 6:
            return self.r.choice(names) + self.below()
        if dice == 6:
            return self.r.choice((*CONSTANTS, quoted("x"), quoted("1"), quoted("")))
        if dice < 9:
            one, other = self.expression(names, depth - 1), self.expression(names, depth - 1)
            return f"({one} {self.r.choice(('+', '-', '*', 'div', 'mod'))} {other})"
        name = self.r.choice((*STRING, *STRING, *NUMBER))
        arguments = [self.expression(names, depth - 1)]
        if name == "concat":
            arguments.append(self.expression(names, depth - 1))
        if name == "substring":
            arguments += [self.expression(names, 1) for _ in range(self.r.randint(1, 2))]
        return f"{name}({', '.join(arguments)})"

    def condition(self, element: etree._Element, depth: int) -> str:
        """In filters too, now and then: there a function takes the first of the nodes."""
        dice = self.r.randint(0, 11)
        if dice == 0:
            return self.boolean("." + self.below())
        if dice == 1:
            value = quoted(self.r.choice(TEXTS["full"][:3]))
            return f"{self.applied('.' + self.below())} {self.r.choice(('=', '!='))} {value}"
        return super().condition(element, depth)

    def constructor(self, names: list[str]) -> str:
        one, other = self.r.choice(names), self.r.choice(names)
        return f'<out n="{{{one}{self.below()}}}">{{{other}{self.below()}}}</out>'

    def below(self) -> str:
        """One or two steps, some of them filtered."""
        path = ""
        for _ in range(self.r.randint(1, 2)):
            path += self.r.choice(("/", "/", "//"))
            path += self.r.choice((*TAGS[:3], "*", ".", "n:a"))
            if self.r.randint(0, 4) == 0:
                inner = self.r.choice(TAGS[:3])
                path += self.r.choice((f"[./{inner}]", f"[. = '{inner}']", f"[not(.//{inner})]"))
        if self.r.randint(0, 2) == 0:
            ends = [f"@{self.r.choice(ATTRIBUTES)}", "@*", "@n:i", "text()", "."]
            path += self.r.choice(("/", "//")) + self.r.choice(ends)
        return path
