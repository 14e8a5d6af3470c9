"""The consequences of a failure: for the match, for its channel, and for a channel changed
meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.delivery import Mailbox
from broker.delivery.model import Event, Report
from tests.delivery.support import Answer, Clock, Receiver, Request, delivering, match
from tests.waiting import PATIENCE, until

SCHEDULE = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
WEEK = 7 * 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock()


def hook(mailbox: Mailbox, url: str, **more: Any) -> None:
    settings = {"url": url} | more.pop("settings", {})
    mailbox.put_channel("hook", "webhook", settings=settings, **more)


def failed(mailbox: Mailbox, count: int) -> None:
    until(lambda: mailbox.figures().failed == {"webhook": count})


def held(go: threading.Event) -> Callable[[Request], Answer]:
    """An answer that fails when it may."""

    def answer(_: Request) -> Answer:
        go.wait(PATIENCE)
        return 500, {}, b""

    return answer


@pytest.mark.parametrize("schedule", [(5, 300), ()], ids=["tried again", "given up"])
@pytest.mark.parametrize("ordered", [True, False])
def test_nothing_follows_for_a_channel_that_was_removed_meanwhile(
    mailbox: Mailbox, clock: Clock, ordered: bool, schedule: tuple[int, ...]
) -> None:
    go = threading.Event()
    with Receiver(held(go)) as receiver, delivering(mailbox, clock, schedule=schedule):
        hook(mailbox, receiver.url(), ordered=ordered)
        mailbox.take([match(0)])
        receiver.wait(1)
        mailbox.remove_channel("hook")
        go.set()
        failed(mailbox, 1)
        assert mailbox.figures().retries == 0
        assert mailbox.dead() == []
        assert mailbox.events() == []
        assert mailbox.retain(0, now=clock.now + 1) == 1, "nobody waits for the match"


@pytest.mark.parametrize("under_way", [True, False], ids=["under way", "failed"])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_channel_of_another_subscription_sends_nothing_of_the_former(
    mailbox: Mailbox, clock: Clock, ordered: bool, under_way: bool
) -> None:
    go = threading.Event()
    with (
        Receiver(held(go)) as receiver,
        Receiver() as other,
        delivering(mailbox, clock) as worker,
    ):
        hook(mailbox, receiver.url(), ordered=ordered, subscription="tides")
        mailbox.take([match(0)])
        receiver.wait(1)
        if not under_way:
            go.set()
            failed(mailbox, 1)
        hook(mailbox, other.url(), ordered=ordered, subscription="other")
        go.set()
        failed(mailbox, 1)
        assert mailbox.channel("hook").attempts == 0
        assert mailbox.figures().backlog == {"hook": 0}
        clock.seconds += WEEK
        worker.poke()
        mailbox.take([match(1, "other")])
        until(lambda: mailbox.channel("hook").cursor == 2)
        assert other.ids == [match(1, "other").id]


def test_matches_that_failed_are_sent_again_beside_each_other(
    mailbox: Mailbox, clock: Clock
) -> None:
    """A receiver that keeps one waiting does not keep the others."""
    together = threading.Barrier(3)

    def answer(_: Request) -> Answer:
        if len(receiver.requests) <= 3:
            return 500, {}, b""
        together.wait(PATIENCE)
        return 204, {}, b""

    with Receiver(answer) as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver.url(), ordered=False)
        mailbox.take([match(n) for n in range(3)])
        failed(mailbox, 3)
        clock.seconds += 10
        worker.poke()
        until(lambda: mailbox.figures().retries == 0)
        assert sorted(receiver.ids[3:]) == sorted(match(n).id for n in range(3))


def test_an_event_that_was_not_taken_waits_and_matches_go_on(
    mailbox: Mailbox, clock: Clock
) -> None:
    def answer(request: Request) -> Answer:
        return 500 if b"too many" in request.body else 204, {}, b""

    with Receiver(answer) as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver.url(), settings={"events": ["match", "subscription.suspended"]})
        mailbox.record_event("subscription.suspended", "too many")
        worker.poke()
        receiver.wait(1)
        for n in range(3):  # it may fail only after the first of them was taken
            mailbox.take([match(n)])
            until(lambda n=n: mailbox.channel("hook").cursor == n + 1)  # type: ignore[misc]
        told = [b"too many" in request.body for request in receiver.requests]
        assert told == [True, False, False, False]
        clock.seconds += 10
        worker.poke()
        assert b"too many" in receiver.wait(5)[4].body


def test_a_longer_wait_than_two_days_goes_on_after_a_restart(
    mailbox: Mailbox, clock: Clock
) -> None:
    settings: dict[str, Any] = {"schedule": (5, WEEK), "jitter": 0.5}
    with Receiver(lambda _: (500, {}, b"")) as receiver:
        hook(mailbox, receiver.url())
        with delivering(mailbox, clock, **settings) as worker:
            mailbox.take([match(0)])
            failed(mailbox, 1)
            clock.seconds += 10
            worker.poke()
            failed(mailbox, 2)
        planned = mailbox.channel("hook").next_try
        assert planned >= clock.now + WEEK * 1_000_000
        with delivering(mailbox, clock, **settings):
            assert mailbox.channel("hook").next_try == planned


def test_a_failed_resend_leaves_the_next_match_of_an_ordered_channel_waiting(
    mailbox: Mailbox, clock: Clock
) -> None:
    down = False
    with (
        Receiver(lambda _: (500 if down else 200, {}, b"")) as receiver,
        delivering(mailbox, clock) as worker,
    ):
        hook(mailbox, receiver.url())
        mailbox.take([match(0)])
        until(lambda: mailbox.channel("hook").cursor == 1)
        down = True
        mailbox.take([match(1)])
        failed(mailbox, 1)
        clock.seconds += SCHEDULE[0]
        worker.poke()
        failed(mailbox, 2)
        before = mailbox.channel("hook")
        mailbox.resend_match(match(0).id, "hook")
        failed(mailbox, 3)
        after = mailbox.channel("hook")
        assert (after.attempts, after.next_try) == (2, before.next_try)
        clock.seconds += SCHEDULE[1]
        worker.poke()
        failed(mailbox, 5)
        assert receiver.ids == [match(n).id for n in (0, 1, 1, 0, 0, 1)]
        assert mailbox.channel("hook").attempts == 3


@pytest.mark.parametrize(("ordered", "count"), [(True, 1), (False, 3)])
def test_a_clock_that_is_set_ahead_disables_no_channel_after_a_few_failures(
    mailbox: Mailbox, clock: Clock, ordered: bool, count: int
) -> None:
    """Attempts at the same time are one failure."""
    together = threading.Barrier(count)

    def answer(_: Request) -> Answer:
        together.wait(PATIENCE)
        return 500, {}, b""

    with Receiver(answer) as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver.url(), ordered=ordered)
        mailbox.take([match(n) for n in range(count)])
        for attempt in range(1, 5):
            failed(mailbox, attempt * count)
            assert mailbox.channel("hook").status == "active"
            clock.seconds += 6 * 86_400 if attempt == 2 else SCHEDULE[attempt - 1]
            worker.poke()
        until(lambda: mailbox.channel("hook").status == "disabled")


@pytest.mark.parametrize("ordered", [True, False])
def test_failures_in_a_row_are_counted_across_restarts(
    mailbox: Mailbox, clock: Clock, ordered: bool
) -> None:
    """A service that is restarted every day disables a receiver that is gone all the same."""
    with Receiver(lambda _: (500, {}, b"")) as receiver:
        hook(mailbox, receiver.url(), ordered=ordered)
        mailbox.take([match(0)])
        for attempt in range(1, 6):
            with delivering(mailbox, clock):
                failed(mailbox, attempt)
                until(lambda n=attempt: mailbox.channel("hook").failures == n)  # type: ignore[misc]
                if attempt < 5:
                    assert mailbox.channel("hook").status == "active"
                else:
                    until(lambda: mailbox.channel("hook").status == "disabled")
            clock.seconds += 6 * 86_400
        mailbox.resume_channel("hook")
        assert mailbox.channel("hook").failures == 0


def test_a_date_that_no_calendar_has_is_no_time_to_wait_for(mailbox: Mailbox, clock: Clock) -> None:
    date = "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"
    with (
        Receiver(lambda _: (503, {"Retry-After": date}, b"")) as receiver,
        delivering(mailbox, clock) as worker,
    ):
        hook(mailbox, receiver.url(), settings={"events": ["match", "subscription.suspended"]})
        assert worker.test("hook") == (False, "HTTP 503")
        mailbox.record_event("subscription.suspended", "too many")
        receiver.wait(2)
        mailbox.take([match(0)])
        failed(mailbox, 1)
        assert mailbox.channel("hook").last_error == "HTTP 503"
        assert mailbox.channel("hook").next_try == clock.now + SCHEDULE[0] * 1_000_000


def test_what_nobody_has_thought_of_is_a_failure_too(mailbox: Mailbox) -> None:
    """A port that there is not."""
    with Receiver() as receiver, delivering(mailbox) as worker:
        events = {"events": ["match", "subscription.suspended"]}
        hook(mailbox, "http://127.0.0.1:99999/", settings=events)
        well, detail = worker.test("hook")
        assert not well
        assert detail
        mailbox.record_event("subscription.suspended", "too many")
        mailbox.take([match(0)])
        failed(mailbox, 1)
        hook(mailbox, receiver.url())
        until(lambda: mailbox.channel("hook").cursor == 1)


def test_what_was_removed_before_it_was_tried_again_is_no_success_and_holds_up_nothing(
    mailbox: Mailbox,
) -> None:
    with (
        Receiver(lambda r: (500 if r.id == match(1).id else 200, {}, b"")) as receiver,
        delivering(mailbox, schedule=(3_600,)),
    ):
        hook(mailbox, receiver.url())
        mailbox.take([match(0), match(1)])
        failed(mailbox, 1)
        before = mailbox.channel("hook")
        with mailbox.db.transaction() as db:
            db.execute("INSERT INTO retry VALUES (?, 0, 1, 0)", (before.number,))
        mailbox.put_channel("reader", "pull")  # whereupon the worker looks at all of them
        until(lambda: mailbox.figures().retries == 0)
        assert mailbox.channel("hook") == before
        with mailbox.db.transaction() as db:
            db.execute("INSERT INTO retry VALUES (?, 0, 1, 0)", (before.number,))
            db.execute("INSERT INTO retry VALUES (?, 1, 1, 0)", (before.number,))
        mailbox.remove_channel("reader")
        receiver.wait(4)  # after a success the one that failed is tried again, too
        assert receiver.ids[:4] == [match(n).id for n in (0, 1, 0, 1)]


def test_reports_that_a_bug_kept_from_being_written_are_logged_and_others_go_on(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [ZeroDivisionError("of ours")]
    apply_reports = mailbox.apply_reports

    def faulty(reports: Sequence[Report]) -> list[Event]:
        if faults:
            raise faults.pop()
        return apply_reports(reports)

    monkeypatch.setattr(mailbox, "apply_reports", faulty)
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, receiver.url())
        mailbox.take([match(0)])
        until(lambda: "1 reports of deliveries were not written" in caplog.text)
        assert "of ours" in caplog.text
        mailbox.take([match(1)])
        until(lambda: mailbox.channel("hook").cursor == 2)
        assert receiver.ids == [match(0).id, match(1).id]


def test_channels_that_are_gone_leave_nothing_in_memory(mailbox: Mailbox, tmp_path: Path) -> None:
    with delivering(mailbox) as worker:
        for n in range(5):
            mailbox.put_channel(f"file{n}", "file", settings={"path": str(tmp_path / f"{n}")})
        until(lambda: len(worker._runners) == 5)
        for n in range(5):
            mailbox.remove_channel(f"file{n}")
        until(lambda: not worker._runners)
