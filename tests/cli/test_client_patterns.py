"""An event pattern in a service, from its registration to its decision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.serving import Serving, book, queries, serving


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Serving]:
    """A service without other documents: an undated one, which is of today, would make those of the
    pattern too old."""
    with serving(tmp_path / "state") as running:
        yield running


def test_an_event_pattern_waits_and_decides(alone: Serving, tmp_path: Path) -> None:
    path = queries(
        tmp_path,
        "pat: SELECT t, count(u) AS n FROM Pat//book->b[./title->t]"
        " FOLLOWED BY {1 h} (Pat//book->c[./title->u])+ WAIT 1 min;",
    )
    assert "pat: counts from document" in alone.done("subscribe", path)
    seldom = queries(tmp_path, path.read_text().replace("pat:", "seldom:"), "seldom.xscl")
    assert "seldom: counts" in alone.done("subscribe", seldom, "--throttle", "n:1 h")
    rare = queries(tmp_path, path.read_text().replace("pat:", "rare:"), "rare.xscl")
    assert (
        "they have those of t, u, n"
        in alone.broker("subscribe", rare, "--throttle", "v:1 h").stderr
    )
    assert "rare: counts" in alone.done("subscribe", rare, "--throttle", "1 h")
    lines = [book(title, 1_790_000_000 + at) for title, at in (("a", 0), ("b", 60), ("c", 120))]
    alone.done("publish", "Pat", "-", stdin="\n".join(lines))

    def waiting(told: dict[str, Any]) -> bool:
        found = (told["engine"] or {}).get("waiting", [])
        return [each["count"] for each in found if each["query"] == "pat"] == [2]

    alone.until("/v1/status", waiting)
    told = alone.done("why", "pat")
    assert told.startswith("pat: no matches yet, and 2 wait, the first until a document or the")
    assert "Pat//book->c[./title->u]  3 documents" in told
    assert "  2 wait:\n" in told
    assert "pat: 2 possible matches, the first decided at 2026-09-21T15:14:20Z" in (
        alone.done("status")
    )
    alone.done("publish", "Pat", "-", stdin=book("late", 1_790_000_000 + 90_000))
    found = alone.matched("pat", 2)
    assert [(each["values"]["n"], each["blocks"]) for each in found] == [
        (["2"], [0, [1, 2]]),
        (["1"], [0, [1]]),
    ]
    assert len(alone.matched("seldom", 2)) == 2
    assert len(alone.matched("rare", 1)) == 1
    assert alone.done("matches", "pat", "--format", "jsonl").count('"blocks"') == 2
    history = alone.done(
        "subscribe", queries(tmp_path, path.read_text().replace("pat:", "pat2:")), "--dry-run"
    )
    assert history.count("pat2") >= 2
    alone.done("unsubscribe", "pat")
