"""Digests, sent to a real mail server."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

import pytest
from lxml import etree

from broker.delivery import Mailbox, Smtp
from tests.delivery.postbox import secure, server
from tests.delivery.support import Clock, at, delivering, match, trickling
from tests.waiting import until

HOUR = 3_600


@pytest.fixture
def clock() -> Clock:
    return Clock()


def put(mailbox: Mailbox, **settings: Any) -> None:
    known = {"to": ["mara@tides.example"], "every": HOUR * 1_000_000} | settings
    mailbox.put_channel("mail", "mail", subscription="tides", settings=known)


def body(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def test_one_digest_per_period_of_what_came_in_it(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox, attach=True)
        mailbox.take([match(0)])
        clock.seconds += HOUR - 1
        mailbox.take([match(1, title="Ebbe & Flut ✓"), match(1, "other")])
        worker.poke()
        until(lambda: mailbox.channel("mail").version >= 0)
        assert not postbox.envelopes
        clock.seconds += 1
        worker.poke()
        until(lambda: mailbox.channel("mail").cursor == 2)
        (message,) = postbox.messages
        assert message["Subject"] == "2 matches of tides"
        assert message["To"] == "mara@tides.example"
        assert message["From"] == "broker@tides.example"
        assert message["Message-ID"].startswith(f"<{match(0).id}.")
        assert message["Auto-Submitted"] == "auto-generated"
        assert "Ebbe & Flut ✓ 1 (Courier)" in body(message)
        assert match(1).id in body(message)
        (attached,) = message.iter_attachments()
        results = etree.fromstring(attached.get_content())
        assert [r.get("query") for r in results] == ["tides", "tides"]

        clock.seconds += 10
        mailbox.take([match(2)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: len(postbox.envelopes) == 2)
        assert postbox.messages[1]["Subject"] == "1 match of tides"


def test_more_than_a_mail_may_hold_waits_for_the_next_period(
    mailbox: Mailbox, clock: Clock
) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox, limit=10)
        mailbox.take([match(n) for n in range(25)])
        for count in (10, 20, 25):
            clock.seconds += HOUR
            worker.poke()
            until(at(mailbox, "mail", count))
        assert "with the next mail" in body(postbox.messages[0])
        assert "with the next mail" not in body(postbox.messages[2])
        ids = [message["Message-ID"] for message in postbox.messages]
        assert len(set(ids)) == 3


def test_a_repeat_has_the_same_id(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox)
        mailbox.take([match(0), match(1)])
        for _ in range(2):
            clock.seconds += 2 * HOUR
            worker.poke()
            until(lambda: mailbox.channel("mail").cursor == 2)
            mailbox.reset_channel("mail", 0)
        first, second = postbox.messages
        assert first["Message-ID"] == second["Message-ID"]


def test_what_a_server_refuses_for_now_is_tried_again(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox)
        postbox.data_answer = "451 too busy"
        mailbox.take([match(0), match(1)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").attempts == 1)
        assert "451 too busy" in (mailbox.channel("mail").last_error or "")
        postbox.refused = {"mara@tides.example": "450 later"}
        clock.seconds += 5
        worker.poke()
        until(lambda: mailbox.channel("mail").attempts == 2)
        assert "mara@tides.example: 450 later" in (mailbox.channel("mail").last_error or "")
        postbox.data_answer, postbox.refused = "250 kept", {}
        clock.seconds += 300
        worker.poke()
        until(lambda: mailbox.channel("mail").cursor == 2)
        assert mailbox.dead() == []


@pytest.mark.parametrize("where", ["data", "recipient"])
def test_what_a_server_refuses_for_good_is_a_dead_letter_and_others_go_on(
    mailbox: Mailbox, clock: Clock, where: str
) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox)
        if where == "data":
            postbox.data_answer = "552 too large"
        else:
            postbox.refused = {"mara@tides.example": "550 no such user"}
        mailbox.take([match(0), match(1)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").cursor == 2)
        assert [d.match_id for d in mailbox.dead()] == [match(0).id, match(1).id]
        assert "55" in mailbox.dead()[0].reason
        postbox.data_answer, postbox.refused = "250 kept", {}
        mailbox.take([match(2)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").cursor == 3)
        assert mailbox.resend() == 2
        until(lambda: mailbox.figures().retries == 0)
        assert {m["Message-ID"][1:33] for m in postbox.messages} == {match(n).id for n in range(3)}


def test_one_recipient_of_two_refused_is_told(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox, to=["mara@tides.example", "gone@tides.example"])
        postbox.refused = {"gone@tides.example": "550 no such user"}
        mailbox.take([match(0)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").cursor == 1)
        until(lambda: mailbox.events())
        (event,) = mailbox.events()
        assert (event.kind, event.channel) == ("mail.refused", "mail")
        assert "gone@tides.example: 550 no such user" in event.text


def test_what_a_match_holds_cannot_forge_a_header(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        name = "tides\r\nBcc: all@tides.example\r\n\r\nbody"
        mailbox.put_channel(
            "mail",
            "mail",
            subscription=name,
            settings={"to": "mara@tides.example", "every": 1, "subject": "{count}: {subscription}"},
        )
        evil = match(0, name, title="\r\n.\r\nBcc: x\r\n", values={"a": ["\r\n.\r\n\ud83d"]})
        mailbox.take([evil])
        clock.seconds += 1
        worker.poke()
        until(lambda: postbox.envelopes)
        (message,) = postbox.messages
        assert "Bcc" not in message
        assert message["Subject"] == "1 match: tides Bcc: all@tides.example body"
        assert postbox.envelopes[0].rcpt_tos == ["mara@tides.example"]


def test_a_subject_is_cut_at_200_characters(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        settings = {"to": "mara@tides.example", "every": 1, "subject": "{subscription}"}
        mailbox.put_channel("mail", "mail", subscription="n" * 300, settings=settings)
        mailbox.take([match(0, "n" * 300)])
        clock.seconds += 1
        worker.poke()
        until(lambda: postbox.envelopes)
        assert postbox.messages[0]["Subject"] == "n" * 200


def test_a_server_that_trickles_is_left_in_time(mailbox: Mailbox, clock: Clock) -> None:
    with trickling(0.2) as slow:
        smtp = Smtp("127.0.0.1", slow.port, timeout=1.0)
        with delivering(mailbox, clock, smtp=smtp) as worker:
            put(mailbox)
            mailbox.take([match(0)])
            clock.seconds += HOUR
            worker.poke()
            until(lambda: mailbox.channel("mail").attempts == 1)
            assert "not done within 1 s" in (mailbox.channel("mail").last_error or "")


@contextmanager
def never_says_goodbye() -> Iterator[tuple[int, list[bytes]]]:
    """A server that takes mails and does not answer QUIT; its port, and the mails."""
    mails: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().strip():
                if line == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                if line != b"QUIT":
                    self.wfile.write(b"250 well\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as taking:
        taking.daemon_threads = True
        threading.Thread(target=taking.serve_forever, daemon=True).start()
        yield taking.server_address[1], mails
        taking.shutdown()


def test_a_mail_that_was_taken_is_not_sent_again_for_want_of_a_goodbye(
    mailbox: Mailbox, clock: Clock
) -> None:
    with never_says_goodbye() as (port, mails):
        with delivering(mailbox, clock, smtp=Smtp("127.0.0.1", port, timeout=30.0)) as worker:
            put(mailbox)
            mailbox.take([match(0)])
            clock.seconds += HOUR
            worker.poke()
            until(lambda: mailbox.channel("mail").cursor == 1)
        assert len(mails) == 1
        assert mailbox.figures().failed == {}


def test_authorities_that_cannot_be_read_are_told(mailbox: Mailbox, clock: Clock) -> None:
    smtp = Smtp("127.0.0.1", 9, "ssl", ca_file="/nowhere/ca.pem")
    with delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox)
        mailbox.take([match(0)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").attempts == 1)
        assert "127.0.0.1: " in (mailbox.channel("mail").last_error or "")
        assert "No such file" in (mailbox.channel("mail").last_error or "")


def test_without_a_server_it_waits(mailbox: Mailbox, clock: Clock) -> None:
    with delivering(mailbox, clock) as worker:
        put(mailbox)
        mailbox.take([match(0)])
        clock.seconds += HOUR
        worker.poke()
        until(lambda: mailbox.channel("mail").last_error == "no mail server is set")
        assert mailbox.channel("mail").cursor == 0


# -- TLS and login -------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", ["ssl", "starttls"])
@pytest.mark.parametrize("wrong", [{}, {"password": "flood"}, {"ca_file": None}])
def test_tls_and_login(mailbox: Mailbox, clock: Clock, tls: str, wrong: dict[str, Any]) -> None:
    with (
        secure(tls) as (postbox, settings),
        delivering(mailbox, clock, smtp=Smtp(**settings | wrong)) as worker,
    ):
        put(mailbox)
        mailbox.take([match(0)])
        clock.seconds += HOUR
        worker.poke()
        if wrong:
            until(lambda: mailbox.channel("mail").attempts == 1)
            message = "535" if "password" in wrong else "certificate verify failed"
            assert message in (mailbox.channel("mail").last_error or "")
            assert not postbox.envelopes
            assert mailbox.dead() == [], "an operator's mistake costs no match"
        else:
            until(lambda: mailbox.channel("mail").cursor == 1)
            assert len(postbox.envelopes) == 1


def test_trying_a_channel_by_hand(mailbox: Mailbox, clock: Clock) -> None:
    with server() as (postbox, smtp), delivering(mailbox, clock, smtp=smtp) as worker:
        put(mailbox)
        well, detail = worker.test("mail")
        assert well, detail
        assert postbox.messages[0]["Subject"] == "test"
        postbox.data_answer = "451 too busy"
        assert worker.test("mail") == (False, "127.0.0.1: 451 too busy")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"to": []}, "to"),
        ({"to": "nobody"}, "to"),
        ({"to": 5}, "to"),
        ({"to": {"mara@tides.example": 1}}, "to"),
        ({"to": "a@b.example\r\nBcc: c@d.example"}, "to"),
        ({"to": ["a@b.example", 7]}, "to"),
        ({"subject": "a\r\nBcc: c@d.example"}, "subject"),
        ({"every": 0}, "every"),
        ({"limit": 0}, "limit"),
        ({"attach": "yes"}, "attach"),
        ({"from": "me"}, "'from'"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    mailbox: Mailbox, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        put(mailbox, **settings)
