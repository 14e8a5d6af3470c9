"""Tokens that are changed or removed while they are used, and the log of changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.api_harness import Running, problem, serving
from tests.service.test_tokens import Client, lacks, make, tenants
from tests.waiting import PATIENCE, until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


def follow(client: Client, ended: threading.Event, begun: threading.Event) -> None:
    with client.http.stream("GET", "/v1/matches/stream") as answer:
        for part in answer.iter_raw():
            if part:
                begun.set()
    ended.set()


@pytest.mark.parametrize("how", ["revoke", "rotate", "change"])
def test_streams_and_requests_that_wait_end_with_the_token(running: Running, how: str) -> None:
    with tenants(running) as (a, b):
        a.subscribe("mine", "A")
        begun, ended, waited = threading.Event(), threading.Event(), []
        threads = [
            threading.Thread(target=follow, args=(a, ended, begun)),
            threading.Thread(
                target=lambda: waited.append(a.http.get("/v1/matches", params={"wait": 60}))
            ),
        ]
        for thread in threads:
            thread.start()
        assert begun.wait(PATIENCE)
        until(lambda: len(running.api.waiting) == 2)
        if how == "revoke":
            assert running.http.delete("/v1/tokens/a").json()["subscriptions"] == ["mine"]
        elif how == "rotate":
            fresh = running.http.post("/v1/tokens/a/rotate", json={}).json()["secret"]
        else:
            running.http.patch("/v1/tokens/a", json={"scopes": ["subscribe"]})
        for thread in threads:
            thread.join(PATIENCE)
        assert ended.is_set()
        problem(waited[0], 401, "unauthorized")
        status = running.http.get("/v1/subscriptions/mine").json()["status"]
        if how == "change":
            assert a.http.get("/v1/identity").json()["scopes"] == ["subscribe"]
            assert status == "paused"
            lacks(a.http.post("/v1/subscriptions/mine/resume"), "read:A")
        else:
            problem(a.http.get("/v1/identity"), 401, "unauthorized")
            assert status == ("paused" if how == "revoke" else "active")
        if how == "rotate":
            with Client(running, fresh) as again:
                assert again.http.get("/v1/subscriptions/mine").is_success
        assert b.http.get("/v1/identity").is_success


def test_a_former_secret_is_taken_for_a_while_and_addresses_of_feeds_change(
    running: Running,
) -> None:
    with tenants(running) as (a, _):
        a.subscribe("mine", "A")
        feed = a.http.get("/v1/subscriptions/mine").json()["atom_url"]
        assert httpx.get(feed).is_success
        body = {"overlap": "1 day"}
        fresh = running.http.post("/v1/tokens/a/rotate", json=body).json()
        with Client(running, fresh["secret"]) as again:
            assert a.http.get("/v1/identity").is_success
            assert again.http.get("/v1/identity").is_success
            assert httpx.get(feed).status_code == 404
            assert httpx.get(again.http.get("/v1/subscriptions/mine").json()["atom_url"]).is_success
            running.http.delete("/v1/tokens/a", params={"subscriptions": "drop"})
            for client in (a, again):
                problem(client.http.get("/v1/identity"), 401, "unauthorized")
        assert running.http.get("/v1/subscriptions").json() == []


def test_tokens_and_owners_survive_and_secrets_are_nowhere(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state) as running, make(running, "a", "subscribe", "read:A") as a:
        a.subscribe("mine", "A")
        secret = a.secret
        assert secret not in running.http.get("/v1/tokens").text
    for path in state.iterdir():
        assert secret.encode() not in path.read_bytes(), path
    assert (state / "access.sqlite").stat().st_mode & 0o077 == 0
    with serving(state) as running, Client(running, secret) as again:
        assert [each["id"] for each in again.http.get("/v1/subscriptions").json()] == ["mine"]
        assert running.http.delete("/v1/tokens/a").is_success
    with serving(state) as running, Client(running, secret) as again:
        problem(again.http.get("/v1/identity"), 401, "unauthorized")


def test_every_change_is_in_the_log_and_nothing_else(running: Running) -> None:
    with tenants(running) as (a, _):
        a.subscribe("mine", "A")
        a.subscribe("tried", "A", dry_run=True)
        a.publish("A", "one")
        a.http.put("/v1/channels/reader", json={"kind": "pull", "subscription": "mine"})
        a.http.post("/v1/channels/reader/ack", json={"n": 0})
        a.subscribe("x", "B")
        a.http.post("/v1/subscriptions/pause", json={"prefix": "m"})
        running.http.post("/v1/feeds", json={"url": "http://me:secret@feeds.invalid/f"})
        running.http.post("/v1/feeds/pause", params={"url": "http://me:secret@feeds.invalid/f"})
        running.http.delete("/v1/tokens/a")
        found = running.http.get("/v1/changes").json()
        assert [(e["who"], e["action"], e["subject"]) for e in found] == [
            ("", "addToken", "a"),
            ("", "addToken", "b"),
            ("a", "subscribe", "mine"),
            ("a", "putChannel", "reader"),
            ("a", "pauseSubscriptions", "mine"),
            ("", "addFeed", "http://feeds.invalid/f"),
            ("", "pauseFeed", "http://feeds.invalid/f"),
            ("", "revokeToken", "a"),
        ]
        assert found[0]["address"] == "127.0.0.1"
        assert "publish:A" in found[0]["detail"]["scopes"]
        assert "secret" not in json.dumps(found)
        only = running.http.get("/v1/changes", params={"token": "a", "after": 3, "limit": 1}).json()
        assert [entry["action"] for entry in only] == ["putChannel"]


def test_names_and_scopes_that_cannot_be(running: Running) -> None:
    with tenants(running):
        problem(
            running.http.post("/v1/tokens", json={"name": "a", "scopes": ["operate"]}),
            409,
            "conflict",
        )
        for body in (
            {"name": "c", "scopes": []},
            {"name": "c", "scopes": ["read"]},
            {"name": "c", "scopes": ["read:"]},
            {"name": "c", "scopes": ["read:a b"]},
            {"name": "c", "scopes": ["write:S"]},
            {"name": "", "scopes": ["operate"]},
            {"name": "c", "scopes": ["operate"], "quota": {"documents": 0}},
        ):
            problem(running.http.post("/v1/tokens", json=body), 422, "invalid")
        problem(running.http.delete("/v1/tokens/none"), 404, "not-found")


def test_a_later_token_of_a_name_may_not_do_more_with_what_it_finds(running: Running) -> None:
    """Subscriptions that a revoked one has left, and that read what this one may not."""
    with tenants(running) as (a, _):
        a.subscribe("mine", "A")
        running.http.delete("/v1/tokens/a", params={"subscriptions": "keep"})
        assert running.http.get("/v1/subscriptions/mine").json()["status"] == "active"
        body = {"name": "a", "scopes": ["read:B", "subscribe"]}
        made = running.http.post("/v1/tokens", json=body).json()
        assert made["paused"] == ["mine"]
        assert running.http.get("/v1/subscriptions/mine").json()["status"] == "paused"
        with Client(running, made["secret"]) as again:
            lacks(again.http.post("/v1/subscriptions/mine/resume"), "read:A")
