"""The parts of the oracle compared with other implementations: lxml's XPath, elementpath's 2.0."""

from __future__ import annotations

import math
import re
from random import Random
from typing import Any

import elementpath
import pytest
from elementpath.collations import UNICODE_CODEPOINT_COLLATION
from lxml import etree

from tests.oracle.asking import ask
from tests.oracle.generate_blocks import POSITIONS
from tests.oracle.generate_documents import SECOND, TEXTS, documents, xml
from tests.oracle.generate_queries import Maker
from tests.oracle.oracle import Arrival
from tests.oracle.trees import Tree
from tests.oracle.values import (
    FUNCTIONS,
    NodeSet,
    Value,
    arithmetic,
    compare,
    date,
    to_number,
    to_string,
)

TEXT_VALUES = (*TEXTS["full"], "ÉCLAIR ß", "a\tb  c", "-.5", "5.", "1e3", "+1", "--1", ".", "NaN")


@pytest.mark.parametrize("seed", range(40))
def test_blocks_equal_lxml(seed: int) -> None:
    """A block that binds nothing, over documents without namespaces, is XPath as it stands."""
    r = Random(seed)
    plain = [
        re.sub(r' xmlns(:p)?="[^"]*"|\bp:|<!\[CDATA\[\]\]>', "", xml(r, "core").replace("p:", ""))
        for _ in range(4)
    ]
    arrivals = [Arrival(f"d{i}", ("S",), SECOND, text) for i, text in enumerate(plain)]
    maker = Maker(r, "core", arrivals)
    for _ in range(10):
        block = re.sub(r"(->| AS )§\d+§", "", maker.block().text)
        path = "/" + block.split("/", 1)[1]
        for arrival in arrivals:
            tree = Tree(arrival.xml)
            results: Any = tree.root.xpath(path)
            found = [tree._node(result).number for result in results]
            matches = ask(path, arrival)
            assert sorted(found) == [m.nodes[0] for m in matches], (path, arrival.xml)


@pytest.mark.parametrize("seed", range(10))
def test_positions_equal_lxml(seed: int) -> None:
    """Filters that count, one after the other, are XPath as they stand."""
    r = Random(seed)
    text = re.sub(
        r' xmlns(:p)?="[^"]*"|\bp:|<!\[CDATA\[\]\]>', "", xml(r, "core").replace("p:", "")
    )
    arrival = Arrival("d", ("S",), SECOND, text)
    tree = Tree(arrival.xml)
    for _ in range(40):
        filters = (r.choice((*POSITIONS, "@i", "../b", "a", ". = 'x'")) for _ in range(2))
        path = f"//{r.choice(('a', 'b', '*', '*/@*'))}" + "".join(f"[{part}]" for part in filters)
        results: Any = tree.root.xpath(path)
        found = [tree._node(result).number for result in results]
        assert sorted(found) == sorted(m.nodes[0] for m in ask(path, arrival)), (path, text)


def test_the_generator_asks_what_has_answers() -> None:
    """Of all the blocks above, a good part selects something."""
    selecting = total = 0
    for seed in range(30):
        r = Random(seed)
        arrivals = documents(r, "core", 4)
        for _ in range(5):
            block = Maker(r, "core", arrivals).block().text.replace("§", "")
            block = re.sub(r"(->| AS )(\d+)", r"\1v\2", block)
            total += 1
            selecting += bool(ask(f'LET NAMESPACE n = "urn:n"; {block}', *arrivals))
    assert total / 3 < selecting < total


@pytest.mark.parametrize("text", TEXT_VALUES)
@pytest.mark.parametrize(
    "call",
    [
        "lower-case($s)",
        "upper-case($s)",
        "normalize-space($s)",
        "string-length($s)",
        "contains($s, 'x')",
        "contains($s, '')",
        "starts-with($s, ' ')",
        "ends-with($s, 'y')",
        "matches($s, '[0-9]')",
        "matches($s, '^x')",
        "substring($s, 2)",
        "substring($s, 1.5, 1)",
        "substring($s, 0, 3)",
        "substring($s, -1)",
        "concat($s, 'x')",
        "substring-before($s, '.')",
        "substring-after($s, 'x')",
        "translate($s, 'x1X', 'y2')",
    ],
)
def test_functions_equal_elementpath(call: str, text: str) -> None:
    # Without a collation elementpath sets the locale of the process, and keeps its lock for good where
    # that fails, as it does once a native library has set another one (Saxon's does).
    parser = elementpath.XPath2Parser(
        variable_types={"s": "xs:string"}, default_collation=UNICODE_CODEPOINT_COLLATION
    )
    context = elementpath.XPathContext(etree.fromstring("<a/>"), variables={"s": text})
    wanted = parser.parse(call).evaluate(context)
    name, arguments = re.fullmatch(r"([a-z-]+)\((.*)\)", call).groups()  # type: ignore[union-attr]
    given = [
        text if a == "$s" else a.strip("'") if "'" in a else float(a) for a in arguments.split(", ")
    ]
    assert FUNCTIONS[name](*given) == wanted


@pytest.mark.parametrize("text", [t for t in TEXT_VALUES if t != "1e3"])  # libxml2's extension
def test_numbers_equal_lxml(text: str) -> None:
    wanted: Any = etree.XPath("number($s)")(etree.fromstring("<a/>"), s=text)
    assert to_number(text) == wanted or (math.isnan(to_number(text)) and math.isnan(wanted))


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons_equal_lxml(op: str) -> None:
    root = etree.fromstring("<r><a>1</a><a>x</a><b>1.0</b><b/><c>y</c><d> 1 </d></r>")

    def nodes(name: str) -> NodeSet:
        return NodeSet(tuple(e.text or "" for e in root.findall(name)))

    operands = {name: nodes(name) for name in "abcde"}
    constants: dict[str, Value] = {
        "'1'": "1",
        "'x'": "x",
        "''": "",
        "1": 1.0,
        "2": 2.0,
        "(0 div 0)": math.nan,
    }
    sides: dict[str, Value] = {**operands, **constants}
    for left, x in sides.items():
        for right, y in sides.items():
            assert compare(op, x, y) == root.xpath(f"{left} {op} {right}"), (left, op, right)


@pytest.mark.parametrize("op", ["+", "-", "*", "div", "mod"])
def test_arithmetic_equals_lxml(op: str) -> None:
    values = (0.0, -0.0, 1.0, -1.0, 1.5, 7.0, math.inf, -math.inf, math.nan)
    evaluate = etree.XPath(f"$a {op} $b")
    for a in values:
        for b in values:
            wanted: Any = evaluate(etree.fromstring("<a/>"), a=a, b=b)
            got = arithmetic(op, a, b)
            assert got == wanted or (math.isnan(got) and math.isnan(wanted)), (a, op, b)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.5, 0.1, 123456.0, math.nan, math.inf])
def test_numbers_as_strings_equal_lxml(number: float) -> None:
    assert to_string(number) == etree.XPath("string($n)")(etree.fromstring("<a/>"), n=number)


def test_dates_urls_and_words() -> None:
    same = [
        date("2024-01-02T03:04:05Z"),
        date("2024-01-02T03:04:05"),
        date("Tue, 02 Jan 2024 03:04:05 GMT"),
        date(" 2024-01-02T05:04:05+02:00 "),
    ]
    assert same == [1704164645.0] * 4
    assert date("2024-01-02") == 1704153600.0
    assert math.isnan(date("soon"))
    url, words = FUNCTIONS["url"], FUNCTIONS["words"]
    assert url("HTTPS://Ex.org/A/?utm_source=q&k=1#f") == "https://ex.org/A?k=1"
    assert url("https://ex.org/a") == "https://ex.org/a"
    assert words("X,  y! ") == "x y"
