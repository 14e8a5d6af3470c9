"""Why queries have matched or not, for the API: beside the pipeline, which goes on meanwhile.

Documents are read from a snapshot, a slice at a time; between two slices the thread sleeps if the
pipeline works, so that this has the processor most of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import xscl
from broker.asking import Asking, Told
from broker.errors import NotStored
from broker.join.work import Work
from broker.service.access.scopes import SERVICE, Identity
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, Invalid, NotFound
from broker.service.core.watchdog import not_too_long
from broker.service.tenants import Tenants, check_streams
from broker.why.given import Given
from broker.why.model import Budget
from feeds.fair_lock import FairLock
from xscl.check.program import ResolvedQuery

_LONGEST = 0.3
"""The longest pause after a slice, in seconds."""

MOST_QUERIES = 20
"""Queries of a text that are explained."""


class Explanations:
    """Raises NotFound, Conflict, and XsclError for an invalid text."""

    def __init__(self, core: Core, tenants: Tenants) -> None:
        self._core = core
        self._tenants = tenants
        self._one = threading.Lock()
        """One at a time: it is for people, and the pipeline comes first."""

    def of_subscription(self, id: str, budget: Budget, who: Identity = SERVICE) -> list[Told]:
        """What became of the stored documents of a subscription."""
        self._tenants.check_streams_of(who, [id])
        self._find(id)
        with self._asking(who) as asking:
            try:
                return asking.of_subscription(id, budget)
            except KeyError:
                raise NotFound("subscription", id) from None

    def of_text(self, text: str, budget: Budget, who: Identity = SERVICE) -> list[Told]:
        """What would become of them for the queries of a text; nothing is registered."""
        queries = _checked(text, who)
        with self._asking(who) as asking:
            return asking.of_queries(queries, budget)

    def between(
        self,
        query: str,
        text: bool,
        documents: Sequence[str],
        budget: Budget,
        who: Identity = SERVICE,
    ) -> list[Given]:
        """What holds between stored documents for the queries of a text, or for a subscription."""
        asked: Sequence[ResolvedQuery | str] = _checked(query, who) if text else [query]
        if not text:
            self._tenants.check_streams_of(who, [query])
            self._find(query)
        with self._asking(who) as asking:
            try:
                return [asking.between(each, documents, budget) for each in asked]
            except NotStored as error:
                raise Conflict(str(error)) from None
            except KeyError:
                raise NotFound("subscription", query) from None

    def _find(self, id: str) -> None:
        """Raise NotFound at once, without waiting for what others ask."""
        try:
            with self._core.at_once():
                self._core.engine.registered_one(id)
        except KeyError:
            raise NotFound("subscription", id) from None

    @contextmanager
    def _asking(self, who: Identity) -> Iterator[Asking]:
        """What a pattern would find is searched within the limits for queries. Raises Conflict."""
        core, work = self._core, Work()
        try:
            with self._one, core.watchdog.watching(work), not_too_long():
                yield Asking(core.engine, core.lock, Rest(core.lock), who.may_read, work)
        except ValueError as error:
            raise Conflict(str(error)) from None


class Rest:
    """Sleeps after a slice where the pipeline works, which holds the engine's lock then: for three
    times as long as the slice took of the processor, so that the pipeline has most of it."""

    def __init__(self, lock: FairLock, sleep: Callable[[float], object] = time.sleep) -> None:
        self._lock = lock
        self._sleep = sleep
        self._began = time.thread_time()

    def __call__(self) -> None:
        with self._lock.within(0) as free:
            pass
        if not free:
            self._sleep(min(_LONGEST, 3 * (time.thread_time() - self._began)))
        self._began = time.thread_time()


def _checked(text: str, who: Identity) -> Sequence[ResolvedQuery]:
    queries = xscl.check([xscl.parse(text, "<request>")]).queries
    if not queries:
        raise Invalid("the text holds no query", "text")
    for each in queries:
        check_streams(who, each.query)
    if len(queries) > MOST_QUERIES:
        raise Conflict(f"of {len(queries)} queries at most {MOST_QUERIES} are explained at once")
    return queries
