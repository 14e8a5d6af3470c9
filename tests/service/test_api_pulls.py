"""A reader of all matches, whom the application does not see: answered as it would answer."""

from __future__ import annotations

import json
import random
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from broker.delivery import log
from broker.service.api.match_pages import Page, Wanted, read
from broker.service.api.newest import Newest
from broker.service.api.waiting import Waiting
from broker.service.core.answers import ChannelSpec
from broker.service.pipeline.local import APART, APART_UNAWAITED, LocalPipeline
from tests.delivery.support import match, open_mailbox
from tests.service.api_harness import PAIR, Running, serving
from tests.service.test_api_connections import connection
from tests.service.test_api_single import LAYERS, one
from tests.waiting import PATIENCE, until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


def get(running: Running, query: str, more: str = "") -> bytes:
    return (
        f"GET /v1/matches?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
        f"Authorization: Bearer {running.service.token}\r\n\r\n"
    ).encode()


Answer = tuple[int, dict[str, str], bytes]


def asked(running: Running, query: str, more: str = "") -> Answer:
    with connection(running) as client:
        client.sendall(get(running, query, more))
        status, headers, body, rest = one(client)
    headers.pop("date")
    assert not rest
    return status, headers, body


@contextmanager
def waiting(running: Running, query: str) -> Iterator[Callable[[], Answer]]:
    """A request that waits for matches during the block; returns what calls for its response."""
    with connection(running) as client:
        client.sendall(get(running, query))
        until(lambda: len(running.api.waiting) == 1)
        yield lambda: one(client)[:3]


QUERIES = (
    *("after=0", "after=1&limit=2", "limit=3&after=2&wait=0.5", "after=99", "after=99&limit=1"),
    *("after=0&limit=0", "after=0&limit=1001", "after=x", "wait=61", "wait=-1", "after=0&after=3"),
    *("after=0&subscription=pair", "subscription=nobody", "before=3", "text=Tide", "limit=2", ""),
)


def test_it_is_answered_as_the_application_would(running: Running) -> None:
    running.subscribe()
    running.subscribe(PAIR.replace("pair", "other"))
    with waiting(running, "after=0&wait=60"):
        for title in ("Tide", "Clerk", "Låte \u2028 &quot;"):
            running.match(title)
        # What is stored is held for readers a moment later.
        until(lambda: asked(running, "after=0")[1]["next-cursor"] == "6")
    for query in QUERIES:
        assert asked(running, query) == asked(running, query, LAYERS), query


def test_who_waits_is_told_what_the_log_holds(running: Running) -> None:
    running.subscribe()
    running.subscribe(PAIR.replace("pair", "other"))
    with waiting(running, "after=0&wait=60") as response:
        running.match("Tide")
        status, headers, body = response()
    assert (status, headers["next-cursor"]) == (200, "2")
    assert (status, body) == asked(running, "after=0", LAYERS)[::2]
    assert len(body.splitlines()) == 2


def test_what_is_not_held_is_read_from_the_log(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where more matches come at once than are made for those who wait."""
    page = Newest.page

    def empty(newest: Newest, after: int, limit: int) -> Page | None:
        found = page(newest, after, limit)
        return None if found is None or found.lines else found

    monkeypatch.setattr(Newest, "page", empty)
    running.subscribe()
    with waiting(running, "after=0&wait=60") as response:
        running.match("Tide")
        assert response()[2] == asked(running, "after=0")[2] != b""


def test_a_match_that_cannot_be_said_stops_nothing(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(match: object) -> bytes:
        raise ValueError

    monkeypatch.setattr(log, "match_lines", fails)
    running.subscribe()
    with waiting(running, "after=0&wait=60") as response:
        running.match("Tide")
        assert response()[2] == asked(running, "after=0", LAYERS)[2] != b""
    assert running.service.core.backlog() == 0


def test_a_log_that_cannot_be_read_is_a_problem(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise ValueError

    monkeypatch.setattr(log, "match_lines", fails)
    monkeypatch.setattr(running.service.mailbox, "matches", fails)
    running.subscribe()
    with waiting(running, "after=0&wait=60") as response:
        running.match("Tide")
        status, headers, body = response()
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert json.loads(body)["type"].endswith("internal")


def test_without_matches_the_response_comes_when_the_time_is_over(running: Running) -> None:
    status, headers, body = asked(running, "after=0&wait=0.01")
    assert (status, headers["next-cursor"], body) == (200, "0", b"")
    assert len(running.api.waiting) == 0


def test_a_client_that_goes_away_leaves_nothing_behind(running: Running) -> None:
    with waiting(running, "after=0&wait=60"):
        pass
    until(lambda: len(running.api.waiting) == 0)
    gone = 'route="/v1/matches",status="499"'
    until(lambda: gone in running.http.get("/metrics").text)


def test_draining_ends_what_waits(running: Running) -> None:
    with waiting(running, "after=0&wait=60") as response:
        running.api.drain()
        assert response()[0::2] == (200, b"")
    assert asked(running, "after=0&wait=60")[0::2] == (200, b"")


def test_requests_behind_one_that_waits_are_answered_in_their_order(running: Running) -> None:
    running.subscribe()
    with connection(running) as client:
        client.sendall(get(running, "after=0&wait=60") * 2 + get(running, "after=1&wait=0.01"))
        until(lambda: len(running.api.waiting) == 1)
        running.match("Tide")
        first, rest = read_one(client, b"")
        second, rest = read_one(client, rest)
        third, rest = read_one(client, rest)
    assert first == second != b""
    assert (third, rest) == (b"", b"")


def read_one(client: socket.socket, data: bytes) -> tuple[bytes, bytes]:
    _, _, body, rest = one(client, data)
    return body, rest


def test_a_reader_misses_nothing_and_gets_nothing_twice(running: Running) -> None:
    running.subscribe()
    running.subscribe(PAIR.replace("pair", "other"))
    found: list[int] = []
    count = 40

    def reading() -> None:
        with connection(running) as client:
            rest = b""
            while len(found) < 2 * count:
                after = found[-1] if found else 0
                client.sendall(get(running, f"after={after}&limit=3&wait=60"))
                body, rest = read_one(client, rest)
                found.extend(json.loads(line)["n"] for line in body.splitlines())

    reader = threading.Thread(target=reading, daemon=True)
    reader.start()
    for n in range(count):
        running.match(f"Tide {n}")
    reader.join(PATIENCE)
    assert found == [*range(1, 2 * count + 1)]


@pytest.mark.parametrize("seed", range(10))
def test_pages_are_those_of_the_log(tmp_path: Path, seed: int) -> None:
    """Whatever is taken, dropped and forgotten meanwhile."""
    chosen = random.Random(seed)
    time = 0.0
    with closing(open_mailbox(tmp_path)) as mailbox:
        newest = Newest(mailbox, most=6, size=5_000, clock=lambda: time)
        held = n = 0
        for _ in range(200):
            (what,) = chosen.choices(range(5), (2, 1, 1, 8, 12))
            if what == 0:
                time += chosen.choice((1.0, 10.0))
            elif what == 1:
                mailbox.drop(f"q{chosen.randrange(3)}", "drop")
            elif what == 2:
                mailbox.record_event("test", "something else has changed")
            elif what == 3:
                new = range(n, n := n + chosen.choice((1, 2, 3, 8)))
                mailbox.take([match(each, f"q{each % 3}") for each in new])
            else:
                after = max(0, mailbox.last() - chosen.randrange(9))
                limit = chosen.choice((1, 3, 100))
                page = newest.page(after, limit)
                if page is None:
                    assert after < mailbox.last()
                else:
                    held += bool(page.lines)
                    assert page == read(mailbox, Wanted(None, after), limit)
        assert held


# -- what the pipeline knows of them -----------------------------------------------------------


def test_batches_follow_each_other_sooner_while_somebody_waits(running: Running) -> None:
    service = running.service
    pipeline = LocalPipeline(service.core, 10, awaited=service.is_awaited)
    assert not service.is_awaited()
    assert pipeline.apart == APART_UNAWAITED
    with waiting(running, "after=0&wait=60"):
        assert service.is_awaited()
        assert pipeline.apart == APART
    until(lambda: len(running.api.waiting) == 0)


def test_a_channel_waits_all_the_time(running: Running, tmp_path: Path) -> None:
    service = running.service
    service.subscriptions.subscribe(PAIR)
    service.channels.put(ChannelSpec("pull", "pulled"), "pair")
    assert not service.is_awaited()
    to = {"path": str(tmp_path / "matches.jsonl"), "format": "jsonl"}
    service.channels.put(ChannelSpec("file", "written", settings=to), "pair")
    until(service.is_awaited)
    service.channels.drop("written")
    until(lambda: not service.is_awaited())


def test_who_has_waited_is_expected_to_wait_again() -> None:
    now = 100.0
    waiting = Waiting(lambda: now)
    assert not waiting.is_awaited()
    with waiting.watch(None), waiting.watch(["pair"]):
        assert waiting.is_awaited()
    now += 4.9
    assert waiting.is_awaited()
    now += 0.1
    assert not waiting.is_awaited()


def test_a_match_that_cannot_be_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as running:
        running.subscribe(PAIR)
        for title in ("Tides", "Ebbs", "Floods"):
            running.match(title)
        until(lambda: len(running.matches(after=0)) == 3)
    with closing(sqlite3.connect(state / "mailbox.sqlite")) as db, db:
        db.execute("UPDATE match SET docs = x'00' WHERE n = 2")
    with serving(state) as running:
        assert [each["n"] for each in running.matches(after=0)] == [1]
        for query in ("after=1", "after=1&subscription=pair"):
            status, headers, body = asked(running, query)
            assert (status, headers["retry-after"]) == (503, "2"), body
            detail = json.loads(body)["detail"]
            assert "match 2 of the mailbox is damaged" in detail
            assert "after=2" in detail
        assert [each["n"] for each in running.matches(after=2)] == [3]
