"""What all queries of a form share."""

from __future__ import annotations

from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.deferred import is_by_value, last_place
from broker.pattern.in_order.events import Reader
from broker.pattern.in_order.forms import Form, Lacking
from broker.pattern.in_order.group_forms import Grouping
from broker.pattern.in_order.list_forms import Listed
from broker.pattern.in_order.run_forms import Running
from broker.pattern.keeping import looks_at_several
from broker.pattern.plan import Plan
from broker.pattern.reading import named_in


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
    def last(self) -> int:
        """The place of the block before which what comes may be noted, 0 if nothing may."""
        return last_place(self.form, self.plan.kept)

    @property
    def is_noted(self) -> bool:
        """Whether that is noted in columns."""
        return self.last > 0 and not self.at_once and not is_by_value(self.form)

    @property
    def has_prefixes(self) -> bool:
        """Whether what waits before the last block is made once for queries that take the same
        documents there."""
        return self.is_noted and self.last > 1


def _sleeps(form: Form) -> bool:
    if isinstance(form, Lacking | Grouping):
        return form.right is not None
    return not isinstance(form, Running)
