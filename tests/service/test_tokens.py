"""Tokens with scopes: two tenants and an operator at one service, and what none of them may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from broker.service.access.access import Access
from broker.service.access.scopes import Forbidden, Identity, checked_scopes
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
