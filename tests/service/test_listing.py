"""Lists of very many subscriptions: in one response, complete, and without delaying others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.registered import Registered, Status
from broker.service.api.common import PageSizes
from broker.service.service import Service
from tests.service.api_harness import Running, lines, serving
from tests.waiting import PATIENCE

NDJSON = {"Accept": "application/x-ndjson"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With 25 subscriptions, which are read ten at a time."""
    with serving(tmp_path_factory.mktemp("state"), sizes=PageSizes(listed=10)) as running:
        texts = [f"{'ab'[n % 2]}-{n:02}: SELECT t FROM S//a[./t->t];" for n in range(25)]
        assert running.subscribe(" ".join(texts)).status_code == 201
        put = {"throttle": {"variable": "t", "period": "1 h"}}
        assert running.subscribe("a-00: SELECT t FROM S//a[./t->t];", **put).status_code == 201
        assert running.http.post("/v1/subscriptions/b-03/pause").status_code == 200
        yield running


def test_all_come_in_one_answer_as_lines(running: Running) -> None:
    answer = running.http.get("/v1/subscriptions", headers=NDJSON, params={"limit": 3})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    found = lines(answer)
    page = running.http.get("/v1/subscriptions", params={"limit": 1_000}).json()
    assert found == page
    assert [each["id"] for each in found] == sorted(f"{'ab'[n % 2]}-{n:02}" for n in range(25))
    assert found[0]["throttle"]["period"] == "1 h"


def test_each_is_as_it_is_when_asked_for_alone(running: Running) -> None:
    """With all that a subscription may have, and in the order of the description."""
    text = "z-full: SELECT t FROM S//a[./t->t];"
    limit = {"matches": 5, "period": "1 min"}
    put = {"limit": limit, "throttle": {"variable": "t", "period": "90 s"}}
    assert running.subscribe(text, **put).status_code == 201
    for change in ("pause", "resume", "pause"):
        assert running.http.post(f"/v1/subscriptions/z-full/{change}").status_code == 200
    (found,) = lines(running.http.get("/v1/subscriptions", headers=NDJSON, params={"prefix": "z-"}))
    alone = running.http.get("/v1/subscriptions/z-full").json()
    assert (found, [*found]) == (alone, [*alone])
    assert [gap["to_doc"] is None for gap in found["gaps"]] == [False, True]
    assert (found["limit"], found["throttle"]["period"]) == (limit, "90 s")
    assert running.http.delete("/v1/subscriptions/z-full").status_code == 204


def test_who_goes_away_while_the_next_page_is_read_breaks_nothing(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = running.service.subscriptions.page
    asked, go_on = threading.Event(), threading.Event()

    def slow(status: Status | None, prefix: str, after: str, limit: int) -> list[Registered]:
        if after:
            asked.set()
            assert go_on.wait(PATIENCE)
        return page(status, prefix, after, limit)

    with monkeypatch.context() as patched:
        patched.setattr(running.service.subscriptions, "page", slow)
        with running.http.stream("GET", "/v1/subscriptions", headers=NDJSON) as answer:
            pieces = answer.iter_bytes()
            first = next(pieces)
            assert asked.wait(PATIENCE)
        go_on.set()
    # The first page came while the second was read.
    assert first.count(b'"id"') == 10
    assert len(lines(running.http.get("/v1/subscriptions", headers=NDJSON))) == 25


def test_lines_may_be_of_a_prefix_of_a_status_and_behind_an_id(running: Running) -> None:
    def ids(**params: str) -> list[str]:
        answer = running.http.get("/v1/subscriptions", headers=NDJSON, params=params)
        return [each["id"] for each in lines(answer)]

    assert ids(prefix="b-") == [f"b-{n:02}" for n in range(1, 25, 2)]
    assert ids(prefix="b-", after="b-19") == ["b-21", "b-23"]
    assert ids(status="paused") == ["b-03"]
    assert ids(prefix="none") == []


@contextmanager
def _busy(service: Service) -> Iterator[None]:
    """The engine is at work, as in a long batch."""
    began, done = threading.Event(), threading.Event()

    def work() -> None:
        with service.lock:
            began.set()
            done.wait()

    worker = threading.Thread(target=work)
    worker.start()
    began.wait()
    try:
        yield
    finally:
        done.set()
        worker.join()


@pytest.mark.parametrize("headers", [NDJSON, {}])
def test_who_lists_does_not_wait_for_the_engine(running: Running, headers: dict[str, str]) -> None:
    with _busy(running.service):
        answer = running.http.get(
            "/v1/subscriptions", headers=headers, params={"limit": 100}, timeout=30
        )
    assert answer.text.count('"id"') == 25


def test_what_was_changed_is_in_the_next_list(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        for n in range(20):
            running.subscribe(f"s{n}: SELECT t FROM S//a[./t->t];")
            assert len(lines(running.http.get("/v1/subscriptions", headers=NDJSON))) == n + 1
