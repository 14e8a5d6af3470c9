"""Paths that nothing can have: each mistake is named in a sentence, with what to write instead.

`known.xscl` holds queries as people write them, and `known.txt` what is said of each.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xscl
from broker.advice import warnings
from feeds.item import Item
from feeds.vocabulary import ATTRIBUTES, CHILDREN
from tests.conftest import Golden

HERE = Path(__file__).parent
SAMPLES = sorted((HERE.parent.parent / "feeds" / "samples").rglob("*.xscl"))


def advice(text: str, name: str = "known.xscl") -> list[xscl.Diagnostic]:
    program = xscl.check([xscl.parse(text, name)])
    return [each for each in warnings(program) if each.code == "unknown-path"]


def test_each_mistake_is_named_with_its_cure(golden: Golden) -> None:
    text = (HERE / "known.xscl").read_text(encoding="utf-8")
    found = advice(text)
    golden(HERE / "known.txt", "\n\n".join(each.render() for each in found) + "\n")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "-- right" not in line]
    wrong = [n for n in lines if text.splitlines()[n - 1].startswith("q")]
    assert sorted({each.span.line for each in found}) == wrong, "each, and no others"


def test_a_path_that_is_asked_for_again_and_again_is_told_once() -> None:
    conditions = " or ".join(f"./titel = '{n}' or ./year = {n}" for n in range(50))
    found = advice(f"q: S//item[{conditions}]; r: S//item[./titel]")
    assert [(each.span.text, each.span.line) for each in found] == [
        ("/titel", 1),
        ("/year", 1),
        ("/titel", 1),
    ]


def test_what_is_known_of_items_is_what_they_have() -> None:
    every = Item(
        *("u", "t", "i", "g"),
        0,
        True,
        *("l", "t"),
        ("a",),
        ("c",),
        *("d", "c"),
        ("e",),
        *("s", "s"),
    ).to_xml()
    assert set(re.findall(rb"<(\w+)>", every)) == {name.encode() for name in CHILDREN}
    assert set(re.findall(rb"(\w+)=", every)) == {name.encode() for name in ATTRIBUTES}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_samples_ask_for_nothing_that_is_not_there(path: Path) -> None:
    assert not advice(path.read_text(encoding="utf-8"))


def test_queries_that_a_program_made_are_not_looked_at() -> None:
    text = ";".join(f"q{n}: S//item[./link = '{n}']" for n in range(1_001))
    assert not advice(text)


def test_a_stream_that_no_query_may_publish_is_told_of_when_it_is_checked() -> None:
    text = "a: S//a->x PUBLISH broker.a; b: S//b->y PUBLISH brokers"
    found = warnings(xscl.check([xscl.parse(text)]))
    assert [(each.code, each.span.text) for each in found] == [("reserved-stream", "broker.a")]
