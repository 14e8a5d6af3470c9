"""Each crash point names a function that exists: a rename must not leave a point without effect."""

from __future__ import annotations

import pytest

from tests.crash.points import POINTS, Point, place


@pytest.mark.parametrize("point", POINTS.values(), ids=list(POINTS))
def test_a_point_names_a_function(point: Point) -> None:
    owner, name = place(point)
    assert callable(getattr(owner, name))
