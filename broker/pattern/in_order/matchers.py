"""Which matcher takes the rows of a form, and what notes what comes before its last block."""

from __future__ import annotations

from collections.abc import Mapping

from broker.pattern.in_order.chain_forms import Following
from broker.pattern.in_order.deferred import Deferred
from broker.pattern.in_order.following import Follows
from broker.pattern.in_order.forms import Iterated, Lacking
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
from broker.pattern.in_order.shared import Shared
from broker.pattern.in_order.spending import Spending
from broker.pattern.setting import UNCOUNTED

Matcher = Follows | Groups | Iterates | Lacks | Lists | Runs


def matcher_of(shared: Shared, spending: Spending, since: Mapping[int, int]) -> Matcher:
    """What matches queries, which know documents from these numbers on."""
    form = shared.form
    match form:
        case Following():
            return Follows(form, spending, shared.plan.kept, pulls=shared.has_prefixes)
        case Iterated():
            return Iterates(form, spending)
        case Lacking():
            return Lacks(form, spending)
        case Grouping():
            return Groups(form, spending)
        case Running():
            return Runs(form, spending, since)
        case Listed():
            return Lists(form, spending)


def deferred_of(shared: Shared, budget: int = UNCOUNTED) -> Deferred | Noted:
    """What notes, for queries that may try so much, what comes before their last block."""
    kept, form, readers = shared.plan.kept, shared.form, [*shared.readers.values()]
    if not shared.is_noted:
        return Deferred(form, kept, readers)
    pairing = pairing_of(form, readers) if budget > DEEP else None
    pulls = isinstance(form, Following)
    rising = rising_of(form, readers)
    return Noted(shared.last, kept, readers, pulls=pulls, pairing=pairing, rising=rising)
