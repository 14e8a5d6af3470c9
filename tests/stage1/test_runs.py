"""Runs of bounds and keywords compared with a linear search."""

from __future__ import annotations

import operator
import random

import pytest

from xscl.normal.ir import Comparator
from xscl.stage1.runs import Bounds, Keywords

RELATIONS = {
    Comparator.LESS: operator.lt,
    Comparator.AT_MOST: operator.le,
    Comparator.GREATER: operator.gt,
    Comparator.AT_LEAST: operator.ge,
}


@pytest.mark.parametrize("seed", range(5))
def test_bounds(seed: int) -> None:
    rng = random.Random(seed)
    bounds = {comparator: Bounds(comparator, few=4) for comparator in RELATIONS}
    there: dict[int, float] = {}
    for number in range(400):
        if there and rng.random() < 0.4:
            gone = rng.choice(sorted(there))
            bound = there.pop(gone)
            for each in bounds.values():
                each.remove(bound, gone)
        else:
            there[number] = rng.choice([rng.randrange(20), float("inf"), -0.0])
            for each in bounds.values():
                each.add(there[number], number)
        value = rng.choice([*map(float, range(-1, 21)), float("nan"), float("inf"), -0.0])
        for comparator, holds in RELATIONS.items():
            found: set[int] = set()
            bounds[comparator].find(value, found)
            assert found == {n for n, bound in there.items() if holds(value, bound)}


@pytest.mark.parametrize("worth", [0, 1, 5])
@pytest.mark.parametrize(("factor", "longest"), [(8, 1 << 17), (2, 16), (1, 1)])
def test_keywords(factor: int, longest: int, worth: int) -> None:
    rng = random.Random(factor)
    there: dict[str | float, int] = {}
    keywords = Keywords(there, factor=factor, longest=longest, worth=worth)
    for number in range(600):
        word = "".join(rng.choice("abé") for _ in range(rng.randint(1, 5)))
        if word in there:
            del there[word]
            keywords.remove()
        else:
            there[word] = number
            keywords.add(word)
        text = "".join(rng.choice("abé ") for _ in range(rng.randint(0, 30)))
        found: set[int] = set()
        keywords.find(text, found)
        assert found == {n for w, n in there.items() if str(w) in text}


@pytest.mark.parametrize(("longest", "left"), [(1 << 17, 1), (40, 3)])
def test_words_that_are_often_searched_for_are_put_together(longest: int, left: int) -> None:
    there: dict[str | float, int] = {}
    keywords = Keywords(there, longest=longest)
    for number in range(95):
        there[f"w{number}"] = number
        keywords.add(f"w{number}")
    before = len(keywords._runs)
    for _ in range(1_000):
        found: set[int] = set()
        keywords.find("w77 w10", found)
        assert found == {1, 7, 77, 10}
    assert left == len(keywords._runs) < before
