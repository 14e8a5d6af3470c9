"""Event patterns in the life of a broker: time without documents, limits, pauses, restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker import Broker, Document, Limit, Match, Waiting
from broker.documents.witnessing import arrivals
from broker.engine import Engine
from broker.model import Budgets
from broker.query.prepared import compile_query
from broker.shared_match import each_match
from broker.standing.why import Why
from broker.state.store import Store
from broker.why.model import Explanation
from xscl import check, parse

SECOND = 1_000_000


def document(id: str, at: float, xml: str | None = None) -> Document:
    return Document(id, timestamp=at, xml=xml or f"<{id[0]}/>")


def ids(matches: list[Match]) -> list[list[str]]:
    return [[each.id for each in match.documents] for match in matches]


def test_an_absence_is_told_while_no_documents_come() -> None:
    """The watermark moves with the clock."""
    steady = [0]
    engine = Engine(Store(None), 0, idle=SECOND, steady=lambda: steady[0])
    program = check([parse("q: S/a FOLLOWED BY {10} NOT S/b")])
    engine.subscribe([compile_query(query) for query in program.queries])
    with Broker() as broker:
        documents = broker.arrivals([document("a1", 100)], None).documents
    engine.apply(arrivals(engine.matcher, documents), 100 * SECOND)
    found: list[list[Match]] = []
    for second in range(1, 20):
        steady[0] = second * SECOND
        found.append(each_match(engine.tick((100 + second) * SECOND)))
    (match,) = [match for matches in found for match in matches]
    assert found.index([match]) >= 10, "not before the window has ended"
    assert ids([match]) == [["a1"]]
    assert match.end_us - match.start_us == 10 * SECOND


def test_what_waits_survives_a_restart_and_is_delivered_once(tmp_path: Path) -> None:
    query = "q: S/a->x FOLLOWED BY (S/b->y)+ FOLLOWED BY {9} NOT S/c"
    with Broker(tmp_path / "state", lateness=0) as broker:
        broker.subscribe(query)
        assert broker.process([document("a1", 1), document("b2", 2)]) == []
    with Broker(tmp_path / "state", lateness=0) as broker:
        assert broker.process([document("b3", 3)]) == []
    with Broker(tmp_path / "state", lateness=0) as broker:
        found = broker.process([document("z4", 40)])
        assert ids(found) == [["a1", "b2", "b3"]]
        assert found[0].blocks == (0, (1, 2))
    with Broker(tmp_path / "state", lateness=0) as broker:
        again = broker.undelivered()
        assert [(m.id, m.blocks, m.result) for m in again] == [
            (m.id, m.blocks, m.result) for m in found
        ]


ANSWERS = {
    "S/a FOLLOWED BY {10} NOT S/b": 110.000001,
    "S/a FOLLOWED BY {20 AFTER} NOT S/b": 120.000001,
    "S/a JOIN {10} NOT S/b": 110.000001,
    "S/a FOLLOWED BY NOT S/b FOLLOWED BY {30} S/c": 104,
    "NOT S/b FOLLOWED BY {5} S/c": 104,
    "S/a FOLLOWED BY {10} (S/d)+": 110.000001,
    "S/a FOLLOWED BY {10} (S/d){2}": 103.000001,
    "(S/d)+ WITHIN 4": 106.000001,
    "S/a NEXT {30} S/c": 104,
    "S/a FOLD {, } S/d WITHIN 2": 102,
    "S/a FOLLOWED BY (S/d)+ FOLLOWED BY S/c USING SKIP TILL NEXT MATCH": 104,
    "S/a FOLLOWED BY S/d USING STRICT CONTIGUITY": 102,
    "S/a FOLLOWED BY S/c USING NON OVERLAPPING": 104.000001,
}
"""The watermark at which the match of a pattern is published, in seconds."""


@pytest.mark.parametrize("pattern", ANSWERS)
def test_a_pattern_answers_when_it_is_said_to(pattern: str) -> None:
    with Broker(lateness=60) as broker:
        broker.subscribe(f"q: {pattern} WAIT 5 s")
        came = [document("a1", 100), document("d1", 102), document("d2", 103), document("c1", 104)]
        assert broker.process(came) == []
        (waiting,) = broker.waiting()
        assert waiting.decides == round((ANSWERS[pattern] + 5) * SECOND)
        last = came[-1].timestamp
        assert isinstance(last, float | int)
        before = (waiting.decides - 1) / SECOND
        if before > last:
            assert broker.process([document("z1", before)]) == []
        assert broker.process([document("z2", waiting.decides / SECOND)])
        assert broker.waiting() == []


@pytest.mark.parametrize(
    "text",
    [
        "S/b->x FOLD {, y < prev(y, x)} S/b->y WHERE count(y) = 2",
        "S/b->x FOLD {, y < prev(y, x)} S/b->y WHERE sum(y) > 27 AND count(y) != 1",
        "(S/b->x FOLD {, y < prev(y, x)} S/b->y WHERE count(y) = 2) FOLLOWED BY S/c",
    ],
)
def test_iterations_wait_and_are_decided_whose_first_document_is_no_match(
    text: str, tmp_path: Path
) -> None:
    come = [document(f"b{n}", n, f"<b>{20 - n}</b>") for n in range(6)] + [document("c", 9)]
    with Broker(lateness=0) as broker:
        broker.subscribe(f"q: {text}")
        wanted = ids([*broker.process(come), *broker.decide()])
    assert len(wanted) >= 3
    with Broker(tmp_path / "state", lateness=60) as broker:
        broker.subscribe(f"q: {text}")
        assert broker.process(come) == []
        (waiting,) = broker.waiting()
        assert waiting.count == len(wanted)
    with Broker(tmp_path / "state", lateness=60) as broker:
        assert sorted(ids(broker.decide())) == sorted(wanted)
        assert broker.decide() == []


def test_to_ask_what_waits_costs_a_pattern_nothing_of_its_budget() -> None:
    with Broker(lateness=60, budgets=Budgets(combinations=10)) as broker:
        broker.subscribe("q: S/a FOLLOWED BY {30} (S/d)+")
        broker.process([document("a1", 100), *(document(f"d{n}", 101 + n) for n in range(20))])
        for _ in range(200):
            assert [each.query for each in broker.waiting()] == ["q"]
        assert len(broker.decide()) == 1


def test_what_waits_is_told_and_decided_when_asked(tmp_path: Path) -> None:
    texts = """
        soon: S/a->x FOLLOWED BY {x = y, 5} NOT S/b->y;
        never: S/a FOLLOWED BY {5} NOT S/c WAIT INFINITY;
        outer: SELECT x FROM (SELECT * FROM S/a->x FOLLOWED BY {9} NOT S/c)/result/a->x
               FOLLOWED BY {9} NOT S/d
    """
    with Broker(tmp_path / "state", lateness=10) as broker:
        assert broker.waiting() == []
        broker.subscribe(texts)
        broker.process([document("a1", 1, "<a>1</a>"), document("a2", 2, "<a>2</a>")])
        broker.process([document("b3", 3, "<b>2</b>")])
    with Broker(tmp_path / "state", lateness=10) as broker:
        soon = Waiting("soon", 1, 16 * SECOND + 1)
        outer, never = Waiting("outer", 2, 20 * SECOND + 1), Waiting("never", 2, None)
        assert broker.waiting() == [soon, outer, never]
        found = broker.decide()
        assert [(match.query, len(match.documents)) for match in found] == [
            ("soon", 1),
            ("outer", 1),
            ("outer", 1),
        ]
        assert broker.waiting() == [never]
        assert broker.decide() == []
        # What is decided stays so, for patterns; a join still takes what comes late.
        broker.subscribe("join: S/b->x JOIN {x = y, 9} S/b->y")
        assert ids(broker.process([document("b4", 4, "<b>1</b>"), document("b5", 5, "<b>1</b>")]))
        assert {match.query for match in broker.undelivered()} == {"soon", "outer", "join"}


def test_why_tells_what_was_blocked_and_by_what(tmp_path: Path) -> None:
    with Broker(tmp_path / "state", lateness=0) as broker:
        broker.process([document("z0", 1)])
        broker.subscribe("""
            q: S/a->x FOLLOWED BY {x = y, 10} NOT S/b->y;
            back: NOT S/b FOLLOWED BY {20} S/a WAIT 0 s;
            join: S/a->x JOIN {x = y, 3} S/b->y;
            outer: SELECT x FROM (SELECT * FROM S/a->x FOLLOWED BY {5} NOT S/c)/result/a->x
                   JOIN {x = y, 3} S/b->y
        """)
        broker.process([document("a1", 2, "<a>1</a>"), document("a2", 3, "<a>2</a>")])
        broker.process([document("b3", 4, "<b>2</b>"), document("a4", 9, "<a>1</a>")])
    with Broker(tmp_path / "state", lateness=0) as broker:
        broker.process([document("z5", 13)])
        (told,) = broker.why("q")
        assert isinstance(told, Why)
        assert [(block.block, block.documents) for block in told.blocks] == [
            ("S/a->x", 3),
            ("S/b->y", 1),
        ]
        assert told.found == 1
        (waits,) = told.waiting
        assert ([each.id for each in waits.documents], waits.decides) == (["a4"], 19 * SECOND + 1)
        (blocked,) = told.blocked
        assert [each.id for each in (*blocked.documents, *blocked.by)] == ["a2", "b3"]
        assert blocked.absent == "NOT S/b->y"
        (back,) = broker.why("back")
        assert isinstance(back, Why)
        assert {each.documents[0].id for each in back.blocked} == {"a1", "a2", "a4"}
        assert [each.by for each in back.blocked if each.documents[0].id == "a1"] == [()]
        _, inner = broker.why("outer")
        assert isinstance(inner, Why)
        assert inner.query == "the query in the FROM of outer"
        assert inner.found == 2
        (joined,) = broker.why("join")
        assert isinstance(joined, Explanation)
        with pytest.raises(KeyError):
            broker.why("nobody")
        broker.pause("q")
        with pytest.raises(ValueError, match="not active"):
            broker.why("q")


def test_pausing_drops_what_is_undecided() -> None:
    with Broker(lateness=0) as broker:
        broker.subscribe("q: S/a FOLLOWED BY {5} NOT S/b")
        broker.process([document("a1", 1)])
        broker.pause("q")
        broker.process([document("a2", 2)])
        broker.resume("q")
        assert ids(broker.process([document("a3", 3), document("z9", 30)])) == [["a3"]]


def test_a_pattern_beyond_its_limit_is_suspended() -> None:
    with Broker(lateness=0, limit=Limit(2, 60)) as broker:
        broker.subscribe("q: S/a NEXT {100} S/b WAIT 0 s")
        documents = [document(f"a{n}", n) for n in range(3)]
        found = broker.process([*documents[:2], document("b3", 3)])
        assert sorted(ids(found)) == [["a0", "b3"], ["a1", "b3"]]
        broker.process([document("a5", 5), document("b6", 6)])
        (suspended,) = broker.engine.take_suspensions()
        assert suspended.id == "q"
        assert "2 matches" in suspended.reason


def test_a_pattern_with_too_much_to_try_is_suspended_and_others_go_on() -> None:
    with Broker(lateness=0, budgets=Budgets(combinations=10)) as broker:
        broker.subscribe(
            "many: (S/a)+ FOLLOWED BY S/b USING SKIP TILL ANY MATCH WITHIN 1 h; one: S/b->x"
        )
        found = broker.process([*[document(f"a{n}", n) for n in range(30)], document("b30", 30)])
        assert {match.query for match in found} == {"one"}
        (suspended,) = broker.engine.take_suspensions()
        assert suspended.id == "many"
        assert "choices" in suspended.reason


def test_values_are_those_of_all_elements() -> None:
    with Broker(lateness=0) as broker:
        broker.subscribe(
            "q: SELECT x, y, count(y) AS n FROM S/a->x FOLLOWED BY (S/b->y)+ FOLLOWED BY S/c"
        )
        (found,) = broker.process(
            [
                document("a1", 1, "<a>A</a>"),
                document("b2", 2, "<b>1</b>"),
                document("b3", 3, "<b>2</b>"),
                document("c4", 4),
            ]
        )
        assert found.values == {"x": ["A"], "y": ["1", "2"], "n": ["2"]}
        assert found.to_json()["blocks"] == (0, (1, 2), 3)
        assert found.result.endswith("<a>A</a><b>1</b><b>2</b><n>2</n></result>")


def test_an_element_that_lasts_longer_than_its_window_begins_no_group() -> None:
    with Broker(lateness=0) as broker:
        broker.subscribe("q: (S/b FOLLOWED BY S/c){1,} WITHIN 2 s")
        broker.process([document("b1", 1), document("c4", 4)])
        broker.process([document("b5", 5), document("c6", 6)])
        assert ids(broker.process([document("z", 40, "<z/>")])) == [["b5", "c6"]]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (
            "q: S/a FOLLOWED BY (S/b)* FOLLOWED BY (S/b)* USING SKIP TILL ANY MATCH WITHIN 9",
            [(0, (), (1, 2)), (0, (1,), (2,)), (0, (1, 2), ())],
        ),
        (
            "q: (S/a OR S/*[./k]) FOLLOWED BY {9} (S/b)+",
            [(0, None, (1, 2)), (None, 0, (1, 2))],
        ),
        ("q: (S/a OR S/*[./k]) FOLD {, } S/b", [(0, None, (1, 2)), (None, 0, (1, 2))]),
    ],
)
def test_matches_of_the_same_documents_in_other_blocks_are_told_apart(
    text: str, blocks: list[object]
) -> None:
    """As many documents as blocks, and no variable, are not one document for each block."""
    with Broker(lateness=0) as broker:
        broker.subscribe(text)
        found = broker.process(
            [document("a1", 1, "<a><k/></a>"), document("b2", 2), document("b3", 3)]
        )
        found += broker.process([document("z4", 40)])
    assert len({match.id for match in found}) == len(found)
    assert {match.blocks for match in found} >= set(blocks)


@pytest.mark.parametrize(
    "group", ["(S/b[./p->p])+", "(S/b OR S/*[./p])+", "(S/b[./p->p])+ FOLLOWED BY {9} NOT S/x"]
)
def test_a_run_takes_a_document_for_an_element_once(group: str) -> None:
    """Whatever nodes and branches it may be taken with: runs would be 3^40."""
    with Broker(lateness=0) as broker:
        broker.subscribe(f"q: S/a FOLLOWED BY {group} USING SKIP TILL NEXT MATCH")
        several = [
            document(f"b{at}", 2 + at / 9, "<b><p>1</p><p>3</p><p>5</p></b>") for at in range(40)
        ]
        found = broker.process([document("a0", 1), *several])
        found += broker.process([document("z4", 400)])
    assert len(found) == len({match.id for match in found}) == 40


def test_a_run_takes_a_document_once_for_each_of_two_groups() -> None:
    """Its nodes come to the groups by turns."""
    with Broker(lateness=0) as broker:
        broker.subscribe(
            "q: (S/b[./p->p])* FOLLOWED BY (S/b[./p->r])+ FOLLOWED BY S/c USING SKIP TILL NEXT MATCH"
            " WITHIN 60"
        )
        found = broker.process(
            [document(f"b{at}", at, "<b><p>1</p><p>3</p><p>5</p></b>") for at in range(20)]
        )
        found += broker.process([document("c20", 20), document("z", 400)])
    assert len(found) == len({match.id for match in found}) == 20 * 21 // 2


@pytest.mark.parametrize("behind", ["", "FOLLOWED BY NOT S/x FOLLOWED BY S/c"])
def test_the_first_nodes_that_pass_count_for_an_element_of_a_run(behind: str) -> None:
    with Broker(lateness=0) as broker:
        broker.subscribe(
            f"q: SELECT sum(p) AS p FROM S/a FOLLOWED BY (S/b[./p->p])+ {behind} "
            "USING SKIP TILL NEXT MATCH WHERE p > 1 AND sum(p) < 9"
        )
        found = broker.process(
            [
                document("a1", 1),
                document("b2", 2, "<b><p>1</p><p>3</p><p>5</p></b>"),
                document("b3", 3, "<b><p>7</p><p>2</p></b>"),
                document("c4", 4),
            ]
        )
        found += broker.process([document("z5", 40)])
    assert [match.values["p"] for match in found] == ([] if behind else [["3"]])


@pytest.mark.parametrize("behind", ["", " FOLLOWED BY S/d"])
def test_what_comes_after_a_group_is_near_to_its_last_element(behind: str) -> None:
    broker = Broker(lateness=10)
    broker.subscribe(f"q: S/b FOLLOWED BY (S/b)+ FOLLOWED BY {{6 AFTER}} S/c{behind}")
    found = []
    for name, at in (("b", 0), ("c", 9), ("b", 7), ("d", 12)):
        xml = f"<{name}/>"
        found += broker.process([Document(f"{name}{at}", timestamp=float(at), xml=xml)])
    found += broker.decide()
    assert [[d.id for d in m.documents][:3] for m in found] == [["b0", "b7", "c9"]]


@pytest.mark.parametrize(
    "around",
    [
        "S/b FOLD {{, }} S/b FOLLOWED BY S/b WITHIN {0}",
        "(S/b FOLD {{, }} S/b WITHIN {0}) FOLLOWED BY S/b WITHIN {0}",
        "S/b FOLD {{, }} S/b FOLLOWED BY {{{0}}} S/b",
    ],
)
def test_a_fold_in_a_list_ends_with_the_window_around_it(around: str) -> None:
    """Of documents that come two at a time it would have more steps with each of them, and twice as
    many ways; what it finds within the window is what it finds of few."""
    for count in (8, 200):
        given = [Document(f"b{n}", timestamp=float(n // 2), xml="<b/>") for n in range(count)]
        with Broker(lateness=0) as broker:
            broker.subscribe(around.format("2 s"))
            found = broker.process(given)
            found += broker.process([Document("z", "Z", 1e5, "<z/>")])
        assert len(found) == 8 * (count // 2 - 2)
