"""Throttles: one notification per value and period, by the time of matches; others are counted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.delivery import Mailbox, Throttle
from broker.model import Match
from tests.delivery.support import DAY, HOUR, START, match, open_mailbox


def by(number: int, end: int, *authors: str) -> Match:
    return match(number, end=START + end, values={"author": list(authors)})


def out(mailbox: Mailbox) -> list[tuple[int, int]]:
    """Which matches went out, by their time in hours, and how many had been left out before."""
    return [((d.match.end_us - START) // HOUR, d.left_out) for d in mailbox.matches(None, 0, 100)]


def test_one_per_value_and_period_and_the_rest_is_counted(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", "author", DAY)
    hours = [(0, "a"), (1, "a"), (2, "b"), (23, "a"), (24, "a"), (25, "a"), (60, "a"), (61, "b")]
    taken = mailbox.take([by(n, h * HOUR, a) for n, (h, a) in enumerate(hours)])
    assert out(mailbox) == [(0, 0), (2, 0), (24, 2), (60, 1), (61, 0)]
    assert taken == 5
    assert mailbox.throttle("tides") == Throttle("author", DAY, 3)
    assert mailbox.figures().left_out == 3


def test_without_a_variable_for_the_whole_subscription(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", None, DAY)
    mailbox.take([by(n, h * HOUR, f"author {n}") for n, h in enumerate((0, 5, 30))])
    mailbox.take([match(9, "other", end=START), match(10, "other", end=START)])
    assert out(mailbox) == [(0, 0), (30, 1), (0, 0), (0, 0)]


def test_a_match_with_several_values_is_left_out_if_one_of_them_was_told(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", "author", DAY)
    mailbox.take(
        [by(0, 0, "a"), by(1, HOUR, "a", "b"), by(2, 2 * HOUR, "b"), by(3, 3 * HOUR), by(4, HOUR)]
    )
    assert out(mailbox) == [(0, 0), (2, 0), (3, 0)]


def test_an_older_match_counts_by_its_own_time(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", "author", DAY)
    mailbox.take([by(n, h * HOUR, "a") for n, h in enumerate((100, 50, 60, 90, 30, 10))])
    assert out(mailbox) == [(100, 0), (50, 0), (10, 3)]


def test_a_repeat_is_not_counted_again(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", "author", DAY)
    batch = [by(0, 0, "a"), by(1, HOUR, "a")]
    mailbox.take(batch)
    mailbox.take(batch)
    mailbox.take([by(2, 30 * HOUR, "a")])
    assert out(mailbox) == [(0, 0), (30, 1)]


def test_it_is_remembered_changed_and_removed(tmp_path: Path) -> None:
    with open_mailbox(tmp_path) as mailbox:
        mailbox.set_throttle("tides", "author", DAY)
        mailbox.take([by(0, 0, "a"), by(1, HOUR, "a")])
    with open_mailbox(tmp_path) as mailbox:
        mailbox.take([by(2, 2 * HOUR, "a")])
        assert out(mailbox) == [(0, 0)]
        mailbox.set_throttle("tides", "author", HOUR)
        mailbox.take([by(3, 3 * HOUR, "a")])
        assert out(mailbox) == [(0, 0), (3, 2)]
        mailbox.remove_throttle("tides")
        assert mailbox.throttle("tides") is None
        mailbox.take([by(4, 3 * HOUR, "a")])
        assert out(mailbox)[-1] == (3, 0)
        with pytest.raises(ValueError, match="positive"):
            mailbox.set_throttle("tides", None, 0)


def test_what_it_remembers_is_bounded(tmp_path: Path) -> None:
    with Mailbox(tmp_path / "mailbox.sqlite", throttled=1_500) as mailbox:
        _remember(mailbox)


def _remember(mailbox: Mailbox) -> None:
    mailbox.set_throttle("tides", "author", HOUR)
    for start in range(0, 5_000, 500):
        mailbox.take([by(n, n, f"author {n}") for n in range(start, start + 500)])
    assert mailbox.db.rows("SELECT count(*) FROM throttled")[0][0] <= 2_500
    later = 30 * DAY
    mailbox.take([by(n, later + n, f"author {n}") for n in range(5_000, 6_000)])
    assert mailbox.db.rows("SELECT count(*) FROM throttled")[0][0] <= 1_000
    assert mailbox.last() == 6_000


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    hours=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab")), min_size=1, max_size=30),
    cuts=st.integers(1, 7),
)
def test_what_goes_out_is_apart_by_a_period_and_nothing_is_lost_from_the_count(
    tmp_path_factory: pytest.TempPathFactory, hours: list[tuple[int, str]], cuts: int
) -> None:
    """Whatever the order and the batches; and batches change nothing."""
    period = 10 * HOUR
    found = []
    for size in (cuts, len(hours)):
        with open_mailbox(tmp_path_factory.mktemp("m")) as mailbox:
            mailbox.set_throttle("tides", "author", period)
            batch = [by(n, h * HOUR, a) for n, (h, a) in enumerate(hours)]
            for start in range(0, len(batch), size):
                mailbox.take(batch[start : start + size])
            throttle = mailbox.throttle("tides")
            assert throttle is not None
            went = mailbox.matches(None, 0, 100)
            assert len(went) + throttle.left_out == len(hours)
            for author in "ab":
                ends = sorted(d.match.end_us for d in went if d.match.values["author"] == [author])
                assert all(b - a >= period for a, b in pairwise(ends))
            found.append([(d.match.id, d.left_out) for d in went])
    assert found[0] == found[1]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    hours=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", "ab", "ba"])),
        min_size=2,
        max_size=20,
    ),
    again=st.lists(st.tuples(st.integers(0, 19), st.integers(1, 20)), max_size=6),
    opened=st.integers(0, 6),
)
def test_matches_that_are_handed_over_again_are_counted_once(
    tmp_path_factory: pytest.TempPathFactory,
    hours: list[tuple[int, str]],
    again: list[tuple[int, int]],
    opened: int,
) -> None:
    """In any pieces, before and after a restart: each match is in the log or left out, and what
    matches carry as left out before them is no more than what was."""
    directory = tmp_path_factory.mktemp("m")
    batch = [by(n, h * HOUR, *authors) for n, (h, authors) in enumerate(hours)]
    half = len(batch) // 2
    pieces = [batch[:half], *(batch[at : at + size] for at, size in again), batch[half:], batch]
    for own in (pieces[:opened], pieces[opened:]):
        with open_mailbox(directory) as mailbox:
            if mailbox.throttle("tides") is None:
                mailbox.set_throttle("tides", "author", 10 * HOUR)
            for piece in own:
                mailbox.take(piece)
            went = mailbox.matches(None, 0, 100)
            left_out = mailbox.figures().left_out
            ((pending,),) = mailbox.db.rows("SELECT sum(left_out) FROM throttled")
    assert len(went) + left_out == len(batch)
    assert sum(d.left_out for d in went) + pending == left_out
