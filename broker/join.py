"""The templates' queries over the match relations: parameters in RT, candidates out."""

from __future__ import annotations

import pyarrow as pa

from broker.catalog import Canonical, Catalog
from broker.publish import Candidate
from broker.residual import constants, register_functions
from broker.sql import conjunctive_query, create_parameter_table, parameter_table, reported
from broker.store import Store
from xscl.template import Template


class Joiner:
    """Keeps a parameter relation RT per template, and runs the templates that a batch can touch."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self.store = store
        self.catalog = catalog
        self.templates: list[Template] = []
        self._sql: dict[tuple[int, int], str] = {}
        self._template_of: dict[int, int] = {}
        self._variables_at: dict[tuple[int, int], set[int]] = {}
        self._functions = False
        self._widest: list[int] = []

    def candidates(
        self, docs: tuple[int, int], span: tuple[int, int], present: set[int]
    ) -> list[tuple[Canonical, Candidate]]:
        """Candidate matches with a document of the current batch (RR).

        `docs` are the numbers of its first and last document, `span` its first start and last
        end, `present` the variables that it witnessed.
        """
        found: list[tuple[Canonical, Candidate]] = []
        for number, shape in enumerate(self.templates):
            for pivot in range(shape.blocks):
                if self._touched(number, shape, pivot, present):
                    found += self._candidates(number, shape, pivot, docs, span)
        return found

    def _touched(self, number: int, shape: Template, pivot: int, present: set[int]) -> bool:
        position = next(p for p in reversed(shape.block_positions(pivot)))
        return not self._variables_at.get((number, position), frozenset()).isdisjoint(present)

    def _candidates(
        self, number: int, shape: Template, pivot: int, docs: tuple[int, int], span: tuple[int, int]
    ) -> list[tuple[Canonical, Candidate]]:
        sql = self._sql.get((number, pivot))
        if sql is None:
            sql = self._sql[number, pivot] = conjunctive_query(shape, number, pivot)
        parameters = {
            "first": docs[0],
            "last": docs[1],
            "low": span[0] - self._widest[number],
            "high": span[1] + self._widest[number],
        }
        parameters = {name: value for name, value in parameters.items() if f"${name}" in sql}
        found = self.store.connection.execute(sql, parameters).fetchall()
        blocks, size = shape.blocks, len(shape.nodes)
        listed = [p for p in range(size) if reported(shape, p)]
        result = []
        for row in found:
            docs, nodes = row[1 : blocks + 1], row[blocks + 1 : blocks + 1 + size]
            lists = {p: tuple(x) for p, x in zip(listed, row[blocks + 1 + size :], strict=True)}
            result.append((self.catalog.canonical[row[0]], Candidate(docs, nodes, lists)))
        return result

    def refresh(self) -> None:
        """Bring RT up to date with the subscriptions."""
        for shape, number in self.catalog.templates.items():
            if number == len(self.templates):
                self.templates.append(shape)
                self._widest.append(0)
                self.store.run(create_parameter_table(shape, number))
                if shape.residuals and not self._functions:
                    register_functions(self.store.connection)
                    self._functions = True
        dirty, self.catalog.dirty = self.catalog.dirty, set()
        if not dirty:
            return
        fresh: dict[int, list[Canonical]] = {}
        for cq in dirty:
            canonical = self.catalog.canonical.get(cq)
            if cq in self._template_of:
                table = parameter_table(self._template_of.pop(cq))
                self.store.run(f"DELETE FROM {table} WHERE cq = ?", [cq])
            if canonical is not None:
                fresh.setdefault(canonical.template, []).append(canonical)
                self._template_of[cq] = canonical.template
        for number, rows in fresh.items():
            self.store.insert(
                parameter_table(number), _parameter_rows(self.templates[number], rows)
            )
            for canonical in rows:
                # Never narrowed again: it only says what need not be read.
                self._widest[number] = max(self._widest[number], canonical.windows()[-1])
                for position, variable in enumerate(canonical.variables):
                    self._variables_at.setdefault((number, position), set()).add(variable)


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
    for i, kind in constants(shape):
        arrow = pa.float64() if kind == "DOUBLE" else pa.string()
        columns[f"k{i}"] = pa.array([c.constants[i] for c in rows], arrow)
    for i in range(len(windows[0])):
        columns[f"w{i}"] = pa.array([w[i] for w in windows], pa.int64())
    return pa.table(columns)
