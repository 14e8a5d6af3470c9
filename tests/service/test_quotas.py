"""Quotas of tokens, and rates over time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.service.access.quotas import OverQuota, Quotas
from broker.service.access.scopes import Identity, Quota
from tests.service.api_harness import Running, problem, serving
from tests.service.test_tokens import make
from tests.waiting import until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "state") as running:
        yield running


def test_quotas_of_a_token(running: Running) -> None:
    quota = {"subscriptions": 1, "documents": 0.001, "state": 1}
    with make(running, "a", "subscribe", "read:A", "publish:A", **quota) as a:
        assert a.subscribe("one", "A").status_code == 201
        assert a.subscribe("one", "A").status_code == 201, "it has it already"
        refused = a.subscribe("two", "A")
        assert "1 subscriptions" in problem(refused, 429, "over-quota")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        assert a.publish("A", "one").status_code == 202
        refused = a.publish("A", "two")
        assert "0.001 documents a second" in problem(refused, 429, "over-quota")["detail"]
        assert int(refused.headers["retry-after"]) > 100
        running.http.patch("/v1/tokens/a", json={"quota": {"documents": None}})
        until(lambda: running.service.figures().spool.backlog == 0)
        refused = a.publish("A", "three")
        assert "1 bytes at most" in problem(refused, 429, "over-quota")["detail"]
        running.http.patch("/v1/tokens/a", json={"quota": {"state": None, "bytes": 10_000}})
        assert a.publish("A", "four").status_code == 202
        a.http.delete("/v1/subscriptions/one")
        assert a.subscribe("two", "A").status_code == 201


def test_a_rate_holds_over_time_and_large_requests_pass() -> None:
    now = 0.0
    who = Identity("a", frozenset(), Quota(documents=2.0, bytes=100))
    quotas = Quotas(lambda _: 0, lambda: now)
    accepted = 0
    for _ in range(10_000):
        try:
            quotas.check(who)
        except OverQuota as error:
            now += error.retry_after
        else:
            quotas.used(who, 50, 1_000)
            accepted += 50
    assert accepted / now == pytest.approx(2.0, rel=0.02)
