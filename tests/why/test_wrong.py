"""Wrong queries that people write: each is named in a sentence that contains the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import xscl
from broker import Broker, Document, advice
from broker.asking import Asking
from broker.why.model import Explanation
from tests.passes.pairs import Pair, read, renewed

FILE = Path(__file__).parent / "wrong.txt"
DAY = 86_400.0

BOOK = (
    "<book><title>The Tide Clerk</title><author>Mara Lindqvist</author><price>EUR 12</price></book>"
)
DEAR = (
    '<book lang="en"><title>Salt Road</title><author>Ilse Brandt</author><price>EUR 30</price>'
    "<published>2026-01-05</published></book>"
)
BLOG = (
    "<blog><title>The Tide Clerk</title><author>mara lindqvist</author>"
    "<tags><tag>tides</tag></tags></blog>"
)
ITEM = (
    "<item><title>Storm at sea{0}</title><item_url>https://courier.example/1{1}</item_url>"
    "<guid>{2}</guid><channel_title>Courier</channel_title></item>"
)
DOCUMENTS = [
    Document("tide", timestamp=0.0, xml=BOOK),
    Document("salt", timestamp=DAY, xml=DEAR),
    Document("storm", ("S", "Courier"), 2 * DAY, ITEM.format("", "?utm_source=rss", "a")),
    Document("again", ("S", "Courier"), 3 * DAY, ITEM.format("!", "", "b")),
    Document("blog", timestamp=9 * DAY, xml=BLOG),
]


def pairs() -> list[Pair]:
    return [pair for pair in read(FILE) if pair.before]


def answer(broker: Broker, text: str) -> str:
    """The sentence of `check`, or else of `why`, about the last query of a text."""
    program = xscl.check([xscl.parse(text)])
    for warning in advice.warnings(program):
        if warning.code == "unknown-path":
            return f"check: {warning.message}: {warning.hint}"
    *_, told = broker.why_text(text)
    return f"why: {told.sentence.partition(': ')[2]}"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(lateness=30 * DAY) as broker:
        broker.process(DOCUMENTS)
        yield broker


def parts(pair: Pair) -> tuple[str, str, str]:
    wrong, cure, right = pair.before.splitlines()
    return wrong, cure.removeprefix("cure: "), right


def test_there_are_fifty_and_of_these_ten_patterns() -> None:
    assert len(pairs()) >= 65
    patterns = [p for p in pairs() if p.remarks[0].startswith("# a pattern: ")]
    assert len(patterns) >= 15


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.remarks[0].lstrip("# "))
def test_the_answer_contains_the_cure_and_the_cure_helps(broker: Broker, pair: Pair) -> None:
    wrong, cure, right = parts(pair)
    assert cure in answer(broker, wrong)
    for text, some in ((wrong, False), (right, True)):
        with Broker(lateness=30 * DAY) as fresh:
            fresh.subscribe(text)
            name = list(fresh.subscriptions)[-1]
            every = [*fresh.process(DOCUMENTS), *fresh.decide()]
            found = [match for match in every if match.query == name]
            assert bool(found) is some, text


def test_the_answers(broker: Broker, golden: Callable[[Path, str], None]) -> None:
    golden(FILE, renewed(read(FILE), lambda before: answer(broker, before.splitlines()[0])))


def test_why_too_knows_what_a_name_of_feeds_is_called_in_an_item() -> None:
    item = "<item><channel_title>A</channel_title><item_url>u</item_url></item>"
    with Broker() as broker:
        broker.process([Document("1", xml=item), Document("2", xml="<item><url/></item>")])
        queries = xscl.check([xscl.parse("q: S//item[./channel_title][./link]")]).queries
        (told,) = Asking(broker.engine).of_queries(queries)
    assert isinstance(told, Explanation)
    assert told.sentence.endswith("has no ./link: in feed items it is called so: write ./item_url")


def test_streams_that_somebody_may_not_read_are_not_named(broker: Broker) -> None:
    queries = xscl.check([xscl.parse("q: Courier//book")]).queries
    everything, own = Asking(broker.engine), Asking(broker.engine, may_read="Courier".__eq__)
    sentences = [told.sentence for each in (everything, own) for told in each.of_queries(queries)]
    assert [" of S " in sentence for sentence in sentences] == [True, False]
