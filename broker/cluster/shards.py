"""The shards as the coordinator sees them: a batch out to all of them, the answers of all back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from broker.cluster.answers import Answer, Waits
from broker.cluster.files import Files, files_at
from broker.cluster.manifest import Segment
from broker.cluster.patterns import Patterns
from broker.cluster.shard import Settings, Shard
from broker.state.pattern_tables import Entry


class Loading(NamedTuple):
    """What a shard begins with: the number of the last committed batch, the names of all files of
    queries, the committed segments, the hot values that these were divided by (`Router`), and how
    far the event patterns are."""

    number: int
    queries: tuple[str, ...]
    segments: tuple[Segment, ...]
    hot: Mapping[int, int]
    patterns: Patterns


class Request(NamedTuple):
    """A round for a shard: its segment, the names of all files of queries up to now, before which
    end documents are deleted first (microseconds), which are revised in the whole batch, the event
    patterns that are registered, or have changed, since the last round, and the variants of which
    all combinations are asked for."""

    segment: Segment
    queries: tuple[str, ...]
    horizon: int
    revised: frozenset[int]
    entries: Mapping[int, Entry]
    counted: frozenset[str]


class Ask(NamedTuple):
    """The question what event patterns have not decided yet."""


class Shards(Protocol):
    """All shards, wherever they run."""

    def start(self, shared: str, settings: Settings, loading: Callable[[], Loading]) -> None:
        """Begin; `loading` says at any time what a shard that is made anew begins with."""

    def send(self, request: Request | Ask) -> None:
        """Send a batch, or a question, to all shards."""

    def receive(self) -> list[Any]:
        """The answers to the last request, in order of the shards; waits for those that are being
        made anew. Raises ClusterError."""

    def reset(self) -> None:
        """Have all shards made anew: what was sent last is not committed."""

    def close(self) -> None:
        """End all shards."""


class Stale(Exception):
    """A shard has been made of something else than what it is asked about."""


class Worker:
    """One shard, which is made when it is needed, in whatever process."""

    def __init__(self, files: Files, shard: int, settings: Settings, loading: Loading) -> None:
        self.shard = Shard(files, shard, settings)
        self.shard.load(loading.queries, loading.segments, loading.hot, loading.patterns)
        self._known = loading.queries
        self._number = loading.number

    def answer(self, request: Request | Ask) -> Answer | Waits:
        """Apply a batch, or answer a question. If it raises, the worker cannot go on; Stale if
        another one can."""
        if isinstance(request, Ask):
            return self.shard.waiting()
        known = len(self._known)
        if request.segment.number != self._number + 1 or request.queries[:known] != self._known:
            raise Stale
        self.shard.change(request.queries[known:])
        self._known, self._number = request.queries, request.segment.number
        return self.shard.apply(
            *(request.segment, request.horizon, request.revised, request.entries, request.counted)
        )

    def close(self) -> None:
        self.shard.close()


class HereShards:
    """The shards one after another in this process."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._answers: list[Answer | Waits] = []

    def start(self, shared: str, settings: Settings, loading: Callable[[], Loading]) -> None:
        self._files, self._settings, self._loading = files_at(shared), settings, loading

    def send(self, request: Request | Ask) -> None:
        if not self._workers:
            loading = self._loading()
            self._workers = [
                Worker(self._files, shard, self._settings, loading)
                for shard in range(self._settings.shards)
            ]
        self._answers = [self.answer(shard, request) for shard in range(len(self._workers))]

    def answer(self, shard: int, request: Request | Ask) -> Answer | Waits:
        """The answer of one of the shards."""
        return self._workers[shard].answer(request)

    def receive(self) -> list[Any]:
        return self._answers

    def shards(self) -> list[Shard]:
        """Those that are there."""
        return [worker.shard for worker in self._workers]

    def reset(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def close(self) -> None:
        self.reset()
