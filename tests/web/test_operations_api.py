"""What the page asks for beside what was there: the course, settings, sharing, ready questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.drafts import DRAFTS
from broker.service.course import Course, Look
from broker.service.feeds import SAMPLES
from broker.service.metrics import Metrics
from tests.service.api_harness import Running, problem, serving
from tests.waiting import until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    state = tmp_path_factory.mktemp("operations") / "state"
    with serving(state, server__metrics_token="hidden-for-all-who-look") as running:
        running.subscribe((SAMPLES / "demo.xscl").read_text()).raise_for_status()
        running.subscribe("again: S//item[./guid->g]; more: S//item[./guid->g]")
        yield running


def test_the_course_adds_up_and_goes_from_hours_to_days() -> None:
    accepted = iter(range(0, 10_000, 5))
    clock = iter(range(0, 10_000 * 10_000_000, 10_000_000))
    course = Course(
        Metrics(), lambda: Look((n := next(accepted)) and next(clock), n, n - n % 3, n % 7, 1, 2, 3)
    )
    for _ in range(1_000):
        course.observe_batch({"stage 1": 0.5}, 5, 2)
        course.observe_latency(0.25)
        course.sample()
    hour, day = course.points("hour"), course.points("day")
    assert len(hour) == 360
    assert 30 <= len(day) <= 34
    assert [each.at for each in day] == sorted(each.at for each in day)
    last = hour[-1]
    assert (last.accepted, last.matches, last.batches) == (5, 2, 1)
    assert last.stages == {"stage 1": 0.5}
    whole = day[3]
    assert (whole.accepted, whole.matches, whole.waited) == (150, 60, 7.5)
    assert whole.stages == {"stage 1": 15.0}
    assert whole.backlog == 6
    assert sum(each.accepted for each in day) == sum(each.seconds for each in day) // 2


def test_the_course_of_a_service(running: Running) -> None:
    running.service.course.sample()
    running.match("A title")
    running.service.course.sample()
    point = running.http.get("/v1/course").json()[-1]
    assert point["accepted"] == 2
    assert point["memory"] > 1_000_000
    assert running.http.get("/v1/course", params={"span": "day"}).json()
    problem(running.http.get("/v1/course", params={"span": "year"}), 422, "invalid")


def test_settings_are_shown_without_secrets(running: Running) -> None:
    found = {each["name"]: each for each in running.http.get("/v1/settings").json()}
    assert found["server.metrics_token"] == {
        "name": "server.metrics_token",
        "value": "********",
        "changed": True,
    }
    assert found["server.port"] == {"name": "server.port", "value": 8321, "changed": False}
    assert "hidden-for-all" not in running.http.get("/v1/settings").text


def test_logs_are_read_backwards(running: Running) -> None:
    newest = running.http.get("/v1/changes", params={"before": 2**63 - 1, "limit": 1}).json()
    assert newest[0]["action"] == "subscribe"
    forwards = running.http.get("/v1/changes").json()
    backwards = running.http.get("/v1/changes", params={"before": 2**63 - 1}).json()
    assert backwards == forwards[::-1]
    assert running.http.get("/v1/changes", params={"action": "backup"}).json() == []
    for n in range(5):
        running.service.mailbox.record_event("subscription.suspended", f"event {n}")
    forwards = running.http.get("/v1/events").json()
    before = {"before": forwards[-1]["number"], "limit": 3}
    assert running.http.get("/v1/events", params=before).json() == forwards[-2:-5:-1]
    problem(running.http.get("/v1/events", params={"before": 3, "after": 1}), 422, "invalid")


def test_what_is_shared(running: Running) -> None:
    found = running.http.get("/v1/sharing").json()
    assert found["subscriptions"] == 12
    assert found["patterns"] == 2
    shared = next(each for each in found["templates"] if "again" in each["examples"])
    assert "more" in shared["examples"]
    assert shared["queries"] < shared["subscriptions"]
    pair = next(each for each in found["templates"] if "discussed" in each["examples"])
    assert pair["blocks"] == 2
    (join,) = pair["joins"]
    assert (join["operator"], join["left"], join["right"]) == ("FOLLOWED BY", [0], [1])
    assert join["equalities"] == 1
    assert found["states"] == running.service.engine.registry.stage1.states()
    assert found["states"] < found["steps"]
    labels = [each["label"] for each in found["paths"]]
    assert labels[0] == "S"
    assert {"//item", "/item_url"} <= set(labels)
    assert found["paths"][0]["states"] <= found["states"]


def test_matches_are_counted_by_the_day(running: Running) -> None:
    for n in range(3):
        running.match(f"Counted {n}", "item", f"<guid>{n}</guid>")
    names = ["discussed", "again"]
    until(lambda: len(running.matches(subscription="again")) == 3)
    found = running.http.get("/v1/matches/days", params={"subscription": names, "days": 3}).json()
    assert [each["subscription"] for each in found] == names
    assert found[0]["days"] == [0, 0, 0]
    assert sum(found[1]["days"]) == found[1]["days"][-1] == 3
    assert not found[1]["more"]
    problem(running.http.get("/v1/matches/days"), 422, "invalid")


def test_a_check_tells_the_price(running: Running) -> None:
    running.match("A price")
    text = "one: S//book[./title->t] JOIN {t = u} S//book[./title->u]; two: Nowhere//book"
    one, two = running.http.post("/v1/check", json={"text": text}).json()["queries"]
    assert one["price"]["candidates"] > 0
    assert len(one["price"]["documents"]) == 2
    assert one["price"]["grows"]
    assert not one["price"]["unjoined"]
    assert two["price"] is None


def test_every_ready_question_is_written_and_may_be_checked(running: Running) -> None:
    given = {"first": "Orders//order", "second": "Invoices//invoice", "value": "@id"}
    given |= {"value2": "order", "keyword": "tide"}
    for draft in running.http.get("/v1/drafts").json():
        answers = {
            each["name"]: given[each["name"]]
            for each in draft["questions"]
            if each["default"] is None
        }
        reply = running.http.post(f"/v1/drafts/{draft['name']}", json={"answers": answers})
        text = reply.raise_for_status().json()["text"]
        checked = running.http.post("/v1/check", json={"text": text}).json()
        assert [each["id"] for each in checked["queries"]] == [draft["name"]]
    assert len(DRAFTS) == len(running.http.get("/v1/drafts").json())
    problem(running.http.post("/v1/drafts/none", json={}), 404, "not-found")
    for wrong in ({"within": "soon"}, {"wthin": "2 days"}):
        told = problem(
            running.http.post("/v1/drafts/same-link", json={"answers": wrong}), 422, "invalid"
        )
        assert min(wrong) in told["detail"]
