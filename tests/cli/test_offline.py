"""Subscriptions are paused, resumed and removed while the service is down."""

from __future__ import annotations

from pathlib import Path

from broker.service.service import Service
from tests.cli.serving import run as broker
from tests.service.data import settings


def test_subscriptions_change_while_the_service_is_down(tmp_path: Path) -> None:
    state = tmp_path / "state"
    service = Service(settings(state))
    service.start()
    service.subscriptions.subscribe("".join(f"{id}: S//x->x;\n" for id in ("a", "b", "n-1", "n-2")))
    busy = broker("pause", "a", "--offline", "--state", str(state))
    assert busy.returncode == 1
    assert "another process uses this state" in busy.stderr
    service.stop()
    paused = broker("pause", "a", "none", "--offline", "--state", str(state))
    assert paused.returncode == 1
    assert "1 subscription paused" in paused.stderr
    assert "1 id nobody has: none" in paused.stderr
    gone = broker(
        *("unsubscribe", "b", "--prefix", "n-", "--yes", "--offline", "--state", str(state))
    )
    assert gone.returncode == 0, gone.stderr
    assert gone.stderr.splitlines() == [
        "1 subscription unsubscribed",
        "2 subscriptions unsubscribed",
    ]
    service = Service(settings(state))
    service.start()
    assert [(each.id, each.status) for each in service.subscriptions.page()] == [("a", "paused")]
    service.stop()
    assert broker("resume", "a", "--offline", "--state", str(state)).returncode == 0
    every = ("unsubscribe", "--prefix", "", "--offline", "--state", str(state))
    refused = broker(*every)
    assert (refused.returncode, "add --yes" in refused.stderr) == (2, True)
    nowhere = broker("pause", "a", "--offline", "--state", str(tmp_path / "none"))
    assert nowhere.returncode == 1
    assert "there is no state of a service" in nowhere.stderr
    assert not (tmp_path / "none").exists()
