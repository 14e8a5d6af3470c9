"""The public interface of the library: arguments, error messages, exported names."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import broker as package
from broker import (
    ArgumentError,
    Broker,
    BrokerError,
    ClosedError,
    Document,
    Limit,
    Match,
    NotStored,
    StateError,
)
from broker.engine import Engine
from broker.shared_match import SharedMatch
from broker.state.store import DatabaseError, Store

PAIR = "pair: S//a->x[./k->k] FOLLOWED BY {k = l, 1 h} S//b->y[./k->l]"


def a(at: Any = 0.0, id: Any = "a", xml: Any = "<a><k>1</k></a>", **more: Any) -> Document:
    return Document(id, timestamp=at, xml=xml, **more)


def b(at: Any = 60.0, id: str = "b") -> Document:
    return Document(id, timestamp=at, xml="<b><k>1</k></b>")


def test_matches_carry_datetimes() -> None:
    noon = datetime(2026, 10, 5, 12, tzinfo=UTC)
    broker = Broker()
    broker.subscribe(PAIR)
    (match,) = broker.process([a(noon), b(noon + timedelta(minutes=1))])
    assert (match.start, match.end) == (noon, noon + timedelta(minutes=1))
    assert [d.timestamp for d in match.documents] == [noon, noon + timedelta(minutes=1)]
    assert match.end_us - match.start_us == 60_000_000
    assert match.to_json()["start"] == "2026-10-05T12:00:00Z"
    shared = SharedMatch.of(match)
    assert [*SharedMatch.loads(shared.ids, shared.queries, *shared.dumps())] == [match]


def test_a_time_beyond_the_calendar_is_its_last_moment() -> None:
    match = Match("i", "q", None, 2**59, 2**59, (), {}, (), "<result/>")
    assert match.end == datetime.max.replace(tzinfo=UTC)


def test_a_document_without_a_timestamp_is_now() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    before = time.time()
    (match,) = [*broker.process([a(None)]), *broker.process([b(time.time() + 1)])]
    assert before - 1e-3 <= match.start.timestamp() <= time.time()
    broker = Broker()
    broker.subscribe(PAIR)
    broker.process([a(None)], now=datetime(2026, 10, 5, tzinfo=UTC))
    (match,) = broker.process([b(datetime(2026, 10, 5, 0, 0, 1, tzinfo=UTC))])
    assert match.start == datetime(2026, 10, 5, tzinfo=UTC)


@pytest.mark.parametrize("lateness", [10, 10.0, timedelta(seconds=10)])
def test_durations_are_seconds_or_timedeltas(lateness: Any) -> None:
    broker = Broker(lateness=lateness, lateness_of={"slow": timedelta(minutes=1)})
    broker.process([a(100.0, "1"), a(90.0, "2"), a(89.0, "3"), a(60.0, "4", stream="slow")])
    assert [letter.id for letter in broker.dead_letters()] == ["3"]
    assert Limit(3, 60) == Limit(3, timedelta(minutes=1)) == Limit.of(3, 60_000_000)


def test_without_bound_is_infinity() -> None:
    broker = Broker(lateness=float("inf"))
    broker.process([a(10.0**9, "1"), a(0.0, "2")])
    assert not broker.dead_letters()


WRONG: dict[str, Any] = {
    "a timestamp is a datetime or a number of seconds, not str 'x'": [a("x")],
    "a timestamp is a datetime or a number of seconds, not bool True": [a(True)],
    "a timestamp must be a finite number of seconds, not nan": [a(float("nan"))],
    "a batch is a list of documents": a(),
    "a batch is a list of `Document`s, not of str: 'x'": ["x"],
    "document 3: its id is a text, not 3": [a(id=3)],
    "document 'a': its xml is a text or bytes, not None": [a(xml=None)],
    "document 'a': its stream is a name or a tuple of names, not 3": [a(stream=3)],
    "document 'a': its stream is a name or a tuple of names": [a(stream=("S", 3))],
    "document 'a' flows through no stream": [a(stream=())],
    "document 'a': its source is a text, not 3": [a(source=3)],
    "document 'a': its seq is a number, not 'x'": [a(seq="x")],
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_no_document_is_said_and_nothing_of_the_batch_is_taken(sentence: str) -> None:
    broker = Broker()
    wrong = WRONG[sentence]
    with pytest.raises(ArgumentError) as raised:
        broker.process([a(id="before"), *wrong] if isinstance(wrong, list) else wrong)
    assert sentence in str(raised.value)
    assert isinstance(raised.value, BrokerError)
    broker.subscribe(PAIR)
    assert [m.documents[0].id for m in broker.process([a(id="before"), b()])] == ["before"]


def test_other_arguments_that_cannot_be() -> None:
    with pytest.raises(ArgumentError, match="queries are a text"):
        Broker().subscribe(3)  # type: ignore[arg-type]
    with pytest.raises(
        ArgumentError, match="a duration is a timedelta or a number of seconds, not"
    ):
        Broker(lateness="7 days")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be negative"):
        Broker(lateness=-1)
    with pytest.raises(ArgumentError, match="memory cannot be less"):
        Broker(memory=0)


def test_a_closed_broker_says_so(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.close()
    broker.close()
    for use in (
        lambda: broker.process([a()]),
        lambda: broker.subscribe(PAIR),
        lambda: broker.subscriptions,
        lambda: broker.undelivered(),
        lambda: broker.unsubscribe("pair"),
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()
    with Broker(tmp_path) as again:
        assert again.subscriptions == {}
        with pytest.raises(StateError):
            Broker(tmp_path)


def test_subscriptions_are_paused_and_resumed() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    broker.pause("pair")
    assert broker.process([a(), b()]) == []
    broker.resume("pair")
    assert len(broker.process([a(100.0, "c"), b(160.0, "d")])) == 1
    with pytest.raises(KeyError):
        broker.pause("other")


def test_what_is_exported_is_there() -> None:
    for name in package.__all__:
        assert getattr(package, name).__doc__, name
    with pytest.raises(AttributeError):
        package.nothing  # noqa: B018


def test_hints_reach_type_checkers(tmp_path: Path) -> None:
    """A program beside the project, checked against it as it is installed."""
    program = tmp_path / "program.py"
    program.write_text(
        "from broker import Broker, Match\n"
        "def ends(broker: Broker) -> list[Match]:\n"
        "    return broker.process([])\n"
        "reveal_type(ends(Broker())[0].end)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Revealed type is "datetime.datetime"' in output.stdout, output.stdout


def test_nothing_is_printed_at_exit_that_nobody_asked_for() -> None:
    """Also where a thread of the program is still there, which keeps all of it alive."""
    program = (
        "import threading, time\n"
        "from broker import Broker, Document\n"
        f"broker = Broker(); broker.subscribe({PAIR!r}.replace('k = l', 'k = l AND x/n < y/n'))\n"
        "broker.process([Document('a', timestamp=0.0, xml='<a><k>1</k><n>1</n></a>'),\n"
        "    Document('b', timestamp=1.0, xml='<b><k>1</k><n>2</n></b>')])\n"
        "def wait(): threading.Event().wait()\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_a_broker_may_be_made_and_used_in_a_thread() -> None:
    found: list[Match] = []

    def use() -> None:
        with Broker() as broker:
            broker.subscribe(PAIR)
            found.extend(broker.process([a(), b()]))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_broker_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a query is more than memory holds."""
    monkeypatch.chdir(tmp_path)
    with (
        Broker.over(Engine(Store(None, memory=20_000_000))) as broker,
        pytest.raises(DatabaseError, match=r"(?i)memory"),
    ):
        broker.engine.store.rows(
            "SELECT count(*) FROM (SELECT DISTINCT i || 'x' || i FROM range(2_000_000) t(i))"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ask", "kind", "reason"),
    [
        (lambda b: b.process([Document("\ud800", xml="<a/>")]), ArgumentError, "surrogate"),
        (lambda b: b.process([Document("a", "\udfff", xml="<a/>")]), ArgumentError, "surrogate"),
        (lambda b: b.undelivered(-1), ArgumentError, "negative number, such as -1"),
        (lambda b: Broker("a\0b"), ArgumentError, "no directory can be called"),
        (lambda b: b.why_between("q", ["zzz"]), NotStored, "no stored document is called zzz"),
    ],
)
def test_what_is_asked_wrongly_is_an_error_of_the_broker(
    ask: Callable[[Broker], object], kind: type[BrokerError], reason: str
) -> None:
    with Broker() as broker:
        broker.subscribe("q: S//a FOLLOWED BY {1 h} S//b")
        with pytest.raises(kind, match=reason):
            ask(broker)
        assert not broker.process([Document("\u00e9", "Stra\u00dfe", xml="<a/>")])
