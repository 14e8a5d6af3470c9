"""Webhooks whose receivers fail: the schedule of attempts, order, giving up, a clock that is set back."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from broker.delivery import Event, Mailbox
from broker.delivery.model import Failed, Report
from broker.delivery.reports import Reports
from tests.delivery.support import (
    Answer,
    Clock,
    Receiver,
    Request,
    always,
    delivering,
    match,
    tried,
)
from tests.delivery.test_webhook import hook
from tests.waiting import PATIENCE, until


@pytest.fixture
def clock() -> Clock:
    return Clock()


SCHEDULE = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)


def test_a_failing_receiver_is_tried_by_the_schedule_for_days_then_given_up(
    mailbox: Mailbox, clock: Clock
) -> None:
    failing = True
    events: list[Event] = []

    def answer(_: Request) -> Answer:
        return (500, {}, b"out of order\nand more") if failing else (200, {}, b"")

    with (
        Receiver(answer) as receiver,
        delivering(mailbox, clock, events.append, disable_after=30 * 86_400) as worker,
    ):
        hook(mailbox, receiver)
        mailbox.take([match(0), match(1)])
        for attempt, delay in enumerate(SCHEDULE, 1):
            receiver.wait(attempt)
            until(tried(mailbox, "hook", attempt))
            channel = mailbox.channel("hook")
            assert channel.next_try == clock.now + delay * 1_000_000
            assert channel.last_error == "HTTP 500: out of order and more"
            assert len(receiver.requests) == attempt
            clock.seconds += delay - 1  # not yet
            worker.poke()
            clock.seconds += 1
            worker.poke()
        receiver.wait(len(SCHEDULE) + 1)
        until(lambda: mailbox.dead())
        assert {request.id for request in receiver.requests[:10]} == {match(0).id}
        (letter,) = mailbox.dead()
        assert (letter.match_id, letter.attempts, letter.channel) == (match(0).id, 10, "hook")
        until(lambda: [event.kind for event in events] == ["delivery.dead"])
        assert mailbox.channel("hook").status == "active"

        failing = False
        clock.seconds += 300
        worker.poke()
        until(lambda: mailbox.channel("hook").cursor == 2)
        assert receiver.ids[-1] == match(1).id
        until(lambda: mailbox.channel("hook").failing_since is None)
        until(lambda: [e.kind for e in mailbox.events()] == ["delivery.dead", "channel.recovered"])

        assert mailbox.resend() == 1, "by hand, after the ones behind it"
        until(lambda: receiver.ids[-1] == match(0).id)
        until(lambda: mailbox.figures().retries == 0)
        assert mailbox.dead() == []
        assert mailbox.figures().delivered == {"webhook": 2}
        assert mailbox.figures().given_up == {"webhook": 1}


def test_jitter_stretches_delays(mailbox: Mailbox, clock: Clock) -> None:
    with Receiver(lambda _: (500, {}, b"")) as receiver, delivering(mailbox, clock, jitter=0.5):
        for n in range(12):
            hook(mailbox, receiver, f"hook{n}")
        mailbox.take([match(0)])
        until(lambda: all(c.attempts == 1 for c in mailbox.channels()))
        delays = {channel.next_try - clock.now for channel in mailbox.channels()}
        assert len(delays) > 6
        assert all(5_000_000 <= delay <= 7_500_000 for delay in delays)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304, 400, 401, 404, 418, 502])
def test_anything_but_success_is_failure_and_redirects_are_not_followed(
    mailbox: Mailbox, clock: Clock, status: int
) -> None:
    with Receiver() as other:
        headers = {"Location": other.url()}
        with (
            Receiver(lambda _: (status, headers, b"")) as receiver,
            delivering(mailbox, clock),
        ):
            hook(mailbox, receiver)
            mailbox.take([match(0)])
            until(lambda: mailbox.channel("hook").attempts == 1)
            assert mailbox.channel("hook").cursor == 0
            assert str(status) in (mailbox.channel("hook").last_error or "")
        assert not other.requests


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_every_2xx_is_success(mailbox: Mailbox, status: int) -> None:
    with Receiver(lambda _: (status, {}, b"")) as receiver, delivering(mailbox):
        hook(mailbox, receiver)
        mailbox.take([match(0)])
        until(lambda: mailbox.channel("hook").cursor == 1)
        assert len(receiver.requests) == 1


def test_410_disables_at_once_and_resuming_loses_nothing(mailbox: Mailbox, clock: Clock) -> None:
    gone = True
    events: list[Event] = []
    with (
        Receiver(lambda _: (410 if gone else 200, {}, b"moved out")) as receiver,
        delivering(mailbox, clock, events.append) as worker,
    ):
        hook(mailbox, receiver)
        mailbox.take([match(0)])
        until(lambda: mailbox.channel("hook").status == "disabled")
        channel = mailbox.channel("hook")
        assert channel.cursor == 0
        assert "wants nothing more: HTTP 410: moved out" in (channel.reason or "")
        until(lambda: [event.kind for event in events] == ["channel.gone"])
        clock.seconds += 86_400
        mailbox.take([match(1)])
        worker.poke()
        gone = False
        assert len(receiver.requests) == 1
        mailbox.resume_channel("hook")
        until(lambda: mailbox.channel("hook").cursor == 2)
        assert receiver.ids == [match(n).id for n in (0, 0, 1)]


def test_days_of_nothing_but_failure_disable_and_the_owner_is_told_elsewhere(
    mailbox: Mailbox, clock: Clock
) -> None:
    with (
        Receiver(lambda _: (503, {}, b"")) as receiver,
        Receiver() as owner,
        delivering(mailbox, clock) as worker,
    ):
        hook(mailbox, receiver, subscription="tides")
        hook(mailbox, owner, "owner", settings={"events": ["channel.disabled"]})
        mailbox.take([match(0), match(1)])
        while mailbox.channel("hook").status == "active":
            until(
                lambda: (
                    mailbox.channel("hook").next_try > clock.now
                    or mailbox.channel("hook").status != "active"
                )
            )
            clock.seconds = max(clock.seconds, mailbox.channel("hook").next_try / 1_000_000)
            worker.poke()
        (request,) = owner.wait(1)
        reply = json.loads(request.body)
        assert reply["type"] == "channel.disabled"
        assert reply["data"]["channel"] == "hook"
        assert "nothing but failures for 5." in reply["data"]["text"]
        assert mailbox.channel("hook").cursor == 1, "the second waits for whoever resumes it"
        until(lambda: mailbox.channel("owner").cursor == mailbox.last())


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed(mailbox: Mailbox, clock: Clock, status: int) -> None:
    later = format_datetime(datetime.fromtimestamp(clock.seconds + 7_200, UTC), usegmt=True)
    forms = (("3600", 3_600), (later, 7_200), ("1", 5), ("soon", 5), ("9" * 400, 86_400))
    for asked, seconds in forms:
        answer = (status, {"Retry-After": asked}, b"")
        with Receiver(always(answer)) as receiver, delivering(mailbox, clock) as worker:
            hook(mailbox, receiver, ordered=False)
            mailbox.take([match(seconds + len(asked))])
            until(lambda: mailbox.figures().retries == 1)
            (row,) = mailbox.db.rows("SELECT next_try FROM retry")
            assert row[0] == clock.now + seconds * 1_000_000, asked
            if seconds > 5:  # the whole channel waits, not only this match
                mailbox.take([match(seconds + len(asked) + 1)])
                clock.seconds += seconds - 10
                worker.poke()
                mailbox.put_channel("other", "webhook", settings={"url": receiver.url("/other")})
                mailbox.take([match(seconds + len(asked) + 2)])
                receiver.wait(2)
                assert [r.path for r in receiver.requests] == ["/hook", "/other"]
                mailbox.remove_channel("other")
                clock.seconds -= seconds - 10
        mailbox.remove_channel("hook")


def test_an_unordered_channel_goes_on_past_a_match_that_fails(
    mailbox: Mailbox, clock: Clock
) -> None:
    poison, healed = match(1).id, False

    def answer(request: Request) -> Answer:
        return (422 if request.id == poison and not healed else 200, {}, b"")

    with Receiver(answer) as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver, ordered=False)
        mailbox.take([match(n) for n in range(20)])
        until(lambda: mailbox.channel("hook").cursor == 20)
        receiver.wait(20)
        until(lambda: mailbox.figures().retries == 1)
        assert sorted(receiver.ids) == sorted(match(n).id for n in range(20))
        healed = True
        clock.seconds += 5
        worker.poke()
        until(lambda: mailbox.figures().retries == 0)
        assert receiver.ids[-1] == poison
        assert mailbox.channel("hook").delivered == 20


@pytest.mark.parametrize(("ordered", "most"), [(False, 8), (True, 1)])
def test_a_receiver_has_so_many_matches_at_once_and_no_more(
    mailbox: Mailbox, clock: Clock, ordered: bool, most: int
) -> None:
    go = threading.Event()

    def answer(_: Request) -> Answer:
        go.wait(PATIENCE)
        return 200, {}, b""

    receivers = (Receiver(answer), Receiver())
    with receivers[0] as slow, receivers[1] as quick, delivering(mailbox, clock, per_host=40):
        hook(mailbox, slow, "slow", ordered=ordered)
        mailbox.take([match(n) for n in range(20)])
        slow.wait(most)
        hook(mailbox, quick, "quick", ordered=False)
        mailbox.take([match(n) for n in range(20, 40)])
        until(lambda: mailbox.channel("quick").cursor == 40)
        assert len(slow.requests) == most
        go.set()
        until(lambda: mailbox.channel("slow").cursor == 40)


def test_an_ordered_channel_waits_for_a_match_that_fails(mailbox: Mailbox, clock: Clock) -> None:
    failures = 2

    def answer(request: Request) -> Answer:
        nonlocal failures
        if request.id == match(1).id and failures:
            failures -= 1
            return 500, {}, b""
        return 200, {}, b""

    with Receiver(answer) as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver)
        mailbox.take([match(n) for n in range(4)])
        for attempt, delay in ((1, 5), (2, 300)):
            until(tried(mailbox, "hook", attempt))
            clock.seconds += delay
            worker.poke()
        until(lambda: mailbox.channel("hook").cursor == 4)
        assert receiver.ids == [match(n).id for n in (0, 1, 1, 1, 2, 3)]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_clock_that_is_set_back_makes_no_channel_wait(
    mailbox: Mailbox, clock: Clock, ordered: bool
) -> None:
    """Neither while it runs, nor if it was set back before a restart."""
    working: Answer = (204, {}, b"")
    with Receiver() as receiver:
        hook(mailbox, receiver, ordered=ordered)
        with delivering(mailbox, clock) as worker:
            fails_in_the_future(mailbox, receiver, clock)
            receiver.answer = lambda _: working
            clock.seconds -= 400 * 86_400
            worker.poke()
            until(lambda: not mailbox.figures().backlog["hook"])
            fails_in_the_future(mailbox, receiver, clock)
        receiver.answer = lambda _: working
        clock.seconds -= 400 * 86_400
        with delivering(mailbox, clock):
            until(lambda: not mailbox.figures().backlog["hook"])


def test_a_failure_that_is_not_written_yet_when_the_clock_is_set_back(
    mailbox: Mailbox, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its retry has the former time, whether it is written before the others are made due or later."""
    failed, noticed = threading.Event(), threading.Event()
    write, make_due, wait = mailbox.apply_reports, mailbox.retry_now, Reports.flush

    def write_later(reports: Sequence[Report]) -> list[Event]:
        if any(isinstance(report, Failed) for report in reports) and not failed.is_set():
            failed.set()
            assert noticed.wait(PATIENCE)
        return write(reports)

    def makes_due(beyond: int) -> None:
        make_due(beyond)
        if failed.is_set():
            noticed.set()

    async def waits(reports: Reports) -> None:
        if clock.seconds < ahead:
            noticed.set()
        await wait(reports)

    with Receiver(always((500, {}, b""))) as receiver:
        hook(mailbox, receiver, ordered=False)
        clock.seconds += 400 * 86_400
        ahead = clock.seconds
        with delivering(mailbox, clock) as worker:
            monkeypatch.setattr(mailbox, "apply_reports", write_later)
            monkeypatch.setattr(mailbox, "retry_now", makes_due)
            monkeypatch.setattr(Reports, "flush", waits)
            mailbox.take([match(0)])
            assert failed.wait(PATIENCE)
            receiver.answer = always((204, {}, b""))
            clock.seconds -= 400 * 86_400
            worker.poke()
            until(lambda: not mailbox.figures().backlog["hook"])


def fails_in_the_future(mailbox: Mailbox, receiver: Receiver, clock: Clock) -> None:
    """The clock goes ahead, and a delivery fails."""
    receiver.answer = lambda _: (500, {}, b"")
    clock.seconds += 400 * 86_400
    mailbox.take([match(mailbox.last())])
    until(lambda: mailbox.channel("hook").last_error)
