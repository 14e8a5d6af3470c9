"""`why` against brute force, which knows the reason for each document and each pair. The long run:
`python -m tests.why.deep`."""

from __future__ import annotations

import pytest

from broker import Broker, Document
from broker.why.model import Explanation
from tests.seeds import seeds
from tests.why.deep import case, difference, told
from xscl import check, parse


@pytest.mark.parametrize("level", ["core", "full"])
@pytest.mark.parametrize("seed", seeds(6, 12))
def test_random_cases(seed: int, level: str) -> None:
    assert difference(*case(seed, level)) is None


def test_random_cases_have_something_to_tell() -> None:
    """Blocks that pass and fail, pairs that agree, miss order and window, and match."""
    seen = {"fell": 0, "agree": 0, "order": 0, "window": 0, "predicate": 0, "matched": 0}
    for seed in range(8, 24):
        text, arrivals = case(seed, "full")
        (resolved,) = check([parse(text)]).queries
        found = told(resolved, arrivals)
        seen["fell"] += sum(len(block.fell) for block in found.blocks)
        seen["matched"] += found.whole.matched
        for join in found.joins:
            seen["agree"] += join.agree
            seen["order"] += join.agree - join.ordered
            seen["window"] += join.ordered - join.within
            seen["predicate"] += join.within - join.passed
    assert all(seen.values()), seen


def test_what_was_found_before_a_pause_is_no_news_to_come() -> None:
    def documents(key: str, begin: float) -> list[Document]:
        return [
            Document(f"{name}{key}", timestamp=begin + i, xml=f"<{name}><k>{key}</k></{name}>")
            for i, name in enumerate("ab")
        ]

    def sentence() -> str:
        (told,) = broker.why("q")
        assert isinstance(told, Explanation)
        return told.sentence

    with Broker() as broker:
        broker.process(documents("early", 0))
        broker.subscribe("q: S//a[./k->k] FOLLOWED BY {k = l, 1 h} S//b[./k->l]")
        assert "began to arrive before it was registered, or resumed" in sentence()
        assert len(broker.process(documents("found", 10))) == 1
        assert "2 combinations of documents match, 1 of them while it was" in sentence()
        first, second = documents("across", 20)
        broker.process([first])
        broker.pause("q")
        assert not broker.process([second, *documents("missed", 30)])
        assert "4 combinations of documents match, 1 of them while it was" in sentence()
        broker.resume("q")
        assert len(broker.process(documents("again", 40))) == 1
        assert "5 combinations of documents match, 2 of them while it was" in sentence()
