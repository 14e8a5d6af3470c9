"""Whether two comparisons of one node exclude each other, against lxml over many texts."""

from __future__ import annotations

from itertools import product

import pytest
from lxml import etree

from xscl.syntax.bounds import excluding

CONSTANTS: tuple[str | float, ...] = ("a", "b", "", "3", "3.0", 2.0, 3.0, 3.5)
TEXTS = (*map(str, CONSTANTS), "c", "1", "3.00", "3.2", "9", "2.0", "2.5", "2.00")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")

RELATIONAL = OPERATORS[2:]

ROOT = etree.Element("r")
for each in TEXTS:
    etree.SubElement(ROOT, "t").text = each


def written(value: str | float) -> str:
    return f"'{value}'" if isinstance(value, str) else f"{value:g}"


def possible(op: str, value: str | float) -> bool:
    return op not in RELATIONAL or value not in ("a", "b", "")


@pytest.mark.parametrize(("op", "other"), [*product(OPERATORS, OPERATORS)])
def test_two_comparisons_exclude_each_other_where_no_text_satisfies_both(
    op: str, other: str
) -> None:
    for value, second in product(CONSTANTS, CONSTANTS):
        if not (possible(op, value) and possible(other, second)):
            continue  # it holds for nothing by itself, and another warning says so
        path = f"t[. {op} {written(value)} and . {other} {written(second)}]"
        found = excluding([(op, value), (other, second)])
        assert (found is None) == bool(ROOT.xpath(path)), path


@pytest.mark.parametrize("op", OPERATORS)
def test_very_many_comparisons_of_one_node_are_looked_at_once_each(op: str) -> None:
    """Each with each, these would take hours."""
    many: list[tuple[str, str | float]] = [(op, float(n)) for n in range(300_000)]
    assert (excluding(many) is None) == (op != "=")
    assert excluding([*many, (">", 7.0), ("<", 7.0)]) is not None
