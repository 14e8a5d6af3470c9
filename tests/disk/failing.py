"""A disk that fails for a while, under a service."""

from __future__ import annotations

import json
from pathlib import Path

from tests.disk.calls import Call, Watched
from tests.disk.trace import COUNTED


def fail_while(order: Path, config: Path) -> None:
    """From now on writes, truncations and syncs of this process fail while the file `order` is
    there, which holds the error's number and the beginning of the names of files: of the state
    beside the settings."""

    def sees(call: Call) -> int:
        if call.kind not in COUNTED or call.name.endswith("-shm") or not order.exists():
            return 0
        error, name = json.loads(order.read_text())
        return int(error) if call.name.startswith(name) else 0

    state = config.parent / "state"
    state.mkdir(exist_ok=True)
    Watched().watch(state, sees)
