"""Quotas on what a token publishes: documents and bytes a second, and bytes that are stored.

In: the sizes of requests. Out: OverQuota, which says when to try again. The counts are in memory: a
restart forgives what was published before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.service.access.scopes import Identity, Quota
from broker.service.core.errors import ServiceError
from broker.text.units import format_size

_BURST = 10.0
"""Seconds of a rate that may be used at once, after a pause."""

_MEASURED = 10.0
"""Seconds for which the size of the stored documents is believed."""


class OverQuota(ServiceError):
    """A quota of the token is used up; try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(slots=True)
class _Bucket:
    """What is left of a rate. A request larger than what is left takes it below zero, and the next
    one waits until it is above again: so large requests pass, and the rate holds."""

    rate: float
    left: float
    at: float

    def wait(self, now: float) -> float:
        """Seconds until something is left."""
        self.left = min(self.left + (now - self.at) * self.rate, self.rate * _BURST)
        self.at = now
        return 0.0 if self.left > 0 else -self.left / self.rate + 0.001


@dataclass(slots=True)
class _Used:
    """What a token uses."""

    quota: Quota
    buckets: dict[str, _Bucket]
    stored: int = 0
    """Bytes: those measured, and those accepted since."""
    measured: float = field(default=-_MEASURED)


class Quotas:
    """What all tokens use. `stored` returns the bytes of a token's stored documents; `clock` counts
    seconds. Thread-safe."""

    def __init__(
        self, stored: Callable[[str], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stored = stored
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[str, _Used] = {}

    def check(self, identity: Identity) -> None:
        """Raises OverQuota if an identity may publish nothing now. Before its request is read."""
        quota = identity.quota
        if quota.documents is None and quota.bytes is None and quota.state is None:
            return
        with self._lock:
            used, now = self._of(identity), self._clock()
            for unit, bucket in used.buckets.items():
                wait = bucket.wait(now)
                if wait:
                    rate = f"{bucket.rate:g}" if unit == "documents" else format_size(bucket.rate)
                    raise OverQuota(
                        f"the token {identity.name!r} may publish {rate}"
                        f"{' documents' if unit == 'documents' else ''} a second",
                        wait,
                    )
            measure = quota.state is not None and used.measured + _MEASURED <= now
        if quota.state is None:
            return
        if measure:
            stored = self._stored(identity.name)
            with self._lock:
                used.stored, used.measured = stored, now
        if used.stored >= quota.state:
            raise OverQuota(
                f"the documents of the token {identity.name!r} that are stored have "
                f"{format_size(used.stored)}, {format_size(quota.state)} at most; they expire when "
                "no window reaches them any more",
                _MEASURED,
            )

    def used(self, identity: Identity, documents: int, size: int) -> None:
        """Count what an identity is about to publish."""
        quota = identity.quota
        if quota.documents is None and quota.bytes is None and quota.state is None:
            return
        with self._lock:
            used = self._of(identity)
            for unit, amount in (("documents", documents), ("bytes", size)):
                if unit in used.buckets:
                    used.buckets[unit].left -= amount
            used.stored += size

    def _of(self, identity: Identity) -> _Used:
        used = self._used.get(identity.name)
        if used is None or used.quota != identity.quota:
            now, quota = self._clock(), identity.quota
            rates = {"documents": quota.documents, "bytes": quota.bytes}
            buckets = {
                unit: _Bucket(float(rate), rate * _BURST, now)
                for unit, rate in rates.items()
                if rate is not None
            }
            used = self._used[identity.name] = _Used(quota, buckets)
        return used
