"""Documents that were kept aside: shown, sent on their way once more, forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from broker.model import DeadLetter
from broker.service.core.answers import Accepted
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, NotFound
from broker.service.intake import Intake
from feeds.rows import DocumentRow


class DeadLetters:
    """The documents of a state that were kept aside."""

    def __init__(self, core: Core, intake: Intake) -> None:
        self._core = core
        self._intake = intake

    def page(self, after: int = 0, limit: int = 1_000) -> list[DeadLetter]:
        """By number, those after one."""
        with self._core.lock:
            return self._core.engine.letters(after, limit)

    def forget(self, before: int | None = None, numbers: Sequence[int] | None = None) -> int:
        """Forget those of these numbers, and those kept aside before a time; how many."""
        with self._core.lock:
            return self._core.engine.delete_letters(numbers, before=before)

    def resubmit(self, number: int) -> Accepted:
        """Send one on its way again, as it was: it is late no more if more lateness is allowed now.

        Where a document of its id is there, it takes the place of that as a revision. It is no dead
        letter from then on, unless it becomes one again. Raises NotFound, Conflict, and what
        `publish` raises.
        """
        core = self._core
        with core.lock:  # it cannot become one again before it is forgotten
            found = core.engine.letters(number - 1, 1)
            if not found or found[0].number != number:
                raise NotFound("dead letter", number)
            letter = found[0]
            if not letter.streams:
                raise Conflict("it was kept aside before its streams were; publish it anew")
            row = DocumentRow(
                source=letter.source,
                id=letter.id,
                streams=letter.streams,
                timestamp=letter.timestamp,
                dated=True,
                seq=None,
                # Of an id that was known only revisions are kept aside, and anything else would be
                # dropped, with nothing left of it.
                revision=core.engine.admission.knows(letter.source, letter.id),
                xml=letter.xml,
                place=letter.place,
            )
            accepted = self._intake.take([row])
            core.engine.delete_letters([number])
        return accepted
