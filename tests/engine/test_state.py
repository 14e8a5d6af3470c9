"""Durability: closed and killed processes, replays, repeated and malformed documents."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker import Broker, Document, Match, XsclError
from broker.cli.output import Output
from broker.documents.witnessing import arrivals
from broker.shared_match import each_match
from broker.state.store import StateError
from feeds.rows import DocumentRow
from tests.command import program
from xscl.stage1.document import encode_text

PAIR = "pair: S//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i->y[./t->u];"


def item(number: int, text: str = "same", at: float | None = None, **more: object) -> Document:
    stamp = float(number) if at is None else at
    return Document(str(number), "S", stamp, f"<i><t>{text}</t></i>", **more)  # type: ignore[arg-type]


def pairs(matches: Iterable[Match]) -> set[tuple[str, ...]]:
    return {tuple(d.id for d in m.documents) for m in matches}


def test_what_is_undelivered_stays_in_its_order_over_a_restart(tmp_path: Path) -> None:
    """Matches of a later process come behind those that an earlier one has left."""
    found: list[str] = []
    for start in (0, 10, 20):
        with Broker(tmp_path) as broker:
            broker.subscribe(PAIR)
            found += [m.id for m in broker.process([item(start + i) for i in range(3)])]
            assert [m.id for m in broker.undelivered(10**6)] == found
    assert len(found) == 3 + 12 + 21


def test_a_closed_broker_goes_on_where_it_was(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(1)])
    with Broker(tmp_path) as broker:
        assert list(broker.subscriptions) == ["pair"]
        assert pairs(broker.process([item(2)])) == {("1", "2")}
        assert broker.process([item(2)]) == []


def test_a_match_stays_in_the_outbox_until_it_is_acknowledged(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        (found,) = broker.process([item(1), item(2)])
    with Broker(tmp_path) as broker:
        assert broker.undelivered() == [found]
        broker.acknowledge([found])
        assert broker.undelivered() == []


def test_documents_are_known_again_however_many_there_were(tmp_path: Path) -> None:
    many = [item(n, f"text {n}") for n in range(12_000)]
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        # More than are kept apart as recent, so that they are sorted in.
        broker.process(many[:11_000])
        broker.process(many[11_000:])
        broker.process([item(0, "text 0", at=1.0), item(11_500, "text 1", at=2.0)])
        assert broker.engine.store.rows("SELECT count(*) FROM documents") == [(12_000,)]
    with Broker(tmp_path) as broker:
        assert broker.process([item(7, "text 7", at=3.0), item(11_999, "text 7", at=4.0)]) == []
        assert broker.engine.store.rows("SELECT count(*) FROM documents") == [(12_000,)]


def test_sequence_numbers_make_a_replay_harmless(tmp_path: Path) -> None:
    batch = [item(n, seq=n, source="log") for n in (1, 2, 3)]
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        assert len(broker.process(batch)) == 3
    with Broker(tmp_path) as broker:
        assert broker.process(batch) == []
        # The number alone decides: the id is new, the number is not.
        assert broker.process([item(9, seq=3, source="log")]) == []
        assert len(broker.process([item(4, seq=4, source="log")])) == 3


def test_the_same_subscription_continues_and_a_changed_one_starts_anew() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    broker.process([item(1)])
    broker.subscribe(PAIR + "  -- a comment changes nothing")
    assert len(broker.process([item(2)])) == 1
    broker.subscribe(PAIR.replace("1 h", "2 h"))
    assert broker.process([item(3)]) == []
    assert pairs(broker.process([item(4)])) == {("3", "4")}


def test_revisions_replace_what_is_stored_and_fire_nothing() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    assert broker.process([item(1, "old"), item(2, "new")]) == []
    assert broker.process([item(1, "new", revision=True)]) == []
    assert pairs(broker.process([item(3, "new")])) == {("1", "3"), ("2", "3")}
    assert broker.process([item(4, "old")]) == []


def test_a_revision_counts_for_what_comes_after_it_in_the_same_batch() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    batch = [
        item(1, "a"),
        item(2, "a"),
        item(1, "b", at=1.0, revision=True),
        item(3, "a"),
        item(4, "b"),
    ]
    assert pairs(broker.process(batch)) == {("1", "2"), ("2", "3"), ("1", "4")}


def test_late_and_broken_documents_are_kept_aside_and_the_rest_goes_on() -> None:
    broker = Broker(lateness=timedelta(seconds=10))
    broker.subscribe(PAIR)
    batch = [
        item(1, at=100.0),
        Document("broken", timestamp=101.0, xml="<i><t>same</i>"),
        Document(
            "bomb",
            timestamp=101.0,
            xml='<!DOCTYPE i [<!ENTITY x SYSTEM "file:///etc/passwd">]><i><t>&x;</t></i>',
        ),
        item(2, at=90.0),
        item(3, at=89.9),
        item(4, at=102.0),
    ]
    assert pairs(broker.process(batch)) == {("2", "1"), ("1", "4"), ("2", "4")}
    letters = broker.dead_letters()
    assert [letter.id for letter in letters] == ["broken", "bomb", "3"]
    assert "not well-formed" in letters[0].reason
    assert letters[2].reason.startswith("late")
    assert letters[2].xml == b"<i><t>same</t></i>"


def test_rows_expire_with_the_widest_window_and_identities_stay() -> None:
    broker = Broker(lateness=timedelta(hours=1))
    broker.subscribe(PAIR)
    broker.process([item(1, at=0.0)])
    broker.process([item(2, at=3 * 3600.0)])
    broker.engine.expire()
    assert broker.engine.store.rows("SELECT DISTINCT doc FROM rl") == [(2,)]
    broker.process([item(1, at=3 * 3600.0)])
    assert broker.dead_letters() == []
    assert broker.engine.store.rows("SELECT DISTINCT doc FROM rl") == [(2,)]


def test_with_an_infinite_window_nothing_expires() -> None:
    broker = Broker(lateness=0)
    broker.subscribe(PAIR.replace("1 h", "INFINITY"))
    broker.process([item(1, at=0.0), item(2, "other", at=1e9)])
    broker.engine.expire()
    assert pairs(broker.process([item(3, at=1e9)])) == {("1", "3")}


def test_a_date_in_the_future_does_not_make_the_others_late() -> None:
    broker = Broker(lateness=timedelta(days=1))
    broker.subscribe(PAIR)
    far = 4_000_000_000.0
    matcher = broker.engine.matcher

    def apply(*documents: Document, now: float) -> list[Match]:
        rows = []
        for d in documents:
            assert isinstance(d.timestamp, float)
            xml = encode_text(str(d.xml))
            at = int(d.timestamp * 1e6)
            rows.append(DocumentRow("S", d.id, d.streams, at, True, None, False, xml))
        return each_match(broker.engine.apply(arrivals(matcher, rows), now=int(now * 1e6)))

    assert apply(item(1, at=far), item(2, at=1000.0), now=2000.0) == []
    assert pairs(apply(item(3, at=1500.0), now=2000.0)) == {("2", "3")}
    assert broker.dead_letters() == []


def test_timestamps_are_datetimes_or_seconds() -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    noon = datetime(2026, 10, 5, 12, tzinfo=UTC)
    (match,) = broker.process(
        [item(1, at=noon), item(2, at=noon.timestamp() + 3600)]  # type: ignore[arg-type]
    )
    assert match.to_json()["start"] == "2026-10-05T12:00:00Z"
    assert match.to_json()["end"] == "2026-10-05T13:00:00Z"
    with pytest.raises(ValueError, match="finite"):
        broker.process([item(3, at=float("nan"))])


def test_two_subscriptions_cannot_publish_one_stream_nor_close_a_cycle() -> None:
    broker = Broker()
    broker.subscribe("a: S//x PUBLISH p")
    with pytest.raises(XsclError, match="published by the subscription a already"):
        broker.subscribe("b: S//y PUBLISH p")
    broker.subscribe("c: p//x PUBLISH q")
    with pytest.raises(XsclError, match="derived from themselves"):
        broker.subscribe("a: q//x PUBLISH p")
    assert set(broker.subscriptions) == {"a", "c"}


def test_a_failed_batch_has_not_happened(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.subscribe(PAIR)
        broker.process([item(1)])
        # A source that disagrees with itself about its types fails inside the transaction.
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN match TO other")
        with pytest.raises(Exception, match="match"):
            broker.process([item(2)])
        broker.engine.store.run("ALTER TABLE outbox RENAME COLUMN other TO match")
        assert pairs(broker.process([item(2)])) == {("1", "2")}


def test_a_state_in_use_is_refused_with_a_reason(tmp_path: Path) -> None:
    code = f"from broker import Broker; b = Broker({str(tmp_path)!r}); print('up', flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        with pytest.raises(StateError, match="another process uses this state"):
            Broker(tmp_path)
    finally:
        holder.communicate(b"\n")


def test_a_state_is_used_once_also_within_a_process(tmp_path: Path) -> None:
    with Broker(tmp_path), pytest.raises(StateError, match="another process uses this state"):
        Broker(tmp_path)
    Broker(tmp_path).close()


def test_a_state_that_cannot_be_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot be used as a state"):
        Broker(tmp_path / "file")


def test_a_torn_line_does_not_swallow_the_next_match(tmp_path: Path) -> None:
    broker = Broker()
    broker.subscribe(PAIR)
    torn = tmp_path / "out"
    torn.write_text('{"id": "torn')
    output = Output(str(torn), "jsonl")
    output.write(broker.process([item(1), item(2)]))
    output.close()
    first, second = torn.read_text().splitlines()
    assert first == '{"id": "torn'
    assert json.loads(second)["query"] == "pair"


WORKER = """
import sys
from pathlib import Path
from broker import Broker, Document
state, out = sys.argv[1:]
print("ready", flush=True)
with Broker(state) as broker, open(out, "a") as received:
    broker.subscribe("pair: S//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i->y[./t->u]")
    def deliver(matches):
        for match in matches:
            received.write(match.id + " " + " ".join(d.id for d in match.documents) + "\\n")
        received.flush()
        broker.acknowledge(matches)
    deliver(broker.undelivered(10**6))
    for n in range(300):
        document = Document(str(n), timestamp=float(n), xml=f"<i><t>{n % 7}</t></i>", seq=n)
        deliver(broker.process([document]))
print("done")
"""


def test_killed_at_random_moments_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    state, out = tmp_path / "state", tmp_path / "received"
    kills = 0
    for _ in range(60):
        worker = program(WORKER, state, out, stdout=subprocess.PIPE)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        if kills < 4:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(rng.uniform(0.05, 1.5))
        if worker.poll() is None and kills < 4:
            os.kill(worker.pid, signal.SIGKILL)
            kills += 1
        printed, _ = worker.communicate()
        if printed:
            break
    assert kills >= 3
    lines = [line.split() for line in out.read_text().splitlines() if line.count(" ") == 2]
    by_id = {line[0]: tuple(line[1:]) for line in lines}
    expected = {(str(a), str(b)) for a in range(300) for b in range(a + 1, 300) if a % 7 == b % 7}
    assert set(by_id.values()) == expected
    assert len(by_id) == len(expected)
    with Broker(state) as broker:
        assert broker.undelivered() == []
        assert list(broker.subscriptions) == ["pair"]
