"""Runs the templates' conjunctive queries over the match relations: parameters in RT, candidates
out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from broker.join.budget import Budget
from broker.join.candidates import Candidate, Chosen
from broker.join.pair_query import decider
from broker.join.records import Record
from broker.join.relations import PART, QueriedRelations
from broker.join.time_lists import within
from broker.query.canonical import Canonical
from broker.query.catalog import Catalog
from broker.query.conjunctive import (
    conjunctive_query,
    create_parameter_table,
    parameter_table,
    reported,
)
from broker.query.prepared import value_of
from broker.query.residual import MACROS, parameters, register_functions
from xscl.interruption import PENDING, check
from xscl.normal.template import Template


@dataclass(slots=True)
class Needed:
    """The work that a batch leaves to SQL: templates, and the documents that can take part."""

    templates: set[int] = field(default_factory=set)
    docs: set[int] = field(default_factory=set)

    def add(self, template: int, new: Record, olds: Iterable[Record]) -> None:
        """Leave a document and others, if there are any, to the template's query."""
        docs = {old.doc for old in olds}
        if docs:
            self.templates.add(template)
            self.docs |= docs
            self.docs.add(new.doc)


class _Run(NamedTuple):
    """A template's query over RL or a slice of it, with each of the blocks `pivots` as the first
    new one."""

    template: int
    stored: str
    pivots: tuple[int, ...]


class Templates:
    """Keeps a parameter relation RT per template, and runs the templates that a batch can touch.

    `widest` is the widest window of any query of a template; it is never narrowed, since it only
    limits which rows are read. RT is brought up to date when its template is run.
    """

    def __init__(self, relations: QueriedRelations, catalog: Catalog, budget: Budget) -> None:
        self.relations = relations
        self.catalog = catalog
        self._budget = budget
        self.shapes: list[Template] = []
        self.widest: list[int] = []
        self._scanning: dict[int, list[set[int]]] = {}
        self._sql: dict[tuple[int, int, bool], str] = {}
        self._template_of: dict[int, int] = {}
        self._stale: dict[int, set[int]] = {}
        self._tables: set[int] = set()
        self._held: set[int] = set()
        self._functions = False

    def add(self, shape: Template) -> None:
        number = len(self.shapes)
        self.shapes.append(shape)
        self.widest.append(0)
        if shape.residuals and not self._functions:
            self.relations.prepare(MACROS, register_functions)
            self._functions = True
        if decider(shape) == "scan":
            self._scanning[number] = [set() for _ in range(shape.blocks)]

    def knows(self, number: int) -> bool:
        """Whether a canonical query was added."""
        return number in self._template_of

    def added(self, template: int, canonicals: Sequence[Canonical]) -> None:
        """Note that canonical queries of a template are new."""
        if template in self._scanning:
            for canonical in canonicals:
                self.changed(canonical.number, canonical)
            return
        numbers = [canonical.number for canonical in canonicals]
        widest = max([canonical.windows()[-1] for canonical in canonicals])
        self.widest[template] = max(self.widest[template], widest)
        self._template_of.update(dict.fromkeys(numbers, template))
        self._stale.setdefault(template, set()).update(numbers)

    def changed(self, number: int, canonical: Canonical | None) -> None:
        """Note that a canonical query is new or has changed, or with None that it was removed."""
        if canonical is None:
            if number not in self._template_of:
                return  # added and removed between two runs
            template = self._template_of.pop(number)
        else:
            template = self._template_of[number] = canonical.template
            self.widest[template] = max(self.widest[template], canonical.windows()[-1])
            for block, variables in enumerate(self._scanning.get(template, ())):
                position = self.shapes[template].block_positions(block)[-1]
                variables.add(canonical.variables[position])
        self._stale.setdefault(template, set()).add(number)

    def reset(self) -> None:
        """Rebuild all parameter relations, after a transaction failed and undid its changes."""
        for template in self._tables:
            self._stale.setdefault(template, set())
        self._tables.clear()
        self._held.clear()
        for number, template in self._template_of.items():
            self._stale.setdefault(template, set()).add(number)

    def defer(
        self,
        needed: Needed,
        templates: Iterable[int],
        new: Record,
        right: bool,
        olds: Sequence[Record],
    ) -> None:
        """Leave a document to templates, with others that it agrees with as right or left block."""
        for template in templates:
            needed.add(template, new, within(olds, new, right, self.widest[template], False))

    def candidates(
        self, records: Sequence[Record], rows: pa.Table, needed: Needed
    ) -> Iterator[tuple[int, Candidate, int]]:
        """Canonical query, candidate and the combinations that it stands for, of the templates
        needed and of those that read all of RL.

        `records` and `rows` are the batch's (RR). A match is found once for each first new block.
        """
        runs = [
            _Run(template, "slice", (*range(self.shapes[template].blocks),))
            for template in sorted(needed.templates)
        ]
        if self._scanning:
            present = {variable for record in records for variable in record.layout.nodes}
            for template, variables in self._scanning.items():
                pivots = [p for p, own in enumerate(variables) if not present.isdisjoint(own)]
                if pivots:
                    runs.append(_Run(template, "rl", tuple(pivots)))
        if not runs:
            return
        self.relations.load_batch(rows)
        if needed.templates:
            self.relations.load_slice(sorted(needed.docs))
        for run in runs:
            self._bring_up_to_date(run.template)
            found = None if self._budget.work.care is not None else self._rows(run, records)
            if found is None:
                yield from self._in_parts(run, records, rows)
                self.relations.load_batch(rows)
            else:
                yield from self._read(run, found)

    def _in_parts(
        self, run: _Run, records: Sequence[Record], rows: pa.Table
    ) -> Iterator[tuple[int, Candidate, int]]:
        """The candidates of a run that has more combinations than are made at once: by halves of
        the documents, and of a document by halves of the queries. If one query has too many at one
        document, that pair is set aside. Searched with care, a run begins with parts of the
        queries."""
        work = self._budget.work
        queries = sorted(cq for cq, held in self._template_of.items() if held == run.template)
        parts = [(0, len(records), queries)]
        if work.care is not None:
            divided = [part for _, part in work.parts(queries, self._name)]
            parts = [(0, len(records), part) for part in reversed(divided)]
        elif len(records) > 1:
            middle = len(records) // 2
            parts = [(middle, len(records), queries), (0, middle, queries)]
        while parts:
            first, last, queries = parts.pop()
            own = records[first:last]
            completing = self._budget.completing([own[0].doc])
            budget = self._budget
            queries = [cq for cq in queries if not budget.is_set_aside((cq, completing))]
            if not queries:
                continue
            docs = pa.array([record.doc for record in own], pa.int64())
            self.relations.load_batch(rows.filter(pc.is_in(rows.column("doc"), docs)))
            self.relations.load_part(run.stored, [record.doc for record in records[last:]])
            group = (self._name(queries[0]), self._name(queries[-1]))
            with work.on(group) if work.care is not None else nullcontext():
                found = self._rows(run, own, queries)
            if found is not None:
                yield from self._read(run, found)
            elif len(own) > 1:
                middle = (first + last) // 2
                # The one that was added last is taken next.
                parts += [(middle, last, queries), (first, middle, queries)]
            elif len(queries) > 1:
                middle = len(queries) // 2
                parts += [(first, last, queries[middle:]), (first, last, queries[:middle])]
            else:
                self._budget.too_many((queries[0], completing))

    def _name(self, number: int) -> str:
        return self.catalog.canonical[number].name

    def _rows(
        self, run: _Run, records: Sequence[Record], queries: list[int] | None = None
    ) -> list[tuple[Any, ...]] | None:
        """The rows of a template, or of some of its canonical queries; None if there are more
        combinations than are made at once."""
        widest = self.widest[run.template]
        most = self._budget.at_once
        values: dict[str, Any] = {
            "first": min(record.doc for record in records),
            "last": max(record.doc for record in records),
            "low": min(record.start for record in records) - widest,
            "high": max(record.end for record in records) + widest,
        }
        if queries is not None:
            values["queries"] = queries
        found: list[tuple[Any, ...]] = []
        for pivot in run.pivots:
            if PENDING:
                check()
            values["most"] = most + 1
            rows = self._rows_of(run, pivot, values, some=queries is not None)
            most -= sum([row[-1] for row in rows])
            if most < 0:
                return None
            found += rows
        return found

    def _rows_of(
        self, run: _Run, pivot: int, values: dict[str, Any], *, some: bool
    ) -> list[tuple[Any, ...]]:
        """The rows with one block as the first new one; `values` are the parameters."""
        shape = self.shapes[run.template]
        key = (run.template, pivot, some)
        sql = self._sql.get(key)
        if sql is None:
            stored = PART if some else run.stored
            sql = conjunctive_query(shape, run.template, pivot, stored, some)
            self._sql[key] = sql
        parameters = {name: value for name, value in values.items() if f"${name}" in sql}
        # For few rows DuckDB takes longer to choose an order than to join them in any, and for
        # many blocks it chooses badly. All of RL are many rows; what asks for some node of several
        # is a query of its own, which only the optimizer makes a join.
        in_order = run.stored == "slice" and not shape.quantified
        return self.relations.query(sql, parameters, in_order=in_order)

    def _read(
        self, run: _Run, rows: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Candidate, int]]:
        shape = self.shapes[run.template]
        blocks, size = shape.blocks, len(shape.nodes)
        listed = [p for p in range(size) if reported(shape, p)]
        for row in rows:
            docs, nodes = row[1 : blocks + 1], row[blocks + 1 : blocks + 1 + size]
            lists = {p: tuple(x) for p, x in zip(listed, row[blocks + 1 + size : -1], strict=True)}
            yield row[0], Candidate(docs, Chosen(nodes, lists)), row[-1]

    def _bring_up_to_date(self, template: int) -> None:
        shape, table = self.shapes[template], parameter_table(template)
        stale = self._stale.pop(template, None)
        if stale is None:
            return
        if template not in self._tables:
            self._tables.add(template)
            self.relations.create_parameters(create_parameter_table(shape, template))
        old = sorted(stale & self._held)
        fresh = [c for cq in sorted(stale) if (c := self.catalog.canonical.get(cq)) is not None]
        self.relations.load_parameters(table, old, _parameter_rows(shape, fresh) if fresh else None)
        self._held.difference_update(old)
        self._held.update(c.number for c in fresh)


def _parameter_rows(shape: Template, rows: list[Canonical]) -> pa.Table:
    size = len(shape.nodes)
    windows = [c.windows() for c in rows]
    columns = {
        "cq": pa.array([c.number for c in rows], pa.int64()),
        "first_doc": pa.array([c.first_doc() for c in rows], pa.int64()),
    }
    for p in range(size):
        columns[f"v{p}"] = pa.array([c.variables[p] for c in rows], pa.int32())
        columns[f"s{p}"] = pa.array([p in c.selected for c in rows], pa.bool_())
    for i in range(len(shape.quantified)):
        columns[f"u{i}"] = pa.array([c.quantified[i] for c in rows], pa.int32())
    for i, numeric in parameters(shape):
        arrow = pa.float64() if numeric else pa.string()
        columns[f"k{i}"] = pa.array([value_of(c.constants[i]) for c in rows], arrow)
    for i in range(len(windows[0])):
        columns[f"w{i}"] = pa.array([w[i] for w in windows], pa.int64())
    return pa.table(columns)
