"""Bulk changes of very many subscriptions have the same results as single ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.service.bulk import Selection
from tests.service.api_harness import Running, problem, serving
from tests.waiting import until

QUERY = "SELECT t FROM S//a[./t->t]"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """With news-0 to news-4 and one other."""
    with serving(tmp_path / "state") as running:
        texts = [f"news-{n}: {QUERY};" for n in range(5)]
        assert running.subscribe(" ".join([*texts, f"blog: {QUERY};"])).status_code == 201
        yield running


def changed(running: Running, what: str, **body: Any) -> dict[str, Any]:
    answer = running.http.post(f"/v1/subscriptions/{what}", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def listed(running: Running) -> dict[str, dict[str, Any]]:
    found = running.http.get("/v1/subscriptions").json()
    return {each["id"]: each for each in found}


def publish(running: Running, id: str) -> None:
    answer = running.publish({"id": id, "xml": f"<a><t>{id}</t></a>"})
    last = answer.json()["last"]
    until(lambda: running.service.core.position >= last)


def found(running: Running) -> set[tuple[str, str]]:
    """Selection subscription has found which document."""

    def matches() -> set[tuple[str, str]]:
        return {(each["query"], each["documents"][0]["id"]) for each in running.matches()}

    with running.service.lock:
        running.service.core.empty_outbox()
    return matches()


def test_those_of_a_prefix_are_paused_and_resumed_from_one_document_on(running: Running) -> None:
    publish(running, "one")
    running.http.post("/v1/subscriptions/news-3/pause")
    reply = changed(running, "pause", prefix="news-")
    assert reply == {
        "changed": ["news-0", "news-1", "news-2", "news-4"],
        "unchanged": 1,
        "unknown": [],
        "left": 0,
        "last": "news-4",
        "first_doc": 2,
    }
    publish(running, "two")
    publish(running, "three")
    reply = changed(running, "resume", prefix="news-")
    assert (len(reply["changed"]), reply["first_doc"]) == (5, 4)
    publish(running, "four")
    news = {(f"news-{n}", id) for n in range(5) for id in ("one", "four")}
    assert found(running) == news | {("blog", id) for id in ("one", "two", "three", "four")}
    for id, each in listed(running).items():
        gaps = [(gap["first_doc"], gap["to_doc"], gap["status"]) for gap in each["gaps"]]
        assert gaps == ([] if id == "blog" else [(2, 4, "paused")])
        assert each["status"] == "active"


def test_as_many_as_asked_for_are_changed_and_the_next_request_goes_on(running: Running) -> None:
    first = changed(running, "pause", prefix="news-", limit=2)
    assert (first["changed"], first["left"]) == (["news-0", "news-1"], 3)
    second = changed(running, "pause", prefix="news-", limit=2, after=first["last"])
    assert (second["changed"], second["left"]) == (["news-2", "news-3"], 1)
    assert [id for id, each in listed(running).items() if each["status"] == "active"] == [
        "blog",
        "news-4",
    ]


def test_those_of_a_list_are_changed_and_unknown_ids_named(running: Running) -> None:
    reply = changed(running, "pause", ids=["blog", "none", "news-2", "blog"])
    assert (reply["changed"], reply["unknown"]) == (["blog", "news-2"], ["none"])
    reply = changed(running, "unsubscribe", ids=["blog", "none", "news-2", "blog"])
    assert (reply["changed"], reply["unknown"]) == (["blog", "news-2"], ["none"])
    assert [*listed(running)] == ["news-0", "news-1", "news-3", "news-4"]


def test_a_dry_run_changes_nothing(running: Running) -> None:
    running.http.post("/v1/subscriptions/news-1/pause")
    assert changed(running, "resume", prefix="news-", dry_run=True)["changed"] == ["news-1"]
    reply = changed(running, "pause", prefix="news-", dry_run=True)
    assert (len(reply["changed"]), reply["unchanged"]) == (4, 1)
    assert len(changed(running, "unsubscribe", prefix="", dry_run=True)["changed"]) == 6
    assert len(listed(running)) == 6


@pytest.mark.parametrize(
    "body", [{}, {"ids": ["blog"], "prefix": "news-"}, {"prefix": "n", "limit": 0}, {"ids": "blog"}]
)
def test_which_subscriptions_are_meant_must_be_clear(
    running: Running, body: dict[str, Any]
) -> None:
    for what in ("pause", "resume", "unsubscribe"):
        problem(running.http.post(f"/v1/subscriptions/{what}", json=body), 422, "invalid")
    assert len(listed(running)) == 6


def test_what_dropped_ones_have_found_is_delivered_or_dropped(running: Running) -> None:
    for n in range(5):
        put = {"kind": "pull", "subscription": f"news-{n}"}
        assert running.http.put(f"/v1/channels/p{n}", json=put).is_success
    publish(running, "one")
    changed(running, "unsubscribe", ids=["news-0", "news-1"])
    changed(running, "unsubscribe", prefix="news-", pending="drop")
    assert found(running) == {(id, "one") for id in ("blog", "news-0", "news-1")}
    assert [each["name"] for each in running.http.get("/v1/channels").json()] == ["p0", "p1"]
    assert [*listed(running)] == ["blog"]


def test_a_drop_of_many_that_was_cut_off_is_finished_when_it_is_asked_for_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has committed, and the mailbox has not been told."""
    publish(running, "one")

    def aborted(*_: object) -> None:
        raise ConnectionAbortedError

    monkeypatch.setattr(running.service.mailbox, "drop_all", aborted)
    with pytest.raises(ConnectionAbortedError):
        running.service.bulk.change("unsubscribe", Selection(prefix="news-"), pending="drop")
    monkeypatch.undo()
    assert [*listed(running)] == ["blog"]
    reply = changed(running, "unsubscribe", prefix="news-", pending="drop")
    assert reply["changed"] == [f"news-{n}" for n in range(5)]
    assert found(running) == {("blog", "one")}
    assert changed(running, "unsubscribe", prefix="news-")["changed"] == []


def test_all_of_a_request_is_done_or_nothing_of_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(running, "one")
    gaps = running.service.engine.registry.gaps

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(gaps, "open", full)
    with pytest.raises(OSError, match="no space"):
        running.service.bulk.change("pause", Selection(prefix="news-"))
    monkeypatch.undo()
    publish(running, "two")
    assert found(running) == {
        (id, doc) for id in [f"news-{n}" for n in range(5)] + ["blog"] for doc in ("one", "two")
    }


def test_they_are_paused_and_resumed_after_a_restart_too(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.subscribe(" ".join(f"news-{n}: {QUERY};" for n in range(3)))
        changed(running, "pause", prefix="news-")
    with serving(tmp_path) as running:
        publish(running, "one")
        assert len(changed(running, "resume", prefix="news-")["changed"]) == 3
        publish(running, "two")
        assert found(running) == {(f"news-{n}", "two") for n in range(3)}
