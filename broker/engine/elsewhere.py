"""What an engine asks of other machines that do a part of its search; `broker/cluster` is that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.documents.admitted import Admitted
from broker.documents.arrow import Arrivals
from broker.join.ownership import Ownership
from broker.model import Waiting
from broker.results.matches import Result
from broker.shared_match import SharedMatch

Runs = Sequence[Sequence[Admitted]]


class Elsewhere(Protocol):
    """The part of the search that is done elsewhere, batch by batch within its transaction."""

    @property
    def home(self) -> Ownership:
        """What is left to this engine."""

    def prepare(self, arrivals: Arrivals | None = None) -> None:
        """Take note of changed subscriptions, before a batch, and of the documents that come."""

    def begin(self, runs: Runs) -> list[Runs]:
        """Begin a batch; returns its runs in groups that have to be matched one after the other."""

    def send(self, runs: Runs, arrivals: Arrivals, *, held: bool, again: bool) -> None:
        """Begin with the documents of a group, in a round of their own. `held`: time stands still
        for event patterns; `again`: documents come one by one."""

    def settle(self, doc: int, highest: int) -> None:
        """Begin with what event patterns decide at this highest time alone, after document number
        `doc`."""

    def waiting(self) -> tuple[list[Waiting], int | None]:
        """What event patterns have not decided, and the highest time at which all that is decided,
        None if there is nothing."""

    def add(self, run: Sequence[Admitted], arrivals: Arrivals) -> None:
        """Documents that results have become, for the next round."""

    @property
    def waits(self) -> bool:
        """Whether there is a round to be received."""

    def receive(self, now: int | None) -> list[Result]:
        """Wait for the matches of a round, and set aside what exceeds its budgets. Those whose
        results become documents are returned, and not posted. Raises Again."""

    def post(self) -> None:
        """Add the matches to the outbox."""

    def committed(self) -> None:
        """The transaction of the batch has ended well."""

    def found(self) -> list[SharedMatch]:
        """The matches of the last batch that were posted, but for those that are text already."""
