"""Which tests execute which lines, as `plugin` recorded it while they ran."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

from tests.mutants.operators import PACKAGES, Mutant


@dataclass(frozen=True, slots=True)
class Reach:
    """For each file the tests of each line, and the seconds that each test took. Tests that failed
    without any mutant are not among them."""

    lines: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> Reach:
        seconds: dict[str, float] = {}
        for file in sorted(folder.glob("*.json")):
            seconds |= json.loads(file.read_text(encoding="utf-8"))
        lines: dict[str, dict[int, frozenset[str]]] = {}
        for file in sorted(folder.glob("*.coverage")):
            data = coverage.CoverageData(str(file))
            data.read()
            for place in data.measured_files():
                of_file = lines.setdefault(_relative(place), {})
                for line, contexts in data.contexts_by_lineno(place).items():
                    tests = of_file.get(line, frozenset())
                    of_file[line] = tests | (seconds.keys() & set(contexts))
        return cls(lines, seconds)

    def tests(self, mutant: Mutant, source: str) -> list[str]:
        """Those that execute it, the quickest first. Where none does, as with what is executed when
        its module is imported, those that execute the function around it, else any of its file and
        those in the file of tests that is named after it."""
        of_file = self.lines.get(mutant.path, {})
        for span in (range(mutant.line, mutant.last_line + 1), _function(mutant, source)):
            found = _union(of_file.get(line, ()) for line in span)
            if found:
                break
        else:
            named = f"/test_{Path(mutant.path).stem}.py::"
            found = _union(of_file.values()) | {test for test in self.seconds if named in test}
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def batches(self, tests: Iterable[str], limits: Sequence[float]) -> Iterator[list[str]]:
        """In their order, as many at a time as took these seconds together; what takes longer than
        the last limit is left out."""
        total, batch = 0.0, list[str]()
        remaining = list(limits)
        for test in tests:
            total += self.seconds[test]
            while batch and remaining and total > remaining[0]:
                yield batch
                batch = []
                remaining.pop(0)
            if not remaining:
                return
            batch.append(test)
        if batch:
            yield batch


def _union(sets: Iterable[Iterable[str]]) -> set[str]:
    return {test for tests in sets for test in tests}


def _relative(place: str) -> str:
    """The path inside of the project, of a file in whatever copy of it."""
    for package in PACKAGES:
        _, found, after = place.rpartition(f"/{package}/")
        if found:
            return f"{package}/{after}"
    return place


def _function(mutant: Mutant, source: str) -> range:
    """The lines of the innermost function or method around it, or none."""
    spans = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return min((span for span in spans if mutant.line in span), key=len, default=range(0))
