"""Channels of subscriptions that are dropped: what is pending is delivered, or dropped too."""

from __future__ import annotations

from broker.delivery import Mailbox
from tests.delivery.support import (
    Receiver,
    delivering,
    match,
)
from tests.delivery.test_worker import hook, matches
from tests.waiting import until


def test_dropping_with_deliver_drains_and_removes_the_channels(mailbox: Mailbox) -> None:
    with Receiver() as receiver:
        hook(mailbox, "own", receiver.url("/own"), subscription="tides")
        hook(mailbox, "other", receiver.url("/other"), subscription="other")
        hook(mailbox, "all", receiver.url("/all"))
        mailbox.take([*matches(3), match(0, "other")])
        mailbox.drop("tides", "deliver")
        assert mailbox.channel("own").draining
        mailbox.take(matches(1, first=7))  # its successor's
        with delivering(mailbox):
            until(lambda: [c.name for c in mailbox.channels()] == ["all", "other"])
            receiver.wait(9)
        got = [r.data["n"] for r in receiver.requests if r.path == "/own"]
        assert got == [1, 2, 3]


def test_dropping_with_drop_delivers_nothing_more_of_it(mailbox: Mailbox) -> None:
    with Receiver() as receiver:
        hook(mailbox, "own", receiver.url("/own"), subscription="tides")
        hook(mailbox, "all", receiver.url("/all"))
        mailbox.take([*matches(3), match(0, "other")])
        mailbox.drop("tides", "drop")
        with delivering(mailbox):
            until(lambda: mailbox.channel("all").cursor == 4)
        assert [(r.path, r.data["query"]) for r in receiver.requests] == [("/all", "other")]
        assert [channel.name for channel in mailbox.channels()] == ["all"]


def test_dropping_with_drop_leaves_what_was_dropped_to_be_delivered(mailbox: Mailbox) -> None:
    """Of three of one name, the last is dropped with what it has found."""
    with Receiver() as receiver:
        hook(mailbox, "first", receiver.url("/first"), subscription="tides")
        hook(mailbox, "over", receiver.url("/over"), subscription="tides", ordered=False)
        hook(mailbox, "all", receiver.url("/all"))
        mailbox.take(matches(2))
        mailbox.drop("tides", "deliver")
        hook(mailbox, "over", receiver.url("/over"), subscription="tides", ordered=False)
        mailbox.put_channel("second", "pull", subscription="tides")
        mailbox.take(matches(1, first=2))
        mailbox.drop("tides", "deliver")
        hook(mailbox, "over", receiver.url("/over"), subscription="tides", ordered=False)
        hook(mailbox, "third", receiver.url("/third"), subscription="tides")
        mailbox.take(matches(3, first=3))
        mailbox.resend_match(match(4).id, "over")
        mailbox.drop("tides", "drop")
        mailbox.drop("tides", "drop")  # again, because the answer was lost
        assert [d.n for d in mailbox.matches("tides", 0, 10)] == [1, 2, 3]
        assert [d.n for d in mailbox.pull("second", 10)] == [3]
        with delivering(mailbox):
            until(lambda: [c.name for c in mailbox.channels()] == ["all", "second"])
            until(lambda: mailbox.channel("all").cursor == 3)
        got = [(r.path, r.data["n"]) for r in receiver.requests]
        expected = {"/first": 2, "/over": 3, "/all": 3}
        assert sorted(got) == sorted(
            (path, n + 1) for path in expected for n in range(expected[path])
        )
        mailbox.ack("second", 3)
        assert [channel.name for channel in mailbox.channels()] == ["all"]


def test_dropping_with_nothing_pending_removes_at_once(mailbox: Mailbox) -> None:
    mailbox.put_channel("reader", "pull", subscription="tides")
    mailbox.take(matches(2))
    mailbox.ack("reader", 2)
    mailbox.drop("tides", "deliver")
    assert mailbox.channels() == []


def test_a_draining_reader_goes_when_it_has_acknowledged(mailbox: Mailbox) -> None:
    mailbox.put_channel("reader", "pull", subscription="tides")
    mailbox.take(matches(2))
    mailbox.drop("tides", "deliver")
    assert [d.n for d in mailbox.pull("reader", 10)] == [1, 2]
    mailbox.ack("reader", 1)
    assert mailbox.channel("reader").cursor == 1
    mailbox.ack("reader", 2)
    assert mailbox.channels() == []
