"""How each transaction of an engine begins, and how its search can be stopped by other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.engine.parts import Parts
from broker.join.work import Overdue
from broker.model import UNBOUNDED
from broker.state.store import MEMORY_ERRORS


def prepare(parts: Parts) -> None:
    """Decide about changed subscriptions which are matched elsewhere; before each transaction in
    which event patterns begin, as they begin where they are matched then."""
    if parts.elsewhere is not None:
        parts.elsewhere.prepare()


def begin(
    parts: Parts, again: bool = False, one_by_one: bool = False, now: int = UNBOUNDED
) -> None:
    """Prepare for a batch, in its transaction."""
    parts.standings.begin(parts.watermark.highest_at(now))
    parts.limits.begin()
    parts.budget.begin(again, one_by_one)
    parts.admission.begin()
    parts.contents.release()
    parts.store.on_rollback(parts.contents.clear)
    parts.store.on_rollback(parts.joiner.reset)
    parts.store.on_rollback(parts.joiner.templates.reset)


@contextmanager
def searching(parts: Parts, interrupt: Callable[[], object] | None = None) -> Iterator[None]:
    """A block of a transaction that other threads may stop, by `interrupt`, that of its SQL unless
    it is given. Raises Stopped."""
    with parts.work.searching(interrupt or parts.store.interrupt):
        try:
            yield
        except MEMORY_ERRORS as error:
            raise Overdue("its search needs more memory than there is") from error
