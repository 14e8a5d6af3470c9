"""Tokens with scopes: two tenants and an operator at one service, and what none of them may do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from broker.service.access.access import Access
from broker.service.access.quotas import OverQuota, Quotas
from broker.service.access.scopes import Forbidden, Identity, Quota, checked_scopes
from broker.service.api.access import anyone, member, operator
from broker.service.api.app import ROUTERS
from broker.state.store import StateError
from tests.service.api_harness import Running, lines, problem, serving
from tests.waiting import PATIENCE, until

ITEMS = "{id}: SELECT t FROM {stream}//item[./title->t];"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


class Client:
    """A client with a token of its own."""

    def __init__(self, running: Running, secret: str) -> None:
        self.secret = secret
        headers = {"Authorization": f"Bearer {secret}"}
        self.http = httpx.Client(
            base_url=running.url, headers=headers, timeout=PATIENCE, verify=False
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def publish(self, stream: str, title: str, **headers: str) -> httpx.Response:
        return self.http.post(
            f"/v1/streams/{stream}/documents",
            content=f"<item><title>{title}</title></item>",
            headers={"Content-Type": "application/xml", **headers},
        )

    def subscribe(self, id: str, stream: str, **more: Any) -> httpx.Response:
        text = ITEMS.format(id=id, stream=stream)
        return self.http.post("/v1/subscriptions", json={"text": text, **more})

    def titles(self, **params: Any) -> list[str]:
        found = self.http.get("/v1/matches", params=params)
        assert found.status_code == 200, found.text
        return [match["values"]["t"][0] for match in lines(found)]


def make(running: Running, name: str, *scopes: str, **quota: Any) -> Client:
    body = {"name": name, "scopes": scopes, "quota": quota}
    made = running.http.post("/v1/tokens", json=body)
    assert made.status_code == 201, made.text
    return Client(running, made.json()["secret"])


@contextmanager
def tenants(running: Running) -> Iterator[tuple[Client, Client]]:
    """`a` reads and publishes A, `b` B, and both read what begins with common."""
    with (
        make(running, "a", "subscribe", "read:A", "publish:A", "read:common*") as a,
        make(running, "b", "subscribe", "read:B", "publish:B", "read:common*") as b,
    ):
        yield a, b


def lacks(answer: httpx.Response, scope: str) -> None:
    details = problem(answer, 403, "forbidden")
    assert details["errors"][0]["where"] == scope
    assert f"lacks the scope {scope}" in details["detail"]
    assert "broker tokens change" in details["errors"][0]["hint"]
    assert f'scope="{scope}"' in answer.headers["www-authenticate"]


def test_a_token_reads_and_publishes_what_its_scopes_name(running: Running) -> None:
    with tenants(running) as (a, _):
        assert a.publish("A", "one").status_code == 202
        lacks(a.publish("B", "two"), "publish:B")
        assert a.subscribe("mine", "A").status_code == 201
        assert a.subscribe("both", "common.news").status_code == 201
        lacks(a.subscribe("x", "B"), "read:B")
        lacks(a.subscribe("x", "broker.events"), "read:broker.events")


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("x: A//item FOLLOWED BY {1 h} B//item", "read:B"),
        ("x: A//item FOLLOWED BY NOT B//item FOLLOWED BY A//item", "read:B"),
        ("x: A//item NEXT B//item", "read:B"),
        ("x: SELECT t FROM (SELECT t FROM B//item[./title->t])/*[.//t->t]", "read:B"),
        ("x: SELECT * FROM A//item PUBLISH B", "publish:B"),
        ("x: SELECT t FROM (B//item[./title->t])+ WITHIN 1 h", "read:B"),
        ("x: SELECT t FROM A//item[./title->t] OR B//item[./title->t]", "read:B"),
    ],
)
def test_no_query_reads_or_publishes_around_the_scopes(
    running: Running, text: str, scope: str
) -> None:
    with tenants(running) as (a, _):
        ways: list[dict[str, Any]] = [{}, {"dry_run": True}, {"backfill": "7 days"}]
        for more in ways:
            lacks(a.http.post("/v1/subscriptions", json={"text": text, **more}), scope)
        assert a.http.get("/v1/subscriptions").json() == []


def test_what_is_anothers_is_not_there(running: Running) -> None:
    with tenants(running) as (a, b):
        assert a.subscribe("mine", "A").status_code == 201
        assert b.subscribe("theirs", "B").status_code == 201
        assert running.http.post(
            "/v1/subscriptions", json={"text": ITEMS.format(id="ops", stream="A")}
        ).is_success
        body = {"kind": "pull", "subscription": "theirs"}
        assert b.http.put("/v1/channels/reader", json=body).status_code == 200
        for client, title in ((a, "one"), (b, "two")):
            client.publish("A" if client is a else "B", title)
        until(lambda: len(running.matches()) == 3)
        assert a.titles() == ["one"]
        assert b.titles() == ["two"]
        assert [each["id"] for each in a.http.get("/v1/subscriptions").json()] == ["mine"]
        as_lines = {"Accept": "application/x-ndjson"}
        listed = lines(a.http.get("/v1/subscriptions", headers=as_lines))
        assert [each["id"] for each in listed] == ["mine"]
        assert a.http.get("/v1/channels").json() == []
        for method, path in (
            ("GET", "/v1/subscriptions/theirs"),
            ("GET", "/v1/subscriptions/theirs/why"),
            ("DELETE", "/v1/subscriptions/theirs"),
            ("POST", "/v1/subscriptions/theirs/pause"),
            ("POST", "/v1/subscriptions/ops/resume"),
            ("GET", "/v1/matches?subscription=theirs"),
            ("GET", "/v1/matches?subscription=ops&after=0"),
            ("GET", "/v1/matches?channel=reader"),
            ("GET", "/v1/matches/stream?subscription=theirs&after=1"),
            ("GET", "/v1/channels/reader"),
            ("DELETE", "/v1/channels/reader"),
            ("POST", "/v1/channels/reader/pause"),
        ):
            problem(a.http.request(method, path), 404, "not-found")
        for action in ("pause", "resume", "unsubscribe"):
            answer = a.http.post(f"/v1/subscriptions/{action}", json={"ids": ["theirs", "ops"]})
            assert (answer.json()["changed"], answer.json()["unknown"]) == ([], ["theirs", "ops"])
            everything = {"prefix": "", "dry_run": True}
            answer = a.http.post(f"/v1/subscriptions/{action}", json=everything)
            assert set(answer.json()["changed"]) <= {"mine"}
        problem(a.subscribe("theirs", "A"), 409, "conflict")
        problem(a.subscribe("ops", "A"), 409, "conflict")
        taking = {"kind": "pull", "subscription": "mine", "replace": True}
        problem(a.http.put("/v1/channels/reader", json=taking), 409, "conflict")
        own = {"name": "reader", "kind": "pull"}
        problem(a.subscribe("again", "A", channels=[own]), 409, "conflict")
        (theirs,) = [m for m in running.matches() if m["query"] == "theirs"]
        a.http.put("/v1/channels/mine", json={"kind": "pull", "subscription": "mine"})
        answer = a.http.post(f"/v1/matches/{theirs['id']}/resend", json={"channel": "mine"})
        problem(answer, 404, "not-found")


def test_what_a_dropped_subscription_has_found_is_not_the_next_owners(running: Running) -> None:
    with tenants(running) as (a, b):
        a.subscribe("news", "A")
        a.publish("A", "secret")
        until(lambda: a.titles() == ["secret"])
        assert a.http.delete("/v1/subscriptions/news").status_code == 204
        problem(b.subscribe("news", "B"), 409, "conflict")
        assert a.subscribe("news", "A").status_code == 201
        a.http.delete("/v1/subscriptions/news")
        a.subscribe("fresh", "A")
        a.http.delete("/v1/subscriptions/fresh")
        assert b.subscribe("fresh", "B").status_code == 201, "nothing was found under it"


def test_samples_and_reasons_show_what_one_may_read(running: Running) -> None:
    with tenants(running) as (a, b):
        for client, stream in ((a, "A"), (b, "B")):
            client.publish(stream, f"of {stream}", **{"Document-Id": f"in {stream}"})
        until(lambda: len(running.http.get("/v1/streams").json()) == 2)
        assert [each["name"] for each in a.http.get("/v1/streams").json()] == ["A"]
        assert "of A" in a.http.get("/v1/streams/A").text
        lacks(a.http.get("/v1/streams/B"), "read:B")
        both = {"stream": ["A", "B"]}
        lacks(a.http.get("/v1/streams/suggestions", params=both), "read:B")
        a.subscribe("mine", "A")
        assert a.http.get("/v1/subscriptions/mine/why").is_success
        own = a.http.get("/v1/subscriptions/mine/why/documents", params={"document": "in A"})
        assert '"passed":true' in own.text
        other = a.http.get("/v1/subscriptions/mine/why/documents", params={"document": "in B"})
        assert "no stored document" in problem(other, 409, "conflict")["detail"]
        text = ITEMS.format(id="x", stream="B")
        lacks(a.http.post("/v1/why", json={"text": text}), "read:B")
        lacks(a.http.post("/v1/why", json={"text": text, "documents": ["in B"]}), "read:B")
        running.http.patch("/v1/tokens/a", json={"scopes": ["subscribe"]})
        lacks(a.http.get("/v1/subscriptions/mine/why"), "read:A")


def test_operation_is_for_operators(running: Running, tmp_path: Path) -> None:
    with tenants(running) as (a, _), make(running, "ops", "operate") as ops:
        a.subscribe("mine", "A")
        file = {"kind": "file", "settings": {"path": str(tmp_path / "out")}}
        for method, path, body in (
            ("GET", "/v1/status", None),
            ("GET", "/v1/feeds", None),
            ("POST", "/v1/feeds", {"url": "https://a.example/"}),
            ("GET", "/v1/dead-letters", None),
            ("DELETE", "/v1/dead-letters", None),
            ("POST", "/v1/backup", {"directory": str(tmp_path / "copy")}),
            ("GET", "/v1/tokens", None),
            ("POST", "/v1/tokens", {"name": "x", "scopes": ["operate"]}),
            ("PATCH", "/v1/tokens/a", {"scopes": ["operate"]}),
            ("POST", "/v1/tokens/a/rotate", {}),
            ("DELETE", "/v1/tokens/b", None),
            ("GET", "/v1/changes", None),
            ("PUT", "/v1/channels/out", {**file, "subscription": "mine"}),
            ("PUT", "/v1/channels/all", {"kind": "pull"}),
            ("DELETE", "/v1/deliveries/dead", None),
            ("POST", "/v1/deliveries/dead/resend", {}),
        ):
            lacks(a.http.request(method, path, json=body), "operate")
        lacks(a.subscribe("more", "A", channels=[file]), "operate")
        assert a.http.get("/v1/events").json() == []
        assert a.http.get("/v1/identity").json()["name"] == "a"
        assert ops.http.get("/v1/status").is_success
        assert ops.http.put("/v1/channels/out", json={**file, "subscription": "mine"}).is_success
        with make(running, "writer", "publish:A") as writer:
            assert writer.publish("A", "one").status_code == 202
            lacks(writer.http.get("/v1/matches"), "subscribe")


def test_every_route_says_who_may_use_it() -> None:
    guards = {member, operator, anyone}
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 40
    for route in routes:
        if route.operation_id != "publishDocuments":  # asks by itself, without the framework
            asked = {each.call for each in route.dependant.dependencies}
            assert asked & guards, f"{route.path} is open to all who have any token"


def test_documents_of_two_tokens_have_no_ids_in_common(running: Running) -> None:
    with (
        make(running, "one", "publish:S", "read:S", "subscribe") as one,
        make(running, "two", "publish:S", "read:S", "subscribe") as two,
    ):
        one.subscribe("all", "S")
        answers = [client.publish("S", "t", **{"Document-Id": "d"}) for client in (one, two, two)]
        assert [answer.json()["known"] for answer in answers] == [0, 0, 1]
        until(lambda: len(one.titles()) == 2)
        line = json.dumps({"xml": "<item/>", "id": "d", "source": "token:one:S"})
        headers = {"Content-Type": "application/x-ndjson"}
        path = "/v1/streams/S/documents"
        problem(running.http.post(path, content=line, headers=headers), 422, "invalid")
        assert two.http.post(path, content=line, headers=headers).json()["known"] == 0


# -- while it runs ---------------------------------------------------------------------------------


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


# -- quotas ----------------------------------------------------------------------------------------


def test_quotas_of_a_token(running: Running) -> None:
    quota = {"subscriptions": 1, "documents": 0.001, "state": 1}
    with make(running, "a", "subscribe", "read:A", "publish:A", **quota) as a:
        assert a.subscribe("one", "A").status_code == 201
        assert a.subscribe("one", "A").status_code == 201, "it has it already"
        refused = a.subscribe("two", "A")
        assert "1 subscriptions" in problem(refused, 429, "over-quota")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert a.publish("A", "one").status_code == 202
        refused = a.publish("A", "two")
        assert "0.001 documents a second" in problem(refused, 429, "over-quota")["detail"]
        assert int(refused.headers["retry-after"]) > 100
        running.http.patch("/v1/tokens/a", json={"quota": {"documents": None}})
        until(lambda: running.service.figures().spool.backlog == 0)
        refused = a.publish("A", "three")
        assert "1 bytes at most" in problem(refused, 429, "over-quota")["detail"]
        running.http.patch("/v1/tokens/a", json={"quota": {"state": None, "bytes": 10_000}})
        assert a.publish("A", "four").status_code == 202
        a.http.delete("/v1/subscriptions/one")
        assert a.subscribe("two", "A").status_code == 201


def test_a_rate_holds_over_time_and_large_requests_pass() -> None:
    now = 0.0
    who = Identity("a", frozenset(), Quota(documents=2.0, bytes=100))
    quotas = Quotas(lambda _: 0, lambda: now)
    accepted = 0
    for _ in range(10_000):
        try:
            quotas.check(who)
        except OverQuota as error:
            now += error.retry_after
        else:
            quotas.used(who, 50, 1_000)
            accepted += 50
    assert accepted / now == pytest.approx(2.0, rel=0.02)


def test_which_scopes_cover_which_streams() -> None:
    who = Identity("a", checked_scopes(["read:news.*", "read:S", "publish:*", "read:broker.f*"]))
    for stream in ("news.a", "news.", "S", "broker.feeds"):
        who.check_read(stream)
    for stream in ("new", "T", "news", "broker.events"):
        with pytest.raises(Forbidden, match=f"read:{stream}"):
            who.check_read(stream)
    who.check_publish("anything")
    with pytest.raises(Forbidden):
        who.check_publish("broker.events")


def test_a_file_that_is_damaged_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "access.sqlite"
    path.write_bytes(b"not a database, and long enough to look like one" * 100)
    with pytest.raises(StateError, match=r"access.sqlite.*move the file away"):
        Access(tmp_path, lambda: 0)
