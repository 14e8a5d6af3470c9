"""The API as clients use it: subscribe, read, manage, on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from feeds.threaded import Threaded
from tests.service.api_harness import PAIR, Running, lines, problem, serving
from tests.waiting import until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For what changes nothing."""
    with serving(tmp_path_factory.mktemp("state")) as running:
        yield running


# -- subscriptions -------------------------------------------------------------------------------


def test_a_subscription_from_beginning_to_end(running: Running) -> None:
    (made,) = running.subscribe().json()
    assert (made["id"], made["status"], made["outcome"]) == ("pair", "active", "new")
    assert running.subscribe().json()[0]["outcome"] == "unchanged"
    assert running.subscribe(PAIR.replace("7 days", "8 days")).json()[0]["outcome"] == "replaced"
    assert running.http.post("/v1/subscriptions/pair/pause").json()["status"] == "paused"
    (listed,) = running.http.get("/v1/subscriptions", params={"status": "paused"}).json()
    assert listed["gaps"][0]["until"] is None
    assert running.http.get("/v1/subscriptions", params={"status": "active"}).json() == []
    resumed = running.http.post("/v1/subscriptions/pair/resume").json()
    assert (resumed["status"], resumed["gaps"][0]["reason"]) == ("active", "paused")
    assert running.http.delete("/v1/subscriptions/pair").status_code == 204
    problem(running.http.get("/v1/subscriptions/pair"), 404, "not-found")


@pytest.mark.parametrize("more", [{}, {"documents": ["d1"]}])
def test_a_question_without_a_query_is_refused(shared: Running, more: dict[str, object]) -> None:
    refused = shared.http.post("/v1/why", json={"text": " ", **more})
    assert "holds no query" in problem(refused, 422, "invalid")["detail"]


def test_an_error_of_the_language_is_told_with_its_place(shared: Running) -> None:
    details = problem(shared.subscribe("good: S//a;\nbad: S//["), 422, "xscl")
    found = details["errors"][0]
    assert (found["line"], found["code"]) == (2, found["code"])
    assert found["column"] >= 8
    assert "^" in found["rendered"]
    assert "bad: S//[" in found["rendered"]
    assert shared.http.get("/v1/subscriptions").json() == []


def test_pages_of_subscriptions(running: Running) -> None:
    text = "\n".join(f"q{n}: S//a{n};" for n in range(5))
    assert running.subscribe(text).status_code == 201
    first = running.http.get("/v1/subscriptions", params={"limit": 2}).json()
    assert [each["id"] for each in first] == ["q0", "q1"]
    rest = running.http.get("/v1/subscriptions", params={"after": "q1", "prefix": "q"}).json()
    assert [each["id"] for each in rest] == ["q2", "q3", "q4"]


def test_a_dry_run_registers_nothing_and_backfill_does(running: Running) -> None:
    assert running.subscribe("keep: S//book->b[./title->t]").status_code == 201
    running.match("Tide")
    assert running.http.get("/v1/matches", params={"wait": 20}).headers["next-cursor"] != "0"
    answer = running.subscribe(dry_run=True)
    assert answer.status_code == 200
    assert answer.json()["documents"] >= 1
    assert answer.json()["suspended"] == []
    assert running.http.get("/v1/subscriptions/pair").status_code == 404
    (made,) = running.subscribe(backfill="INFINITY").json()
    assert made["history"]["matches"] == len(answer.json()["matches"])


def test_throttle_limit_and_channels_of_a_subscription(running: Running) -> None:
    answer = running.subscribe(
        throttle={"variable": "t", "period": "1 h"},
        limit={"matches": 5, "period": "1 day"},
        channels=[{"kind": "pull", "name": "desk"}],
    )
    assert answer.status_code == 201, answer.text
    one = running.http.get("/v1/subscriptions/pair").json()
    assert one["throttle"] == {"variable": "t", "period": "1 h", "left_out": 0}
    assert one["limit"] == {"matches": 5, "period": "1 day"}
    assert running.http.get("/v1/channels/desk").json()["subscription"] == "pair"
    assert answer.json()[0]["was"] == {"throttle": None, "limit": None}
    (again,) = running.subscribe(throttle={"period": "2 h"}).json()
    assert again["was"] == {"throttle": one["throttle"], "limit": one["limit"]}
    assert again["throttle"] == {"variable": None, "period": "2 h", "left_out": 0}
    assert again["limit"] == one["limit"]
    # One that takes the place of another begins without its limit, and keeps its throttle.
    (replaced,) = running.subscribe(PAIR.replace("7 days", "8 days")).json()
    assert replaced["was"] == {"throttle": again["throttle"], "limit": one["limit"]}
    assert (replaced["throttle"], replaced["limit"]) == (again["throttle"], None)
    # Either can be taken away from one that stays as it is.
    limit = {"matches": 7, "period": "1 h"}
    text = PAIR.replace("7 days", "8 days")
    (less,) = running.subscribe(text, limit=limit, lift=["throttle"]).json()
    assert (less["outcome"], less["throttle"], less["limit"]) == ("unchanged", None, limit)
    (free,) = running.subscribe(text, lift=["throttle", "limit"]).json()
    assert free["was"] == {"throttle": None, "limit": limit}
    assert (free["throttle"], free["limit"]) == (None, None)
    both = problem(running.subscribe(text, limit=limit, lift=["limit"]), 422, "invalid")
    assert both["errors"][0]["where"] == "lift"


# -- matches and channels ------------------------------------------------------------------------


def test_matches_are_read_with_a_cursor(running: Running) -> None:
    running.subscribe()
    cursor, seen = 0, []
    for title in ("Tide", "Clerk", "Harbour"):
        running.match(title)
        answer = running.http.get("/v1/matches", params={"after": cursor, "wait": 30})
        assert answer.headers["content-type"] == "application/x-ndjson"
        (found,) = lines(answer)
        assert found["values"]["t"] == [title]
        cursor = int(answer.headers["next-cursor"])
        assert cursor == found["n"]
        seen.append(found["n"])
    assert [each["n"] for each in running.matches(subscription="pair")] == seen
    assert [each["n"] for each in running.matches(limit=2)] == seen[:2]
    nothing = running.http.get("/v1/matches", params={"after": cursor})
    assert (nothing.content, nothing.headers["next-cursor"]) == (b"", str(cursor))
    problem(running.http.get("/v1/matches", params={"subscription": "nobody"}), 404, "not-found")


def test_a_pull_channel_keeps_its_place(running: Running) -> None:
    running.subscribe()
    made = running.http.put("/v1/channels/desk", json={"kind": "pull", "subscription": "pair"})
    assert made.status_code == 200, made.text
    running.match("Tide")
    (first,) = lines(running.http.get("/v1/matches", params={"channel": "desk", "wait": 30}))
    assert running.matches(channel="desk") == [first]
    acked = running.http.post("/v1/channels/desk/ack", json={"n": first["n"]}).json()
    assert (acked["cursor"], acked["delivered"]) == (first["n"], 1)
    assert running.matches(channel="desk") == []
    assert running.matches(channel="desk", after=0) == [first]
    problem(running.http.post("/v1/channels/desk/ack", json={"n": 10**6}), 409, "conflict")
    again = running.http.post("/v1/channels/desk/reset", json={"after": 0}).json()
    assert again["cursor"] == 0
    assert running.matches(channel="desk") == [first]
    problem(running.http.post("/v1/channels/desk/reset", json={"after": 10**6}), 409, "conflict")
    problem(running.http.post("/v1/channels/none/reset", json={"after": 0}), 404, "not-found")
    problem(running.http.get("/v1/matches", params={"channel": "none"}), 404, "not-found")


def test_a_channel_that_delivers_is_not_pulled(running: Running, tmp_path: Path) -> None:
    body = {"kind": "file", "settings": {"path": str(tmp_path / "out.jsonl")}}
    assert running.http.put("/v1/channels/out", json=body).is_success
    problem(running.http.get("/v1/matches", params={"channel": "out"}), 409, "conflict")
    assert running.http.post("/v1/channels/out/pause").json()["status"] == "paused"
    assert running.http.post("/v1/channels/out/resume").json()["status"] == "active"
    assert [each["name"] for each in running.http.get("/v1/channels").json()] == ["out"]
    assert running.http.delete("/v1/channels/out").status_code == 204
    problem(running.http.get("/v1/channels/out"), 404, "not-found")


def test_the_secret_of_a_webhook_is_shown_to_who_asks_for_it(running: Running) -> None:
    body = {"kind": "webhook", "settings": {"url": "https://example.org/hook"}}
    made = running.http.put("/v1/channels/hook", json=body).json()
    secret = made["settings"]["secret"]
    assert secret.startswith("whsec_")
    assert secret not in running.http.get("/v1/channels/hook").text
    assert secret not in running.http.get("/v1/channels").text
    shown = running.http.get("/v1/channels/hook", params={"secrets": True}).json()
    assert shown["settings"]["secret"] == secret


class _Receiver(BaseHTTPRequestHandler):
    """Answers 204, or 500 where it is asked to."""

    got: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(500 if self.path == "/broken" else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_channel_is_tried(tmp_path: Path) -> None:
    receiver = Threaded(ThreadingHTTPServer(("127.0.0.1", 0), _Receiver), "receiver")
    url = f"http://127.0.0.1:{receiver.port}"
    with receiver, serving(tmp_path / "state", delivery__allow_private=True) as running:
        for name, path in (("whole", "/"), ("broken", "/broken")):
            body = {"kind": "webhook", "settings": {"url": url + path}}
            assert running.http.put(f"/v1/channels/{name}", json=body).is_success
        assert running.http.post("/v1/channels/whole/test").json()["ok"] is True
        assert _Receiver.got.pop()["type"] == "test"
        reply = running.http.post("/v1/channels/broken/test").json()
        assert reply["ok"] is False
        assert "500" in reply["detail"]
        running.http.put("/v1/channels/desk", json={"kind": "pull"})
        problem(running.http.post("/v1/channels/desk/test"), 409, "conflict")
        problem(running.http.post("/v1/channels/none/test"), 404, "not-found")


def test_given_up_deliveries_are_listed_and_resent(shared: Running) -> None:
    assert shared.http.get("/v1/deliveries/dead").json() == []
    assert shared.http.post("/v1/deliveries/dead/resend", json={}).json() == {"count": 0}
    forgotten = shared.http.delete("/v1/deliveries/dead", params={"numbers": "1,2"})
    assert forgotten.json() == {"count": 0}
    answer = shared.http.post("/v1/matches/none/resend", json={"channel": "none"})
    problem(answer, 404, "not-found")


# -- looking after ---------------------------------------------------------------------------------


def test_documents_that_were_kept_aside(running: Running) -> None:
    running.publish({"id": "torn", "timestamp": "2026-10-05T06:40:00Z", "xml": "<book>"})
    until(lambda: running.http.get("/v1/dead-letters").json() != [])
    (letter,) = running.http.get("/v1/dead-letters").json()
    assert (letter["id"], letter["xml"], letter["streams"]) == ("torn", "<book>", ["S"])
    assert "not well-formed" in letter["reason"]
    again = running.http.post(f"/v1/dead-letters/{letter['number']}/resubmit")
    assert (again.status_code, again.json()["ids"]) == (202, ["torn"])
    until(lambda: running.http.get("/v1/status").json()["intake"]["applied"] == 2)
    problem(running.http.post("/v1/dead-letters/99/resubmit"), 404, "not-found")
    early = {"before": "2001-01-01"}
    assert running.http.delete("/v1/dead-letters", params=early).json() == {"count": 0}
    left = running.http.get("/v1/dead-letters").json()
    for kept in left:
        numbers = {"numbers": str(kept["number"])}
        assert running.http.delete("/v1/dead-letters", params=numbers).json() == {"count": 1}
    running.publish({"id": "torn too", "xml": "<blog>"})
    until(lambda: running.http.get("/v1/dead-letters").json() != [])
    assert running.http.delete("/v1/dead-letters").json() == {"count": 1}
    assert running.http.get("/v1/dead-letters").json() == []


def test_large_documents_that_were_kept_aside_come_in_several_pages(running: Running) -> None:
    for n in range(3):
        assert running.publish({"id": f"d{n}", "xml": f"<book>{'x' * 4_500_000}"}).is_success

    def kept_aside() -> int:
        engine = running.http.get("/v1/status").json()["engine"]
        return engine["dead_letters"] if engine else 0  # it may have been busy ever since

    until(lambda: kept_aside() == 3)
    pages, after = [], 0
    while page := running.http.get("/v1/dead-letters", params={"after": after}).json():
        pages.append([letter["id"] for letter in page])
        after = page[-1]["number"]
    assert pages == [["d0", "d1"], ["d2"]]


def test_status_at_a_glance(running: Running) -> None:
    running.subscribe()
    running.match("Tide")
    assert lines(running.http.get("/v1/matches", params={"wait": 30}))
    reply = running.http.get("/v1/status").json()
    assert (reply["state"], reply["ready"], reply["reasons"]) == ("running", True, [])
    assert reply["intake"]["last"] == reply["intake"]["applied"] == 2
    assert reply["pipeline"]["kind"] == "local"
    assert reply["engine"]["subscriptions"] == 1
    assert reply["deliveries"]["taken"] == 1
    assert reply["files"]["broker.duckdb"] > 0
    ready = running.http.get("/health/ready")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})


def test_a_backup_goes_into_a_directory_of_its_own(running: Running, tmp_path: Path) -> None:
    answer = running.http.post("/v1/backup", json={"directory": str(tmp_path / "copy")})
    assert answer.status_code == 200, answer.text
    assert {"broker.duckdb", "spool.sqlite", "mailbox.sqlite"} <= answer.json()["files"].keys()
    again = running.http.post("/v1/backup", json={"directory": str(tmp_path / "copy")})
    problem(again, 409, "conflict")
    problem(running.http.post("/v1/backup", json={"directory": "copy"}), 422, "invalid")
    problem(running.http.post("/v1/backup", json={"directory": "/proc/copy"}), 409, "conflict")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Running]:
    """A service whose operator allows feeds on private addresses."""
    with serving(tmp_path / "state", feeds__allow_private=True) as running:
        yield running


def test_a_client_allows_no_more_than_the_operator(running: Running) -> None:
    """Neither by adding nor by editing; and an error says no address that a name has here."""
    url = "http://localhost:9/feed.xml"
    refused = running.http.post("/v1/feeds", json={"url": url, "allow_private": True})
    details = problem(refused, 422, "invalid")
    assert details["errors"][0]["where"] == "allow_private"
    assert "set feeds.allow_private" in details["detail"]
    refused = running.http.post("/v1/feeds", json={"url": url})
    details = problem(refused, 422, "invalid")
    assert "localhost is a private address;" in details["detail"]
    assert "127.0.0.1" not in refused.text
    assert "::1" not in refused.text
    assert running.http.get("/v1/feeds").json() == []
    public = "http://feeds.invalid/feed.xml"
    assert running.http.post("/v1/feeds", json={"url": public}).status_code == 201
    refused = running.http.patch("/v1/feeds", json={"allow_private": True}, params={"url": public})
    assert problem(refused, 422, "invalid")["errors"][0]["where"] == "allow_private"
    edited = running.http.patch("/v1/feeds", json={"title": "Mine"}, params={"url": public})
    assert edited.json()["allow_private"] is False


def test_feeds_are_added_and_removed(private: Running) -> None:
    running = private
    url = "http://127.0.0.1:9/feed.xml"
    refused = running.http.post("/v1/feeds", json={"url": url})
    assert "allow_private" in problem(refused, 422, "invalid")["detail"]
    added = running.http.post("/v1/feeds", json={"url": url, "allow_private": True})
    assert (added.status_code, added.json()["url"]) == (201, url)
    assert [feed["url"] for feed in running.http.get("/v1/feeds").json()] == [url]
    problem(running.http.post("/v1/feeds", json={"url": "/etc/passwd"}), 422, "invalid")
    assert running.http.delete("/v1/feeds", params={"url": url}).status_code == 204
    problem(running.http.delete("/v1/feeds", params={"url": url}), 404, "not-found")


def test_a_feed_is_meant_by_its_address_as_it_was_added(private: Running) -> None:
    running = private
    typed, url = " http://me:secret@127.0.0.1:9/feed.xml ", "http://127.0.0.1:9/feed.xml"
    added = running.http.post("/v1/feeds", json={"url": typed, "allow_private": True})
    assert (added.status_code, added.json()["url"]) == (201, url)
    assert running.service.feeds.pause(typed).status == "paused"
    assert running.service.feeds.resume(typed).status == "active"
    assert running.http.delete("/v1/feeds", params={"url": typed}).status_code == 204
    again = running.http.delete("/v1/feeds", params={"url": typed})
    assert "secret" not in problem(again, 404, "not-found")["detail"]


def test_a_feed_is_edited_paused_and_refreshed(private: Running) -> None:
    running = private
    url = "http://127.0.0.1:9/feed.xml"
    running.http.post("/v1/feeds", json={"url": url, "allow_private": True})
    this = {"url": url}
    edited = running.http.patch(
        "/v1/feeds", json={"title": "Mine", "folder": "a/b", "interval": "2 h"}, params=this
    ).json()
    assert (edited["title"], edited["folder"], edited["interval"]) == ("Mine", "a/b", "2 h")
    edited = running.http.patch("/v1/feeds", json={"interval": "auto"}, params=this).json()
    assert (edited["title"], edited["interval"], edited["allow_private"]) == ("Mine", None, True)
    problem(running.http.patch("/v1/feeds", json={"interval": "soon"}, params=this), 422, "invalid")
    refused = running.http.patch("/v1/feeds", json={"allow_private": False}, params=this)
    problem(refused, 422, "invalid")
    until(lambda: running.http.get("/v1/feeds").json()[0]["problem"] is not None)
    assert running.http.post("/v1/feeds/pause", params=this).json()["status"] == "paused"
    problem(running.http.post("/v1/feeds/refresh", params=this), 409, "conflict")
    assert running.http.post("/v1/feeds/resume", params=this).json()["status"] == "active"
    assert running.http.post("/v1/feeds/refresh", params=this).json()["status"] == "active"
    for action in ("pause", "resume", "refresh"):
        none = running.http.post(f"/v1/feeds/{action}", params={"url": "http://b.example/"})
        problem(none, 404, "not-found")


def test_a_file_where_none_can_be(running: Running, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for place, reason in (
        (tmp_path / "circle" / "x", "no file can be there"),
        (tmp_path / ("long" * 100), "no file can be there"),
        (tmp_path, "is a directory"),
    ):
        body = {"kind": "file", "settings": {"path": str(place)}}
        details = problem(running.http.put("/v1/channels/file", json=body), 422, "invalid")
        assert details["errors"][0]["where"] == "settings.path"
        assert reason in details["detail"]
