"""Compiled queries in the state: a restart parses no text, and forms of other compiler versions are
compiled again."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from broker import Broker, Document
from broker.query import prepared
from broker.query.blueprint import COMPILER
from broker.query.stored_shapes import dumps, loads
from broker.state.migrations import in_order
from xscl.check.program import ResolvedQuery

GOLDEN = Path(__file__).parent / "shapes" / f"compiler_{COMPILER}.txt"

QUERIES = [
    *(
        f"q{n}: S//i->x[./a = 'A{n}'][./t->t] JOIN {{t = u, {n} s}} S//i->y[./t->u];"
        for n in (1, 2)
    ),
    "r: SELECT concat(x, 'r') AS n FROM S//i->x WHERE x/p > 5 PUBLISH made;",
    "n: (SELECT t FROM S//i[./t->t])//t->v JOIN {v != w OR v = 'z', 9 s} made//n->w;",
]


def unread(patched: pytest.MonkeyPatch) -> list[str]:
    """The texts that are read from now on."""
    texts: list[str] = []
    read = prepared.resolve

    def resolve(id: str, text: str) -> ResolvedQuery:
        texts.append(text)
        return read(id, text)

    patched.setattr(prepared, "resolve", resolve)
    prepared.forget()
    return texts


def tea(number: int, at: float) -> Document:
    return Document(f"{number} {at}", "S", at, f"<i><p>7</p><a>A{number}</a><t>w</t></i>")


def test_a_restart_reads_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe("".join(QUERIES))
        broker.engine.pause("q2")
        texts = broker.subscriptions
    read = unread(monkeypatch)
    with Broker(tmp_path) as broker:
        assert broker.subscriptions == texts
        broker.process([tea(1, 0.0)])
        found = broker.process([tea(2, 1.0)])
        assert {match.query for match in found} >= {"q1", "r", "n"}
        assert read == []


@pytest.mark.parametrize("same_form", [True, False])
def test_shapes_of_another_compiler_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_form: bool
) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe("".join(QUERIES))
        store = broker.engine.store
        store.run("UPDATE shapes SET compiler = 0, compiled = 'of no meaning'")
        if not same_form:
            store.run("UPDATE shapes SET form = 'another ' || form")
            store.run("UPDATE subscriptions SET literals = ['of no meaning']")
    for reads in (3 if same_form else 4, 0):
        with monkeypatch.context() as patched:
            read = unread(patched)
            with Broker(tmp_path) as broker:
                assert len(read) == reads
                assert len(broker.engine.store.rows("SELECT * FROM shapes")) == 3
                broker.process([tea(1, 10.0 * reads)])
                found = broker.process([tea(2, 10.0 * reads)])
                assert {match.query for match in found} >= {"q1", "q2"}


def test_shapes_that_nobody_has_go(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.engine.registry.forms.spare = 5
        for number in range(40):
            broker.subscribe(f"q: S//tag{number}->x")
        assert len(broker.engine.store.rows("SELECT * FROM shapes")) < 20
    with Broker(tmp_path) as broker:
        ((form,),) = broker.engine.store.rows("SELECT form FROM shapes")
        assert "tag39" in form


def subscribe_and_fail(broker: Broker) -> None:
    with broker.engine.store.transaction():
        broker.subscribe(QUERIES[2])
        raise ZeroDivisionError


def test_a_change_that_fails_leaves_its_shape_to_be_written(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        with pytest.raises(ZeroDivisionError):
            subscribe_and_fail(broker)
        broker.subscribe(QUERIES[2])
    with Broker(tmp_path) as broker:
        assert [m.query for m in broker.process([tea(1, 0.0)])] == ["r"]
        assert len(broker.engine.store.rows("SELECT * FROM shapes")) == 1


def test_what_is_compiled_differently_has_another_version() -> None:
    """A state may hold what an earlier program compiled: who changes what is made of a query makes
    `COMPILER` one more; the file of the new version is written by this test."""
    made = []
    for text in QUERIES:
        (query,) = xscl.check([xscl.parse(text)]).queries
        blueprint = prepared.blueprint(query)
        assert loads(dumps(blueprint)) == blueprint
        made.append(dumps(blueprint).replace('},{"', '},\n{"') + "\n")
    if not GOLDEN.exists():
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(made))
    assert GOLDEN.read_text() == "".join(made)


# -- states of version 3 ---------------------------------------------------------------------


def test_filters_of_definitions_are_brought_into_the_order_of_their_texts() -> None:
    for before, after in {
        "S//a": "S//a",
        "S//a[./c][./b]/d": "S//a[./b][./c]/d",
        "S//a[. = 'x']['[' = ./b[z][y]]//c : concat(., ']')": (
            "S//a['[' = ./b[y][z]][. = 'x']//c : concat(., ']')"
        ),
        "S//a[./b][./b][./a]": "S//a[./a][./b]",
        "S//http://[::1:a[b][a]": "S//http://[::1:a[b][a]",
        "S//o'clock:a[b][a]": "S//o'clock:a[b][a]",
    }.items():
        assert in_order(before) == after
        assert in_order(after) == after


def test_definitions_that_are_one_now_keep_their_rows(tmp_path: Path) -> None:
    """Two queries with the same filters within a filter, written in two orders."""
    orders = {"one": "[. = 'p'][. != 'q']", "two": "[. != 'q'][. = 'p']"}
    with Broker(tmp_path) as broker:
        for name, filters in orders.items():
            broker.subscribe(
                f"{name}: S//i->x[./a{filters}][./l->l] FOLLOWED BY {{l = m, 1 h}} S//j->y[./l->m]"
            )
        broker.process([Document("1", "S", 0.0, "<i><a>p</a><l>5</l></i>")])
        store = broker.engine.store
        with store.transaction():  # as a version 3 had it, each query with definitions of its own
            rows = store.rows(
                "SELECT id, definition FROM variables WHERE contains(definition, 'p')"
            )
            for number, definition in rows:
                assert orders["two"] in definition
                old = definition.replace(orders["two"], orders["one"])
                store.run("INSERT INTO variables VALUES (?, ?)", [number + 1_000, old])
                for column in ("var1", "var2"):
                    store.run(
                        f"UPDATE rl SET {column} = ? WHERE {column} = ?", [number + 1_000, number]
                    )
            for column in ("shape", "literals", "publish"):
                store.run(f"ALTER TABLE subscriptions DROP COLUMN {column}")
            store.run("ALTER TABLE documents DROP COLUMN outline")
            for table in ("shapes", "outlines"):
                store.run(f"DROP TABLE {table}")
            store.run("DROP TABLE outbox")
            store.run("CREATE TABLE outbox (n BIGINT, id VARCHAR, match VARCHAR, result BLOB)")
            ((next_doc, highest),) = store.rows("SELECT max(next_doc), max(highest) FROM progress")
            for table in ("progress", "highest"):
                store.run(f"DROP TABLE {table}")
            store.run("CREATE TABLE applied (source VARCHAR PRIMARY KEY, seq BIGINT)")
            store.set_numbers(version=3, next_doc=next_doc, highest_timestamp=highest)
    with Broker(tmp_path) as broker:
        found = broker.process([Document("2", "S", 1.0, "<j><l>5</l></j>")])
        assert sorted(match.query for match in found) == ["one", "two"]
