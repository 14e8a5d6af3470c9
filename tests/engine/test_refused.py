"""Stored subscriptions that the checks refuse now, as this version knows better than the one that
took them: they are suspended with the reason, and all others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import Broker, Document, XsclError
from broker.query import prepared
from broker.state.store import Store

TAKEN = "S/a FOLLOWED BY {1 h} NOT S/b"
REFUSED = "S/a FOLLOWED BY NOT S/b"
OTHER = "S/a FOLLOWED BY {1 h} NOT S/c"


@pytest.fixture(autouse=True)
def no_shapes() -> Iterator[None]:
    """Each test starts as a process does."""
    prepared.forget()
    yield
    prepared.forget()


def doc(number: int, tag: str = "a") -> Document:
    return Document(f"d{number}", timestamp=60.0 * number, xml=f"<{tag}/>")


def stored(state: Path, queries: str, texts: dict[str, str], *, compiler: bool = False) -> None:
    """Store subscriptions as they would be if these texts had been taken, by their ids; by another
    compiler or by this one."""
    with Broker(state, lateness=0.0) as broker:
        broker.subscribe(queries)
        broker.process([doc(0)])
    store = Store(state)
    with store.transaction():
        for id, text in texts.items():
            store.run("UPDATE subscriptions SET text = ? WHERE id = ?", [text, id])
        if compiler:
            store.run("UPDATE shapes SET compiler = 0")
    store.close()
    prepared.forget()


def ids(broker: Broker, *documents: Document) -> list[str]:
    return [match.query for document in documents for match in broker.process([document])]


CASES = {
    "event pattern": (TAKEN, REFUSED, False),
    "event pattern of another compiler": (TAKEN, REFUSED, True),
    "event pattern in FROM": (
        f"SELECT x FROM (SELECT * FROM {TAKEN})/result->x JOIN {{1 h}} S/a",
        f"SELECT x FROM (SELECT * FROM {REFUSED})/result->x JOIN {{1 h}} S/a",
        False,
    ),
    "plain query of another compiler": ("S//a", "S//a[upper('x') = 'X']", True),
}


@pytest.mark.parametrize(("taken", "refused", "compiler"), CASES.values(), ids=CASES)
def test_it_is_suspended_and_the_others_go_on(
    taken: str, refused: str, compiler: bool, tmp_path: Path
) -> None:
    stored(tmp_path, f"q: {taken}; r: {OTHER}", {"q": refused}, compiler=compiler)
    for time in range(2):
        prepared.forget()
        with Broker(tmp_path, lateness=0.0) as broker:
            one, other = broker.engine.registered_one("q"), broker.engine.registered_one("r")
            assert (one.status, other.status) == ("suspended", "active")
            assert "this version refuses it" in (one.reason or "")
            told = [each.id for each in broker.engine.take_suspensions()]
            assert told == ([] if time else ["q"])
            broker.engine.take_suspensions()
            assert ids(broker, doc(70 * time + 62, "z")) == ([] if time else ["r"])


def test_to_resume_it_tells_why_not(tmp_path: Path) -> None:
    stored(tmp_path, f"q: {TAKEN}; r: {OTHER}", {"q": REFUSED})
    with Broker(tmp_path, lateness=0.0) as broker:
        with pytest.raises(XsclError, match="negation-window"):
            broker.resume("q")
        assert broker.engine.registered_one("q").status == "suspended"
        broker.subscribe(f"q: {TAKEN}")
        assert broker.engine.registered_one("q").status == "active"
        assert sorted(ids(broker, doc(1), doc(62, "z"))) == ["q", "r", "r"]


def test_it_can_be_removed(tmp_path: Path) -> None:
    stored(tmp_path, f"q: {TAKEN} PUBLISH P; r: {OTHER}", {"q": f"{REFUSED} PUBLISH P"})
    with Broker(tmp_path, lateness=0.0) as broker:
        with pytest.raises(XsclError, match="P"):
            broker.subscribe(f"s: {OTHER} PUBLISH P")
        broker.unsubscribe("q")
        broker.subscribe(f"s: {OTHER} PUBLISH P")
        assert sorted(broker.subscriptions) == ["r", "s"]


@pytest.mark.parametrize("compiler", [False, True])
def test_a_paused_one_stays_paused(compiler: bool, tmp_path: Path) -> None:
    with Broker(tmp_path, lateness=0.0) as broker:
        broker.subscribe(f"q: {TAKEN}")
        broker.pause("q")
    stored(tmp_path, f"r: {OTHER}", {"q": REFUSED}, compiler=compiler)
    with Broker(tmp_path, lateness=0.0) as broker:
        assert broker.engine.registered_one("q").status == "paused"
        assert not broker.engine.take_suspensions()
        with pytest.raises(XsclError, match="negation-window"):
            broker.resume("q")
