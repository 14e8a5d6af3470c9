"""A query is told that documents go before its windows are over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.data import serving


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S//a->x FOLLOWED BY {x = y, 1 h} S//b->y", None),
        ("S//a->x FOLLOWED BY {x = y, 2 h} S//b->y", "this window is 2 h: nothing is found"),
        ("S//a->x FOLLOWED BY {x = y, INFINITY} S//b->y", None),
        (
            "S//a->x FOLLOWED BY {x = y, INFINITY} S//b->y FOLLOWED BY {y = z, 50 min} NOT S//c->z",
            "this window is 50 min, and 15 min is waited for what comes late",
        ),
        ("S//a->x NEXT {x = y, 50 min} S//b->y", "this window is 50 min, and 15 min is waited"),
        ("S//a->x NEXT {x = y, 50 min} S//b->y WAIT 1 min", None),
        ("S//a->x NEXT {x = y, 30 min} S//b->y", None),
        ("(SELECT x FROM S//a->x NEXT {x = y, 3 h} S//b->y) NEXT {2 h} S//c", "this window is 3 h"),
    ],
)
def test_a_window_longer_than_documents_are_kept_is_told_of(
    tmp_path: Path, text: str, said: str | None
) -> None:
    with serving(tmp_path, time={"lateness": "15 min"}, retention={"documents": "1 h"}) as service:
        checked = service.subscriptions.check(f"q: {text}")
        (subscribed,) = service.subscriptions.subscribe(f"q: {text}")
    for warnings in (checked.findings, subscribed.warnings):
        found = [each.message for each in warnings if each.code == "short-retention"]
        assert len(found) == (said is not None)
        assert said is None or said in found[0]


def test_without_a_bound_nothing_is_said(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        checked = service.subscriptions.check("q: S//a->x FOLLOWED BY {x = y, 900 days} S//b->y")
    assert not checked.findings
