"""Documents that are revised: the rows of what is not decided are others from now on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.model import UNBOUNDED
from broker.pattern.keeping import looks_at_several
from broker.standing.live import Live
from broker.standing.memory import Memory
from broker.standing.renewing import Renewing
from broker.state.stored_documents import StoredDocument


class Revising:
    """Replaces the rows of documents in the tables, and makes the patterns again that take them."""

    def __init__(self, memory: Memory, renewing: Renewing) -> None:
        self._memory = memory
        self._renewing = renewing

    def replace(self, documents: Sequence[StoredDocument], take: Callable[[], object]) -> None:
        """Replace the rows of documents by those that `take` hands over. What is decided stays
        decided, and is not decided again, whenever these documents end now."""
        memory = self._memory
        memory.write()
        ends = {document.doc: document.end for document in documents}
        before = memory.tables.rows_of(ends)
        take()
        now, memory.rows = memory.rows, []
        memory.withdraw()
        changed: dict[str, int] = {}
        for row in before.symmetric_difference(now):
            changed[row[0]] = min(row[5], changed.get(row[0], UNBOUNDED))
        patterns = [*memory.members.taps.patterns_of({*changed})]
        past = [each for each in patterns if self._has_decided(each, changed)]
        since = min(changed.values(), default=UNBOUNDED)
        decided = self._renewing.decided(past, since)
        memory.tables.delete_rows([*ends])
        memory.rows = now
        left = self._renewing.decided(past, since)
        memory.told.renew(memory.members.live, ends)
        memory.told.note(decided, left, ends, memory.settled)
        known = {each.number for each in past}
        self._renewing.renew([each for each in patterns if each.number not in known])

    def _has_decided(self, pattern: Live, changed: Mapping[str, int]) -> bool:
        """Whether a pattern has decided anything at or behind the times when rows of taps changed,
        and might decide it again."""
        shared = None if pattern.group is None else pattern.group.standing.shared
        if shared is not None and shared.at_once and not looks_at_several(shared.plan):
            return False
        watermark = pattern.watermark(self._memory.settled)
        if watermark is None:
            return False
        return any(changed.get(tap, UNBOUNDED) <= watermark for tap in pattern.taps)
