"""Some bombs beside honest subscriptions, as in the long run: every honest match is found, and each
bomb is set aside and named."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.bombs.generate import KINDS, bomb
from tests.bombs.long import HONEST, Rounds, Served

_KINDS = ("product", "long-concat", "inner", "join-pairs", "pattern-product", "join-hot")
"""Those that are found soon."""


def test_bombs_are_set_aside_and_honest_subscriptions_find_all(tmp_path: Path) -> None:
    r = Random(20261124)
    kinds = [*KINDS]
    bombs = [bomb(r, kinds.index(kind)) for kind in _KINDS]
    served = Served(tmp_path / "state", "700 ms")
    try:
        rounds = Rounds(served, 1)
        rounds.subscribe(HONEST)
        rounds.run(bombs)
        assert rounds.named == dict.fromkeys(_KINDS, 1)
        assert served.deaths == 0
    finally:
        assert served.close() == 0
