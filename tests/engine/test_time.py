"""The clock: it advances the watermark and expires rows, and wrong times are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.documents.watermark import WallClock
from broker.model import UNBOUNDED
from tests.oracle.oracle import Arrival
from tests.properties.test_time import Running

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
YEAR = 365 * DAY
NOON = 1_800_000_000 * SECOND
PAIR = "pair: S//i->x[./t->t] FOLLOWED BY {t = u, 1 h} S//i->y[./t->u];"


def item(id: str, at: int, text: str = "same", source: str = "test") -> Arrival:
    return Arrival(id, ("S",), at, f"<i><t>{text}</t></i>", source)


class Clocked(Running):
    """Begins at noon; `wrong` is how far the wall clock is off."""

    def __init__(self, state: Path | None = None, text: str = PAIR, **more: object) -> None:
        super().__init__(text, state, MINUTE, **{"lateness": HOUR, **more})
        self.now = NOON
        self.wrong = 0

    @property
    def wall(self) -> int:
        return self.now + self.wrong

    def dated(self, id: str, at: int) -> int:
        """A document with a date; the number of its matches."""
        return len(self.put([item(id, at)], self.wall))

    def undated(self, id: str) -> int:
        """A document that gets its date from the clock."""
        return self.dated(id, self.wall)

    def pass_by(self, duration: int, step: int = 10 * SECOND) -> None:
        """Let time pass, asking as a service does."""
        end = self.now + duration
        while self.now < end:
            self.now = min(end, self.now + step)
            self.engine.tick(self.wall)

    def rows(self) -> int:
        return int(self.engine.store.rows("SELECT count(*) FROM rl")[0][0])


def test_where_nothing_comes_the_watermark_follows_the_clock_and_windows_close() -> None:
    running = Clocked()
    running.dated("a", NOON)
    assert running.rows() == 1
    running.pass_by(50 * SECOND)
    assert running.engine.newest() == NOON
    running.pass_by(HOUR)
    newest = running.engine.newest()
    assert running.now - 2 * MINUTE <= newest <= running.now - MINUTE
    running.pass_by(55 * MINUTE)
    assert running.rows() == 1  # the window and the lateness are two hours in all
    running.pass_by(10 * MINUTE)
    assert running.rows() == 0
    assert running.engine.store.rows("SELECT count(*), count(xml) FROM documents") == [(1, 0)]
    # What is late is late for the clock too.
    running.dated("late", NOON)
    (letter,) = running.engine.letters()
    assert letter.reason == "late: 2.1 h behind the newest, and 1 h allowed"
    assert letter.at == running.now


def test_while_documents_come_what_is_out_of_reach_goes_all_the_same() -> None:
    running = Clocked()
    running.dated("a", NOON)
    for n in range(26):
        running.pass_by(5 * MINUTE)
        running.dated(f"b{n}", running.now)
    first = running.engine.store.rows('SELECT min("end") FROM rl')[0][0]
    assert first >= running.now - 2 * HOUR - 2 * MINUTE


def test_the_watermark_survives_a_restart_and_the_time_between_does_not_count(
    tmp_path: Path,
) -> None:
    running = Clocked(tmp_path)
    running.dated("a", NOON)
    running.pass_by(30 * MINUTE)
    newest = running.engine.newest()
    running.restart()
    assert running.engine.newest() == newest
    # Nobody could send anything while it was down.
    running.now += 30 * DAY
    running.restart()
    running.pass_by(30 * SECOND)
    assert running.engine.newest() == newest
    assert running.dated("b", NOON + 10 * MINUTE) == 1


def test_an_archive_that_comes_with_pauses_is_not_late() -> None:
    running = Clocked()
    past = NOON - 3 * YEAR
    assert running.dated("a", past) == 0
    running.pass_by(50 * MINUTE)
    assert running.dated("b", past + SECOND) == 1
    assert running.engine.letters() == []


@pytest.mark.parametrize("jump", [10 * YEAR, -10 * YEAR, 2 * HOUR, -2 * HOUR])
def test_a_clock_that_is_wrong_for_a_while_makes_nothing_late(jump: int) -> None:
    running = Clocked(lateness=10 * MINUTE)
    running.dated("a", NOON)
    running.wrong = jump
    running.pass_by(20 * MINUTE)
    assert running.dated("b", running.now) == 1
    running.undated("wrong")
    running.pass_by(20 * MINUTE)
    assert running.dated("c", running.now) >= 2
    running.wrong = 0
    running.pass_by(5 * MINUTE)
    assert running.dated("d", running.now) >= 3
    assert {each.id for each in running.engine.letters()} <= {"wrong"}
    assert running.engine.newest() == running.now
    assert running.rows() >= 4


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_wrong_for_long_is_got_over(restarted: bool, tmp_path: Path) -> None:
    """Believed for a day: what came with a date is late then, and no more once it is set right."""
    running = Clocked(tmp_path)
    running.dated("a", NOON)
    running.wrong = 10 * YEAR
    if restarted:
        running.restart()
    running.pass_by(DAY, 5 * MINUTE)
    running.undated("wrong")
    assert running.engine.newest() == running.wall
    running.wrong = 0
    if restarted:
        running.restart()
    running.pass_by(2 * HOUR, MINUTE)
    running.dated("b", running.now)
    assert running.dated("c", running.now + SECOND) == 1
    assert running.engine.letters() == []
    # Nor is what comes now out of reach at once.
    running.pass_by(10 * MINUTE)
    assert running.dated("d", running.now) == 2


def test_the_watermark_never_goes_back() -> None:
    running = Clocked()
    highest = 0
    for n, (wrong, at) in enumerate(
        [(0, 0), (-YEAR, -HOUR), (YEAR, HOUR), (0, -2 * HOUR), (-DAY, DAY), (DAY, 0), (0, 0)]
    ):
        running.wrong = wrong
        running.pass_by(7 * MINUTE)
        running.dated(f"d{n}", running.now + at)
        newest = running.engine.newest()
        assert newest >= highest
        highest = newest
    assert highest <= running.now


def test_a_clock_is_believed_when_it_has_kept_to_its_time_for_an_hour() -> None:
    now = 5 * HOUR
    clock = WallClock(lambda: now)
    assert clock.correct(NOON) == NOON
    now += MINUTE
    assert (
        clock.correct(NOON + MINUTE + 2 * SECOND) == NOON + MINUTE + 2 * SECOND
    )  # set right a bit
    for _ in range(59):
        now += MINUTE
        believed = clock.correct(NOON + YEAR + now)
        assert believed == NOON + now - 5 * HOUR + 2 * SECOND
        assert clock.believed() == believed
    now += MINUTE
    assert clock.correct(NOON + 2 * YEAR + now) < NOON + DAY  # another jump begins anew
    for _ in range(60):
        now += MINUTE
        believed = clock.correct(NOON + 2 * YEAR + now)
    assert believed == NOON + 2 * YEAR + now
    assert clock.correct(None) > NOON + 100 * YEAR


def test_documents_are_dated_in_the_order_in_which_they_come() -> None:
    """Also where a reading of the clock came late, and where the clock was set back by a little."""
    early = WallClock(lambda: 0)
    early.next(1, NOON + YEAR)
    assert early.correct(NOON) == early.next(1, 0) == NOON
    steady = 0
    clock = WallClock(lambda: steady)
    assert [clock.next(2, NOON - 10), clock.next(1, NOON - 12)] == [NOON - 10, NOON - 8]
    clock.correct(NOON)
    assert [clock.next(3, 0), clock.next(1, 0), clock.next(2, 0)] == [NOON, NOON + 3, NOON + 4]
    steady += SECOND
    assert clock.believed() == clock.next(1, 0) == NOON + SECOND
    assert clock.correct(NOON + SECOND // 2) == NOON + SECOND + 1
    assert [clock.believed(), clock.next(2, 0), clock.next(1, 0)] == [
        NOON + SECOND + n for n in (1, 1, 3)
    ]
    steady += SECOND
    assert clock.believed() == clock.next(1, 0) == NOON + SECOND + SECOND // 2
    # A jump back that is believed counts at once.
    for _ in range(62):
        steady += MINUTE
        told = clock.correct(NOON - YEAR + steady)
    assert told == clock.believed() == clock.next(1, 0) == NOON - YEAR + steady


def test_what_a_stream_with_a_lateness_of_its_own_may_join_is_kept() -> None:
    """Expiry waits for the latest document of any stream, and for the widest window."""
    text = "late: S//i->x[./t->t] JOIN {t = u, 1 h} R//i->y[./t->u]"
    running = Running(text, lateness=0, lateness_of={"R": HOUR})
    running.put([item("a", NOON)])
    running.put([item("now", NOON + 2 * HOUR - MINUTE, "other")])
    running.engine.expire()
    late = Arrival("r", ("R",), NOON + HOUR - MINUTE, "<i><t>same</t></i>")
    assert len(running.put([late])) == 1
    running.put([item("later", NOON + 2 * HOUR + SECOND, "other")])
    running.engine.expire()
    assert running.engine.store.rows('SELECT min("end") FROM rl') == [(NOON + HOUR - MINUTE,)]


def test_after_a_start_nothing_goes_by_a_clock_that_has_not_proved_itself() -> None:
    """Ten years ahead at the start: until it has gone on for an hour, only the time counts that was
    known before, and what has passed since."""
    steady, known, years = 0, 1_000 * HOUR, 87_600 * HOUR
    clock = WallClock(lambda: steady)
    clock.begin(known)
    clock.correct(known + years)
    assert clock.come() == known
    steady = HOUR // 2
    clock.correct(known + years + steady)
    assert clock.come() == known + steady
    # It is put right: whether that is so takes an hour too.
    clock.correct(known + steady)
    for minutes in range(31, 95, 10):
        steady = minutes * HOUR // 60
        clock.correct(known + steady)
        assert clock.come() <= known + steady
    # And a machine that was off for years is believed in the end.
    later = WallClock(lambda: steady)
    later.begin(known)
    later.correct(known + years)
    steady += HOUR
    assert later.correct(known + years + HOUR) == later.come() == known + years + HOUR


def test_without_a_known_time_the_clock_counts() -> None:
    clock = WallClock(lambda: 0)
    assert clock.come() >= UNBOUNDED
    clock.correct(HOUR)
    assert clock.come() == HOUR


@pytest.mark.parametrize(
    ("late", "told"),
    [(70 * DAY, "70.0 days"), (90 * MINUTE, "1.5 h"), (15 * SECOND, "15.0 s"), (2, "0.002 ms")],
)
def test_how_late_a_document_is_is_told_in_a_unit_that_fits(late: int, told: str) -> None:
    running = Clocked(lateness=1)
    running.dated("newest", NOON)
    running.dated("late", NOON - late)
    (letter,) = running.engine.letters()
    assert letter.reason.startswith(f"late: {told} behind the newest")
