"""How much each shard does, and how much the others wait for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Use(NamedTuple):
    """What an answer took of a shard: seconds of CPU and seconds that passed; how many documents
    the shard has in memory now, and how many matches it has found."""

    cpu: float = 0.0
    seconds: float = 0.0
    documents: int = 0
    matches: int = 0


@dataclass(slots=True)
class ShardLoad:
    """A shard since the start: seconds of CPU, matches, documents in memory now; how long its last
    answer took, and how much longer than the quickest, in seconds."""

    cpu: float = 0.0
    matches: int = 0
    documents: int = 0
    last: float = 0.0
    behind: float = 0.0


@dataclass(slots=True)
class Load:
    """All shards. Other threads may read it."""

    shards: list[ShardLoad]
    batches: int = 0
    """Rounds that have been answered."""
    bytes_written: int = 0
    _sent: float | None = field(default=None)

    @classmethod
    def of(cls, count: int) -> Load:
        return cls([ShardLoad() for _ in range(count)])

    def sent(self) -> None:
        """A round was sent to the shards."""
        self._sent = time.monotonic()

    def answered(self, uses: Sequence[Use]) -> None:
        """All have answered it."""
        self._sent = None
        self.batches += 1
        quickest = min([use.seconds for use in uses])
        for shard, use in zip(self.shards, uses, strict=True):
            shard.cpu += use.cpu
            shard.matches += use.matches
            shard.documents = use.documents
            shard.last = use.seconds
            shard.behind = use.seconds - quickest

    @property
    def lag(self) -> float:
        """Seconds that the round which is under way has been waiting for answers."""
        sent = self._sent
        return 0.0 if sent is None else time.monotonic() - sent

    @property
    def skew(self) -> float:
        """The CPU time of the shard that has the most, of the mean: 1 if all do the same."""
        seconds = [shard.cpu for shard in self.shards]
        total = sum(seconds)
        return max(seconds) * len(seconds) / total if total else 1.0
