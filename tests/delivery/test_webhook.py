"""Webhooks follow the Standard Webhooks specification, tested with a real server."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

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
    open_mailbox,
    trickling,
    tried,
)
from tests.waiting import PATIENCE, until

SCHEDULE = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def hook(mailbox: Mailbox, receiver: Receiver, name: str = "hook", **more: Any) -> str:
    settings = {"url": receiver.url(f"/{name}")} | more.pop("settings", {})
    made = mailbox.put_channel(name, "webhook", settings=settings, **more)
    return str(made.settings["secret"])


def test_a_delivery_verifies_with_the_librarys_receiver(tmp_path: Path) -> None:
    with Receiver() as receiver, open_mailbox(tmp_path) as mailbox:
        secret = hook(mailbox, receiver, settings={"headers": {"Authorization": "Bearer t"}})
        with delivering(mailbox):
            mailbox.take([match(0, title="Ebbe & Flut ✓")])
            (request,) = receiver.wait(1)
            until(lambda: mailbox.channel("hook").cursor == 1)
        event = Webhook(secret).verify(request.body, request.headers)
        assert event["type"] == "match"
        assert event["timestamp"] == match(0).to_json()["end"]
        assert event["data"] == mailbox.matches(None, 0, 1)[0].to_json()
        assert request.id == match(0).id
        assert request.headers["content-type"] == "application/json"
        assert request.headers["authorization"] == "Bearer t"
        assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(request.body + b" ", request.headers)


def test_a_replaced_secret_signs_for_a_day_beside_the_new_one(tmp_path: Path) -> None:
    with Receiver() as receiver, open_mailbox(tmp_path) as mailbox:
        old = hook(mailbox, receiver)
        new = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" * 1
        assert hook(mailbox, receiver, settings={"secret": new}) == new
        with delivering(mailbox):
            mailbox.take([match(0)])
            (request,) = receiver.wait(1)
        for secret in (old, new):
            assert Webhook(secret).verify(request.body, request.headers)["type"] == "match"
        assert len(request.headers["webhook-signature"].split(" ")) == 2


def test_a_day_later_only_the_new_secret_signs(mailbox: Mailbox, clock: Clock) -> None:
    with Receiver() as receiver, delivering(mailbox, clock) as worker:
        hook(mailbox, receiver)
        hook(mailbox, receiver, settings={"secret": "whsec_" + "A" * 32})
        mailbox.take([match(0)])
        receiver.wait(1)
        clock.seconds += 86_401
        worker.poke()
        mailbox.take([match(1)])
        first, second = receiver.wait(2)
        assert len(first.headers["webhook-signature"].split(" ")) == 2
        assert len(second.headers["webhook-signature"].split(" ")) == 1
        hook(mailbox, receiver)  # changed again: what is over is gone
        assert "old_secrets" not in mailbox.channel("hook").settings


def test_many_matches_arrive_in_order_over_one_connection(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, receiver)
        mailbox.take([match(n) for n in range(200)])
        requests = receiver.wait(200)
        assert receiver.ids == [match(n).id for n in range(200)]
        assert len({request.connection for request in requests}) == 1


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


def test_a_long_or_endless_answer_is_not_read_to_its_end(mailbox: Mailbox) -> None:
    with (
        Receiver(lambda _: (200, {}, b"x" * 3_000_000)) as receiver,
        delivering(mailbox, max_response=10_000),
    ):
        hook(mailbox, receiver)
        mailbox.take([match(0), match(1)])
        until(lambda: mailbox.channel("hook").cursor == 2)


@pytest.mark.parametrize("interval", [0.1, 60.0], ids=["trickles", "stops"])
def test_who_has_answered_has_answered_however_long_the_body_takes(
    mailbox: Mailbox, interval: float
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with (
        trickling(interval, head) as slow,
        delivering(mailbox, timeout=0.5, schedule=(0.1,) * 10_000),
    ):
        mailbox.put_channel("hook", "webhook", settings={"url": f"http://127.0.0.1:{slow.port}/"})
        mailbox.take([match(0)])
        # On a busy machine not even the head comes in time at once; if it comes, it is an answer.
        until(lambda: mailbox.figures().delivered == {"webhook": 1})


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("127.0.0.1", "private address"),
        ("localhost", "private address"),
        ("[::1]", "private address"),
        ("10.0.0.1", "private address"),
        ("169.254.169.254", "private address"),
        ("[::ffff:127.0.0.1]", "private address"),
        ("0.0.0.0", "private address"),
        ("2130706433", "private address"),
        ("no-such-host.invalid", "no-such-host.invalid"),
    ],
)
def test_private_addresses_are_not_reached_unless_allowed(
    mailbox: Mailbox, host: str, said: str
) -> None:
    with Receiver() as receiver, delivering(mailbox, allow_private=False):
        mailbox.put_channel("hook", "webhook", settings={"url": receiver.url(host=host)})
        mailbox.take([match(0)])
        until(lambda: mailbox.channel("hook").attempts == 1)
        assert said in (mailbox.channel("hook").last_error or "")
        assert not receiver.requests


def test_the_address_that_was_checked_is_the_one_connected_to(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is looked at and loopback the next time (DNS rebinding)."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name != "rebound.example":
            return real(host, port, *args, **kwargs)
        asked.append(name)
        answer = "203.0.113.9" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with Receiver() as receiver, delivering(mailbox, allow_private=False, timeout=1.0):
        url = f"http://rebound.example:{receiver.port}/"
        mailbox.put_channel("hook", "webhook", settings={"url": url})
        mailbox.take([match(0)])
        until(lambda: mailbox.channel("hook").attempts == 1)
        assert len(asked) == 1, "resolved once per connection"
        assert not receiver.requests


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "url"),
        ({"url": "ftp://courier.example/"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://a:b@courier.example/"}, "Authorization"),
        ({"url": "https://courier.example/", "secret": "whsec_c2hvcnQ="}, "24 to 64"),
        ({"url": "https://courier.example/", "secret": "plain"}, "secret"),
        ({"url": "https://courier.example/", "colour": 1}, "'colour'"),
        ({"url": "https://courier.example/", "headers": {"Webhook-Id": "x"}}, "headers"),
        ({"url": "https://courier.example/", "headers": {"X": "a\r\nY: b"}}, "headers"),
        ({"url": "https://courier.example/", "events": "match"}, "events"),
        ({"url": "https://courier.example/", "events": 5}, "events"),
        ({"url": "https://courier.example/", "events": {"match": True}}, "events"),
        ({"url": "https://courier.example/", "events": [{}]}, "events"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    mailbox: Mailbox, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        mailbox.put_channel("hook", "webhook", settings=settings)
    assert mailbox.channels() == []


def test_secrets_are_shown_only_when_asked_for_and_kept_when_they_come_back_hidden(
    mailbox: Mailbox,
) -> None:
    settings = {"url": "https://courier.example/", "headers": {"Authorization": "Bearer key"}}
    made = mailbox.put_channel("hook", "webhook", settings=settings)
    shown = made.without_secrets().settings
    assert "whsec_" not in json.dumps(shown)
    assert "key" not in json.dumps(shown)
    again = mailbox.put_channel("hook", "webhook", settings=shown)
    assert again.settings == made.settings
    assert again.settings["secret"] == made.settings["secret"]


def test_trying_a_channel_by_hand(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox) as worker:
        hook(mailbox, receiver)
        mailbox.put_channel("reader", "pull")
        well, detail = worker.test("hook")
        assert well, detail
        (request,) = receiver.requests
        assert json.loads(request.body)["type"] == "test"
        assert mailbox.channel("hook").cursor == 0
        with pytest.raises(ValueError, match="pull"):
            worker.test("reader")
        with pytest.raises(KeyError):
            worker.test("nobody")
    with delivering(mailbox) as worker:
        well, detail = worker.test("hook")
        assert not well
        assert "no connection" in detail


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
