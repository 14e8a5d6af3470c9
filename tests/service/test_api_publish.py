"""Publishing by the API: accepted, refused and known documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from feeds.spool import last_seq
from tests.service.api_harness import Running, problem, serving
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


def test_a_document_is_published_with_what_its_headers_say(running: Running) -> None:
    answer = running.http.post(
        "/v1/streams/S/documents",
        content="<book/>",
        headers={
            b"Content-Type": b"application/xml",
            b"Document-Id": "Ærø 1".encode(),
            b"Document-Timestamp": b"2026-10-05T06:40:00Z",
        },
    )
    assert answer.status_code == 202
    assert answer.json() == {
        "accepted": 1,
        "known": 0,
        "first": 1,
        "last": 1,
        "ids": ["Ærø 1"],
    }
    (row,) = running.service.spool.read(0, 1)
    assert (row.source, row.id, row.streams) == ("post:S", "Ærø 1", ("S",))
    assert (row.timestamp, row.dated, row.xml) == (1_791_182_400_000_000, True, b"<book/>")


def test_an_accepted_document_is_on_the_disk(running: Running) -> None:
    answer = running.publish({"id": "d1", "xml": "<book/>"}, {"id": "d2", "xml": "<blog/>"})
    assert answer.json() == {
        "accepted": 2,
        "known": 0,
        "first": 1,
        "last": 2,
        "ids": ["d1", "d2"],
    }
    assert last_seq(running.service.state / "spool.sqlite") == 2


def test_a_wrong_line_is_named_and_nothing_is_published(running: Running) -> None:
    body = b'{"id": "d1", "xml": "<book/>"}\n\n{"id": "d2", "xml": 3}\n'
    answer = running.http.post(
        "/v1/streams/S/documents", content=body, headers={"Content-Type": "application/x-ndjson"}
    )
    details = problem(answer, 422, "invalid")
    assert details["detail"].startswith("line 3:")
    assert details["errors"][0]["line"] == 3
    assert running.service.spool.last_seq() == 0


def test_a_key_makes_a_request_repeatable(running: Running) -> None:
    first = running.publish({"xml": "<a/>"}, {"xml": "<b/>"}, **{"Idempotency-Key": "k"}).json()
    again = running.publish({"xml": "<a/>"}, {"xml": "<b/>"}, **{"Idempotency-Key": "k"}).json()
    assert first["ids"] == again["ids"]
    assert len(set(first["ids"])) == 2
    one = running.publish({"xml": "<a/>"}).json()["ids"]
    assert one != running.publish({"xml": "<a/>"}).json()["ids"]


def test_the_charset_of_the_header_counts(running: Running) -> None:
    headers = {"Content-Type": "text/xml; charset=iso-8859-1"}
    body = '<?xml version="1.0" encoding="utf-8"?><t>Ærø</t>'.encode("latin-1")
    assert running.http.post("/v1/streams/S/documents", content=body, headers=headers).is_success
    (row,) = running.service.spool.read(0, 1)
    assert row.xml == "<t>Ærø</t>".encode()
    headers = {"Content-Type": "text/xml; charset=klingon"}
    answer = running.http.post("/v1/streams/S/documents", content=body, headers=headers)
    problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, b"<a/>", 415, "unsupported-media-type"),
        ({}, b"<a/>", 415, "unsupported-media-type"),
        (
            {"Content-Type": "application/xml", "Content-Encoding": "gzip"},
            b"<a/>",
            415,
            "unsupported-media-type",
        ),
        ({"Content-Type": "application/xml"}, b"", 422, "invalid"),
        ({"Content-Type": "application/x-ndjson"}, b" \n\n", 422, "invalid"),
        (
            {"Content-Type": "application/xml", "Document-Timestamp": "soon"},
            b"<a/>",
            422,
            "invalid",
        ),
        (
            {"Content-Type": "application/xml", "Document-Revision": "maybe"},
            b"<a/>",
            422,
            "invalid",
        ),
        ({"Content-Type": "application/xml", "Document-Id": b"\xff"}, b"<a/>", 422, "invalid"),
    ],
)
def test_what_cannot_be_published(
    shared: Running, headers: dict[str, Any], content: bytes, status: int, code: str
) -> None:
    answer = shared.http.post("/v1/streams/S/documents", content=content, headers=headers)
    problem(answer, status, code)
    assert shared.service.spool.last_seq() == 0


def test_a_stream_has_a_name_that_a_query_can_say(running: Running) -> None:
    problem(running.publish({"xml": "<a/>"}, stream="1%202"), 422, "invalid")
    assert running.publish({"xml": "<a/>"}, stream="news.Ærø").is_success


def test_a_large_body_is_refused_whether_its_length_is_told_or_not(tmp_path: Path) -> None:
    with serving(tmp_path / "state", server__max_body="1 kB") as running:
        headers = {"Content-Type": "application/xml"}
        body = b"<a>" + b"x" * 2_000 + b"</a>"
        answer = running.http.post("/v1/streams/S/documents", content=body, headers=headers)
        problem(answer, 413, "too-large")
        answer = running.http.post("/v1/streams/S/documents", content=iter([body]), headers=headers)
        problem(answer, 413, "too-large")
        answer = running.http.post(
            "/v1/subscriptions",
            content=iter([b'{"text": "', body, b'"}']),
            headers={"Content-Type": "application/json"},
        )
        problem(answer, 413, "too-large")
        assert running.service.spool.last_seq() == 0
        assert running.publish({"xml": "<a/>"}).is_success


def test_a_full_backlog_sends_publishers_away_for_a_while(tmp_path: Path) -> None:
    with serving(tmp_path / "state", intake__max_backlog=1) as running:
        with running.service.lock:  # the pipeline waits
            assert running.publish({"xml": "<a/>"}, {"xml": "<b/>"}).status_code == 202
            answer = running.publish({"id": "refused", "xml": "<c/>"})
            problem(answer, 429, "backlog-full")
            assert int(answer.headers["retry-after"]) >= 1
        assert running.service.spool.last_seq() == 2


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    with serving(tmp_path / "state", intake__min_free="900 TB") as running:
        problem(running.publish({"xml": "<a/>"}), 507, "disk-full")
        ready = running.http.get("/health/ready")
        assert ready.status_code == 503
        assert [reason["code"] for reason in ready.json()["reasons"]] == ["disk-full"]


# -- what is known already -------------------------------------------------------------------------


def matched(running: Running) -> None:
    """All that was published so far."""
    until(lambda: running.http.get("/v1/status").json()["intake"]["backlog"] == 0)


def known(running: Running, *documents: Mapping[str, object], **more: str) -> int:
    answer = running.publish(*documents, **more)
    assert answer.status_code == 202, answer.text
    assert answer.json()["accepted"] == len(documents)
    return int(answer.json()["known"])


def test_what_is_known_is_told_whether_it_was_matched_or_waits(running: Running) -> None:
    running.subscribe("keep: S//a FOLLOWED BY {7 days} S//b")
    one, two = {"id": "1", "xml": "<a/>"}, {"id": "2", "xml": "<b/>"}
    assert known(running, one) == 0
    matched(running)
    assert known(running, one, two) == 1
    assert known(running, two, one, two) == 3
    with running.service.lock:  # so that nothing is matched meanwhile
        assert known(running, {"id": "3", "xml": "<a/>"}) == 0
        assert known(running, {"id": "3", "xml": "<a/>"}) == 1
        assert known(running, {"id": "4", "xml": "<a/>"}, {"id": "4", "xml": "<a/>"}) == 1
    matched(running)
    found = running.matches()
    assert [[document["id"] for document in match["documents"]] for match in found] == [["1", "2"]]


def test_what_is_new_all_the_same(running: Running) -> None:
    one = {"id": "1", "xml": "<a/>"}
    assert known(running, one) == 0
    matched(running)
    assert known(running, {**one, "source": "other"}) == 0
    assert known(running, one, stream="T") == 0  # ids are those of their stream's source
    assert known(running, {**one, "revision": True}) == 0
    assert known(running, {"xml": "<a/>"}, {"xml": "<a/>"}) == 0
    assert known(running, {"xml": "<a/>"}, **{"Idempotency-Key": "k"}) == 0
    matched(running)
    assert known(running, {"xml": "<a/>"}, **{"Idempotency-Key": "k"}) == 1


def test_what_was_kept_aside_may_be_published_again_under_its_id(running: Running) -> None:
    assert known(running, {"id": "1", "xml": "<a"}) == 0
    matched(running)
    assert len(running.http.get("/v1/dead-letters").json()) == 1
    assert known(running, {"id": "1", "xml": "<a/>"}) == 0
    matched(running)
    assert known(running, {"id": "1", "xml": "<a/>"}) == 1


def test_a_revision_that_was_kept_aside_is_sent_again_as_one(running: Running) -> None:
    known(running, {"id": "1", "xml": "<a/>"})
    known(running, {"id": "1", "xml": "<a", "revision": True})
    matched(running)
    (letter,) = running.http.get("/v1/dead-letters").json()
    running.http.post(f"/v1/dead-letters/{letter['number']}/resubmit").raise_for_status()
    matched(running)
    (again,) = running.http.get("/v1/dead-letters").json()  # torn as it was, and not lost
    assert (again["id"], again["xml"]) == ("1", "<a")
    assert again["number"] > letter["number"]


def test_what_is_known_stays_so_over_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as running:
        assert known(running, {"id": "1", "xml": "<a/>"}) == 0
        matched(running)
    with serving(tmp_path / "state") as running:
        assert known(running, {"id": "1", "xml": "<a/>"}, {"id": "2", "xml": "<a/>"}) == 1
