"""What is kept from the garbage collector while a broker is open may be collected when it is closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker import Broker
from broker.subscriptions import registry
from tests.waiting import PATIENCE
from xscl.growth import MANY

# In a process of its own: here the run of tests has frozen what it has loaded, and that stays so.
_OPENED_AGAIN = f"""
import gc, sys, weakref
from broker import Broker

text = "".join(f"q{{n}}: S//i[./a->a][./b = 'x{{n}}'];" for n in range({MANY}))
with Broker(sys.argv[1]) as broker:
    broker.subscribe(text)
    assert gc.get_freeze_count() > {MANY}
for _ in range(2):
    broker = Broker(sys.argv[1])
    frozen, engine = gc.get_freeze_count(), weakref.ref(broker._engine)
    broker.close()
    del broker
    gc.collect()
    print(frozen > {MANY}, gc.get_freeze_count(), engine())
"""


def test_a_closed_broker_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPENED_AGAIN, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.splitlines() == ["True 0 None"] * 2, done.stderr


def test_subscriptions_that_come_a_part_at_a_time_are_frozen_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[int] = []
    with Broker() as broker:
        count = broker._engine.registry.count
        monkeypatch.setattr(registry, "MANY", 100)
        monkeypatch.setattr(registry, "freeze", lambda: frozen.append(count()))
        monkeypatch.setattr(registry, "thaw", lambda: frozen.append(0))
        for first in range(0, 450, 50):
            queries = [f"q{n}: S//i[./a->a][./b = 'x{n}'];" for n in range(first, first + 50)]
            broker.subscribe("".join(queries))
    assert frozen == [100, 200, 300, 400, 0]
