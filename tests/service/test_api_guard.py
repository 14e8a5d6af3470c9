"""Access to the API, and responses to requests that are not allowed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.api_harness import Running, problem, serving


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For what changes nothing."""
    with serving(tmp_path_factory.mktemp("state")) as running:
        yield running


# -- who may ask -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        b"Bearer \xff",
    ],
)
def test_nobody_asks_without_the_token(shared: Running, sent: str | bytes | None) -> None:
    if isinstance(sent, str):
        sent = sent.format(token=shared.service.token)
    headers = {} if sent is None else {"Authorization": sent}
    with httpx.Client(base_url=shared.url, headers=headers) as stranger:  # type: ignore[arg-type]
        for method, path in (("GET", "/v1/status"), ("POST", "/v1/nothing"), ("GET", "/v1")):
            answer = stranger.request(method, path)
            details = problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert shared.service.token not in json.dumps(details)
        assert stranger.get("/health/live").json() == {"status": "alive"}


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]:80", "localhost@x"]
)
def test_a_name_that_was_made_to_point_here_gets_nothing(shared: Running, host: str) -> None:
    for path in ("/v1/status", "/metrics", "/docs", "/feeds/pair.atom"):
        problem(shared.http.get(path, headers={"Host": host}), 421, "misdirected-host")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321", "localhost."]
)
def test_its_own_names_are_known(shared: Running, host: str) -> None:
    assert shared.http.get("/health/live", headers={"Host": host}).is_success


def test_the_public_address_is_a_name_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path / "state", server__public_url="https://broker.example/base") as running:
        assert running.http.get("/health/live", headers={"Host": "broker.example"}).is_success
        running.subscribe()
        url = running.http.get("/v1/subscriptions/pair").json()["atom_url"]
        assert url.startswith("https://broker.example/base/feeds/pair.atom?key=")


def test_no_page_of_another_site_may_read_answers(shared: Running) -> None:
    answer = shared.http.get("/health/live", headers={"Origin": "https://evil.example"})
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert answer.headers["x-content-type-options"] == "nosniff"
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert shared.http.options("/v1/status", headers=asked).status_code == 405
    assert shared.http.get("/v1/status").headers["cache-control"] == "no-store"


def test_metrics_have_a_token_of_their_own_if_one_is_set(tmp_path: Path) -> None:
    with serving(tmp_path / "state", server__metrics_token="scrape") as running:
        problem(running.http.get("/metrics"), 401, "unauthorized")
        answer = running.http.get("/metrics", headers={"Authorization": "Bearer scrape"})
        assert answer.is_success
        problem(
            running.http.get("/v1/status", headers={"Authorization": "Bearer scrape"}),
            401,
            "unauthorized",
        )


def test_the_token_is_never_logged(
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise RuntimeError("unexpected")

    caplog.set_level("DEBUG")
    running.subscribe()
    path = running.http.get("/v1/subscriptions/pair").json()["atom_url"].removeprefix(running.url)
    monkeypatch.setattr(running.service.channels, "all", fails)
    problem(running.http.get("/v1/channels"), 500, "internal")
    problem(
        running.http.get("/v1/status", headers={"Authorization": "Bearer wrong"}),
        401,
        "unauthorized",
    )
    assert running.http.get(path).is_success
    running.subscribe("bad: S//[")
    written = capfd.readouterr()
    logged = caplog.text + written.out + written.err
    assert "RuntimeError: unexpected" in logged
    assert running.service.token not in logged
    assert path.rpartition("=")[2] not in logged


# -- what is no request ----------------------------------------------------------------------------


def test_what_is_not_there_and_what_is_not_possible(shared: Running) -> None:
    problem(shared.http.get("/v1/nothing"), 404, "not-found")
    problem(shared.http.get("/v1/subscriptions/"), 404, "not-found")
    answer = shared.http.patch("/v1/status")
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET"


def test_json_that_cannot_be_read_is_told_with_its_place(shared: Running) -> None:
    answer = shared.http.post(
        "/v1/subscriptions",
        content=b'{"text":\n  oops}',
        headers={"Content-Type": "application/json"},
    )
    details = problem(answer, 400, "malformed")
    assert (details["errors"][0]["line"], details["errors"][0]["column"]) == (2, 3)


def test_a_field_that_is_not_known_is_named(shared: Running) -> None:
    details = problem(shared.subscribe(dry_rum=True), 422, "invalid")
    assert details["detail"] == "dry_rum: there is no such field"
    assert details["errors"][0]["where"] == "dry_rum"
    details = problem(shared.http.post("/v1/subscriptions", json={}), 422, "invalid")
    assert details["detail"] == "text: it is missing"
    answer = shared.http.delete("/v1/deliveries/dead", params={"numbers": "1;2"})
    details = problem(answer, 422, "invalid")
    assert details["detail"] == "numbers: '1;2': write numbers, with commas between them"
    details = problem(shared.http.get("/v1/nothing"), 404, "not-found")
    assert details["detail"] == "GET /v1/nothing: there is no such thing; see /docs"
    details = problem(shared.subscribe(throttle={"period": "soon"}), 422, "invalid")
    assert details["errors"][0]["where"] == "throttle.period"
    assert "write for instance" in details["errors"][0]["message"]


def test_a_body_that_is_not_json_has_the_wrong_type(shared: Running) -> None:
    answer = shared.http.post("/v1/subscriptions", content=b"pair: S//a")
    details = problem(answer, 415, "unsupported-media-type")
    assert details["detail"].endswith("application/json, and the header Content-Type says nothing")
    headers = {"Content-Type": "text/plain"}
    answer = shared.http.post("/v1/streams/S/documents", content=b"<a/>", headers=headers)
    details = problem(answer, 415, "unsupported-media-type")
    assert details["detail"].endswith("and the header Content-Type says text/plain")


def test_a_service_that_drains_takes_nothing_more(running: Running) -> None:
    running.service.drain()
    answer = running.publish({"xml": "<a/>"})
    problem(answer, 503, "draining")
    assert int(answer.headers["retry-after"]) >= 1
    ready = running.http.get("/health/ready")
    assert [reason["code"] for reason in ready.json()["reasons"]] == ["draining"]
    assert running.http.get("/health/live").is_success
    assert running.http.get("/v1/status").json()["state"] == "draining"


def test_garbage_on_the_wire_does_not_stop_the_server(shared: Running) -> None:
    address = ("127.0.0.1", int(shared.url.rpartition(":")[2]))
    for garbage in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\n" * 9):
        with socket.create_connection(address) as wire:
            wire.sendall(garbage)
            wire.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: wire.recv(4096), b""))
        assert not answer or answer.splitlines()[0].split()[1] in (b"400", b"421")
        assert b"application/problem+json" in answer or not answer
    assert shared.http.get("/health/live").is_success


def test_a_head_without_an_end_is_refused_before_it_fills_the_memory(shared: Running) -> None:
    address = ("127.0.0.1", int(shared.url.rpartition(":")[2]))
    begin = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
    chunked = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    for endless in (b"GET /", begin, begin + b"A: ", chunked, chunked + b"A: "):
        more = b"A: b\r\n" * 150 if endless.endswith(b"\n") else b"a" * 1_000
        with (
            socket.create_connection(address) as wire,
            pytest.raises((BrokenPipeError, ConnectionResetError)),
        ):
            _send(wire, endless, more)
    long = {"X-Long": "a" * 20_000}
    assert shared.http.get("/health/live", headers=long).is_success


def test_requests_at_once_over_one_connection_are_answered_in_order(shared: Running) -> None:
    address = ("127.0.0.1", int(shared.url.rpartition(":")[2]))
    request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 5_000 + b"\r\n\r\n"
    last = request.replace(b"X: ", b"Connection: close\r\nX: ")
    with socket.create_connection(address) as wire:
        wire.sendall(request * 40 + last)
        answer = b"".join(iter(lambda: wire.recv(4096), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 41


def test_a_small_response_comes_in_one_piece(shared: Running) -> None:
    address = ("127.0.0.1", int(shared.url.rpartition(":")[2]))
    with socket.create_connection(address) as wire:
        for _ in range(100):
            wire.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.recv(65_536).endswith(b"}")


def _send(wire: socket.socket, first: bytes, more: bytes) -> None:
    wire.sendall(first)
    for _ in range(10_000):
        wire.sendall(more)
