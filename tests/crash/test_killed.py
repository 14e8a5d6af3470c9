"""The service is killed at critical moments, and no match is lost or found twice.

`python -m tests.crash.long` goes on where this stops.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.crash.episode import Kill, aimed, live
from tests.crash.points import POINTS, Aim, place

SEED = 6

LOCAL = (
    "fetched",
    "spool inserted",
    "published",
    "batch found",
    "engine committed",
    "replaced",
    "suspended",
    "taken",
    "webhook sent",
    "file written",
    "mail sent",
    "settling",
    "history found",
    "subscription written",
    "unsubscribed",
    "checkpoint",
)
"""A point on each arrow, and in each change of what is kept."""

SPARK = (Kill(Aim("batch done", 2)), Kill(Aim("batch begun", 2)))
"""Where the engine is ahead of Spark's checkpoint, and where Spark counts as done what the engine has
not. Each kill is another start of Spark; `--long kills-spark` aims at all points."""


def test_killed_in_this_process(tmp_path: Path) -> None:
    random = Random(SEED)
    kills = [aimed(random, point) for point in LOCAL] + [Kill(None, 0.4)]
    struck, found = live(tmp_path / "crash", SEED, kills)
    missed = [str(each.kill) for each in struck if not each.reached]
    assert not missed, f"these points are not passed any more: {missed}"
    few = {"suspended"}  # killed there, and then dropped or replaced
    seen = Counter(found)
    # How far the service gets between two kills depends on the machine, and with that whether, say, a
    # throttle leaves a match out or an item is edited: so it lives on, each time for longer, until
    # everything has been seen.
    for more in range(1, 5):
        if all(seen[name] for name in found if name not in few):
            break
        _, again = live(tmp_path / f"again-{more}", SEED + more, [Kill(None, 0.4 * 2**more)])
        seen.update(again)
    assert not [name for name in found if not seen[name] and name not in few], seen


@pytest.mark.spark
def test_killed_under_spark(tmp_path: Path) -> None:
    struck, found = live(tmp_path / "crash", SEED, SPARK, pipeline="spark")
    missed = [str(each.kill) for each in struck if not each.reached]
    assert not missed, f"these points are not passed any more: {missed}"
    # Which changes come by then, and what these find, depends on the machine.
    assert all(found[name] for name in ("documents", "matches", "of patterns")), found


def test_points_are_there() -> None:
    """What the long run aims at has not been renamed."""
    for point in POINTS.values():
        place(point)
