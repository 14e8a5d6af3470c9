"""Webhooks follow the Standard Webhooks specification, tested with a real server."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from broker.delivery import Mailbox
from tests.delivery.support import (
    Clock,
    Receiver,
    delivering,
    match,
    open_mailbox,
    trickling,
)
from tests.waiting import NEVER, until


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
        ({"url": "http://["}, "with a host"),
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


def test_a_message_that_is_tried_by_hand_is_given_up_with_its_connection(mailbox: Mailbox) -> None:
    with trickling(interval=0.01) as silent, delivering(mailbox, timeout=NEVER) as worker:
        mailbox.put_channel("hook", "webhook", settings={"url": f"http://127.0.0.1:{silent.port}/"})
        well, detail = worker.test("hook", timeout=1.0)
        assert not well
        assert detail == "no end within 1 s"
        until(lambda: silent.ended == silent.connections)
