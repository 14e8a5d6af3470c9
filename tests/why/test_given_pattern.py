"""What is told of documents that somebody names, for event patterns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xscl
from broker import Broker, Document
from broker.asking import Asking
from broker.standing.why import Why
from broker.why import patterns
from broker.why.model import Budget

PATTERN = (
    "p: S//i->x[./k = 'a'] FOLLOWED BY {1 min} NOT S//i[./k = 'stop']"
    " FOLLOWED BY {10 min} S//i->y[./k = 'b'];"
)


def item(id: str, at: float, word: str, stream: str = "S") -> Document:
    return Document(id, stream, at, f"<i><k>{word}</k></i>")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.process([item("early", 0.0, "a")])
        broker.subscribe(PATTERN)
        broker.process(
            [
                item("a1", 60.0, "a"),
                item("b1", 1_260.0, "b"),
                item("a2", 1_300.0, "a"),
                item("stop", 1_310.0, "stop"),
                item("b2", 1_320.0, "b"),
                item("other", 1_330.0, "a", "T"),
            ]
        )
        yield broker


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (("a1", "b1"), "no matches: 1 would match within 20 min instead of 10 min: write 20 min"),
        (
            ("a2", "stop", "b2"),
            "no matches: 1 would match without NOT S//i[./k = 'stop']: there is stop",
        ),
        (("b1", "b2"), "no matches: none is there for S//i->x[./k = 'a']"),
        (("early", "b1"), "no matches: none is there for S//i->x[./k = 'a']"),
    ],
)
def test_what_becomes_of_documents_together_is_told(
    ids: tuple[str, ...], said: str, broker: Broker
) -> None:
    found = broker.why_between("p", ids)
    assert found.documents == ids
    assert found.lines[-1] == f"  together: {said}"


def test_what_waits_and_matches_is_told_as_if_there_were_no_others(broker: Broker) -> None:
    """Without the one that is forbidden, the pair waits; decided by a later one, it is a match."""
    waits = broker.why_between("p", ("a2", "b2")).lines[-1]
    assert waits.startswith("  together: no matches yet, and 1 waits, the first until")
    with Broker() as other:
        other.subscribe(PATTERN)
        own = [item("a2", 1_300.0, "a"), item("b2", 1_420.0, "b"), item("c", 10**7, "c")]
        assert len(other.process(own)) == 1
        found = other.why_between("p", ("a2", "b2"))
        assert found.lines[-1] == "  together: 1 match among these documents"


def test_each_condition_of_each_block_is_told(broker: Broker) -> None:
    found = broker.why_between("p", ("b1", "other"))
    judged = {each.block: [step.holds for step in each.steps] for each in found.blocks}
    assert judged == {0: [True, True, False], 1: [True, True, False], 2: [True, True, True]}
    assert "    NO   [./k = 'a']  (./k is 'b')" in found.lines
    assert "  other flows through none of the streams S" in found.lines


def test_a_document_of_before_the_query_is_named(broker: Broker) -> None:
    lines = broker.why_between("p", ("early", "b1")).lines
    assert "  early takes no part: it came before p was there, or too late" in lines
    assert not [line for line in lines if line.startswith("  b1 takes no part")]


def test_of_a_pattern_that_is_not_registered_the_newest_documents_are_asked(broker: Broker) -> None:
    (query,) = xscl.check([xscl.parse("n: S//i->x FOLLOWED BY NOT S//o->y WITHIN 1 s;")]).queries
    (whole,) = Asking(broker.engine).of_queries([query])
    (some,) = Asking(broker.engine).of_queries([query], Budget(documents=3))
    assert isinstance(whole, Why)
    assert isinstance(some, Why)
    assert [each.blocks[0].documents for each in (whole, some)] == [6, 2]
    assert some.sentence.endswith(" (only the newest 3 documents were asked)")
    assert "were asked" not in whole.sentence


@pytest.mark.parametrize(("lateness", "said"), [(7_200.0, "2 h here"), (0.0, "0 s here")])
def test_the_lateness_that_is_set_is_named(lateness: float, said: str) -> None:
    with Broker(lateness=lateness) as broker:
        broker.subscribe("q: S/a NEXT {1 h} S/b")
        (told,) = broker.why("q")
        assert isinstance(told, Why)
        assert f"after its last document, {said}: WAIT sets another time" in told.answers


def test_where_changes_take_too_long_that_is_said(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_TIME", 0.0)
    said = broker.why_between("p", ("a1", "b1")).lines[-1]
    assert said == (
        "  together: no matches: there are too many changes to try; narrow its windows or joins"
    )
