"""The join of stage 2: witness rows of a batch in, candidate matches out.

Posting lists find the pairs of documents that share a value, and signatures say which canonical
queries such a pair satisfies. That decides most queries (`broker/join/pair_query.py`). For all
others it only yields the documents that can take part, and the template's conjunctive query
decides, over the slice of RL that holds those documents. Only a template whose blocks no value
joins connect reads all of RL.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

import pyarrow as pa

from broker.join.budget import Budget
from broker.join.candidates import Candidate, Found
from broker.join.evicted import History
from broker.join.frequent import SIZES, Sizes
from broker.join.long_search import LongSearch
from broker.join.one_block import OneBlock, Tapped, Tapping
from broker.join.ownership import ALL, Ownership
from broker.join.pair_query import Plan, decider
from broker.join.postings import Postings
from broker.join.records import Reader, Record
from broker.join.relations import Relations
from broker.join.signatures import Signatures
from broker.join.template_runner import Needed, Templates
from broker.join.time_lists import flatten, within
from broker.model import UNBOUNDED
from broker.query.canonical import Canonical
from broker.query.catalog import Catalog
from xscl.growth import MANY, freeze, growing
from xscl.interruption import PENDING, check
from xscl.normal.template import Template

MEMORY = 1_000_000
"""Default number of documents in the posting lists; about a kilobyte each."""


class Joiner:
    """Finds the candidate matches that a batch completes.

    The witness rows of a batch must be in the relations already. Everything in memory is a cache of
    the relations, and can be rebuilt from them at any time.
    """

    def __init__(
        self,
        relations: Relations,
        catalog: Catalog,
        budget: Budget,
        memory: int = MEMORY,
        sizes: Sizes = SIZES,
        ownership: Ownership = ALL,
    ) -> None:
        self.relations = relations
        self._budget = budget
        self.memory = memory
        self.sizes = sizes
        self.catalog = catalog
        self.ownership = ownership
        self.signatures = Signatures()
        self.templates = Templates(relations.queried, catalog, budget)
        self._postings: Postings | None = None
        self._reader = Reader(ownership.reads)
        self._history = History(relations.rows, self._reader)
        self._plans: dict[int, Plan] = {}
        self.long = LongSearch(self.signatures, budget, ownership)
        self._one_block = OneBlock(catalog.taps)

    # -- subscriptions -----------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply changes of the subscriptions, and load the posting lists if they are not loaded."""
        for shape in islice(self.catalog.templates, len(self.templates.shapes), None):
            self.templates.add(shape)
        dirty, self.catalog.dirty = self.catalog.dirty, set()
        fresh: dict[int, list[Canonical]] = {}
        with growing(len(dirty)):
            for number in dirty:
                canonical = self._held(number)
                if canonical is not None and not self.templates.knows(number):
                    fresh.setdefault(canonical.template, []).append(canonical)
                    continue
                self.templates.changed(number, canonical)
                if canonical is None:
                    self._forget(number)
                elif number in self._plans:
                    plan = self._plans[number]
                    plan.renew()
                    self.signatures.forget()
                    if plan.blocks == 1:
                        self._one_block.renew(plan)
                else:
                    self.long.renew(number)
            for template, canonicals in fresh.items():
                self.templates.added(template, canonicals)
                self._add(self.templates.shapes[template], canonicals)
            if len(dirty) >= MANY:
                freeze()
        if self._postings is None:
            self._postings = self._load()

    def _held(self, number: int) -> Canonical | None:
        """A canonical query, if there is one of that number that is searched for here."""
        canonical = self.catalog.canonical.get(number)
        return canonical if canonical is not None and self.ownership.holds(canonical) else None

    def _add(self, shape: Template, canonicals: Sequence[Canonical]) -> None:
        """Add canonical queries of one template."""
        who = decider(shape)
        if who == "memory":
            plans = [Plan(canonical, shape) for canonical in canonicals]
            self._plans.update((plan.canonical.number, plan) for plan in plans)
            if shape.blocks == 2:
                self.signatures.add(plans)
                return
            for plan in plans:
                self._one_block.add(plan)
        elif who != "scan":
            self.long.add(shape, canonicals)

    def _forget(self, number: int) -> None:
        plan = self._plans.pop(number, None)
        if plan is not None and plan.blocks == 2:
            self.signatures.remove(plan)
        elif plan is not None:
            self._one_block.remove(plan)
        self.long.forget(number)

    # -- documents ---------------------------------------------------------------------------

    @property
    def postings(self) -> Postings:
        assert self._postings is not None, "refresh() comes first"
        return self._postings

    def reset(self) -> None:
        """Drop the posting lists, because they may differ from the relations."""
        self._postings = None

    def _load(self) -> Postings:
        postings = Postings(self.signatures, self.sizes)
        self._history = History(self.relations.rows, self._reader)
        for record in self._history.newest(self.memory):
            postings.insert(record)
        return postings

    def expire(self, horizon: int) -> None:
        """Remove documents that ended before the horizon from memory."""
        if self._postings is not None:
            self._postings.expire(horizon)
            self._history.expire(horizon)

    def _evict(self) -> None:
        """Evict the oldest quarter if there are more documents than the bound."""
        records = self.postings.records
        if len(records) > self.memory:
            ends = sorted(record.end for record in records.values())
            floor = ends[len(ends) - self.memory * 3 // 4 - 1] + 1
            gone = [record for record in records.values() if record.end < floor]
            self._history.evict(gone, floor)
            self.postings.remove([record.doc for record in gone])

    def _recall(self, records: Sequence[Record]) -> list[Record]:
        """Read the evicted records that share a value with these, for this batch only."""
        if self._history.floor == -UNBOUNDED:
            return []
        codes = {code for record in records for code in record.codes if code}
        widest = max(self.templates.widest, default=0)
        low = min((record.start for record in records), default=0) - widest
        live, own = self.postings.records, {record.doc for record in records}
        recalled = self._history.records_with(codes, low, lambda doc: doc in live or doc in own)
        for record in recalled:
            self.postings.insert(record)
        return recalled

    def replace(self, docs: Sequence[int], rows: pa.Table) -> None:
        """Replace stored documents, given by number, by their revisions' witness rows."""
        self.postings.remove(docs)
        for record in self._reader.read(rows):
            self.postings.insert(record)

    def candidates(self, rows: pa.Table, tapping: Tapping | None = None) -> list[Found]:
        """The candidate matches that have a document of this batch, given by its witness rows. With
        `tapping`, documents for all taps of their layout go there instead. Raises Again."""
        records = self._reader.read(rows)
        recalled = self._recall(records)
        self.long.begin(records, self._history.floor, self.templates.widest)
        needed = Needed()
        found: list[Found] = []
        budget, postings = self._budget, self.postings
        of_one, some_derived = bool(self._one_block), budget.has_derived
        tapped: list[Tapped] | None = None
        whole: Collection[int] = ()
        if tapping is not None and of_one and self.ownership is ALL:
            tapped = tapping.each
            if not (some_derived or budget.exceeded):
                whole = self._one_block.columns(rows, records, tapping)
        for record in records:
            if PENDING:
                check()
            # What has no value that joins meets nobody: most documents that only taps take.
            own = self._of_two(record, needed) if any(record.codes) else []
            derived = some_derived and budget.is_derived(record.doc)
            if of_one and record.doc not in whole:
                taken = None if derived or budget.exceeded else tapped
                of_block = self._of_one(record, needed, taken)
                own = of_block + own if own else of_block
            if derived:
                own = [each for each in own if budget.take(budget.pair(each), 1)]
                budget.check()
            found += own
            postings.insert(record)
        found += self._of_several(records, needed)
        recalled += self._reach(needed)
        live = postings.records
        for number, candidate, count in self.templates.candidates(records, rows, needed):
            # Candidates of regular documents for queries that memory decides were found above.
            each = (self.catalog.canonical[number], candidate)
            decided = (number in self._plans or self.long.decides(each[0])) and all(
                live[d].layout.regular for d in candidate.docs
            )
            # Counted as they come, so that no more is searched for a query that has too many.
            if not decided and self._owns(each) and budget.take(budget.pair(each), count):
                found.append(each)
        self.postings.remove([record.doc for record in recalled])
        self._evict()
        return self._budget.left(found)

    def _owns(self, found: Found) -> bool:
        """Whether a candidate of documents in memory is one to be made here."""
        if self.ownership is ALL:
            return True
        live = self.postings.records
        docs = found[1].docs
        return self.ownership.owns(found[0], docs, [live.get(doc) for doc in docs])

    def of_one(self, rows: pa.Table) -> list[Found]:
        """The candidates of queries of one block in these documents, given by their witness rows,
        whether or not the documents are new."""
        records = self._reader.read(rows)
        needed = Needed()
        found = [each for record in records for each in self._of_one(record, needed)]
        shapes = self.templates.shapes
        for number, candidate, _ in self.templates.candidates(records, rows, needed):
            canonical = self.catalog.canonical[number]
            if shapes[canonical.template].blocks == 1:
                found.append((canonical, candidate))
        return found

    def _of_one(
        self, record: Record, needed: Needed, tapped: list[Tapped] | None = None
    ) -> list[Found]:
        """Candidates of queries of one block; see `candidates`."""
        layout = record.layout
        satisfied = self._one_block.satisfied(layout)
        lasting, base = record.end - record.start, record.base
        plans = satisfied.every
        taken = lasting <= satisfied.window and base >= satisfied.first_doc
        if tapped is not None and satisfied.taps and taken:
            tapped.append((record.doc, satisfied))
            plans = satisfied.others
        if not plans:
            return []
        found: list[Found] = []
        records = (record,)
        everything = self.ownership is ALL
        plainly = everything and not self._budget.exceeded
        for plan, single in plans:
            if single is not None and plainly:
                if lasting <= plan.window and base >= plan.first_doc:
                    found.append((plan.canonical, Candidate((record.doc,), single)))
            elif not layout.regular:
                needed.templates.add(plan.canonical.template)
            elif plan.admits(record, record) and (
                everything or self.ownership.owns(plan.canonical, (record.doc,), records)
            ):
                self._add_candidates(found, plan, records, (record.doc,))
        return found

    def _of_two(self, record: Record, needed: Needed) -> list[Found]:
        """Candidates of queries of two blocks: this document and an older one."""
        hits = self.postings.probe(record)
        if not hits:
            return []  # of most documents nobody has met a value
        found: list[Found] = []
        budget = self._budget
        ceiling = budget.combinations
        done: set[tuple[int, int, int]] = set()
        regular = record.layout.regular
        here = self.long.own if regular else None
        is_searched = False
        for verdict, right, olds in flatten(hits):
            if verdict.templates:
                in_sql = verdict.templates.difference(here or ())
                is_searched |= len(in_sql) < len(verdict.templates)
                self.templates.defer(needed, in_sql, record, right, olds)
            for ordered, plans, window in verdict.orders:
                if budget.exceeded:
                    plans = self._wanted(plans, record.doc)
                for old in within(olds, record, right, window, ordered) if plans else ():
                    if not (regular and old.layout.regular):
                        for plan in plans:
                            needed.add(plan.canonical.template, record, (old,))
                        continue
                    left, other = (old, record) if right else (record, old)
                    for plan in plans:
                        self._of_pair(found, plan, left, other, done)
                        if len(found) > ceiling:
                            found = budget.within(found)
                            ceiling = 2 * max(len(found), budget.combinations)
                            plans = self._wanted(plans, record.doc)
        if is_searched:
            self.long.search(record, self.postings)
        # A query can only have too many where all of them together are too many.
        return found if len(found) <= budget.combinations else budget.within(found)

    def _of_pair(
        self,
        found: list[Found],
        plan: Plan,
        left: Record,
        right: Record,
        done: set[tuple[int, int, int]],
    ) -> None:
        """Add the candidates of a plan in two regular documents, of which one is new; `done` are
        plan, left document and right one of those that may come a second time, where a variable has
        several values."""
        if not plan.admits(left, right):
            return
        docs = (left.doc, right.doc)
        if not (left.layout.distinct and right.layout.distinct):
            key = (plan.canonical.number, *docs)
            if key in done:
                return
            done.add(key)
        pair = (left, right)
        if self.ownership is ALL or self.ownership.owns(plan.canonical, docs, pair):
            self._add_candidates(found, plan, pair, docs)

    def _wanted(self, plans: tuple[Plan, ...], doc: int) -> tuple[Plan, ...]:
        """Those of the plans that are not set aside where the document `doc` comes."""
        budget = self._budget
        completed = budget.completing([doc])
        return tuple([p for p in plans if not budget.is_set_aside((p.canonical.number, completed))])

    def _add_candidates(
        self,
        found: list[Found],
        plan: Plan,
        records: tuple[Record, ...],
        docs: tuple[int, ...],
    ) -> None:
        """Add the candidates of a plan in these documents, given by number too, unless that pair is
        set aside, or is now."""
        budget, canonical = self._budget, plan.canonical
        if budget.exceeded and budget.is_set_aside((canonical.number, budget.completing(docs))):
            return
        if PENDING:
            check()
        chosen = plan.only(tuple([record.layout for record in records]))
        if chosen is not None:
            found.append((canonical, Candidate(docs, chosen)))
            return
        made = plan.several(records, docs, budget.combinations)
        if made is None:
            budget.too_many((canonical.number, budget.completing(docs)))
        else:
            found += [(canonical, each) for each in made]

    def _of_several(self, records: Sequence[Record], needed: Needed) -> list[Found]:
        """Candidates of queries that are searched step by step; those that are handed over are left
        to SQL, with the documents that all of the batch agree with."""
        handed = self.long.handed
        for record in records if handed else ():
            for verdict, right, olds in flatten(self.postings.probe(record)):
                self.templates.defer(needed, verdict.templates & handed, record, right, olds)
        return self.long.found()

    def _reach(self, needed: Needed) -> list[Record]:
        """Add the documents that longer patterns reach from those found, value join by value join.
        Returns those that were evicted and had to be read."""
        recalled: list[Record] = []
        fresh = set(needed.docs)
        longest = max((self.templates.shapes[t].blocks for t in needed.templates), default=0)
        for _ in range(longest - 2):
            reached: set[int] = set()
            records = [self.postings.records[doc] for doc in fresh]
            recalled += self._recall(records)
            for record in records:
                for verdict, right, olds in flatten(self.postings.probe(record)):
                    for template in verdict.templates & needed.templates:
                        window = self.templates.widest[template]
                        reached |= {old.doc for old in within(olds, record, right, window, False)}
            fresh = reached - needed.docs
            needed.docs |= fresh
        return recalled
