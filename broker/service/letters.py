"""Operations on dead letters: list, resubmit, delete."""

from __future__ import annotations

from collections.abc import Sequence

from broker.model import DeadLetter
from broker.service.core.answers import Accepted
from broker.service.core.core import Core
from broker.service.core.errors import Conflict, NotFound
from broker.service.intake import Intake
from feeds.rows import DocumentRow


class DeadLetters:
    """The dead letters of a state: documents that could not be processed or came too late."""

    def __init__(self, core: Core, intake: Intake) -> None:
        self._core = core
        self._intake = intake

    def page(self, after: int = 0, limit: int = 1_000) -> list[DeadLetter]:
        """At most `limit` dead letters with numbers above `after`, by number."""
        return self._core.engine.letters(after, limit)

    def forget(self, before: int | None = None, numbers: Sequence[int] | None = None) -> int:
        """Delete the letters with these numbers, or from before a time; returns how many."""
        with self._core.at_once():
            return self._core.engine.delete_letters(numbers, before=before)

    def resubmit(self, number: int) -> Accepted:
        """Publish a dead letter again, unchanged; it may now be within the allowed lateness.

        If a document with its id is stored, the letter replaces it as a revision. The dead letter
        is deleted; a new one is written if the document fails again. Raises NotFound, Conflict, and
        the errors of `publish`.
        """
        core = self._core
        with core.at_once():  # so that the old letter is deleted before the document can fail again
            letters = core.engine.letters(number - 1, 1)
            if not letters or letters[0].number != number:
                raise NotFound("dead letter", number)
            letter = letters[0]
            if not letter.streams:
                raise Conflict("it was kept aside before its streams were; publish it anew")
            row = DocumentRow(
                source=letter.source,
                id=letter.id,
                streams=letter.streams,
                timestamp=letter.timestamp,
                dated=True,
                seq=None,
                # Of a known id only revisions become dead letters; as anything else it would be
                # dropped as a duplicate.
                revision=core.engine.admission.knows(letter.source, letter.id),
                xml=letter.xml,
                place=letter.place,
            )
            accepted = self._intake.take([row])
            core.engine.delete_letters([number])
        return accepted
