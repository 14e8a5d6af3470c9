"""The search for matches of three documents and more in posting lists.

In: the new documents, one after the other. Out: the candidates of the long queries that are decided
here (`broker/join/long_query.py`), each with the combinations of nodes that it stands for. A new
document is placed at each block that it may be in; from there each step (`broker/join/steps.py`)
looks up the value of a document that is placed, and goes on with those that have it and are in
order and within the windows. The documents of a hot value stand in order of time, so that those are
not looked at which order and windows exclude.

What cannot be decided here is left to the templates' queries in SQL, for a whole batch: templates
for which an irregular document may be part of a match, those whose windows reach documents that
were evicted, and those that look at so many documents that SQL is faster.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from broker.join.budget import Budget
from broker.join.candidates import Found
from broker.join.frequent_lookup import Hot
from broker.join.long_query import AFTER, BEFORE, LongPlan
from broker.join.ownership import ALL, Ownership
from broker.join.pair_query import decider
from broker.join.postings import Postings
from broker.join.records import Record
from broker.join.signatures import Signatures
from broker.join.steps import ByVariable, Node, Step, Steps
from broker.model import UNBOUNDED
from broker.query.canonical import Canonical
from broker.query.join_order import before_of
from xscl.interruption import PENDING, check
from xscl.normal.template import Template

_END = attrgetter("end")

AT_MOST = 10_000
EACH = 30
"""So many documents, and so many more for each of a batch, are looked at for the queries that begin
with one step; SQL takes as long for all of them."""

_FEW = 8
"""So few documents of a list are looked at as they are."""


_LONGEST = 31
"""Batches for which a template rests at most."""


class Rest:
    """A template was too much in a batch of this `size`, and is not tried in the next batches that
    are half as large or larger, of which so many are `left` of `pause`."""

    __slots__ = ("left", "pause", "size")

    def __init__(self) -> None:
        self.size = self.left = self.pause = 0


class LongSearch:
    """The long queries, and what is found of them in a batch.

    `own` are the templates that are decided here in this batch, `handed` those that were at its
    beginning and are left to SQL now. `most` is how many documents are looked at, and how many more
    for each of a batch; if it is negative, SQL decides everything.
    """

    def __init__(self, signatures: Signatures, budget: Budget, ownership: Ownership = ALL) -> None:
        self.own: set[int] = set()
        self.handed: set[int] = set()
        self.most = (AT_MOST, EACH)
        self._signatures = signatures
        self._budget = budget
        self._ownership = ownership
        self._steps = Steps()
        self._plans: dict[int, LongPlan] = {}
        self._joined: dict[int, tuple[Canonical, Template]] = {}
        """All queries of three blocks and more that value joins connect, and those of two blocks
        that SQL decides."""
        self._templates: dict[int, int] = {}
        """How many queries of a template are decided here."""
        self._found: list[tuple[LongPlan, Found, int]] = []
        self._done: set[tuple[int, tuple[int, ...]]] = set()
        self._spent: dict[Step, int] = {}
        self._looked_at = 0
        self._most = 0
        self._stop = 0
        self._size = 0
        self._rests: dict[int, Rest] = {}

    # -- queries come and go -----------------------------------------------------------------

    def add(self, shape: Template, canonicals: Sequence[Canonical]) -> None:
        """Add queries of one template, whose documents are found by value joins."""
        here = decider(shape) == "steps"
        for canonical in canonicals:
            number, template = canonical.number, canonical.template
            self._joined[number] = (canonical, shape)
            for ordered, joined in _pairs(canonical, shape):
                self._signatures.add_candidates(template, joined, ordered)
            if here:
                plan = self._plans[number] = LongPlan(canonical, shape)
                self._steps.add(plan)
                self._templates[template] = self._templates.get(template, 0) + 1

    def renew(self, number: int) -> bool:
        """Look at the windows of a query again after its subscribers have changed; whether it is
        one that is decided here."""
        plan = self._plans.get(number)
        if plan is None:
            return False
        plan.renew()
        self._steps.add(plan)
        return True

    def forget(self, number: int) -> None:
        if number not in self._joined:
            return
        canonical, shape = self._joined.pop(number)
        template = canonical.template
        for ordered, joined in _pairs(canonical, shape):
            self._signatures.remove_candidates(template, joined, ordered)
        plan = self._plans.pop(number, None)
        if plan is not None:
            self._steps.remove(plan)
            self._templates[template] -= 1
            if not self._templates[template]:
                del self._templates[template]

    # -- a batch -----------------------------------------------------------------------------

    def begin(self, records: Sequence[Record], floor: int, widest: Sequence[int]) -> None:
        """Begin a batch. `floor` is the end before which documents may be evicted; `widest` are the
        widest windows by template."""
        self._found.clear()
        self._done.clear()
        self._spent.clear()
        self.handed.clear()
        self.own.clear()
        if not self._templates or self._budget.work.care is not None or self.most[0] < 0:
            return
        self._size = len(records)
        self.own.update([each for each in self._templates if not self._is_resting(each)])
        at_most, each = self.most
        self._most = at_most + each * self._size
        if floor > -UNBOUNDED:
            low = min([record.start for record in records], default=0)
            self.own -= {template for template in self.own if low - widest[template] < floor}

    def decides(self, canonical: Canonical) -> bool:
        """Whether candidates of regular documents are found here in this batch."""
        return canonical.template in self.own

    def hand_over(self, templates: Iterable[int]) -> None:
        """Leave templates to SQL, for all of the batch."""
        gone = self.own.intersection(templates)
        self.own -= gone
        self.handed |= gone

    def _is_resting(self, template: int) -> bool:
        """Whether a template is left to SQL because it was too much in such batches before."""
        rest = self._rests.get(template)
        if rest is None or 2 * self._size < rest.size or not rest.left:
            return False
        rest.left -= 1
        return True

    def _give_up(self, templates: Iterable[int]) -> None:
        """Hand templates over for which too much was looked at, and let them rest: the longer, the
        more often that was so."""
        for template in self.own.intersection(templates):
            rest = self._rests.setdefault(template, Rest())
            rest.size = self._size
            rest.left = rest.pause = min(2 * rest.pause + 1, _LONGEST)
        self.hand_over(templates)

    def found(self) -> list[Found]:
        """The candidates of the batch, of pairs within their budgets."""
        budget = self._budget
        for template in [t for t in self._rests if t in self.own]:
            if 2 * self._size >= self._rests[template].size:
                del self._rests[template]
        return [
            found
            for plan, found, count in self._found
            if plan.canonical.template in self.own and budget.take(budget.pair(found), count)
        ]

    # -- a document --------------------------------------------------------------------------

    def search(self, new: Record, postings: Postings) -> None:
        """Find the matches of a new document, which is regular, with those in the posting lists."""
        self._follow(self._steps.root, [new], postings)

    def _follow(self, node: Node, placed: list[Record], postings: Postings) -> None:
        for plan, blocks in node.complete:
            self._complete(plan, [placed[place] for place in blocks])
        for place, by_variable in node.steps.items():
            record = placed[place]
            variables = record.layout.variables
            if len(by_variable) < len(variables):
                for variable, steps in by_variable.items():
                    for code in codes_at(record, variable):
                        self._lead(steps, code, placed, postings)
                continue
            for variable, code in dict.fromkeys(zip(variables, record.codes, strict=True)):
                if code and variable in by_variable:
                    self._lead(by_variable[variable], code, placed, postings)

    def _lead(self, steps: ByVariable, code: int, placed: list[Record], postings: Postings) -> None:
        """Take the steps to the documents that have a value."""
        entry = postings.entry(code)
        if entry is None or entry in placed:  # nobody else has the value of most documents
            return
        take = self._take if len(placed) > 1 else self._begin
        if not isinstance(entry, Hot):
            for record in (entry,) if isinstance(entry, Record) else entry:
                for variable in record.variables_with(code):
                    for step in steps.get(variable, ()):
                        take(step, (record,), placed, postings)
            return
        for variable in steps.keys() & entry.variables:
            for step in steps[variable]:
                take(step, postings.listed(variable, code), placed, postings)

    def _take(
        self, step: Step, records: Sequence[Record], placed: list[Record], postings: Postings
    ) -> None:
        """Place those of the documents, which stand in order of their end, that a step allows."""
        low, high = _bounds(step, placed)
        joins = step.joins
        if len(records) > 1:
            records = _between(records, low, high)
            if len(records) > _FEW:
                if not _may_go_on(step.leads_to, placed, postings):
                    return
                if joins:
                    records = _fewest(step, records, placed, postings, low, high)
                    joins = (step.lead, *joins)
        for record in records:
            if self._looked_at > self._stop:
                break
            self._looked_at += 1
            if record.start < low or record.end > high or record in placed:
                continue
            if joins and not all(agree(placed[place], a, record, b) for place, a, b in joins):
                continue
            if not record.layout.regular:
                self.hand_over(step.templates)
                continue
            placed.append(record)
            self._follow(step.leads_to, placed, postings)
            placed.pop()

    def _begin(
        self, step: Step, records: Sequence[Record], placed: list[Record], postings: Postings
    ) -> None:
        """Take a step from a new document, unless its queries have looked at too many."""
        if self.own.isdisjoint(step.templates):
            return
        if PENDING:
            check()
        before = self._looked_at
        self._stop = before + self._most - self._spent.get(step, 0)
        self._take(step, records, placed, postings)
        self._spent[step] = self._spent.get(step, 0) + self._looked_at - before
        if self._looked_at > self._stop:
            self._give_up(step.templates)

    def _complete(self, plan: LongPlan, records: list[Record]) -> None:
        """Note the matches of these documents, given by block, which agree and are in order."""
        canonical, budget = plan.canonical, self._budget
        if canonical.template not in self.own or not plan.is_within(records):
            return
        docs = tuple([record.doc for record in records])
        if not all(record.layout.distinct for record in records):
            key = (canonical.number, docs)
            if key in self._done:
                return
            self._done.add(key)
        if budget.exceeded and budget.is_set_aside((canonical.number, budget.completing(docs))):
            return
        if self._ownership is not ALL and not self._ownership.owns(canonical, docs, records):
            return
        for candidate, count in plan.matches(records, docs, budget.combinations):
            self._found.append((plan, (canonical, candidate), count))


def codes_at(record: Record, variable: int) -> Sequence[int]:
    """The values of a variable in a document."""
    layout = record.layout
    if layout.distinct:
        if variable not in layout.variables:
            return ()
        code = record.codes[layout.variables.index(variable)]
        return (code,) if code else ()
    own = zip(layout.variables, record.codes, strict=True)
    return tuple({code: None for each, code in own if each == variable and code})


def agree(one: Record, variable: int, other: Record, its: int) -> bool:
    """Whether two variables of two documents have a value in common."""
    codes = codes_at(other, its)
    return any(code in codes for code in codes_at(one, variable))


def _bounds(step: Step, placed: Sequence[Record]) -> tuple[int, int]:
    """The earliest start and the latest end that order and windows allow, in microseconds."""
    low, high = -(2**63), 2**63
    for record, relation, width in zip(placed, step.relations, step.widths, strict=True):
        low = max(low, record.end + 1 if relation == AFTER else record.end - width)
        high = min(high, record.start - 1 if relation == BEFORE else record.start + width)
    return low, high


def _between(records: Sequence[Record], low: int, high: int) -> Sequence[Record]:
    """The documents, in order of their end, that end within the bounds."""
    first, last = 0, len(records)
    if last and records[0].end < low:
        first = bisect_left(records, low, key=_END)
    if last and records[-1].end > high:
        last = bisect_right(records, high, key=_END)
    return records[first:last]


def _fewest(
    step: Step,
    records: Sequence[Record],
    placed: list[Record],
    postings: Postings,
    low: int,
    high: int,
) -> Sequence[Record]:
    """Of the documents of a value and of those of the other values that a step compares, the
    fewest within the bounds."""
    for place, own, variable in step.joins:
        codes = codes_at(placed[place], own)
        if len(codes) != 1:
            if not codes:
                return ()
            continue
        there = _between(postings.listed(variable, codes[0]), low, high)
        if len(there) < len(records):
            records = there
    return records


def _may_go_on(node: Node, placed: Sequence[Record], postings: Postings) -> bool:
    """Whether the steps behind the next document may find anything: those that do not begin at it
    have to have some document already."""
    if node.complete or len(placed) in node.steps:
        return True
    for place, by_variable in node.steps.items():
        record = placed[place]
        for variable, code in zip(record.layout.variables, record.codes, strict=True):
            for other in by_variable.get(variable, ()) if code else ():
                if postings.listed(other, code):
                    return True
    return False


def _pairs(canonical: Canonical, shape: Template) -> list[tuple[bool, list[tuple[int, int]]]]:
    """By two blocks that joins connect, whether one ends before the other begins, and the pairs of
    variables that are joined."""
    before = before_of(shape)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in shape.joins:
        blocks = (shape.nodes[a][0], shape.nodes[b][0])
        if blocks[0] != blocks[1]:
            variables = (canonical.variables[a], canonical.variables[b])
            found.setdefault(blocks, []).append(variables)
    return [(blocks in before, joined) for blocks, joined in found.items()]
