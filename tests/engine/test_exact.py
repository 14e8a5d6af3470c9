"""One small case for each rule of stage 2's search, with its expected matches.

Each is put to engines that hold every or hardly any document in memory, to which values are hot
early or late, document by document and in one batch; and to the oracle. What random cases find
once in a thousand has its place here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import pytest

from broker import Broker, Document
from broker.join.postings import Postings
from broker.join.records import Layout, Record
from broker.join.relations import Rows
from broker.join.signatures import Signatures
from tests.oracle.asking import doc, pairs
from tests.oracle.generate import WEEK, Batch, Case, Event, Subscribe, Unsubscribe
from tests.oracle.generate_hard import Restart
from tests.oracle.oracle import Arrival
from tests.properties.harness import _document, disagreement, expected, flat


def post(name: str, at: float, leaves: str, revision: bool = False) -> Arrival:
    """A document `<p>` with leaves, written "a=u b=v"."""
    inside = "".join(f"<{k}>{v}</{k}>" for k, _, v in (x.partition("=") for x in leaves.split()))
    return doc(name, at, f"<p>{inside}</p>", revision=revision)


def persons(who: str) -> str:
    """A document with persons, each a name and a mail: "uv xy"."""
    return f"<p>{''.join(f'<w><n>{w[0]}</n><m>{w[1]}</m></w>' for w in who.split())}</p>"


def ask(text: str) -> Subscribe:
    return Subscribe(text, (text.partition(":")[0],))


AB = "S//p[./a->x][./b->y]"
BOTH = f"q: {AB} FOLLOWED BY {{x = z AND y = t, 9 s}} S//p[./a->z][./b->t]"
SAME = "S//p[./a->x] {} S//p[./a->y]"
JOIN = "q: " + SAME.format("JOIN {x = y, 2 s}")
AFTER = "q: " + SAME.format("FOLLOWED BY {x = y, 2 s}")
PERSON = "S//p[./w[./n->{}][./m->{}]]"
PERSONS = f"q: {PERSON.format('x', 'y')} FOLLOWED BY {{x = z AND y = t}} {PERSON.format('z', 't')}"
PEOPLE = ("uv xy", "uy xv", "xv", "xy uu", "uy")
CHAIN = (
    "q: S//p[./a->x] FOLLOWED BY {x = y, 9 s} S//p[./b->y][./c->z]"
    " FOLLOWED BY {z = t, 9 s} S//p[./a->t]"
)
MADE = "m: SELECT <r>{x}</r> FROM " + SAME.format("FOLLOWED BY {x = y, 3 s}") + " PUBLISH m"

Step = Subscribe | Unsubscribe | Arrival | Restart
Scenario = tuple[list[Step], list[str]]

BOUNDS = ((2, 1_000_000, False), (2, 1, False), (8, 2, False), (3, 1, True))
"""Documents that make a value hot, documents in memory, whether they come in one batch."""

SCENARIOS: dict[str, Scenario] = {
    "a window includes its edge and not more": (
        [
            ask(JOIN),
            *(post(f"d{i}", t, "a=u") for i, t in enumerate((0, 2, 2.000001, 4, 4.000001))),
        ],
        [f"d{i} d{j}" for i, near in enumerate(["1", "023", "134", "124", "23"]) for j in near],
    ),
    "what follows does so strictly": (
        [ask(AFTER), *(post(f"d{i}", t, "a=u") for i, t in enumerate((1, 1, 3, 3, 3.1)))],
        ["d0 d2", "d0 d3", "d1 d2", "d1 d3", "d2 d4", "d3 d4"],
    ),
    "what comes later may be the left block": (
        [ask(AFTER), *(post(f"d{i}", t, "a=u") for i, t in enumerate((9, 8, 7, 6, 5, 6)))],
        ["d1 d0", "d2 d0", "d2 d1", "d3 d1", "d3 d2", "d4 d2", "d4 d3", "d4 d5", "d5 d1", "d5 d2"],
    ),
    "two hot values at once": (
        [
            ask(BOTH),
            *(post(f"d{i}", i, "a=u b=v") for i in range(3)),
            post("d3", 3, "a=u b=w"),
            post("d4", 4, "a=w b=v"),
            post("d5", 5, "a=u b=v"),
            post("d6", 6, "a=v b=u"),
            post("d7", 7, "a=u b=w"),
        ],
        ["d0 d1", "d0 d2", "d0 d5", "d1 d2", "d1 d5", "d2 d5", "d3 d7"],
    ),
    "two hot values that are asked for late": (
        [
            ask("o: S//p[./a->x] JOIN {x = y, 0 s} R//p[./b->y]"),
            ask("k: " + BOTH[3:]),
            post("d0", 0, "a=u b=w"),
            Unsubscribe("k"),
            post("d1", 1, "a=u b=v"),
            post("d2", 2, "a=w b=v"),
            ask("k: " + BOTH[3:]),
            post("d3", 3, "a=u b=v"),
            post("d4", 4, "a=w b=w"),
            post("d5", 5, "a=u b=v"),
            post("d6", 6, "a=u b=v"),
        ],
        ["d3 d5", "d3 d6", "d5 d6"],
    ),
    "a list in common, of values that become hot after it": (
        [
            ask(BOTH),
            *(post(f"d{i}", i, "a=u b=u") for i in range(3)),
            post("d3", 3, "a=v b=u"),
            post("d4", 4, "a=u b=v"),
            post("d5", 5, "a=v b=u"),
            post("d6", 6, "a=v b=v"),
            post("d7", 7, "a=v b=v"),
            post("d8", 8, "a=v b=u"),
        ],
        ["d0 d1", "d0 d2", "d1 d2", "d3 d5", "d3 d8", "d5 d8", "d6 d7"],
    ),
    "one hot value and one that is not": (
        [ask(BOTH), *(post(f"d{i}", i, f"a=u b=v{i // 2}") for i in range(9))],
        ["d0 d1", "d2 d3", "d4 d5", "d6 d7"],
    ),
    "several values in common are one match": (
        [ask(AFTER), *(post(f"d{i}", i / 2, "a=u a=v") for i in range(5))],
        [f"d{i} d{j}" for i in range(5) for j in range(i + 1, 5)],
    ),
    "several values in common are several where they are selected": (
        [
            ask("q: SELECT x, y FROM " + SAME.format("FOLLOWED BY {x = y, 2 s}")),
            post("d0", 0, "a=u a=v a=u"),
            post("d1", 1, "a=v a=u"),
            post("d2", 9, "a=u"),
        ],
        ["d0 d1"] * 3,
    ),
    "name and mail are of one person": (
        [ask(PERSONS), *(doc(f"d{i}", i, persons(who)) for i, who in enumerate(PEOPLE))],
        ["d0 d3", "d1 d2", "d1 d4"],
    ),
    "a revision takes a value away and brings one": (
        [
            ask(AFTER),
            post("d0", 0, "a=u"),
            post("d1", 1, "a=u"),
            post("d1", 1, "a=v", True),
            post("d2", 2, "a=u"),
            post("d3", 2, "a=v"),
            post("d0", 2, "a=u", True),
            post("d4", 3, "a=u"),
        ],
        ["d0 d1", "d0 d2", "d0 d4", "d1 d3", "d2 d4"],
    ),
    "equal queries have windows of their own": (
        [
            ask(JOIN),
            ask("k" + AFTER),
            ask("w: " + SAME.format("JOIN {x = y, 4 s}")),
            *(post(f"d{t}", t, "a=u") for t in (0, 3, 4)),
        ],
        ["d0 d3", "d0 d4", "d3 d0", "d3 d4", "d3 d4", "d3 d4", "d4 d0", "d4 d3", "d4 d3"],
    ),
    "nobody sees what was there before": (
        [
            ask(JOIN),
            post("d0", 0, "a=u"),
            post("d1", 0, "a=u"),
            ask("w" + JOIN),
            post("d2", 1, "a=u"),
            Unsubscribe("q"),
            post("d3", 1, "a=u"),
        ],
        ["d0 d1", "d0 d2", "d1 d0", "d1 d2", "d2 d0", "d2 d1", "d2 d3", "d3 d2"],
    ),
    "an edge comes to carry values": (
        [
            ask("k: SELECT x FROM S//p[./a->x][./b->y] FOLLOWED BY {y = z} S//p[./b->z]"),
            post("d0", 0, "a=u b=u"),
            ask(AFTER),
            post("d1", 1, "a=u b=u"),
            post("d2", 2, "a=u b=v"),
            post("d3", 3, "a=v b=v"),
        ],
        ["d0 d1", "d1 d2", "d2 d3"],
    ),
    "a longer pattern reaches what nothing new has": (
        [
            ask(CHAIN),
            post("d0", 0, "a=u"),
            post("d1", 1, "a=w"),
            post("d2", 2, "b=u c=v"),
            post("d3", 3, "b=x c=v"),
            post("d4", 4, "a=x"),
            post("d5", 5, "a=v"),
            post("d6", 4, "a=v"),
            post("d7", 1, "a=x"),
        ],
        ["d0 d2 d5", "d0 d2 d6", "d7 d3 d5", "d7 d3 d6"],
    ),
    "a longer pattern is asked for when its joins are known already": (
        [
            ask(AFTER),
            post("d0", 0, "a=u"),
            post("d1", 1, "a=u"),
            ask(
                "k: S//p[./a->x] FOLLOWED BY {x = y, 9 s} S//p[./a->y]"
                " FOLLOWED BY {y = z, 9 s} S//p[./a->z]"
            ),
            *(post(f"d{t}", t, "a=u") for t in (2, 3, 4)),
        ],
        ["d0 d1", "d0 d2", "d1 d2", "d1 d3", "d2 d3", "d2 d3 d4", "d2 d4", "d3 d4"],
    ),
    "documents come back although older ones have been let go since": (
        [
            ask(JOIN),
            post("d0", 100, "a=u"),
            post("d1", 101, "a=v"),
            post("d2", 1, "a=x"),
            post("d3", 2, "a=y"),
            post("d4", 102, "a=u"),
        ],
        ["d0 d4", "d4 d0"],
    ),
    "documents come back after a restart": (
        [
            ask(AFTER),
            post("d0", 0, "a=u"),
            post("d1", 1, "a=v"),
            Restart(),
            post("d2", 2, "a=u"),
            post("d3", 3, "a=v"),
            Restart(),
            post("d4", 3, "a=u"),
            post("d5", 3.5, "a=v"),
        ],
        ["d0 d2", "d1 d3", "d2 d4", "d3 d5"],
    ),
    "a result begins where its match began": (
        [
            ask(MADE),
            ask("q: m/r->x JOIN {x = y, 3 s} S//p[./b->y]"),
            post("d0", 0, "a=u"),
            post("d1", 3, "a=u"),
            post("d2", 4, "b=u"),
            post("d3", 3, "b=u"),
            post("d4", 0, "b=u"),
        ],
        ["d0 d1", "m(d0, d1; 1) d3", "m(d0, d1; 1) d4"],
    ),
    "nothing follows what has not ended": (
        [
            ask(MADE),
            ask("q: m/r->x FOLLOWED BY {x = y} S//p[./b->y]"),
            ask("k: S//p[./b->y] FOLLOWED BY {x = y} m/r->x"),
            post("d0", 1, "a=u"),
            post("d1", 3, "a=u"),
            *(post(f"e{t}", t, "b=u") for t in (0, 1, 2, 3, 4)),
        ],
        ["d0 d1", "e0 m(d0, d1; 1)", "m(d0, d1; 1) e4"],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_rule_of_the_search(name: str) -> None:
    events, wanted = SCENARIOS[name]
    assert pairs(flat(expected(Case(WEEK, _cut(events, False))))) == sorted(wanted)
    for hot, memory, together in BOUNDS:
        found = disagreement(Case(WEEK, _cut(events, together), hot, memory))
        assert found is None, found.text


def _cut(events: list[Step], together: bool) -> tuple[Event, ...]:
    """Documents in batches of their own, or in one between two other events."""
    cut: list[Event] = []
    for arrives, group in groupby(events, key=lambda event: isinstance(event, Arrival)):
        if not arrives:
            cut += [event for event in group if not isinstance(event, Arrival)]
            continue
        documents = [event for event in group if isinstance(event, Arrival)]
        parts = [documents] if together else [[document] for document in documents]
        cut += [Batch(tuple(part)) for part in parts]
    return tuple(cut)


def test_what_came_back_for_a_batch_goes_with_it() -> None:
    with Broker(memory=8, lateness=WEEK / 10**6) as broker:
        broker.subscribe("q: " + SAME.format("FOLLOWED BY {x = y, 90 s}"))
        found = 0
        for i in range(60):
            found += len(broker.process([_document(post(f"d{i}", i, f"a=u{i % 12}"))]))
            joiner = broker.engine.joiner
            held = joiner.postings.records.values()
            assert len(held) <= 8
            assert all(record.end >= joiner._history.floor for record in held)
        assert found == 12 * (4 + 3 + 2 + 1)


def test_many_documents_of_one_moment_are_let_go_as_well() -> None:
    with Broker(memory=8) as bounded, Broker() as unbounded:
        for broker in (bounded, unbounded):
            broker.subscribe(JOIN)
        for i in range(30):
            document = _document(post(f"d{i}", 5, f"a=u{i % 3}"))
            found, wanted = (
                sorted((m.documents[0].id, m.documents[1].id) for m in broker.process([document]))
                for broker in (bounded, unbounded)
            )
            assert found == wanted
            assert len(bounded.engine.joiner.postings.records) <= 8
        assert len(wanted) == 2 * 9


class Asked:
    """Witness rows that count how often documents with some values are looked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def documents_with(self, values: Sequence[int], low: int, high: int) -> list[int]:
        self.times += 1
        return self._rows.documents_with(values, low, high)


def test_only_values_of_documents_that_were_let_go_are_looked_for_in_the_store() -> None:
    with Broker(memory=8, lateness=WEEK / 10**6) as broker:
        broker.subscribe("q: " + SAME.format("FOLLOWED BY {x = y, 900 s}"))
        for i in range(30):
            broker.process([_document(post(f"d{i}", i, f"a=u{i}"))])
        history = broker.engine.joiner._history
        asked = Asked(history.rows)
        history.rows = cast(Rows, asked)
        for i in range(30, 60):
            assert broker.process([_document(post(f"d{i}", i, f"a=u{i}"))]) == []
        assert asked.times == 0
        (match,) = broker.process([_document(post("e", 60, "a=u3"))])
        assert [document.id for document in match.documents] == ["d3", "e"]
        assert asked.times == 1


def test_what_expired_leaves_no_trace() -> None:
    lists = Postings(Signatures())
    layout = Layout([(100, 1, 0, 1)])
    for number in range(2_500):
        lists.insert(Record(number, number, number, number, layout, (7 + number % 2,)))
        lists.expire(number - 10)
    assert len(lists.records) < 1_100
    lists.remove(list(lists.records))
    assert not lists.records
    assert not lists._of
    assert not lists._hot._hots
    assert not any(lists._hot._together.values())


def test_matches_come_in_the_order_of_their_ends_also_around_a_revision() -> None:
    """A revision cuts a batch in two, and what comes behind it may have ended before."""
    broker = Broker()
    broker.subscribe("q: S//a->x")
    later, revised, earlier = (("1", 100.0, False), ("1", 100.0, True), ("2", 50.0, False))
    batch = [Document(i, "S", t, "<a/>", revision=r) for i, t, r in (later, revised, earlier)]
    assert [m.documents[0].id for m in broker.process(batch)] == ["2", "1"]


def test_select_star_makes_an_element_of_an_attribute() -> None:
    broker = Broker()
    broker.subscribe("att: S//a/@lang; text: S//a/k/text()")
    xml = "<r><a lang='e&amp;n' xml:lang='de'><k>1 &lt; 2</k></a></r>"
    found = broker.process([Document("d", "S", 0.0, xml)])
    inner = sorted(match.result.partition(">")[2].removesuffix("</result>") for match in found)
    assert inner == ["1 &lt; 2", "<lang>de</lang>", "<lang>e&amp;n</lang>"]


def test_the_result_of_a_query_in_parentheses_shows_an_id_made_of_its_text() -> None:
    broker = Broker()
    inner = "(SELECT k AS k FROM S//a[./k->k] JOIN {k = l, 9 days} S//b[./k->l])/result->r"
    broker.subscribe(f"one: {inner}; two: SELECT r FROM {inner}[./k->m]")
    found = broker.process([Document(n, "S", 0.0, f"<{n}><k>1</k></{n}>") for n in "ab"])
    shown = {match.query: match.result.split("query=")[2].split()[0] for match in found}
    assert shown["one"] == shown["two"]
    assert re.fullmatch(r'"~[0-9a-f]{16}"', shown["one"])
