"""Questions why that are too much are refused with the reason, and keep nobody else waiting."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from broker.service.core.answers import Posted
from broker.service.core.errors import Conflict, NotFound
from broker.why.model import Budget
from tests.service.data import HOUR, applied, serving

TOO_MUCH = "(S//a)+ USING SKIP TILL ANY MATCH WITHIN 1 h"


def test_a_pattern_that_is_too_much_is_refused_with_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path / "state", limits={"time": "300 ms"}) as service:
        service.subscriptions.subscribe("keep: S//a->x FOLLOWED BY {1 day} S//b->y")
        begin = service.core.now() - 2 * HOUR
        documents = [Posted(b"<a/>", id=f"a{n}", timestamp=begin + n) for n in range(100)]
        documents.append(Posted(b"<t/>", id="t", timestamp=begin + HOUR))
        service.intake.publish("S", documents)
        applied(service, len(documents))
        refused: list[str] = []

        def ask() -> None:
            with pytest.raises(Conflict) as why:
                service.explanations.of_text(TOO_MUCH, Budget(1_000))
            refused.append(str(why.value))

        asking = threading.Thread(target=ask)
        asking.start()
        with pytest.raises(NotFound):
            service.explanations.of_subscription("nobody", Budget(1_000))
        asking.join()
        assert len(refused) == 1
        assert "too much" in refused[0] or "suspended" in refused[0]
        assert service.explanations.of_text("S//a", Budget(1_000))
