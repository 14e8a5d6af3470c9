"""What all queries of a form share, and which matcher takes their rows."""

from __future__ import annotations

from collections.abc import Mapping

from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.deferred import Deferred, is_by_value, last_place
from broker.pattern.in_order.events import Reader
from broker.pattern.in_order.following import Follows
from broker.pattern.in_order.forms import Form, Iterated, Lacking
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.grouping import Groups
from broker.pattern.in_order.iterating import Iterates
from broker.pattern.in_order.lacking import Lacks
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.lists import Lists
from broker.pattern.in_order.log import DEEP
from broker.pattern.in_order.noted import Noted
from broker.pattern.in_order.pairing import pairing_of
from broker.pattern.in_order.rising import rising_of
from broker.pattern.in_order.run_forms import Running
from broker.pattern.in_order.running import Runs
from broker.pattern.in_order.spending import Spending
from broker.pattern.keeping import looks_at_several
from broker.pattern.plan import Plan
from broker.pattern.reading import named_in
from broker.pattern.setting import UNCOUNTED

Matcher = Follows | Groups | Iterates | Lacks | Lists | Runs


class Shared:
    """What all queries of a form share."""

    def __init__(self, plan: Plan, form: Form) -> None:
        self.plan = plan
        self.form = form
        self.names = named_in(plan.query.select)
        self.readers = {
            leaf.tap: Reader(form, place, leaf) for place, leaf in enumerate(form.leaves)
        }
        """By tap."""
        self.of_blocks = isinstance(form, Following | Lacking | Listed)
        """Whether a match has a document for each slot, in order: what tells it apart, and its
        place among others, are those of them."""
        self.at_once = isinstance(form, Listed)
        """Whether a match is decided when its last document comes."""
        self.common: frozenset[int] = frozenset()
        """The taps whose documents concern all queries, whatever their constants."""
        self.sleeps = _sleeps(form) and not looks_at_several(plan)
        """Whether a row decides by itself, when its time has come, all that is decided of a query:
        until then nothing needs to be made of those that are stored."""
        if isinstance(form, Running):
            self.common = frozenset(form.contiguous)
            for place, tap in enumerate(form.contiguous, len(form.leaves)):
                self.readers[tap] = Reader(form, place, None)

    @property
    def _last(self) -> int:
        return last_place(self.form, self.plan.kept)

    @property
    def _is_noted(self) -> bool:
        return self._last > 0 and not self.at_once and not is_by_value(self.form)

    @property
    def has_prefixes(self) -> bool:
        """Whether what waits before the last block is made once for queries that take the same
        documents there."""
        return self._is_noted and self._last > 1

    def deferred(self, budget: int = UNCOUNTED) -> Deferred | Noted:
        """What notes, for queries that may try so much, what comes before their last block."""
        kept, readers = self.plan.kept, [*self.readers.values()]
        if self._is_noted:
            pairing = pairing_of(self.form, readers) if budget > DEEP else None
            pulls = isinstance(self.form, Following)
            rising = rising_of(self.form, readers)
            return Noted(self._last, kept, readers, pulls=pulls, pairing=pairing, rising=rising)
        return Deferred(self.form, kept, readers)

    def matcher(self, spending: Spending, since: Mapping[int, int]) -> Matcher:
        """What matches queries, which know documents from these numbers on."""
        match self.form:
            case Following():
                return Follows(self.form, spending, self.plan.kept, pulls=self.has_prefixes)
            case Iterated():
                return Iterates(self.form, spending)
            case Lacking():
                return Lacks(self.form, spending)
            case Grouping():
                return Groups(self.form, spending)
            case Running():
                return Runs(self.form, spending, since)
            case Listed():
                return Lists(self.form, spending)


def _sleeps(form: Form) -> bool:
    if isinstance(form, Lacking | Grouping):
        return form.right is not None
    return not isinstance(form, Running)
