"""Reading matches backwards and by filters, and streams that share what they read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from broker.service.api.common import PageSizes
from tests.service.api_harness import Running, lines, serving
from tests.waiting import until

MATCHES = 250
QUERIES = """
    pair: SELECT t FROM S//book[./title->t] FOLLOWED BY {t = u} S//blog[./title->u];
    book: S//book[./title->t];
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    sizes = PageSizes(searched=120)  # so that pages end without a match
    with serving(tmp_path_factory.mktemp("web") / "state", sizes=sizes) as running:
        running.http.post("/v1/subscriptions", json={"text": QUERIES}).raise_for_status()
        for n in range(MATCHES):
            feed = "<channel_title>Ünder tow</channel_title>" if n % 10 == 0 else ""
            running.match(f"Title {n:03}", more=feed)
        until(lambda: len(running.matches(limit=1_000)) == 2 * MATCHES)
        yield running


def backwards(running: Running, limit: int, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = 2**63 - 1
    while before:
        reply = running.http.get("/v1/matches", params={**params, "before": before, "limit": limit})
        assert reply.status_code == 200, reply.text
        page = lines(reply)
        assert len(page) <= limit
        found += page
        before = int(reply.headers["next-cursor"])
    return found


@pytest.mark.parametrize("limit", [1_000, 100, 97])
@pytest.mark.parametrize("subscription", [None, "pair"])
def test_backwards_is_forwards_turned_round(
    running: Running, limit: int, subscription: str | None
) -> None:
    params = {} if subscription is None else {"subscription": subscription}
    forwards = running.matches(limit=1_000, **params)
    assert backwards(running, limit, **params) == forwards[::-1]


def test_filters_agree_with_a_search_by_hand(running: Running) -> None:
    everything = running.matches(limit=1_000)
    for params, holds in (
        ({"text": "title 01"}, lambda m: "title 01" in json.dumps(m).lower()),
        ({"text": "ÜNDER"}, lambda m: any(d["feed"] for d in m["documents"] if "feed" in d)),
        (
            {"feed": "Ünder tow"},
            lambda m: any(d.get("feed") == "Ünder tow" for d in m["documents"]),
        ),
        ({"feed": "Ünder"}, lambda _: False),
        (
            {"text": "TITLE 02", "subscription": "book"},
            lambda m: "Title 02" in m["result"] and m["query"] == "book",
        ),
    ):
        expected = [match for match in everything if holds(match)]
        assert backwards(running, 7, **params) == expected[::-1]
        after, forwards = 0, []
        while True:
            reply = running.http.get("/v1/matches", params={**params, "after": after, "limit": 7})
            forwards += lines(reply)
            if int(reply.headers["next-cursor"]) == after:
                break
            after = int(reply.headers["next-cursor"])
        assert forwards == expected


def test_streams_of_one_period_each_get_all(running: Running) -> None:
    last = running.matches(limit=1_000)[-1]["n"]
    with ExitStack() as stack:
        params = {"after": last, "every": 0.25, "subscription": "pair", "text": "shared"}
        streams = [
            stack.enter_context(
                running.http.stream("GET", "/v1/matches/stream", params=params)
            ).iter_lines()
            for _ in range(10)
        ]
        for stream in streams:
            assert next(stream) == ": matches"
        running.match("Not one of them")
        running.match("Shared 1")
        running.match("Shared 2")
        for stream in streams:
            data = (json.loads(line[6:]) for line in stream if line.startswith("data: "))
            assert [next(data)["values"]["t"] for _ in range(2)] == [["Shared 1"], ["Shared 2"]]


def test_of_very_many_a_stream_has_the_newest(running: Running) -> None:
    before = running.matches(limit=1_000)[-1]["n"]
    for n in range(30):
        running.match(f"Flood {n:02}")
    until(lambda: len(running.matches(after=before, limit=1_000)) == 60)
    everything = running.matches(after=before, limit=1_000)
    cases: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"most": 5}, everything),
        ({"most": 5, "subscription": "pair"}, [m for m in everything if m["query"] == "pair"]),
        ({"most": 5, "text": "flood 2"}, [m for m in everything if "Flood 2" in m["result"]]),
    ]
    for params, wanted in cases:
        with running.http.stream(
            "GET", "/v1/matches/stream", params={**params, "after": before}
        ) as reply:
            stream = reply.iter_lines()
            events: list[dict[str, Any]] = []
            while len(events) < 6:
                line = next(stream)
                if line.startswith("data: "):
                    events.append(json.loads(line[6:]))
        assert events == [{"below": wanted[-5]["n"]}, *wanted[-5:]]
        rest = running.matches(after=before, limit=1_000)
        assert [m["n"] for m in rest if m["n"] < events[0]["below"]]
    with running.http.stream(
        "GET", "/v1/matches/stream", params={"after": everything[-3]["n"], "most": 5}
    ) as reply:
        found = (json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: "))
        assert [next(found) for _ in range(2)] == everything[-2:]
