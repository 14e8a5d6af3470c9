"""The worker: slow receivers do not delay others; order; changes by users meanwhile."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from broker.delivery import Mailbox
from broker.model import Match
from tests.delivery.support import (
    DAY,
    Answer,
    Clock,
    Receiver,
    Request,
    delivering,
    match,
    open_mailbox,
    trickling,
)
from tests.waiting import NEVER, PATIENCE, until


def hook(mailbox: Mailbox, name: str, url: str, **more: object) -> None:
    mailbox.put_channel(name, "webhook", settings={"url": url}, **more)  # type: ignore[arg-type]


def matches(count: int, query: str = "tides", first: int = 0) -> list[Match]:
    return [match(n, query) for n in range(first, first + count)]


@pytest.mark.parametrize(
    ("distinct", "known"),
    [(True, False), (False, True)],
    ids=["a host each, the good one new", "one host, the good one known"],
)
def test_a_thousand_receivers_that_trickle_do_not_hold_up_a_good_one(
    mailbox: Mailbox, distinct: bool, known: bool
) -> None:
    """More slow receivers than places, all of them first in the queue, each of which holds its
    place until its time is up; that is longer than this test waits for anything."""
    with trickling() as slow, Receiver() as receiver:
        if known:
            hook(mailbox, "good", receiver.url())
            with delivering(mailbox):
                mailbox.take(matches(1))
                until(lambda: mailbox.channel("good").cursor == 1)
        for n in range(1_000):
            host = f"127.1.{n // 250}.{n % 250 + 1}" if distinct else "127.0.0.1"
            hook(mailbox, f"slow{n}", f"http://{host}:{slow.port}/")
        if not known:
            mailbox.take(matches(1))
            hook(mailbox, "good", receiver.url(), after=0)
        with delivering(mailbox, timeout=NEVER):
            mailbox.take(matches(50, first=1))
            receiver.wait(51)
            assert receiver.ids == [match(n).id for n in range(51)]
            until(lambda: mailbox.channel("good").cursor == 51)
            assert mailbox.figures().delivered == {"webhook": 51}


def test_slow_paths_of_a_host_do_not_hold_up_its_good_one(mailbox: Mailbox) -> None:
    go = threading.Event()

    def answer(request: Request) -> Answer:
        if request.path == "/slow":
            go.wait(NEVER)
        return 200, {}, b""

    with Receiver(answer) as receiver:
        for n in range(40):
            hook(mailbox, f"slow{n}", receiver.url("/slow"))
        hook(mailbox, "good", receiver.url("/good"))
        with delivering(mailbox, timeout=NEVER, per_host=8):
            mailbox.take(matches(20))
            until(lambda: mailbox.channel("good").cursor == 20)
            assert mailbox.figures().delivered == {"webhook": 20}
            go.set()


def test_receivers_that_never_answer_do_not_hold_up_one_that_answers_slowly(
    mailbox: Mailbox,
) -> None:
    """More of them than there are places in any lane, known as well as new."""

    def answer(_: Request) -> Answer:
        time.sleep(1.1)  # so long that it counts as slow
        return 200, {}, b""

    with trickling() as silent, Receiver(answer) as receiver:
        hook(mailbox, "good", receiver.url(), subscription="good")
        for n in range(150):
            hook(mailbox, f"silent{n}", f"http://127.2.0.{n + 1}:{silent.port}/")
        with delivering(mailbox, timeout=NEVER):
            mailbox.take(matches(1))
            until(lambda: silent.connections == 150)
            mailbox.take(matches(5, "good"))
            until(lambda: mailbox.channel("good").cursor == mailbox.last())
        assert receiver.ids == [match(n, "good").id for n in range(5)]


def test_a_hanging_file_holds_up_nobody(mailbox: Mailbox, tmp_path: Path) -> None:
    """Reading ends of pipes that nobody reads from: opening them never returns."""
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    mailbox.put_channel("pipe", "file", settings={"path": str(pipe)})
    mailbox.put_channel("file", "file", settings={"path": str(tmp_path / "out.jsonl")})
    with delivering(mailbox):
        mailbox.take(matches(100))
        until(lambda: mailbox.channel("file").cursor == 100)
        assert mailbox.channel("pipe").cursor == 0
    os.close(reader)


def test_channels_of_one_subscription_and_of_all(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "all", receiver.url("/all"))
        hook(mailbox, "tides", receiver.url("/tides"), subscription="tides")
        hook(mailbox, "none", receiver.url("/none"), subscription="nobody")
        mailbox.take([match(0), match(0, "other"), match(1)])
        until(lambda: mailbox.channel("all").cursor == mailbox.channel("tides").cursor == 3)
        paths = [request.path for request in receiver.requests]
        assert sorted(paths) == ["/all"] * 3 + ["/tides"] * 2


def test_a_new_channel_begins_now_or_where_it_is_told(mailbox: Mailbox) -> None:
    mailbox.take(matches(5))
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "now", receiver.url("/now"))
        hook(mailbox, "third", receiver.url("/third"), after=2)
        hook(mailbox, "start", receiver.url("/start"), after=0)
        mailbox.take(matches(1, first=5))
        until(lambda: all(channel.cursor == 6 for channel in mailbox.channels()))
        got = {
            path: [r.data["n"] for r in receiver.requests if r.path == path]
            for path in ("/now", "/third", "/start")
        }
        assert got == {"/now": [6], "/third": [3, 4, 5, 6], "/start": [1, 2, 3, 4, 5, 6]}


def test_pause_resume_and_another_address_lose_and_double_nothing(mailbox: Mailbox) -> None:
    with Receiver() as receiver, Receiver() as other, delivering(mailbox):
        hook(mailbox, "hook", receiver.url())
        mailbox.take(matches(10))
        receiver.wait(10)
        mailbox.pause_channel("hook")
        mailbox.take(matches(10, first=10))
        until(lambda: mailbox.channel("hook").cursor == 10)
        assert len(receiver.requests) == 10
        hook(mailbox, "hook", other.url())
        assert mailbox.channel("hook").status == "paused", (
            "who changes it need not want it to go on"
        )
        mailbox.resume_channel("hook")
        other.wait(10)
        assert receiver.ids + other.ids == [match(n).id for n in range(20)]


def test_changes_while_a_request_is_on_its_way(mailbox: Mailbox) -> None:
    """A change of settings does not make the match on its way go twice, a reset does send it
    again."""
    arrived, go = threading.Event(), threading.Event()

    def answer(_: Request) -> Answer:
        arrived.set()
        go.wait(PATIENCE)
        return 200, {}, b""

    with Receiver(answer) as receiver, delivering(mailbox):
        hook(mailbox, "hook", receiver.url())
        mailbox.take(matches(2))
        arrived.wait(PATIENCE)
        hook(mailbox, "hook", receiver.url("/new"))
        go.set()
        receiver.wait(2)
        until(lambda: mailbox.channel("hook").cursor == 2)
        assert [r.path for r in receiver.requests] == ["/hook", "/new"]
        go.clear()
        arrived.clear()
        mailbox.take(matches(1, first=2))
        arrived.wait(PATIENCE)
        mailbox.reset_channel("hook", 0)
        go.set()
        until(lambda: len(receiver.requests) == 6)
        assert [r.data["n"] for r in receiver.requests] == [1, 2, 3, 1, 2, 3]
        until(lambda: mailbox.channel("hook").cursor == 3)


def test_a_removed_channel_is_silent_and_its_name_is_free(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "hook", receiver.url("/old"))
        mailbox.take(matches(1))
        receiver.wait(1)
        mailbox.remove_channel("hook")
        with pytest.raises(KeyError):
            mailbox.remove_channel("hook")
        mailbox.take(matches(1, first=1))
        hook(mailbox, "hook", receiver.url("/new"))
        mailbox.take(matches(1, first=2))
        receiver.wait(2)
        assert [(r.path, r.data["n"]) for r in receiver.requests] == [("/old", 1), ("/new", 3)]


def test_stopping_waits_for_what_is_on_its_way_and_the_next_start_goes_on(
    mailbox: Mailbox,
) -> None:
    arrived, go = threading.Event(), threading.Event()

    def answer(_: Request) -> Answer:
        arrived.set()
        go.wait(PATIENCE)
        return 200, {}, b""

    with Receiver(answer) as receiver:
        hook(mailbox, "hook", receiver.url())
        with delivering(mailbox) as worker:
            mailbox.take(matches(5))
            arrived.wait(PATIENCE)
            threading.Timer(0.2, go.set).start()
            assert worker.stop(PATIENCE)
            assert len(receiver.requests) == 1
            assert mailbox.channel("hook").cursor == 1
        with delivering(mailbox):
            receiver.wait(5)
            assert receiver.ids == [match(n).id for n in range(5)]


def test_stopping_does_not_wait_longer_than_it_is_told(mailbox: Mailbox) -> None:
    with trickling() as slow:
        hook(mailbox, "hook", f"http://127.0.0.1:{slow.port}/")
        with delivering(mailbox, timeout=NEVER) as worker:
            mailbox.take(matches(1))
            until(lambda: slow.connections)
            began = time.monotonic()
            assert not worker.stop(0.5)
            assert time.monotonic() - began < PATIENCE
        assert mailbox.channel("hook").cursor == 0


def test_resending_a_match_of_the_log(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "hook", receiver.url())
        mailbox.put_channel("reader", "pull")
        mailbox.take(matches(3))
        receiver.wait(3)
        mailbox.resend_match(match(1).id, "hook")
        receiver.wait(4)
        assert receiver.ids[-1] == match(1).id
        until(lambda: mailbox.figures().retries == 0)
        assert mailbox.channel("hook").cursor == 3
        with pytest.raises(KeyError):
            mailbox.resend_match("no such match", "hook")
        with pytest.raises(KeyError):
            mailbox.resend_match(match(1).id, "nobody")
        with pytest.raises(ValueError, match="reset"):
            mailbox.resend_match(match(1).id, "reader")


def test_dead_letters_are_listed_forgotten_and_sent_again_in_part(tmp_path: Path) -> None:
    clock, down = Clock(), True
    with (
        open_mailbox(tmp_path, clock) as mailbox,
        Receiver(lambda _: (500 if down else 200, {}, b"")) as receiver,
        delivering(mailbox, clock, schedule=()) as worker,
    ):
        for name in ("a", "b"):
            hook(mailbox, name, receiver.url(f"/{name}"), ordered=False)
        mailbox.take(matches(3))

        def dead() -> bool:
            clock.seconds += 1
            worker.poke()
            return len(mailbox.dead()) >= 6

        until(dead)
        assert {(d.channel, d.n) for d in mailbox.dead()} == {
            (c, n) for c in "ab" for n in (1, 2, 3)
        }
        assert [d.channel for d in mailbox.dead(channel="a")] == ["a"] * 3
        first = mailbox.dead()[0].number
        assert [d.number for d in mailbox.dead(after=first, limit=2)] == [first + 1, first + 2]
        assert mailbox.forget_dead([first]) == 1
        down = False
        seen = len(receiver.requests)
        (chosen, *_) = mailbox.dead()
        assert mailbox.resend([chosen.number, 999]) == 1
        receiver.wait(seen + 1)
        assert (receiver.requests[-1].path, receiver.requests[-1].id) == (
            f"/{chosen.channel}",
            chosen.match_id,
        )
        left = len(mailbox.dead(channel="b"))
        assert mailbox.resend(channel="b") == left
        receiver.wait(seen + 1 + left)
        assert mailbox.dead(channel="b") == []
        rest = len(mailbox.dead())
        assert mailbox.forget_dead(before=clock.now + DAY) == rest


def test_a_channel_of_events_only_holds_up_no_retention(mailbox: Mailbox) -> None:
    with Receiver() as receiver, delivering(mailbox):
        mailbox.put_channel(
            "owner",
            "webhook",
            settings={"url": receiver.url(), "events": ["subscription.suspended"]},
        )
        mailbox.take(matches(5))
        mailbox.record_event("subscription.suspended", "too many", subscription="tides")
        mailbox.record_event("something.else", "not asked for")
        (request,) = receiver.wait(1)
        assert b"too many" in request.body
        until(lambda: mailbox.channel("owner").cursor == 5)
        until(lambda: mailbox.db.rows("SELECT told FROM channel") == [(1,)])
        assert [event.kind for event in mailbox.events()] == [
            "subscription.suspended",
            "something.else",
        ]


def test_a_channel_says_what_it_cannot_read_and_goes_on_when_it_can(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox.take(matches(3))
    with mailbox.db.transaction() as db:
        ((head,),) = db.execute("SELECT head FROM match WHERE n = 2")
        db.execute("UPDATE match SET head = ? WHERE n = 2", (head[:-1],))
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "hook", receiver.url(), after=0)
        until(lambda: "hook: waiting, as it cannot read: match 2" in caplog.text)
        with mailbox.db.transaction() as db:
            db.execute("UPDATE match SET head = ? WHERE n = 2", (head,))
        until(lambda: mailbox.channel("hook").cursor == 3)
    assert receiver.ids == [match(n).id for n in range(3)]
    assert caplog.text.count("cannot read") == 1, "once, and not with each try"


def test_a_mailbox_that_is_full_for_a_while_delivers_on(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver() as receiver, delivering(mailbox):
        hook(mailbox, "hook", receiver.url())
        mailbox.take(matches(3))
        until(lambda: mailbox.channel("hook").cursor == 3)
        with mailbox.db.transaction() as db:  # nobody else can write meanwhile
            db.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON channel BEGIN SELECT raise(ABORT, 'full'); "
                "END"
            )
        mailbox.take(matches(3, first=3))
        receiver.wait(4)
        until(lambda: "the mailbox cannot be used" in caplog.text)
        with mailbox.db.transaction() as db:
            db.execute("DROP TRIGGER full")
        until(lambda: mailbox.channel("hook").cursor == 6)
        assert receiver.ids == [match(n).id for n in range(6)]


# -- pull ----------------------------------------------------------------------------------------


def test_a_named_consumer_moves_its_own_cursor_and_only_forward(mailbox: Mailbox) -> None:
    mailbox.put_channel("reader", "pull")
    mailbox.take(matches(5))
    assert [d.n for d in mailbox.pull("reader", 2)] == [1, 2]
    assert [d.n for d in mailbox.pull("reader", 2)] == [1, 2]
    assert mailbox.ack("reader", 2) == 2
    assert [d.n for d in mailbox.pull("reader", 2)] == [3, 4]
    assert mailbox.ack("reader", 1) == 2, "never backwards"
    assert mailbox.channel("reader").delivered == 2
    mailbox.reset_channel("reader", 0)
    assert [d.n for d in mailbox.pull("reader", 9)] == [1, 2, 3, 4, 5]
    for call in (mailbox.ack, mailbox.reset_channel):
        with pytest.raises(ValueError, match="goes up to 5"):
            call("reader", 6)
    with pytest.raises(KeyError):
        mailbox.pull("nobody", 1)
    mailbox.put_channel("file", "file", settings={"path": "out"})
    with pytest.raises(ValueError, match="file channel"):
        mailbox.ack("file", 1)
