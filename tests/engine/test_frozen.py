"""What is kept from the garbage collector while a broker is open may be collected when it is closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
