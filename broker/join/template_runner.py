"""Runs the templates' conjunctive queries over the match relations: parameters in RT, candidates
out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from broker.join.candidates import Candidate
from broker.join.pair_query import decider
from broker.join.records import Record
from broker.join.relations import Relations
from broker.query.catalog import Canonical, Catalog
from broker.query.conjunctive import (
    conjunctive_query,
    create_parameter_table,
    parameter_table,
    reported,
)
from broker.query.prepared import value_of
from broker.query.residual import parameters, register_functions
from xscl.normal.template import Template


@dataclass(slots=True)
class Needed:
    """The work that a batch leaves to SQL: templates, and the documents that can take part."""

    templates: set[int] = field(default_factory=set)
    docs: set[int] = field(default_factory=set)


class Templates:
    """Keeps a parameter relation RT per template, and runs the templates that a batch can touch.

    `widest` is the widest window of any query of a template; it is never narrowed, since it only
    limits which rows are read. RT is brought up to date when its template is run.
    """

    def __init__(self, relations: Relations, catalog: Catalog) -> None:
        self.relations = relations
        self.catalog = catalog
        self.shapes: list[Template] = []
        self.widest: list[int] = []
        self._scanning: dict[int, list[set[int]]] = {}
        self._sql: dict[tuple[int, int], str] = {}
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
            self.relations.prepare(register_functions)
            self._functions = True
        if decider(shape) == "scan":
            self._scanning[number] = [set() for _ in range(shape.blocks)]

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

    def candidates(
        self, records: Sequence[Record], rows: pa.Table, needed: Needed
    ) -> Iterator[tuple[int, Candidate]]:
        """Canonical query and candidate, of the templates needed and of those that read all of RL.

        `records` and `rows` are the batch's (RR). A match is found once for each first new block.
        """
        runs = [
            (template, pivot, "slice")
            for template in sorted(needed.templates)
            for pivot in range(self.shapes[template].blocks)
        ]
        if self._scanning:
            present = {variable for record in records for variable in record.layout.nodes}
            runs += [
                (template, pivot, "rl")
                for template, variables in self._scanning.items()
                for pivot in range(self.shapes[template].blocks)
                if not present.isdisjoint(variables[pivot])
            ]
        if not runs:
            return
        self.relations.load_batch(rows)
        if needed.templates:
            self.relations.load_slice(sorted(needed.docs))
        for template, pivot, stored in runs:
            self._bring_up_to_date(template)
            yield from self._run(template, pivot, stored, records)

    def _run(
        self, template: int, pivot: int, stored: str, records: Sequence[Record]
    ) -> Iterator[tuple[int, Candidate]]:
        shape, widest = self.shapes[template], self.widest[template]
        sql = self._sql.get((template, pivot))
        if sql is None:
            sql = self._sql[template, pivot] = conjunctive_query(shape, template, pivot, stored)
        parameters = {
            "first": min(record.doc for record in records),
            "last": max(record.doc for record in records),
            "low": min(record.start for record in records) - widest,
            "high": max(record.end for record in records) + widest,
        }
        parameters = {name: value for name, value in parameters.items() if f"${name}" in sql}
        blocks, size = shape.blocks, len(shape.nodes)
        listed = [p for p in range(size) if reported(shape, p)]
        # For few rows DuckDB takes longer to choose an order than to join them in any. All of RL
        # are many rows, and conditions on several nodes can be checked early.
        in_order = stored == "slice" and not shape.residuals
        for row in self.relations.query(sql, parameters, in_order=in_order):
            docs, nodes = row[1 : blocks + 1], row[blocks + 1 : blocks + 1 + size]
            lists = {p: tuple(x) for p, x in zip(listed, row[blocks + 1 + size :], strict=True)}
            yield row[0], Candidate(docs, nodes, lists)

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
