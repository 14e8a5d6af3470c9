"""Waiting clients: long polls, event streams, feed readers; their resources are released."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.service.service import Service
from broker.settings.schema import Settings
from feeds.adapter import parse_feed
from tests.service.api_harness import PAIR, Running, answering, lines, serving
from tests.waiting import PATIENCE, until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        assert running.subscribe().status_code == 201
        yield running


Event = dict[str, str]


@contextmanager
def listening(
    running: Running, headers: dict[str, str] | None = None, **params: Any
) -> Iterator[Iterator[Event]]:
    """The blocks of an event stream, as they come: fields by name, a comment under ""."""
    with running.http.stream("GET", "/v1/matches/stream", params=params, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield blocks(answer)


def blocks(answer: httpx.Response) -> Iterator[Event]:
    block: Event = {}
    for line in answer.iter_lines():
        if not line and block:
            yield block
            block = {}
        elif line:
            name, _, value = line.partition(":")
            block[name] = value.removeprefix(" ")


# -- event streams -------------------------------------------------------------------------------


def test_a_stream_tells_what_is_found_from_now_on(running: Running) -> None:
    running.match("before")
    (before,) = lines(running.http.get("/v1/matches", params={"wait": 30}))
    with listening(running) as events:
        opened = next(events)
        assert (opened["id"], "data" in opened) == (str(before["n"]), False)
        running.match("Tide")
        event = next(events)
        assert json.loads(event["data"])["values"]["t"] == ["Tide"]
        assert [json.loads(event["data"])] == running.matches(after=before["n"])
        running.match("Clerk")
        again = next(events)
        assert int(again["id"]) > int(event["id"])


def test_a_stream_goes_on_where_it_was_lost(running: Running) -> None:
    for title in ("one", "two", "three"):
        running.match(title)
    until(lambda: len(running.matches()) == 3)
    with listening(running, after=0) as events:
        next(events)
        first = next(events)
    with listening(running, {"Last-Event-ID": first["id"]}, after=0) as events:
        next(events)
        titles = [json.loads(next(events)["data"])["values"]["t"] for _ in range(2)]
    assert titles == [["two"], ["three"]]


def test_a_stream_of_one_subscription_tells_no_other(running: Running) -> None:
    running.subscribe(PAIR.replace("pair:", "other:").replace("S//book", "S//song"))
    with listening(running, subscription="other") as events:
        next(events)
        running.match("Tide")
        running.match("Clerk", first="song")
        assert json.loads(next(events)["data"])["query"] == "other"


def test_a_stream_of_nobody_is_refused_before_it_begins(running: Running) -> None:
    answer = running.http.get("/v1/matches/stream", params={"subscription": "nobody"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    answer = running.http.get("/v1/matches/stream", headers={"Last-Event-ID": "x"})
    assert answer.status_code == 422


def test_comments_keep_a_quiet_stream_alive(tmp_path: Path) -> None:
    with serving(tmp_path, keep_alive=0.05) as running, listening(running) as events:
        running.subscribe()
        next(events)
        assert [next(events) for _ in range(3)] == [{"": "ping"}] * 3
        running.match("Tide")
        told = next(event for event in events if event.get("data"))
        assert json.loads(told["data"])["values"]["t"] == ["Tide"]


def test_a_client_that_goes_away_leaves_nothing_behind(running: Running) -> None:
    with listening(running) as events:
        next(events)
        until(lambda: len(running.api.waiting) == 1)
    until(lambda: len(running.api.waiting) == 0)
    address = ("127.0.0.1", int(running.url.rpartition(":")[2]))
    with socket.create_connection(address) as wire:
        wire.sendall(
            b"GET /v1/matches?wait=60 HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer " + running.service.token.encode() + b"\r\n\r\n"
        )
        until(lambda: len(running.api.waiting) == 1)
    until(lambda: len(running.api.waiting) == 0)
    until(lambda: not running.server.server_state.tasks)


def test_a_client_that_goes_away_amid_a_large_match_leaves_nothing_behind(running: Running) -> None:
    running.match("Tide", more=f"<text>{'x' * 8_000_000}</text>")
    until(lambda: running.service.mailbox.last() == 1)
    address = ("127.0.0.1", int(running.url.rpartition(":")[2]))
    with socket.create_connection(address) as wire:
        wire.sendall(
            b"GET /v1/matches/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer " + running.service.token.encode() + b"\r\n\r\n"
        )
        assert wire.recv(100_000)
        until(lambda: len(running.api.waiting) == 1)
    until(lambda: len(running.api.waiting) == 0)
    until(lambda: not running.server.server_state.tasks)


def test_draining_ends_what_waits_and_loses_nothing(running: Running) -> None:
    ended: dict[str, Any] = {}

    def poll() -> None:
        answer = httpx.get(
            f"{running.url}/v1/matches",
            params={"wait": 60, "after": 0},
            headers=dict(running.http.headers),
            timeout=PATIENCE,
        )
        ended["poll"] = (answer.status_code, answer.content, answer.headers["next-cursor"])

    polling = threading.Thread(target=poll)
    polling.start()
    with listening(running) as events:
        next(events)
        until(lambda: len(running.api.waiting) == 2)
        running.api.drain()
        assert list(events) == []
    polling.join(PATIENCE)
    assert ended["poll"] == (200, b"", "0")
    assert len(running.api.waiting) == 0
    with listening(running) as events:
        assert len(list(events)) == 1  # it is opened, and ends at once


# -- long polling ----------------------------------------------------------------------------------


def test_a_poll_is_answered_when_there_is_a_match_and_not_for_others(running: Running) -> None:
    running.subscribe(PAIR.replace("pair:", "other:").replace("S//book", "S//song"))
    found: list[httpx.Response] = []

    def poll() -> None:
        found.append(
            httpx.get(
                f"{running.url}/v1/matches",
                params={"wait": 60, "subscription": "other"},
                headers=dict(running.http.headers),
                timeout=PATIENCE,
            )
        )

    polling = threading.Thread(target=poll)
    polling.start()
    until(lambda: len(running.api.waiting) == 1)
    running.match("Tide")
    until(lambda: len(running.matches()) == 1)
    assert not found
    running.match("Clerk", first="song")
    polling.join(PATIENCE)
    (match,) = lines(found[0])
    assert match["query"] == "other"


def test_a_poll_ends_without_a_match_when_its_time_is_over(running: Running) -> None:
    answer = running.http.get("/v1/matches", params={"wait": 0.05, "after": 7})
    assert (answer.status_code, answer.content, answer.headers["next-cursor"]) == (200, b"", "7")


def test_a_paused_pull_channel_gives_out_nothing_until_it_is_resumed(running: Running) -> None:
    made = running.http.put("/v1/channels/desk", json={"kind": "pull", "subscription": "pair"})
    assert made.status_code == 200, made.text
    found: list[httpx.Response] = []

    def poll() -> None:
        asked: dict[str, str | int] = {"wait": 60, "channel": "desk"}
        headers = dict(running.http.headers)
        url = f"{running.url}/v1/matches"
        found.append(httpx.get(url, params=asked, headers=headers, timeout=PATIENCE))

    polling = threading.Thread(target=poll)
    polling.start()
    until(lambda: len(running.api.waiting) == 1)
    running.http.post("/v1/channels/desk/pause").raise_for_status()
    running.match("Tide")
    until(lambda: len(running.matches()) == 1)
    for after in ({}, {"after": 0}):
        answer = running.http.get("/v1/matches", params={"channel": "desk", **after})
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["next-cursor"] == "0"
    assert not found
    running.http.post("/v1/channels/desk/resume").raise_for_status()
    assert len(running.matches(channel="desk")) == 1
    running.match("Clerk")
    polling.join(PATIENCE)
    assert [match["values"]["t"] for match in lines(found[0])] == [["Tide"], ["Clerk"]]


def test_a_thousand_clients_wait_without_a_thread_each(running: Running) -> None:
    """While they wait, others are served; when there is a match, all are told."""
    count = 1_000
    request = (
        b"GET /v1/matches?wait=60 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Authorization: Bearer " + running.service.token.encode() + b"\r\n\r\n"
    )
    port = int(running.url.rpartition(":")[2])

    async def client() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer

    async def all_of_them() -> list[bytes]:
        waiting = asyncio.gather(*(client() for _ in range(count)))
        await asyncio.to_thread(until, lambda: len(running.api.waiting) == count)
        assert threading.active_count() < 150
        await asyncio.to_thread(lambda: running.http.get("/v1/status").raise_for_status())
        await asyncio.to_thread(running.match, "Tide")
        return await asyncio.wait_for(waiting, PATIENCE)

    answers = asyncio.run(all_of_them())
    assert all(answer.startswith(b"HTTP/1.1 200") and b'"Tide"' in answer for answer in answers)
    until(lambda: len(running.api.waiting) == 0)


def test_large_matches_end_a_page_early_and_none_is_lost(running: Running) -> None:
    """Results of three megabytes: the third does not fit into the first page."""
    filler = f"<text>{'x' * 3_000_000}</text>"
    for title in ("one", "two", "three", "four"):
        running.match(title, more=filler)
    until(lambda: running.http.get("/v1/status").json()["deliveries"]["taken"] == 4)
    sizes, titles, after = [], [], 0
    while True:
        answer = running.http.get("/v1/matches", params={"after": after})
        found = lines(answer)
        if not found:
            break
        sizes.append(len(found))
        titles += [match["values"]["t"][0] for match in found]
        after = int(answer.headers["next-cursor"])
    assert titles == ["one", "two", "three", "four"]
    assert len(sizes) > 1


# -- Atom ------------------------------------------------------------------------------------------


def atom_path(running: Running) -> str:
    url: str = running.http.get("/v1/subscriptions/pair").json()["atom_url"]
    assert url.startswith(running.url)
    return url.removeprefix(running.url)


def test_a_feed_reader_reads_a_subscription(running: Running) -> None:
    path = atom_path(running)
    running.match("Tide")
    assert lines(running.http.get("/v1/matches", params={"wait": 30}))
    with httpx.Client(base_url=running.url) as reader:  # without the token
        answer = reader.get(path)
        assert answer.headers["content-type"].startswith("application/atom+xml")
        channel = parse_feed(answer.content, running.url + path, arrival=0)
        assert channel.error is None
        (item,) = channel.items
        assert "Tide" in item.to_xml().decode()
        for key in ("", "wrong", path.rpartition("=")[2][:-1]):
            refused = reader.get("/feeds/pair.atom", params={"key": key})
            assert refused.status_code == 404
        assert (
            reader.get("/feeds/other.atom", params={"key": path.rpartition("=")[2]}).status_code
            == 404
        )


def test_a_polite_feed_reader_is_told_that_nothing_changed(running: Running) -> None:
    path = atom_path(running)
    running.match("Tide")
    assert lines(running.http.get("/v1/matches", params={"wait": 30}))
    until(lambda: "last-modified" in running.http.get(path).headers)
    first = running.http.get(path)
    assert re.fullmatch(r'"[0-9a-f]+"', first.headers["etag"])
    assert "max-age" in first.headers["cache-control"]
    same = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
    since = {"If-Modified-Since": first.headers["last-modified"]}
    for headers in (same, since, same | {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}):
        answer = running.http.get(path, headers=headers)
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == first.headers["etag"]
    for headers in ({"If-None-Match": '"other"', **since}, {"If-Modified-Since": "yesterday"}):
        assert running.http.get(path, headers=headers).status_code == 200
    running.match("Clerk")
    until(lambda: len(running.matches()) == 2)
    assert running.http.get(path, headers=same).status_code == 200


def test_a_second_that_is_not_over_says_nothing_of_what_changed(tmp_path: Path) -> None:
    now = 1_800_000_000.2
    service = Service(Settings.load(None, {"state": str(tmp_path / "state")}), clock=lambda: now)
    service.start()
    with answering(service) as running:
        running.subscribe()
        path = atom_path(running)
        running.match("Tide")
        until(lambda: len(running.matches()) == 1)
        assert "last-modified" not in running.http.get(path).headers
        since = {
            "If-Modified-Since": format_datetime(datetime.fromtimestamp(now, UTC), usegmt=True)
        }
        now += 0.5
        running.match("Clerk")
        until(lambda: len(running.matches()) == 2)
        answer = running.http.get(path, headers=since)
        assert (answer.status_code, answer.text.count("<entry>")) == (200, 2)
        now += 2
        assert running.http.get(path, headers=since).status_code == 304
    assert service.stop(drain=False)
