"""Published documents: durable, or refused with the reason."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.model import MICROSECONDS
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.core.errors import Busy, DiskFull, Draining, Invalid, TooLarge
from broker.service.intake import MAX_DOCUMENT_BYTES, Intake, read_lines
from feeds.spool import read_rows
from tests.service.api_harness import serving
from tests.service.data import order, settings


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = Core(settings(tmp_path / "state", intake={"max_backlog": 10}), lambda: 50.0)
    yield core
    core.close()


def test_what_is_accepted_is_in_the_spool(core: Core) -> None:
    intake = Intake(core, lambda: 1.0)
    named = order(1, id="a", timestamp=7, source="press", revision=True)
    accepted = intake.publish("S", [named, Posted(b"not XML")])
    assert (accepted.accepted, accepted.first, accepted.last) == (2, 1, 2)
    assert accepted.ids[0] == "a"
    one, other = read_rows(core.spool.path, 0, 9)
    assert (one.source, one.id, one.streams, one.timestamp) == ("press", "a", ("S",), 7)
    assert (one.dated, one.revision, one.xml) == (True, True, named.xml)
    # What is no document is taken too: the engine keeps it aside, with the reason.
    assert (other.source, other.id, other.dated) == ("post:S", accepted.ids[1], False)
    assert other.timestamp == 50_000_001  # the second of those that came at that time
    assert len(accepted.ids[1]) == 36


def test_threads_get_numbers_of_their_own(core: Core) -> None:
    intake = Intake(core, lambda: 1.0)
    got: list[str] = []

    def publish(name: int) -> None:
        accepted = intake.publish("S", [order(name, id=str(name))])
        got.append(f"{accepted.first} {name}")

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"{row.seq} {row.id}" for row in read_rows(core.spool.path, 0, 99))


def test_behind_a_long_backlog_publishers_wait_as_long_as_it_takes(core: Core) -> None:
    rate = 2.0
    intake = Intake(core, lambda: rate)
    intake.publish("S", [order(n) for n in range(19)])
    with pytest.raises(Busy, match="19 documents wait to be matched, 10 at most") as caught:
        intake.publish("S", [order(1)])
    assert caught.value.retry_after == pytest.approx(5.0)  # until one in ten of the room is free
    rate = 0.0
    with pytest.raises(Busy) as caught:
        intake.publish("S", [order(1)])
    assert caught.value.retry_after == 300.0
    core.apply(list(read_rows(core.spool.path, 0, 10)))
    assert intake.publish("S", [order(1)]).first == 20


def test_a_disk_that_is_nearly_full_takes_nothing(tmp_path: Path) -> None:
    core = Core(settings(tmp_path / "state", intake={"min_free": "900000 TB"}))
    with pytest.raises(DiskFull, match="MiB are free"):
        Intake(core, lambda: 1.0).publish("S", [order(1)])
    assert core.spool.last_seq() == 0
    core.close()


def test_what_is_refused_leaves_nothing(core: Core) -> None:
    intake = Intake(core, lambda: 1.0)
    with pytest.raises(TooLarge, match="document 2 is larger than 128 MiB"):
        intake.publish("S", [order(1), Posted(bytes(MAX_DOCUMENT_BYTES + 1))])
    with pytest.raises(Invalid, match="surrogate"):
        intake.publish("S", [order(1), order(2, id="\udcff")])
    with pytest.raises(Invalid, match="document 1 is dated outside of the calendar"):
        intake.publish("S", [order(1, timestamp=2**61)])
    with pytest.raises(Invalid, match="the id of document 1 holds control characters"):
        intake.publish("S", [order(1, id="q\nforged")])
    with pytest.raises(Invalid, match=r"begin with broker\. are the service's own"):
        intake.publish("broker.feeds", [order(1)])
    for stream, documents in (("", [order(1)]), ("S", [])):
        with pytest.raises(Invalid):
            intake.publish(stream, documents)
    intake.open = False
    with pytest.raises(Draining):
        intake.publish("S", [order(1)])
    assert core.spool.last_seq() == 0


# -- JSON lines ------------------------------------------------------------------------------


def test_lines() -> None:
    body = b"""\
\xef\xbb\xbf{"xml": "<?xml version='1.0' encoding='latin1'?><a>\\u00e9</a>", "id": "1"}

{"xml": "<b/>", "timestamp": "1970-01-01T00:00:02Z", "revision": true, "source": "press"}\r
{"xml": "no XML", "timestamp": 3.5}"""
    assert read_lines(body, "key") == [
        Posted("<a>é</a>".encode(), "1"),
        Posted(b"<b/>", "key/3", 2_000_000, True, "press"),
        Posted(b"no XML", "key/4", 3_500_000),
    ]
    assert read_lines(b'{"xml": "<b/>"}') == [Posted(b"<b/>")]
    assert read_lines(b"\n \n") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON: .* at column 2"),
        (b'{"xml": "\xff"}', "not UTF-8 at byte 10"),
        (b"[1]", 'not an object with "xml"'),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b"{}", '"xml" is missing'),
        (b'{"xml": 1}', '"xml" is not a text'),
        (b'{"xml": "<a/>", "id": ""}', '"id" is not a text'),
        (b'{"xml": "<a/>", "stream": "T"}', '"stream" is not known here; id, revision, source, .*'),
        (b'{"xml": "<a/>", "timestamp": "soon"}', '"timestamp" is neither a date nor a number'),
        (b'{"xml": "<a/>", "timestamp": NaN}', '"timestamp" is neither a date nor a number'),
        (b'{"xml": "<a/>", "revision": 1}', '"revision" is neither true nor false'),
    ],
)
def test_lines_that_are_wrong_say_where(line: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=f"^{reason}") as caught:
        read_lines(b'{"xml": "<a/>"}\n\n' + line)
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("source", "stream", "allowed"),
    [
        ("press", "S", True),
        ("post:S", "S", True),
        ("post:T", "S", False),
        ("https://news.example/feed", "S", False),
        ("broker.events", "S", False),
        ("pairs", "S", False),
        ("pairs2", "S", True),
    ],
)
def test_nobody_takes_the_ids_of_another_source(
    tmp_path: Path, source: str, stream: str, allowed: bool
) -> None:
    with serving(tmp_path / "state") as running:
        text = "p: SELECT * FROM S//a->x JOIN {x = y} S//b->y PUBLISH pairs"
        assert running.subscribe(text).is_success
        line = json.dumps({"xml": "<a/>", "id": "1", "source": source})
        answer = running.http.post(
            f"/v1/streams/{stream}/documents",
            content=line.encode(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == (202 if allowed else 422), answer.text
        if not allowed:
            (cause,) = answer.json()["errors"]
            assert cause["where"] == "source"


def test_a_clock_that_has_just_jumped_dates_nothing(tmp_path: Path) -> None:
    """Until the jump has lasted for an hour, time goes on from what was believed."""
    wall, passed = 1_000_000.0, 0.0
    core = Core(
        settings(tmp_path / "state"), lambda: wall + passed, lambda: round(passed * MICROSECONDS)
    )
    intake = Intake(core, lambda: 1.0)

    def dated() -> float:
        last = intake.publish("S", [order(1)]).last
        (row,) = read_rows(core.spool.path, last - 1, last)
        return row.timestamp / MICROSECONDS

    try:
        assert dated() == 1_000_000.0
        core.engine.tick(core.now())
        wall, passed = wall + 10 * 365 * 86_400, 30.0
        core.engine.tick(core.now())
        assert dated() == 1_000_030.0
        passed = 3_700.0
        core.engine.tick(core.now())
        assert dated() == wall + 3_700.0
    finally:
        core.close()
