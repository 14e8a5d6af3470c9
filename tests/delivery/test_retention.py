"""Retention: which matches are deleted, when, and which never; the file stays small."""

from __future__ import annotations

from pathlib import Path

from broker.delivery import Mailbox
from broker.delivery.letters import EVENTS_KEPT, record_event
from broker.model import Match
from tests.delivery.support import (
    DAY,
    START,
    Clock,
    Receiver,
    delivering,
    match,
    open_mailbox,
)
from tests.waiting import until

NOW = START + 100 * DAY


def matches(first: int, count: int, query: str = "tides") -> list[Match]:
    return [match(n, query) for n in range(first, first + count)]


def places(mailbox: Mailbox) -> list[int]:
    return [d.n for d in mailbox.matches(None, 0, 100_000)]


def test_what_nobody_waits_for_goes_by_age(mailbox: Mailbox) -> None:
    for day in range(10):
        mailbox.take(matches(day, 1), START + day * DAY)
    assert mailbox.retain(5 * DAY, now=START + 9 * DAY) == 4
    assert places(mailbox) == [5, 6, 7, 8, 9, 10]
    assert mailbox.retain(None, now=NOW) == 0
    assert mailbox.retain(0, now=NOW) == 6
    assert mailbox.retain(0, now=NOW) == 0


def test_what_a_channel_waits_for_stays(mailbox: Mailbox) -> None:
    mailbox.put_channel("tides", "pull", subscription="tides")
    mailbox.put_channel("all", "pull")
    mailbox.take([*matches(0, 3), *matches(0, 3, "other")], START)
    assert mailbox.retain(DAY, now=NOW) == 0
    mailbox.ack("all", 4)
    assert mailbox.retain(DAY, now=NOW) == 1
    assert places(mailbox) == [1, 2, 3, 5, 6]
    mailbox.ack("tides", 2)
    mailbox.ack("all", 6)
    mailbox.retain(DAY, now=NOW)
    assert places(mailbox) == [3]
    mailbox.remove_channel("tides")
    mailbox.retain(DAY, now=NOW)
    assert places(mailbox) == []


def test_what_is_to_be_tried_again_stays(mailbox: Mailbox) -> None:
    mailbox.put_channel("hook", "webhook", settings={"url": "http://tides.example/"}, after=0)
    mailbox.take(matches(0, 3), START)
    mailbox.reset_channel("hook", 3)
    mailbox.resend_match(match(1).id, "hook")
    mailbox.retain(DAY, now=NOW)
    assert places(mailbox) == [2]


def test_what_was_to_be_tried_again_for_a_channel_that_is_gone_goes(mailbox: Mailbox) -> None:
    mailbox.take(matches(0, 1), START)
    with mailbox.db.transaction() as db:
        db.execute("INSERT INTO retry VALUES (99, 1, 1, 0)")
    assert mailbox.retain(DAY, now=NOW) == 1
    assert mailbox.figures().retries == 0


def test_the_undelivered_becomes_dead_letters_which_can_be_sent_again(tmp_path: Path) -> None:
    clock = Clock()
    down = True
    with (
        open_mailbox(tmp_path, clock) as mailbox,
        Receiver(lambda _: (500 if down else 200, {}, b"")) as receiver,
        delivering(mailbox, clock, disable_after=1e9) as worker,
    ):
        mailbox.put_channel("hook", "webhook", settings={"url": receiver.url()})
        mailbox.put_channel("reader", "pull", subscription="other")
        mailbox.take([*matches(0, 3), *matches(0, 2, "other")])
        until(lambda: mailbox.channel("hook").attempts == 1)
        clock.seconds += 3 * 86_400
        mailbox.take(matches(3, 1))
        assert mailbox.retain(DAY, undelivered=2 * DAY, dead=30 * DAY) == 0, (
            "dead letters need them"
        )
        dead = [(d.channel, d.n) for d in mailbox.dead()]
        assert dead == [("hook", n) for n in range(1, 6)] + [("reader", 4), ("reader", 5)]
        assert mailbox.channel("hook").cursor == mailbox.channel("reader").cursor == 5
        assert mailbox.figures().given_up == {"webhook": 5, "pull": 2}
        down = False
        worker.poke()
        until(lambda: mailbox.channel("hook").cursor == 6)
        assert mailbox.resend(channel="hook") == 5
        until(lambda: mailbox.figures().retries == 0)
        assert sorted(set(receiver.ids[-5:])) == sorted(
            d.match.id for d in mailbox.matches(None, 0, 5)
        )
        clock.seconds += 31 * 86_400
        mailbox.retain(DAY, undelivered=2 * DAY, dead=30 * DAY)
        assert mailbox.dead() == []
        assert places(mailbox) == []


def test_a_wrong_clock_throws_nothing_away(mailbox: Mailbox) -> None:
    """A batch taken in 1970, or in the far future, makes its neighbours neither older nor
    younger."""
    for n, at in enumerate((START, 0, START + DAY, START + 5_000 * DAY, START + 2 * DAY)):
        mailbox.take(matches(n, 1), at)
    mailbox.retain(10 * DAY, now=START + 3 * DAY)
    assert places(mailbox) == [1, 2, 3, 4, 5]
    mailbox.retain(DAY + 1, now=START + 3 * DAY)
    assert places(mailbox) == [5]


def test_however_many_were_not_delivered_in_time_all_are_given_up(mailbox: Mailbox) -> None:
    mailbox.put_channel("late", "pull")
    mailbox.take(matches(0, 2_500), START)
    mailbox.take(matches(2_500, 1), NOW)
    mailbox.retain(None, undelivered=DAY, now=NOW)
    assert mailbox.figures().given_up == {"pull": 2_500}
    assert [d.n for d in mailbox.pull("late", 9)] == [2_501]


def test_the_newest_events_are_kept(mailbox: Mailbox) -> None:
    with mailbox.db.transaction() as db:
        for number in range(EVENTS_KEPT + 3):
            record_event(db, START, "something", None, None, f"{number}")
    mailbox.retain(None, now=NOW)
    assert mailbox.db.rows("SELECT count(*), min(number) FROM event") == [(EVENTS_KEPT, 4)]


def test_bytes_are_bounded_and_the_delivered_goes_first(mailbox: Mailbox) -> None:
    mailbox.put_channel("late", "pull", subscription="late")
    mailbox.take(matches(0, 100, "late"), START)
    for start in range(0, 10_000, 1_000):
        mailbox.take(matches(start, 1_000), START)
    assert mailbox.figures().bytes > 5_000_000
    mailbox.retain(None, max_bytes=3_000_000, now=START)
    mailbox.compact()
    assert mailbox.figures().bytes <= 3_100_000
    assert len(mailbox.matches("late", 0, 200)) == 100
    assert mailbox.dead() == []
    assert places(mailbox)[-1] == 10_100, "the newest stay"
    mailbox.retain(None, max_bytes=300_000, now=START)
    mailbox.compact()
    assert mailbox.figures().bytes <= 400_000
    assert mailbox.figures().given_up == {"pull": 100}
    assert "size limit" in mailbox.dead()[0].reason
    assert mailbox.resend() == 0, "they are no longer there"


def test_space_is_given_back(mailbox: Mailbox, tmp_path: Path) -> None:
    for start in range(0, 20_000, 1_000):
        mailbox.take(matches(start, 1_000), START)
    mailbox.compact()
    full = (tmp_path / "mailbox.sqlite").stat().st_size
    mailbox.retain(DAY, now=NOW)
    given = mailbox.compact()
    left = (tmp_path / "mailbox.sqlite").stat().st_size
    assert given > 0.9 * (full - left) > 0
    assert left < full / 10
    assert (tmp_path / "mailbox.sqlite-wal").stat().st_size == 0
    mailbox.check()


def test_ids_are_bounded_too(tmp_path: Path) -> None:
    with Mailbox(tmp_path / "mailbox.sqlite", remembered=1_000) as mailbox:
        _remember(mailbox)


def _remember(mailbox: Mailbox) -> None:
    for start in range(0, 5_000, 500):
        mailbox.take(matches(start, 500), START)
    mailbox.retain(None, now=NOW)
    assert mailbox.find(match(0).id) is not None, "what is in the log is found"
    mailbox.retain(0, now=NOW)
    assert len(mailbox.db.rows("SELECT batch FROM taken")) <= 3
    assert mailbox.take(matches(4_000, 1_000), NOW) == 0, "the newest are known"


def test_names_of_dropped_subscriptions_go(mailbox: Mailbox) -> None:
    for n in range(20):
        mailbox.take(matches(n, 1))
        mailbox.drop("tides", "deliver")
    mailbox.retain(0, now=2**60)
    assert len(mailbox.db.rows("SELECT * FROM subscription")) == 1
    assert mailbox.take(matches(0, 1)) == 1


def test_figures(mailbox: Mailbox) -> None:
    mailbox.put_channel("all", "pull")
    mailbox.put_channel("none", "pull", subscription="nobody")
    mailbox.put_channel("file", "file", settings={"path": "x"}, subscription="other")
    mailbox.pause_channel("file")
    mailbox.take(matches(0, 3), START)
    mailbox.take(matches(0, 4, "other"), START + DAY)
    mailbox.take(matches(0, 1), START)
    mailbox.ack("all", 3)
    figures = mailbox.figures()
    assert (figures.matches, figures.last, figures.taken, figures.repeated) == (7, 7, 7, 1)
    assert figures.channels == {("pull", "active"): 2, ("file", "paused"): 1}
    assert figures.backlog == {"all": 4, "none": 0, "file": 4}
    assert figures.oldest == {"all": START + DAY, "none": None, "file": START + DAY}
    assert figures.delivered == {"pull": 3}
    assert figures.bytes > 10_000


def test_a_channel_whose_matches_are_all_given_up_gets_the_next_one(mailbox: Mailbox) -> None:
    mailbox.put_channel("desk", "webhook", settings={"url": "http://a.example/"})
    mailbox.take([match(0), match(1)], START)
    mailbox.retain(None, DAY, now=START + 10 * DAY)
    assert len(mailbox.dead()) == 2
    assert mailbox.channel("desk").cursor == 2
    mailbox.take([match(2)], START + 10 * DAY)
    channel = mailbox.channel("desk")
    assert [d.n for d in mailbox.heads(channel, channel.cursor, 9)] == [3]
