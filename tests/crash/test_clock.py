"""The wall clock is wrong, jumps, and is corrected: no document becomes late by it, none is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.crash.plain import Plain
from tests.crash.webhooks import SECRET, Webhooks

HOUR, TEN_YEARS = 3_600.0, 10 * 365.25 * 86_400
_TIME = {"lateness": "1 h", "idle": "1 s"}


def test_the_clock_jumps_while_it_runs(tmp_path: Path) -> None:
    """Ten years forward and back again, with pauses in which time goes on by itself."""
    with Plain(tmp_path / "service", plain=True, time=_TIME) as plain, Webhooks(1) as hooks:
        plain.served.start(jump=TEN_YEARS)
        plain.subscribe()
        _channels(plain, hooks)
        plain.posted(range(5))
        for first in (5, 10, 15):
            os.kill(plain.served.pid, signal.SIGUSR1)
            _goes_on(plain)
            plain.posted(range(first, first + 5))
        _all_there(plain, hooks, 20)


def test_the_clock_is_wrong_at_a_start(tmp_path: Path) -> None:
    """An hour behind, ten years ahead, right again; each time after a kill."""
    with Plain(tmp_path / "service", plain=True, time=_TIME) as plain, Webhooks(2) as hooks:
        plain.served.start()
        plain.subscribe()
        _channels(plain, hooks)
        plain.posted(range(5))
        for first, ahead in ((5, -HOUR), (10, TEN_YEARS), (15, 0.0)):
            plain.served.kill()
            plain.served.start(ahead=ahead)
            _goes_on(plain)
            plain.posted(range(first, first + 5))
        _all_there(plain, hooks, 20)


def test_deliveries_go_on_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """A receiver that fails is tried again soon, whatever the clock says by then."""
    with Plain(tmp_path / "service", plain=True) as plain, Webhooks(3) as hooks:
        plain.served.start(jump=-HOUR)
        plain.subscribe()
        hooks.refusing = True
        _channels(plain, hooks)
        assert plain.post(range(5)) == 202
        plain.wait(lambda: _channel(plain, "in-order")["attempts"] >= 5)
        os.kill(plain.served.pid, signal.SIGUSR1)
        hooks.refusing = False
        _all_there(plain, hooks, 5)


def _channels(plain: Plain, hooks: Webhooks) -> None:
    for name in ("in-order", "any-order"):
        body = {
            "kind": "webhook",
            "settings": {"url": f"{hooks.url}/{name}", "secret": SECRET},
            "ordered": name == "in-order",
        }
        assert plain.served.http.put(f"/v1/channels/{name}", json=body).is_success
    assert plain.served.http.put("/v1/channels/puller", json={"kind": "pull"}).is_success


def _channel(plain: Plain, name: str) -> dict[str, Any]:
    return dict(plain.served.get(f"/v1/channels/{name}"))


def _goes_on(plain: Plain) -> None:
    """Time passes, more than after which it goes on without documents."""
    assert not plain.served.exited(3.0)


def _all_there(plain: Plain, hooks: Webhooks, count: int) -> None:
    def arrived() -> bool:
        assert not hooks.failures, hooks.failures[0]
        return all(
            len(hooks.boxes[name].got) == count if name in hooks.boxes else False
            for name in ("in-order", "any-order")
        )

    plain.wait(arrived)
    answer = plain.served.http.get("/v1/matches", params={"channel": "puller", "limit": 1_000})
    assert len(answer.content.splitlines()) == count
    assert plain.found() == [*range(count)]
    assert plain.letters() == []
