"""Signing in: codes that work once, cookies that no script and no other site has, and their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from threading import Thread

import httpx
import pytest

from broker.service.web import pages
from broker.service.web.sessions import CODE_LASTS, LASTS, Sessions
from tests.service.api_harness import Running, problem, serving
from tests.waiting import PATIENCE, until


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("sessions") / "state") as running:
        yield running


def browser(running: Running) -> httpx.Client:
    """A client without the token."""
    return httpx.Client(base_url=running.url, timeout=PATIENCE, verify=False)


@contextmanager
def signed_in(running: Running) -> Iterator[httpx.Client]:
    """A client with the cookie of a session, and its header for changes."""
    code = running.http.post("/v1/sign-in-codes").json()["code"]
    with browser(running) as client:
        client.headers["X-CSRF-Token"] = client.post("/session", json={"code": code}).json()["csrf"]
        yield client


def test_a_code_works_once_and_as_it_is_read_out(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "sessions.json", Clock())
    code, _ = sessions.new_code("me")
    assert re.fullmatch(r"[A-Z2-9]{4}(-[A-Z2-9]{4}){2}", code)
    cookie = sessions.begin(f" {code.lower().replace('-', ' ')} ")
    assert cookie is not None
    assert sessions.begin(code) is None
    found = sessions.find(cookie)
    assert found is not None
    assert found.identity == "me"
    assert sessions.find(cookie[:-1]) is None


def test_codes_and_sessions_end(tmp_path: Path) -> None:
    clock = Clock()
    sessions = Sessions(tmp_path / "sessions.json", clock)
    late, early = sessions.new_code("me")[0], sessions.new_code("me")[0]
    clock.now += CODE_LASTS
    cookie = sessions.begin(early)
    assert cookie is not None
    clock.now += 1
    assert sessions.begin(late) is None
    session = sessions.find(cookie)
    assert session is not None
    clock.now += LASTS
    assert sessions.find(cookie) is None
    assert not sessions.lasts(session)


def test_the_file_holds_no_secret_and_outlives_the_process(tmp_path: Path) -> None:
    path, clock = tmp_path / "sessions.json", Clock()
    sessions = Sessions(path, clock)
    mine, other = (sessions.begin(sessions.new_code(who)[0]) for who in ("me", "you"))
    assert mine is not None
    assert other is not None
    assert mine not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    again = Sessions(path, clock)
    assert again.find(mine) == sessions.find(mine)
    again.keep(lambda identity: identity == "me")
    assert again.find(other) is None
    assert Sessions(path, clock).find(other) is None
    path.write_text("[{")
    assert Sessions(path, clock).find(mine) is None


def test_the_cookie_is_for_this_service_alone(running: Running) -> None:
    code = running.http.post("/v1/sign-in-codes").json()["code"]
    with browser(running) as client:
        reply = client.post("/session", json={"code": code})
        (cookie,) = SimpleCookie(reply.headers["set-cookie"]).values()
        assert cookie["httponly"]
        assert cookie["samesite"] == "strict"
        assert cookie["path"] == "/"
        assert client.get("/v1/status").status_code == 200
        assert client.get("/session").json()["csrf"] == reply.json()["csrf"]
        problem(client.post("/session", json={"code": code}), 401, "unauthorized")


def test_a_change_needs_the_header_beside_the_cookie(running: Running) -> None:
    text = {"text": "one: S//item"}
    with signed_in(running) as client:
        token = client.headers.pop("X-CSRF-Token")
        for wrong in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": token[:-1] + "é"}):
            headers = {name.encode(): value.encode() for name, value in wrong.items()}
            problem(
                client.post("/v1/subscriptions", json=text, headers=headers), 401, "unauthorized"
            )
            problem(client.delete("/session", headers=headers), 401, "unauthorized")
        assert running.http.get("/v1/subscriptions").json() == []
        headers = {b"X-CSRF-Token": token.encode()}
        assert client.post("/v1/subscriptions", json=text, headers=headers).status_code == 201


def test_a_cookie_of_another_program_is_no_hindrance(running: Running) -> None:
    running.http.get("/v1/status", headers={"Cookie": "other=1"}).raise_for_status()
    with browser(running) as client:
        for sent in ("other=1", "broker-0=1; x", '"', "broker-" + "é"):
            reply = client.get("/v1/status", headers={b"Cookie": sent.encode()})
            problem(reply, 401, "unauthorized")


def test_signing_out_ends_the_session_and_its_streams(running: Running) -> None:
    with signed_in(running) as client:
        with following(client, running) as ended:
            assert client.delete("/session").status_code == 204
            until(ended)
        problem(client.get("/v1/status"), 401, "unauthorized")


@contextmanager
def following(client: httpx.Client, running: Running) -> Iterator[Callable[[], bool]]:
    """A stream of matches is open; returns whether it has ended."""

    def follow() -> None:
        with client.stream("GET", "/v1/matches/stream") as reply:
            for _ in reply.iter_lines():
                pass

    reader = Thread(target=follow)
    reader.start()
    until(lambda: len(running.api.waiting) == 1)
    yield lambda: not reader.is_alive()
    reader.join(PATIENCE)


def test_a_browser_may_do_what_its_token_may_and_as_long(running: Running) -> None:
    wanted = {"name": "desk", "scopes": ["subscribe", "read:S"]}
    secret = running.http.post("/v1/tokens", json=wanted).raise_for_status().json()["secret"]
    mine = {"Authorization": f"Bearer {secret}"}
    codes = [
        running.http.post("/v1/sign-in-codes", headers=mine).raise_for_status().json()["code"]
        for _ in range(2)
    ]
    with browser(running) as client:
        begun = client.post("/session", json={"code": codes[0]}).raise_for_status().json()
        assert (begun["name"], begun["operates"]) == ("desk", False)
        client.headers["X-CSRF-Token"] = begun["csrf"]
        text = {"text": "of-desk: S//item"}
        assert client.post("/v1/subscriptions", json=text).status_code == 201
        problem(client.get("/v1/feeds"), 403, "forbidden")
        other = client.post("/v1/subscriptions", json={"text": "T//item"})
        problem(other, 403, "forbidden")
        change = running.http.get("/v1/changes", params={"before": 2**63 - 1, "limit": 1}).json()
        assert (change[0]["who"], change[0]["subject"]) == ("desk", "of-desk")
        with following(client, running) as ended:
            # With other scopes what goes on ends, and begins anew with these.
            more = {"scopes": ["subscribe", "read:*"]}
            running.http.patch("/v1/tokens/desk", json=more).raise_for_status()
            until(ended)
        assert client.post("/v1/check", json={"text": "T//item"}).status_code == 200
        with following(client, running) as ended:
            running.http.delete("/v1/tokens/desk").raise_for_status()
            until(ended)
        problem(client.get("/v1/subscriptions"), 401, "unauthorized")
        problem(client.get("/session"), 401, "unauthorized")
        problem(client.post("/session", json={"code": codes[1]}), 401, "unauthorized")
    running.http.delete("/v1/subscriptions/of-desk").raise_for_status()


def test_a_token_that_may_not_read_signs_nobody_in(running: Running) -> None:
    wanted = {"name": "press", "scopes": ["publish:S"]}
    secret = running.http.post("/v1/tokens", json=wanted).raise_for_status().json()["secret"]
    mine = {"Authorization": f"Bearer {secret}"}
    problem(running.http.post("/v1/sign-in-codes", headers=mine), 403, "forbidden")


def test_a_session_outlives_a_restart_but_not_its_token(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as running, signed_in(running) as client:
        cookies = client.cookies
    with serving(tmp_path / "state") as running, browser(running) as client:
        client.cookies = cookies
        assert client.get("/v1/status").status_code == 200
    (tmp_path / "state" / "token").unlink()
    with serving(tmp_path / "state") as running, browser(running) as client:
        client.cookies = cookies
        problem(client.get("/v1/status"), 401, "unauthorized")


def test_the_page_is_small_and_has_strict_rules(running: Running) -> None:
    with browser(running) as client:
        total = 0
        for path in ("/", *(f"/ui/{name}" for name in sorted(pages.names() - {"index.html"}))):
            reply = client.get(path)
            assert reply.status_code == 200
            assert reply.headers["content-encoding"] == "gzip"
            total += int(reply.headers["content-length"])
            rules = dict(
                rule.strip().split(" ", 1)
                for rule in reply.headers["content-security-policy"].split(";")
            )
            assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
            assert rules["script-src"] == rules["style-src"] == rules["img-src"] == "'self'"
            assert rules["require-trusted-types-for"] == "'script'"
            assert reply.headers["referrer-policy"] == "no-referrer"
            known = client.get(path, headers={"If-None-Match": reply.headers["etag"]})
            assert known.status_code == 304
            plain = client.get(path, headers={"Accept-Encoding": "identity"})
            assert plain.content == reply.content
        assert total < 300_000
        for path in ("/ui/", "/ui/nothing.js", "/ui/..%2Fpages.py", "/ui/%00"):
            problem(client.get(path), 404, "not-found")
        problem(client.post("/"), 405, "method-not-allowed")


def test_nothing_in_the_page_is_inline_or_from_elsewhere() -> None:
    for name in pages.names():
        text = (pages.FOLDER / name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        # Names of vocabularies are no addresses that are fetched.
        addresses = re.findall(r"https?://[\w./-]+", text)
        assert {each for each in addresses if "www.w3.org" not in each} <= {"https://"}, name
    page = (pages.FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", page)
