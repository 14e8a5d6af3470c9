"""A document in a request of its own, which the application does not see: answered as it would."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.service.core.core import Core
from tests.service.api_harness import Running, serving
from tests.service.test_api_connections import connection, head
from tests.waiting import until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


def one(client: socket.socket, data: bytes = b"") -> tuple[int, dict[str, str], bytes, bytes]:
    """The next response: status, headers, body, and what has come behind it."""
    while b"\r\n\r\n" not in data:
        data += client.recv(1 << 16)
    start, _, rest = data.partition(b"\r\n\r\n")
    status, *lines = start.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    length = int(headers["content-length"])
    while len(rest) < length:
        rest += client.recv(1 << 16)
    return int(status.split()[1]), headers, rest[:length], rest[length:]


LAYERS = "Idempotency-Key: other\r\n"
"""A header with which a request goes through the application."""


@pytest.mark.parametrize(
    ("more", "body", "status"),
    [
        ("Document-Id: Ærø\r\nDocument-Timestamp: 5\r\n", b"<a/>", 202),
        ("Document-Id: same\r\n", b"<a/>", 202),
        ("Document-Id: same\r\nDocument-Revision: true\r\n", b"<a/>", 202),
        ("Document-Id: d\r\n", b" \r\n ", 422),
        ("Document-Timestamp: 1e30\r\n", b"<a/>", 422),
        ("Document-Id: d\r\nConnection: close\r\n", b"<a/>", 202),
    ],
)
def test_it_is_answered_as_the_application_would(
    running: Running, more: str, body: bytes, status: int
) -> None:
    found = []
    for layers in ("", LAYERS):
        with connection(running) as client:
            for _ in range(2 if "close" not in more else 1):
                client.sendall(head(running, len(body), more + layers) + body)
                code, headers, answer, rest = one(client)
                said = json.loads(answer)
                for number in ("first", "last", "known"):
                    said.pop(number, None)
                if "Document-Id" not in more:
                    said.pop("ids", None)
                found.append((code, headers.keys(), headers.get("content-type"), said, rest))
    assert found[0][0] == status
    assert all(each == found[0] for each in found)


def test_a_known_id_is_counted(running: Running) -> None:
    with connection(running) as client:
        for known, more in ((0, ""), (1, ""), (0, "Document-Revision: 1\r\n")):
            client.sendall(head(running, 4, f"Document-Id: d\r\n{more}") + b"<a/>")
            assert json.loads(one(client)[2])["known"] == known
        until(lambda: running.service.core.backlog() == 0)
        client.sendall(head(running, 4, "Document-Id: d\r\n") + b"<a/>")
        assert json.loads(one(client)[2])["known"] == 1


def test_requests_sent_at_once_are_answered_in_their_order(running: Running) -> None:
    live = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    posts = [head(running, 4, f"Document-Id: d{n}\r\n") + b"<a/>" for n in range(4)]
    with connection(running) as client:
        client.sendall(posts[0] + posts[1] + live + posts[2] + live + posts[3])
        rest, answers = b"", []
        for _ in range(6):
            _, _, body, rest = one(client, rest)
            answers.append(json.loads(body))
    alive = {"status": "alive"}
    assert [a if a == alive else a["ids"] for a in answers] == [
        *(["d0"], ["d1"], alive, ["d2"], alive, ["d3"])
    ]


def test_all_that_come_meanwhile_are_stored_at_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, taken, go = running.service.core, list[int](), threading.Event()
    take = running.service.intake.take

    def waiting(rows: list[object]) -> object:
        taken.append(len(rows))
        go.wait()
        return take(rows)  # type: ignore[arg-type]

    monkeypatch.setattr(running.service.intake, "take", waiting)
    with ExitStack() as stack:
        clients = [stack.enter_context(connection(running)) for _ in range(10)]
        for n, client in enumerate(clients):
            client.sendall(head(running, 4) + b"<a/>")
            if n < 2:  # a thread has this one
                until(lambda wanted=[1] * (n + 1): taken == wanted)  # type: ignore[misc]
        until(lambda: running.api.together.passed_on() == 10)
        clients[9].close()  # its client is gone before there is an answer
        go.set()
        numbers = {json.loads(one(client)[2])["first"] for client in clients[:9]}
        until(lambda: _stored(core) == 10)
    assert taken == [1, 1, 8]
    assert numbers < set(range(1, 11))
    assert len(numbers) == 9


def test_what_cannot_be_stored_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path / "state", intake__max_backlog=1) as running:
        with running.service.core.lock, connection(running) as client:
            answers = []
            for n in range(3):
                client.sendall(head(running, 4, f"Document-Id: d{n}\r\n") + b"<a/>")
                answers.append(one(client))
        assert [status for status, *_ in answers] == [202, 429, 429]
        assert json.loads(answers[1][2])["type"].endswith("backlog-full")
        assert int(answers[1][1]["retry-after"]) >= 1
        assert _stored(running.service.core) == 1


def test_who_may_not_publish_is_told_so_by_the_application(running: Running) -> None:
    request = head(running, 4) + b"<a/>"
    for wrong, status in (
        (request.replace(running.service.token.encode(), b"wrong"), 401),
        (request.replace(b"127.0.0.1", b"elsewhere.example"), 421),
        (request.replace(b"streams/S/", b"streams/-S/"), 422),
        (request.replace(b"application/xml", b"text/plain"), 415),
    ):
        with connection(running) as client:
            client.sendall(wrong)
            assert one(client)[0] == status
    assert _stored(running.service.core) == 0


def test_it_is_counted_by_the_metrics(running: Running) -> None:
    with connection(running) as client:
        client.sendall(head(running, 4) + b"<a/>")
        one(client)
    told = running.http.get("/metrics").text
    route = 'method="POST",route="/v1/streams/{stream}/documents",status="202"'
    assert any(route in line and line.endswith(" 1.0") for line in told.splitlines())


def _stored(core: Core) -> int:
    return core.spool.last_seq()
