"""The benchmarks of event patterns find the same matches in every way."""

from __future__ import annotations

import pytest

from bench import cayuga, pattern_scripts, pattern_sql
from bench.pattern_rows import Asked, Quote, compiled, quotes, step
from bench.patterns_cayuga import step as offered
from bench.patterns_engines import QUESTIONS, Question, many, one, written

WINDOW = 1_800


def dense(count: int) -> list[Quote]:
    """Quotes of few symbols, of which several are at one time."""
    return [
        (at - number % 3, f"S{number % 7}", price)
        for number, (at, _, price) in enumerate(quotes(count))
    ]


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.name for question in QUESTIONS])
@pytest.mark.parametrize("size", [1, 50])
def test_the_step_the_script_and_sql_find_the_same(question: Question, size: int) -> None:
    every = sorted(dense(120))
    for asked in (one(question), many(question, 12)):
        _, wanted = pattern_scripts.run(question.script, asked, every, WINDOW)
        _, found = step(compiled(written(question, asked[0])), every, asked, size)
        assert sorted(found) == sorted(wanted)
        assert wanted
        if question.sql and size > 1:
            _, found = pattern_sql.run(question.name, asked, every, WINDOW, size)
            assert sorted(found) == sorted(wanted)


def double_loop(every: list[Quote], asked: Asked, window: int) -> int:
    """Pairs of a quote and the next dearer one of its symbol."""
    found = 0
    for place, (at, symbol, price) in enumerate(every):
        later = [q for q in every[place + 1 :] if q[1] == symbol and q[2] > price]
        found += bool(later and later[0][0] <= at + window)
    return found


def test_the_script_finds_as_many_as_a_double_loop() -> None:
    question = QUESTIONS[-1]
    every = sorted(dense(300))
    _, found = pattern_scripts.run(question.script, one(question), every, 30)
    assert len(found) == double_loop(every, one(question)[0], 30) > 0


@pytest.mark.parametrize("template", ["NonDeterministic", "Fold"])
def test_templates_of_cayuga_find_as_many_as_by_hand(template: str) -> None:
    narrow = [(at, tuple(v % 3 for v in values), k) for at, values, k in cayuga.events(60)]
    asked = [
        cayuga.Asked(each.attribute, each.first % 3, each.second % 3)
        for each in cayuga.subscriptions(template, 30)
    ]
    wanted = cayuga.by_hand(template, asked, narrow)
    assert wanted
    for size in (1, 20):
        assert offered(template, asked, narrow, size)[1] == wanted
